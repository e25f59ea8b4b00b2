// SPDX-License-Identifier: Apache-2.0
//
// Times, addresses and command lines as people write them.
#include "codec/attime.h"
#include "deploy/cli/cli_args.h"
#include "deploy/cli/cli_url.h"
#include "lib/test.h"

#include <stdio.h>
#include <stdlib.h>

#define NOW INT64_C(1700000000000000000)
#define SEC INT64_C(1000000000)

static const struct {
    const char *text;
    int64_t ns;  // -1: refused
} times[] = {
    {"now", NOW},
    {"now-1h", NOW - 3600 * SEC},
    {"now-1d12h", NOW - 129600 * SEC},
    {"now+5m", NOW + 300 * SEC},
    {" now-30s ", NOW - 30 * SEC},
    {"1700000000", NOW},
    {"1700000000123", NOW + 123000000},
    {"20240131", INT64_C(1706659200) * SEC},
    {"2023-11-14T22:13:20Z", NOW},
    {"2023-11-14T22:13:20", NOW},
    {"2023-11-14 22:13:20.5z", NOW + SEC / 2},
    {"2023-11-14t23:13:20+01:00", NOW},
    {"2023-11-14T17:13:20-05:00", NOW},
    {"2023-11-14T22:13", NOW - 20 * SEC},
    {"2023-11-14", INT64_C(1699920000) * SEC},
    {"2024-02-29", INT64_C(1709164800) * SEC},
    {"1969-12-31T23:59:59.25Z", -750000000},
    {"2023-02-29", -1},
    {"2023-13-01", -1},
    {"2023-11-14T24:00:00Z", -1},
    {"2023-11-14T22:13:20+1", -1},
    {"2023-11-14T22:13:20Zx", -1},
    {"9999-01-01", -1},
    {"", -1},
    {"yesterday", -1},
    {"-5", -1},
    {"now-", -1},
    {"now-h", -1},
    {"now-5", -1},
    {"now-5q", -1},
    {"-1h", NOW - 3600 * SEC},
    {"nowish", -1},
};

static void times_are_attime_and_rfc3339(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(times); i++) {
        err e = {0};
        int64_t ns = 0;
        size_t n = strlen(times[i].text);
        bool ok = attime_parse(str_make(tail_guard(times[i].text, n), n), NOW, &ns, &e);
        if (ok != (times[i].ns != -1) || (ok && ns != times[i].ns))
            fail_msg("%s: %d, %lld, %s", times[i].text, ok, (long long)ns, e.msg);
    }
}

static const struct {
    const char *text;
    const char *address;  // NULL: refused
    const char *prefix;
    const char *user;
    const char *shown;
    bool tls;
} urls[] = {
    {"http://a", "a:80", "", "", "http://a", false},
    {"a:4040", "a:4040", "", "", "http://a:4040", false},
    {"https://a/", "a:443", "", "", "https://a", true},
    {"https://a:1/x/y//", "a:1", "/x/y", "", "https://a:1/x/y", true},
    {"http://u:p%40w@a:1", "a:1", "", "u:p@w", "http://a:1", false},
    {"http://u:p@x@a", "a:80", "", "u:p@x", "http://a", false},
    {"http://[::1]:4040/z", "[::1]:4040", "/z", "", "http://[::1]:4040/z", false},
    {"http://[::1]", "[::1]:80", "", "", "http://[::1]", false},
    {"http://::1", NULL, NULL, NULL, NULL, false},
    {"http://", NULL, NULL, NULL, NULL, false},
    {"", NULL, NULL, NULL, NULL, false},
    {"http://a:", NULL, NULL, NULL, NULL, false},
    {"http://a:0", NULL, NULL, NULL, NULL, false},
    {"http://a:65536", NULL, NULL, NULL, NULL, false},
    {"http://a:x", NULL, NULL, NULL, NULL, false},
    {"http://a b", NULL, NULL, NULL, NULL, false},
    {"http://a/\r\nX: y", NULL, NULL, NULL, NULL, false},
    {"http://a/?q", NULL, NULL, NULL, NULL, false},
    {"http://a/#f", NULL, NULL, NULL, NULL, false},
    {"unix:///x", NULL, NULL, NULL, NULL, false},
};

