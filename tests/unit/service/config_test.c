// SPDX-License-Identifier: Apache-2.0
#include "lib/dir.h"
#include "service/config.h"
#include "service/tenant.h"
#include "sys/file.h"

#include <stdio.h>
#include <stdlib.h>

#define ROWS                                                       \
    ROW(listen, STRING, "127.0.0.1:4040", "", "", false, "Where.") \
    ROW(memory, BYTES, "1GiB", "1MiB", "1TiB", true, "How much.")  \
    ROW(age, DURATION, "1h30m", "1s", "", true, "How long.")       \
    ROW(loops, INT, "2", "1", "64", false, "How many.")            \
    ROW(ratio, FLOAT, "0.5", "0", "1", true, "Which part.")        \
    ROW(tls, BOOL, "false", "", "", true, "Whether.")              \
    ROW(peers, LIST, "a=1, b=2", "", "", true, "Who.")             \
    ROW(rules, NODE, "", "", "", true, "Rules.")                   \
    ROW(token_secret, STRING, "", "", "", true, "Secret.")

struct one {
#define ROW(key, type, ...) CONFIG_##type key;
    ROWS
#undef ROW
};

static const struct config_row one_rows[] = {
#define ROW(...) CONFIG_ROW(struct one, __VA_ARGS__)
    ROWS
#undef ROW
};

static const struct config_section one_section = CONFIG_SECTION("one", one_rows, struct one);
static const struct config_section *const sections[] = {&limits_section, &one_section};

static char dir[DIR_MAX];
static char path[DIR_PATH_MAX];

static void write_config(const char *text)
{
    assert_ok(file_write(path, str_of(text), e));
}

// Loads with the given arguments, NULL-terminated; keeps them until the next call.
static bool load(struct config **c, err *e, ...)
{
    static char *argv[16];
    int argc = 0;
    static char program[] = "flametree";
    argv[argc++] = program;
    va_list ap;
    va_start(ap, e);
    for (char *a = va_arg(ap, char *); a; a = va_arg(ap, char *))
        argv[argc++] = a;
    va_end(ap);
    *c = config_new(sections, COUNT(sections));
    struct config_args args;
    return config_load(*c, argc, argv, &args, e);
}

static const struct one *one(const struct config *c)
{
    return config_section(c, "one");
}

static void defaults_are_those_of_the_rows(void **state)
{
    (void)state;
    struct config *c = NULL;
    assert_ok(load(&c, e, NULL));
    assert_string_equal(one(c)->listen, "127.0.0.1:4040");
    assert_int_equal(one(c)->memory, 1 << 30);
    assert_int_equal(one(c)->age, INT64_C(5400000000000));
    assert_int_equal(one(c)->loops, 2);
    assert_true(one(c)->ratio == 0.5);
    assert_false(one(c)->tls);
    assert_int_equal(one(c)->peers.n, 2);
    assert_string_equal(one(c)->peers.v[1], "b=2");
    assert_int_equal(tenant_limits(c, NULL, S("anonymous"))->max_label_names_per_series, 30);
    assert_int_equal(tenant_limits(c, NULL, S("a|b"))->reject_older_than,
                     INT64_C(31) * 86400 * 1000000000);
    assert_null(config_section(c, "two"));
    config_free(c);
}

static void a_duration_is_found_by_its_name(void **state)
{
    (void)state;
    struct config *c = NULL;
    int64_t ns = 0;
    assert_ok(load(&c, e, "--one.age=7s", NULL));
    assert_true(config_other_duration(c, S("one"), S("age"), &ns));
    assert_int_equal(ns, INT64_C(7000000000));
    assert_false(config_other_duration(c, S("two"), S("age"), &ns));
    config_free(c);
}

