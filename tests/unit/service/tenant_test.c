// SPDX-License-Identifier: Apache-2.0
#include "lib/dir.h"
#include "model/relabel.h"
#include "service/metrics.h"
#include "service/settings.h"
#include "sys/file.h"
#include "sys/metric.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define HOUR_NS (INT64_C(3600) * 1000000000)

static char dir[DIR_MAX];
static char path[DIR_PATH_MAX];
static char second[DIR_PATH_MAX];
static struct config *config;
static struct tenants *tenants;
static struct arena arena;

static void write_text(const char *where, const char *text)
{
    assert_ok(file_write(where, str_of(text), e));
}

static void load(const char *first, const char *other)
{
    static const struct config_section *sections[SETTINGS_MAX];
    size_t n = 0;
    for (; n < settings_section_count; n++)
        sections[n] = settings_sections[n];
    sections[n++] = &limits_section;
    char program[] = "flametree";
    char flag[200] = "--runtime_config.file=";
    if (first)
        snprintf(flag, sizeof flag, "--runtime_config.file=%s,%s", path, other ? second : "");
    char rate[] = "--limits.ingestion_rate_mb=4";
    char *argv[] = {program, flag, rate, NULL};
    struct config_args args;
    if (first) write_text(path, first);
    if (other) write_text(second, other);
    config = config_new(sections, n);
    assert_ok(config_load(config, 3, argv, &args, e));
    arena_init(&arena, NULL, 1 << 20);
}

static void open_with(const char *first, const char *other)
{
    load(first, other);
    err fault = {0};
    tenants = tenants_open(config, &fault);
    if (!tenants) fail_msg("%s", fault.msg);
}

static void close_all(void)
{
    arena_release(&arena);
    tenants_close(tenants);
    tenants = NULL;
    config_free(config);
}

static const struct limits *of(const char *tenant)
{
    return tenant_limits(config, &arena, str_of(tenant));
}

static void a_tenant_has_its_own_limits_and_the_defaults_for_the_rest(void **state)
{
    (void)state;
    open_with("overrides:\n  acme:\n    ingestion_rate_mb: 0.02\n    reject_older_than: 2h\n"
              "    disable_label_sanitization: false\n  empty: {}\n  null-one:\n",
              NULL);
    assert_true(of("acme")->ingestion_rate_mb == 0.02);
    assert_int_equal(of("acme")->reject_older_than, 2 * HOUR_NS);
    assert_false(of("acme")->disable_label_sanitization);
    assert_int_equal(of("acme")->max_profile_size_bytes, 4194304);
    assert_true(of("other")->ingestion_rate_mb == 4);
    assert_true(of("empty")->ingestion_rate_mb == 4);
    assert_true(of("null-one")->disable_label_sanitization);
    close_all();
}

// Compiling them again for each of many tenants is what a reload would spend its time on.
static void tenants_share_the_compiled_rules_of_the_defaults(void **state)
{
    (void)state;
    open_with(
        "overrides:\n  plain: {ingestion_rate_mb: 1}\n"
        "  own: {ingestion_relabeling_rules: [{action: drop, source_labels: [a], regex: b}]}\n"
        "  none: {ingestion_relabeling_default_rules_position: disabled}\n",
        NULL);
    const struct relabel_rules *shared = of("other")->relabel;
    assert_ptr_equal(of("plain")->relabel, shared);
    assert_ptr_equal(of("plain")->relabel_types, of("other")->relabel_types);
    assert_int_equal(of("own")->relabel->n, shared->n + 1);
    assert_int_equal(of("none")->relabel->n, 0);
    close_all();
}

static void of_several_tenants_the_smallest_positive_limits_hold(void **state)
{
    (void)state;
    open_with("overrides:\n"
              "  a: {ingestion_rate_mb: 2, max_query_length: 0, max_query_lookback: 3h,\n"
              "      max_flamegraph_nodes_default: 7}\n"
              "  b: {ingestion_rate_mb: 3, max_query_length: 5h, max_query_lookback: 1h,\n"
              "      disable_label_sanitization: false}\n"
              "  c: {max_flamegraph_nodes_default: 0}\n",
              NULL);
    const struct limits *l = of("a|b|c");
    assert_true(l->ingestion_rate_mb == 2);
    assert_int_equal(l->max_query_length, 5 * HOUR_NS);
    assert_int_equal(l->max_query_lookback, HOUR_NS);
    assert_int_equal(l->max_flamegraph_nodes_default, 7);
    assert_false(l->disable_label_sanitization);
    assert_int_equal(of("c|none")->max_flamegraph_nodes_default, 8192);
    assert_int_equal(of("x|y")->max_flamegraph_nodes_default, 8192);
    close_all();
}