static void urls_have_a_host_and_hide_passwords(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(urls); i++) {
        struct arena a;
        arena_init(&a, NULL, 1 << 20);
        struct cli_url u;
        err e = {0};
        bool ok = cli_url_parse(&a, str_of(urls[i].text), &u, &e);
        if (ok != (urls[i].address != NULL)) fail_msg("'%s': %d %s", urls[i].text, ok, e.msg);
        if (ok) {
            assert_true(str_is(u.address, urls[i].address));
            assert_true(str_is(u.prefix, urls[i].prefix));
            assert_true(str_is(u.user, urls[i].user));
            assert_true(str_is(u.shown, urls[i].shown));
            assert_int_equal(u.tls, urls[i].tls);
        }
        arena_release(&a);
    }
}

static bool parse(struct cli_args *a, const char *line, char *words, char **argv, err *e)
{
    int argc = 0;
    snprintf(words, 400, "flametree %s", line);
    for (char *p = words; p; argc++) {
        argv[argc] = p;
        p = strchr(p, ' ');
        if (p) *p++ = '\0';
    }
    return cli_args_parse(a, argc, argv, e);
}

static void options_stand_anywhere_and_take_values_in_all_ways(void **state)
{
    (void)state;
    static const char *const lines[] = {"push a b --label x=1 -l y=2 -q --time now",
                                        "push -l x=1 a --label=y=2 b --time=now -q",
                                        "push -lx=1 -ly=2 -q --time file --time now -- a b"};
    for (size_t i = 0; i < COUNT(lines); i++) {
        char words[400];
        char *argv[40];
        struct cli_args a;
        assert_ok(parse(&a, lines[i], words, argv, e));
        size_t at = 0;
        assert_int_equal(a.command, CLI_PUSH);
        assert_int_equal(a.operand_count, 2);
        assert_string_equal(a.operands[1], "b");
        assert_string_equal(cli_args_next(&a, OPT_LABEL, &at), "x=1");
        assert_string_equal(cli_args_next(&a, OPT_LABEL, &at), "y=2");
        assert_null(cli_args_next(&a, OPT_LABEL, &at));
        assert_true(cli_args_has(&a, OPT_QUIET));
        assert_string_equal(cli_args_get(&a, OPT_TIME), "now");
        assert_string_equal(cli_args_get(&a, OPT_PARALLEL), "4");
        cli_args_release(&a);
    }
}

static void what_is_wrong_with_an_option_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *line, *expected;
    } cases[] = {
        {"push --labels x=1 a", "unknown option --labels; did you mean --label?"},
        {"push --lab x=1 a", "unknown option --lab; "},  // an abbreviation
        {"push --lab=x=1 a", "unknown option --lab; "},
        {"push --qui a", "unknown option --qui; "},
        {"push --r 4 a", "unknown option --r; "},  // of --rate and --retry
        {"push -z a", "unknown option -z; "},
        {"push -qz a", "unknown option -z; "},
        {"push -q\x01 a", "unknown option -q\x01; "},
        {"push ---label a", "unknown option ---label; "},
        {"push --=x a", "unknown option --; "},
        {"push a --label", "--label needs a value: KEY=VALUE..."},
        {"push a -l", "--label needs a value: KEY=VALUE..."},
        {"push a -ql", "--label needs a value: KEY=VALUE..."},
        {"push --quiet=yes a", "--quiet takes no value"},
        {"push --quiet= a", "--quiet takes no value"},
        {"push --time then a", "--time is 'then'; it must be one of now|file"},
        {"push --time= a", "--time is ''; it must be one of now|file"},
        {"query --explain=some", "--explain takes no value but [=full]"},
        {"query --explain=", "--explain takes no value but [=full]"},
        {"query -xfull", "--explain takes no value but [=full]"},
        {"--url u --quiet push a", "unknown option --quiet; options of a command stand behind it"},
        {"--url u --ca push a", "unknown option --ca; options of a command stand behind it"},
        {"--url", "--url needs a value: URL"},
        {"--url u", "no command; "},
        {"--url u formats", "`flametree formats` has no option --url"},
        {"push", "too few arguments; "},
        {"ready a", "too many arguments: 'a'; "},
        {"ready -- --wait", "too many arguments: '--wait'; "},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char words[400];
        char *argv[40];
        struct cli_args a;
        err e = {0};
        bool ok = parse(&a, cases[i].line, words, argv, &e);
        cli_args_release(&a);
        if (ok || strncmp(e.msg, cases[i].expected, strlen(cases[i].expected)) != 0)
            fail_msg("%s: %s", cases[i].line, ok ? "no error" : e.msg);
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
    }
}