static void flags_beat_environment_beats_file(void **state)
{
    (void)state;
    write_config("one:\n  loops: 3\n  ratio: 0.25\n  age: 2d\n  tls: true\n"
                 "  peers:\n    - x\n    - 'y=z,1'\n");
    assert_int_equal(setenv("FLAMETREE_ONE_LOOPS", "4", 1), 0);
    assert_int_equal(setenv("FLAMETREE_ONE_AGE", "3d", 1), 0);
    assert_int_equal(setenv("FLAMETREE_ONE_PORT_4040_TCP", "tcp://x", 1), 0);  // not ours
    struct config *c = NULL;
    assert_ok(load(&c, e, "--config", path, "--one.loops=5", "--one.memory", "10MB", NULL));
    assert_int_equal(one(c)->loops, 5);
    assert_int_equal(one(c)->memory, 10000000);
    assert_int_equal(one(c)->age, INT64_C(3) * 86400 * 1000000000);
    assert_true(one(c)->ratio == 0.25);
    assert_true(one(c)->tls);
    assert_int_equal(one(c)->peers.n, 2);
    assert_string_equal(one(c)->peers.v[1], "y=z,1");
    config_free(c);
    unsetenv("FLAMETREE_ONE_LOOPS");
    unsetenv("FLAMETREE_ONE_AGE");
    unsetenv("FLAMETREE_ONE_PORT_4040_TCP");
}

static void wrong_files_are_refused_with_their_line(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *text;
        const char *want;  // after "FILE:"
    } cases[] = {
        {"unknown key", "one:\n  loops: 1\n  lops: 2\n", "3: unknown key 'lops' in section 'one'"},
        {"unknown section", "one:\n  loops: 1\ntwo:\n  a: 1\n", "3: unknown section 'two'"},
        {"empty unknown section", "two:\n", "1: unknown section 'two'"},
        {"key twice", "one:\n  loops: 1\n  tls: true\n  loops: 2\n",
         "4: one.loops is given twice, first at "},
        {"section twice", "one:\n  loops: 1\none:\n  tls: true\n",
         "3: section 'one' is given twice"},
        {"bad value", "one:\n\n  loops: many\n", "3: one.loops: 'many' is not an integer"},
        {"below the bound", "one:\n  loops: 0\n", "2: one.loops: 0 is below the lowest value, 1"},
        {"above the bound", "one: {memory: 2TiB}\n",
         "1: one.memory: 2TiB is above the highest value, 1TiB"},
        {"no value", "one:\n  loops:\n", "2: one.loops has no value"},
        {"list for one", "one:\n  loops: [1]\n",
         "2: one.loops: a list is given where one value is expected"},
        {"mapping for one", "one:\n  loops: {a: 1}\n",
         "2: one.loops: expected a value or a list of values"},
        {"list in list", "one:\n  peers:\n    - a\n    - [b]\n",
         "2: one.peers: a list may hold only plain values"},
        {"section is a value", "one: 1\n", "1: section one must hold key: value lines"},
        {"empty", "", "1: the file is empty (0 bytes); to set nothing, write {} or a comment"},
        {"blank", "\n", "1: the file is empty (1 bytes); to set nothing, write {} or a comment"},
        {"marker", "---\n", "1: the file holds no value; to set nothing, write {} or a comment"},
        {"top is a list", "- one\n", "1: expected sections"},
        {"tab", "one:\n\tloops: 1\n", "2: found character that cannot start any token"},
        {"alias", "one:\n  listen: &a x\n  token_secret: *a\n", "3: aliases are not allowed"},
        {"two documents", "one:\n  loops: 1\n---\none:\n  loops: 2\n",
         "3: nothing may follow the settings"},
        {"not UTF-8", "one:\n  listen: \xff\n", "1: invalid leading UTF-8 octet"},
        {"NUL in a text", "one:\n  listen: \"a\\0b\"\n",
         "2: one.listen: a text must not hold a NUL byte"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        write_config(cases[i].text);
        struct config *c = NULL;
        err fault = {0};
        if (load(&c, &fault, "--config", path, NULL)) fail_msg("%s is accepted", cases[i].name);
        assert_int_equal(fault.code, ERR_INVALID_ARGUMENT);
        char want[256];
        snprintf(want, sizeof want, "%s:%s", path, cases[i].want);
        if (!str_starts(str_of(fault.msg), str_of(want)))
            fail_msg("%s: %s", cases[i].name, fault.msg);
        config_free(c);
    }
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *first;
        const char *second;
        const char *want;
    } cases[] = {
        {"--one.lops=1", NULL, "unknown flag --one.lops"},
        {"--loops=1", NULL, "unknown flag --loops"},
        {"--one.loops", NULL, "flag --one.loops needs a value"},
        {"--one.loops", "x", "flag --one.loops: one.loops: 'x' is not an integer"},
        {"--one.tls=maybe", NULL, "flag --one.tls: one.tls: 'maybe' is neither true nor false"},
        {"start", NULL, "unexpected argument 'start'"},
        {"--config", NULL, "flag --config needs a value"},
        {"--config", "/nonexistent/x.yaml", "open /nonexistent/x.yaml: No such file or directory"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct config *c = NULL;
        err fault = {0};
        assert_false(load(&c, &fault, cases[i].first, cases[i].second, NULL));
        assert_string_equal(fault.msg, cases[i].want);
        config_free(c);
    }
}