static void later_files_go_over_earlier_ones(void **state)
{
    (void)state;
    open_with("overrides:\n  a: {ingestion_rate_mb: 1, max_label_name_length: 10}\n  b: {}\n",
              "overrides:\n  a: {ingestion_rate_mb: 2}\n  c: {ingestion_rate_mb: 9}\n");
    assert_true(of("a")->ingestion_rate_mb == 2);
    assert_int_equal(of("a")->max_label_name_length, 10);
    assert_true(of("c")->ingestion_rate_mb == 9);
    close_all();
}

static void keys_without_effect_are_taken(void **state)
{
    (void)state;
    open_with("overrides:\n  a: {max_global_series_per_tenant: 5, symbolizer: {enabled: true},\n"
              "      ingestion_rate_mb: 1}\n",
              NULL);
    assert_true(of("a")->ingestion_rate_mb == 1);
    close_all();
}

static void wrong_files_are_refused_with_file_line_key_and_value(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *text;
        const char *want;  // after "FILE:"
    } cases[] = {
        {"unknown limit", "overrides:\n  a:\n    ingestion_rate: 1\n",
         "3: overrides.a.ingestion_rate: unknown key"},
        {"bad number", "overrides:\n  a:\n    max_label_name_length: many\n",
         "3: overrides.a.max_label_name_length: 'many' is not an integer"},
        {"bad time", "overrides:\n  a:\n    reject_older_than: 2 fortnights\n",
         "3: overrides.a.reject_older_than: '2 fortnights' is not a duration such as 250ms, 1h30m "
         "or 31d"},
        {"below", "overrides:\n  a:\n    ingestion_rate_mb: -1\n",
         "3: overrides.a.ingestion_rate_mb: -1 is below the lowest value, 0"},
        {"not finite", "overrides:\n  a:\n    ingestion_rate_mb: inf\n",
         "3: overrides.a.ingestion_rate_mb: 'inf' is not a number"},
        {"bad switch", "overrides:\n  a:\n    disable_label_sanitization: yes\n",
         "3: overrides.a.disable_label_sanitization: 'yes' is neither true nor false"},
        {"no value", "overrides:\n  a:\n    ingestion_rate_mb:\n",
         "3: overrides.a.ingestion_rate_mb: no value"},
        {"map for a number", "overrides:\n  a:\n    ingestion_rate_mb: {x: 1}\n",
         "3: overrides.a.ingestion_rate_mb: expected a value or a list of values"},
        {"key twice", "overrides:\n  a:\n    ingestion_rate_mb: 1\n    ingestion_rate_mb: 2\n",
         "4: overrides.a.ingestion_rate_mb: given twice, first in line 3"},
        {"tenant twice", "overrides:\n  a: {}\n  b: {}\n  a: {}\n",
         "4: overrides.a: given twice, first in line 2"},
        {"overrides twice", "overrides:\noverrides:\n",
         "2: overrides: given twice, first in line 1"},
        {"tenant's name", "overrides:\n  a b: {}\n",
         "2: overrides.a b: tenant ID 'a b' contains unsupported character ' '"},
        {"limits are a list", "overrides:\n  a: [1]\n",
         "2: overrides.a: expected limits as key: value lines"},
        {"overrides are a list", "overrides: [1]\n",
         "1: overrides: expected tenants with their limits"},
        {"unknown top", "overrides: {}\nlimits: {}\n",
         "2: limits: unknown key, only overrides is known"},
        {"no map", "- a\n", "1: expected the key overrides"},
        {"no YAML", "overrides:\n\ta: 1\n", "2: found character that cannot start any token"},
        {"two documents", "overrides: {}\n---\noverrides: {}\n",
         "2: nothing may follow the settings"},
        {"alias", "overrides:\n  a: &x {}\n  b: *x\n", "3: aliases are not allowed"},
        {"empty", "", "1: the file is empty (0 bytes); to set nothing, write {} or a comment"},
        {"blank", " \n\n", "1: the file is empty (3 bytes); to set nothing, write {} or a comment"},
        {"marker", "---\n", "1: the file holds no value; to set nothing, write {} or a comment"},
        {"null", "null\n", "1: expected the key overrides"},
        {"no tenants", "# limits\noverrides:\n",
         "2: overrides: no value; if no tenant has limits of its own, write overrides: {}"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        load(cases[i].text, NULL);
        err fault = {0};
        if (tenants_open(config, &fault)) fail_msg("%s is accepted", cases[i].name);
        char want[300];
        snprintf(want, sizeof want, "%s:%s", path, cases[i].want);
        if (strcmp(fault.msg, want) != 0) fail_msg("%s: %s", cases[i].name, fault.msg);
        arena_release(&arena);
        config_free(config);
    }
    unlink(path);
    load(NULL, NULL);
    config_free(config);
}