static void words_are_read_as_getopt_reads_them(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        size_t operands;
        const char *last;
    } cases[] = {
        {"push -", 1, "-"},
        {"push -q -", 1, "-"},
        {"push -- -q", 1, "-q"},
        {"push -- a -- -q", 3, "-q"},
        {"push a -qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq b", 2, "b"},
        {"push -qj4 a", 1, "a"},
        {"push --label -x a", 1, "a"},  // a value may look like an option
        {"push --label=-- a", 1, "a"},
        {"--url u --tenant t push --user n:p a b c", 3, "c"},
        {"block show -k x", 1, "x"},
        {"query --explain x", 1, "x"},  // a value of its own stands behind "=" only
        {"query -x x", 1, "x"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char words[400];
        char *argv[40];
        struct cli_args a;
        assert_ok(parse(&a, cases[i].line, words, argv, e));
        if (a.operand_count != cases[i].operands) fail_msg("%s", cases[i].line);
        assert_string_equal(a.operands[a.operand_count - 1], cases[i].last);
        cli_args_release(&a);
    }
}

static void command_line_goes_over_environment_over_default(void **state)
{
    (void)state;
    char words[400];
    char *argv[40];
    struct cli_args a;
    unsetenv("FLAMETREE_URL");
    assert_ok(parse(&a, "ready", words, argv, e));
    assert_string_equal(cli_args_get(&a, OPT_URL), "http://127.0.0.1:4040");
    setenv("FLAMETREE_URL", "http://env", 1);
    assert_string_equal(cli_args_get(&a, OPT_URL), "http://env");
    cli_args_release(&a);
    assert_ok(parse(&a, "--url http://flag ready", words, argv, e));
    assert_string_equal(cli_args_get(&a, OPT_URL), "http://flag");
    cli_args_release(&a);
    unsetenv("FLAMETREE_URL");
}

static void settings_are_the_servers(void **state)
{
    (void)state;
    static const struct {
        const char *words[3];
        int count;
        bool ours;
    } lines[] = {
        {{"f"}, 1, false},
        {{"f", "--config", "x"}, 3, false},
        {{"f", "--server.listen=:1"}, 2, false},
        {{"f", "--help"}, 2, false},
        {{"f", "-h"}, 2, false},
        {{"f", "help"}, 2, true},
        {{"f", "nonsense"}, 2, true},
        {{"f", "--url=x", "ready"}, 3, true},
    };
    for (size_t i = 0; i < COUNT(lines); i++) {
        char copies[3][40];
        char *argv[3] = {copies[0], copies[1], copies[2]};
        for (int k = 0; k < lines[i].count; k++)
            snprintf(copies[k], sizeof copies[k], "%s", lines[i].words[k]);
        assert_int_equal(cli_args_are_ours(lines[i].count, argv), lines[i].ours);
    }
}

static void nearest_words_are_suggested(void **state)
{
    (void)state;
    assert_string_equal(cli_nearest_command(S("qeury")), "query");
    assert_string_equal(cli_nearest_command(S("dif")), "diff");
    assert_string_equal(cli_nearest_command(S("complete")), "completion");
    assert_null(cli_nearest_command(S("zzz")));
    assert_null(cli_nearest_command(S("")));
    assert_string_equal(cli_nearest_option(CLI_QUERY, S("formt")), "format");
    assert_null(cli_nearest_option(CLI_READY, S("formt")));
    char longer[100];
    memset(longer, 'q', sizeof longer);
    assert_null(cli_nearest_command(str_make(longer, sizeof longer)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_attime_and_rfc3339),
        cmocka_unit_test(urls_have_a_host_and_hide_passwords),
        cmocka_unit_test(options_stand_anywhere_and_take_values_in_all_ways),
        cmocka_unit_test(what_is_wrong_with_an_option_is_named),
        cmocka_unit_test(words_are_read_as_getopt_reads_them),
        cmocka_unit_test(command_line_goes_over_environment_over_default),
        cmocka_unit_test(settings_are_the_servers),
        cmocka_unit_test(nearest_words_are_suggested),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