static void a_flag_alone_switches_on(void **state)
{
    (void)state;
    struct config *c = NULL;
    assert_ok(load(&c, e, "--one.tls", "--one.loops", "7", NULL));
    assert_true(one(c)->tls);
    assert_int_equal(one(c)->loops, 7);
    config_free(c);
    assert_ok(load(&c, e, "--one.tls", "false", NULL));
    assert_false(one(c)->tls);
    config_free(c);
}

static void a_reload_changes_what_is_reloadable(void **state)
{
    (void)state;
    write_config("one:\n  loops: 3\n  age: 1s\n");
    struct config *c = NULL;
    assert_ok(load(&c, e, "--config", path, NULL));
    const struct one *before = one(c);
    uint64_t version = config_version(c);
    write_config("one:\n  loops: 4\n  age: 2s\n");
    assert_ok(config_reload(c, e));
    assert_int_equal(one(c)->loops, 3);
    assert_int_equal(one(c)->age, 2000000000);
    assert_int_equal(before->age, 1000000000);  // whoever holds the old snapshot keeps it
    assert_int_not_equal(config_version(c), version);

    write_config("one:\n  age: never\n");
    err fault = {0};
    assert_false(config_reload(c, &fault));
    assert_int_equal(one(c)->age, 2000000000);
    config_free(c);
}

static void what_is_printed_loads_to_the_same(void **state)
{
    (void)state;
    struct config *c = NULL;
    assert_ok(load(&c, e, "--one.listen=a\"b\\c \x01 gr\xc3\xbc n: #", "--one.age=1d2h3m4s5ms",
                   "--one.memory=1537KiB", "--one.peers=a, b:c ,[d]", "--one.ratio=0.1",
                   "--one.rules=[{a: 1, b: [x, \"1\"]}, c]", NULL));
    struct buf first;
    buf_init(&first, NULL, 1 << 20);
    config_print(c, &first);
    config_free(c);
    assert_ok(file_write(path, buf_view(&first), e));
    assert_ok(load(&c, e, "--config", path, NULL));
    struct buf second;
    buf_init(&second, NULL, 1 << 20);
    config_print(c, &second);
    assert_true(str_contains(buf_view(&first), S("age: 1d2h3m4s5ms\n")));
    assert_true(str_contains(buf_view(&first), S("memory: 1537KiB\n")));
    assert_string_equal(one(c)->peers.v[2], "[d]");
    assert_true(str_contains(buf_view(&second), S("rules: [{a: 1, b: [x, \"1\"]}, c]\n")));
    // "<hidden>" is the only text that comes back as something else
    buf_byte(&first, 0);
    buf_byte(&second, 0);
    assert_string_equal(first.p, second.p);
    buf_release(&first);
    buf_release(&second);
    config_free(c);
}