static void a_fault_in_the_second_file_names_it(void **state)
{
    (void)state;
    load("overrides:\n  a: {ingestion_rate_mb: 1}\n",
         "overrides:\n\n  a: {max_label_name_length: x}\n");
    err fault = {0};
    assert_null(tenants_open(config, &fault));
    char want[300];
    snprintf(want, sizeof want, "%s:3: overrides.a.max_label_name_length: 'x' is not an integer",
             second);
    assert_string_equal(fault.msg, want);
    unlink(second);
    arena_release(&arena);
    config_free(config);
}

static void a_missing_file_is_named(void **state)
{
    (void)state;
    load("x", NULL);
    unlink(path);
    err fault = {0};
    assert_null(tenants_open(config, &fault));
    char want[300];
    snprintf(want, sizeof want, "runtime_config.file: open %s: No such file or directory", path);
    assert_string_equal(fault.msg, want);
    arena_release(&arena);
    config_free(config);
}

static void a_reload_leaves_requests_what_they_have(void **state)
{
    (void)state;
    open_with("overrides:\n  a: {ingestion_rate_mb: 1}\n", NULL);
    const struct limits *before = of("a");
    assert_ok(tenants_reload(tenants, e));  // nothing changed
    assert_ptr_equal(of("a"), before);

    write_text(path, "overrides:\n  a: {ingestion_rate_mb: 2}\n");
    assert_ok(tenants_reload(tenants, e));
    assert_true(before->ingestion_rate_mb == 1);
    assert_true(of("a")->ingestion_rate_mb == 2);

    write_text(path, "overrides:\n  a: {ingestion_rate_mb: two}\n");
    for (int i = 0; i < 2; i++) {
        err fault = {0};
        assert_false(tenants_reload(tenants, &fault));
        assert_true(str_contains(str_of(fault.msg), S(":2: overrides.a.ingestion_rate_mb: 'two'")));
        assert_true(of("a")->ingestion_rate_mb == 2);
    }
    write_text(path, "{}\n");
    assert_ok(tenants_reload(tenants, e));
    assert_true(of("a")->ingestion_rate_mb == 4);
    close_all();
}

// A write that was cut short leaves nothing, or the first line; no tenant loses its limits by it.
static void a_file_that_was_cut_short_leaves_the_limits_in_force(void **state)
{
    (void)state;
    open_with("overrides:\n  a: {ingestion_rate_mb: 1}\n", NULL);
    static const char *const cut[] = {"",        "\n",           "---\n",         "null\n",
                                      "--- ~\n", "overrides:\n", "overrides: ~\n"};
    for (size_t i = 0; i < COUNT(cut); i++) {
        err fault = {0};
        write_text(path, cut[i]);
        assert_false(tenants_reload(tenants, &fault));
        assert_true(str_contains(str_of(fault.msg), S(":1: ")));
        assert_true(of("a")->ingestion_rate_mb == 1);
    }
    static const char *const whole[] = {"# nobody has limits of their own\n", "---\n# nobody\n",
                                        "{}\n", "overrides: {}\n"};
    for (size_t i = 0; i < COUNT(whole); i++) {
        write_text(path, "overrides:\n  a: {ingestion_rate_mb: 1}\n");
        assert_ok(tenants_reload(tenants, e));
        assert_true(of("a")->ingestion_rate_mb == 1);
        write_text(path, whole[i]);
        assert_ok(tenants_reload(tenants, e));
        assert_true(of("a")->ingestion_rate_mb == 4);
    }
    close_all();
}

static void snapshots_go_with_their_last_user(void **state)
{
    (void)state;
    open_with("overrides: {}\n", NULL);
    for (int i = 0; i < 200; i++) {  // the leak checker looks at what remains
        char text[100];
        snprintf(text, sizeof text, "overrides:\n  a: {max_label_name_length: %d}\n", i + 1);
        write_text(path, text);
        assert_ok(tenants_reload(tenants, e));
        struct arena request;
        arena_init(&request, NULL, 1 << 16);
        assert_int_equal(tenant_limits(config, &request, S("a"))->max_label_name_length, i + 1);
        arena_release(&request);
    }
    close_all();
}

static void assert_page(bool diff, const char *has, const char *has_not)
{
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    tenants_print(tenants, diff, &b);
    if (!str_contains(buf_view(&b), str_of(has)))
        fail_msg("'%s' is missing in %.*s", has, STR(buf_view(&b)));
    assert_false(str_contains(buf_view(&b), str_of(has_not)));
    buf_release(&b);
}

static void the_page_shows_what_is_in_force(void **state)
{
    (void)state;
    open_with("overrides:\n  a: {reject_older_than: 2h}\n  b: {}\n", NULL);
    assert_page(true, "overrides:\n  \"a\":\n    reject_older_than: 2h\n", "\"b\"");
    assert_page(false, "    ingestion_rate_mb: 4\n", "nothing");
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    tenants_print(tenants, false, &b);
    buf_byte(&b, 0);
    write_text(path, b.p);  // the page is a file that says the same
    buf_release(&b);
    assert_ok(tenants_reload(tenants, e));
    assert_page(true, "overrides:\n  \"a\":\n    reject_older_than: 2h\n", "\"b\"");
    close_all();
    open_with("{}", NULL);
    assert_page(false, "overrides: {}\n", "a");
    close_all();
}

static void a_row_tells_numbers_of_tenants(void **state)
{
    (void)state;
    open_with("overrides:\n  a: {reject_older_than: 2h, ingestion_rate_mb: 0.5}\n", NULL);
    struct metric *m = &service_limits_overrides;
    metric_register(&m, 1);
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    metric_print(&b);
    assert_true(str_contains(
        buf_view(&b),
        S("flametree_limits_overrides{limit_name=\"ingestion_rate_mb\",tenant=\"a\"} 0.5\n"
          "flametree_limits_overrides{limit_name=\"reject_older_than\",tenant=\"a\"} 7200\n")));
    buf_release(&b);
    close_all();
}

static int make_dir(void **state)
{
    (void)state;
    dir_new(dir);
    dir_path(path, dir, "first");
    dir_path(second, dir, "second");
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    dir_remove(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tenant_has_its_own_limits_and_the_defaults_for_the_rest),
        cmocka_unit_test(tenants_share_the_compiled_rules_of_the_defaults),
        cmocka_unit_test(of_several_tenants_the_smallest_positive_limits_hold),
        cmocka_unit_test(later_files_go_over_earlier_ones),
        cmocka_unit_test(keys_without_effect_are_taken),
        cmocka_unit_test(wrong_files_are_refused_with_file_line_key_and_value),
        cmocka_unit_test(a_fault_in_the_second_file_names_it),
        cmocka_unit_test(a_missing_file_is_named),
        cmocka_unit_test(a_reload_leaves_requests_what_they_have),
        cmocka_unit_test(a_file_that_was_cut_short_leaves_the_limits_in_force),
        cmocka_unit_test(snapshots_go_with_their_last_user),
        cmocka_unit_test(the_page_shows_what_is_in_force),
        cmocka_unit_test(a_row_tells_numbers_of_tenants),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