static void secrets_are_not_printed(void **state)
{
    (void)state;
    struct config *c = NULL;
    assert_ok(load(&c, e, "--one.token_secret=hunter2", NULL));
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    config_print(c, &b);
    assert_false(str_contains(buf_view(&b), S("hunter2")));
    assert_true(str_contains(buf_view(&b), S("token_secret: \"<hidden>\"\n")));
    buf_release(&b);
    config_free(c);
}

static void help_and_manual_tell_every_row(void **state)
{
    (void)state;
    struct config *c = config_new(sections, COUNT(sections));
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    config_print_help(c, &b);
    assert_true(
        str_contains(buf_view(&b), S("  --one.age=1h30m\n        How long. (time, reloadable)\n")));
    buf_clear(&b);
    config_print_markdown(c, &b);
    assert_true(str_contains(buf_view(&b), S("\n## one\n")));
    assert_true(str_contains(buf_view(&b), S("| `memory` | bytes | `1GiB` | 1MiB ")));
    buf_release(&b);
    config_free(c);
}

static void bytes_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool ok;
        uint64_t want;
    } cases[] = {
        {"0", true, 0},
        {"4096", true, 4096},
        {"64MiB", true, 64 << 20},
        {" 64 MiB ", true, 64 << 20},
        {"10MB", true, 10000000},
        {"1.5KiB", true, 1536},
        {"18446744073709551615", true, UINT64_MAX},
        {"18446744073709551616", false, 0},
        {"16777216TiB", false, 0},
        {"", false, 0},
        {"-1", false, 0},
        {"1.", false, 0},
        {".5MiB", false, 0},
        {"MiB", false, 0},
        {"1 MiB x", false, 0},
        {"1mib", false, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t v = 0;
        err fault = {0};
        bool ok = config_bytes(str_of(cases[i].text), &v, &fault);
        if (ok != cases[i].ok || v != cases[i].want) {
            if (ok || cases[i].ok)
                fail_msg("'%s': %d %llu", cases[i].text, ok, (unsigned long long)v);
        }
    }
}

static void durations_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool ok;
        int64_t want;
    } cases[] = {
        {"0", true, 0},
        {"0s", true, 0},
        {"250ms", true, 250000000},
        {"1h30m", true, INT64_C(5400000000000)},
        {"1.5s", true, 1500000000},
        {"2w", true, INT64_C(14) * 86400 * 1000000000},
        {"1us2ns", true, 1002},
        {"15250w", true, INT64_C(15250) * 7 * 86400 * 1000000000},
        {"15251w", false, 0},
        {"5", false, 0},
        {"", false, 0},
        {"-1s", false, 0},
        {"s", false, 0},
        {"1h30", false, 0},
        {"1 h", false, 0},
        {"1y", false, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        int64_t v = 0;
        err fault = {0};
        bool ok = config_duration(str_of(cases[i].text), &v, &fault);
        if (ok != cases[i].ok || (ok && v != cases[i].want))
            fail_msg("'%s': %d %lld", cases[i].text, ok, (long long)v);
    }
}

static int make_path(void **state)
{
    (void)state;
    dir_new(dir);
    dir_path(path, dir, "config");
    return 0;
}

static int remove_path(void **state)
{
    (void)state;
    dir_remove(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_rows),
        cmocka_unit_test(a_duration_is_found_by_its_name),
        cmocka_unit_test(flags_beat_environment_beats_file),
        cmocka_unit_test(wrong_files_are_refused_with_their_line),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(a_flag_alone_switches_on),
        cmocka_unit_test(a_reload_changes_what_is_reloadable),
        cmocka_unit_test(what_is_printed_loads_to_the_same),
        cmocka_unit_test(secrets_are_not_printed),
        cmocka_unit_test(help_and_manual_tell_every_row),
        cmocka_unit_test(bytes_have_units),
        cmocka_unit_test(durations_have_units),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
