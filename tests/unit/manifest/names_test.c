// SPDX-License-Identifier: Apache-2.0
#include "lib/arena.h"
#include "lib/test.h"
#include "manifest/names.h"
#include "store/check.h"

#include <stdlib.h>

#define STREAM "01HZXW4T8Q2J5K7M9NPRSTVWXY"

static id128 stream(void)
{
    id128 id = {0};
    assert_ok(ulid_parse(S(STREAM), &id, e));
    return id;
}

static void names_are_what_the_page_says(void **state)
{
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    struct segment_name s = {.hour = 0x7964b, .stream = stream(), .cut = 42, .part = 3};
    struct {
        str got;
        const char *want;
    } cases[] = {
        {name_cluster(), "v1/cluster"},
        {name_tenants(), "v1/tenants/"},
        {name_tenant(&a, S("acme")), "v1/tenants/acme"},
        {name_all_closed(), "v1/closed/"},
        {name_closed(&a, S("acme")), "v1/closed/acme"},
        {name_of_tenant(&a, S("acme")), "v1/bb/acme/"},
        {name_live(&a, S("acme")), "v1/bb/acme/live/"},
        {name_segments(&a, S("acme")), "v1/bb/acme/live/a/"},
        {name_segment(&a, S("acme"), &s),
         "v1/bb/acme/live/a/000000000007964b." STREAM ".000000000000002a.00000003"},
        {name_roots(&a, S("acme")), "v1/bb/acme/live/m/"},
        {name_root(&a, S("acme"), 255), "v1/bb/acme/live/m/00000000000000ff"},
        {name_page(&a, S("acme"), stream()), "v1/bb/acme/page/" STREAM},
        {name_streams(), "v1/streams/"},
        {name_stream(&a, stream()), "v1/streams/" STREAM},
        {name_all_forgotten(), "v1/forgotten/"},
        {name_forgotten(&a, stream()), "v1/forgotten/" STREAM},
        {name_all_deleted(), "v1/deleted/"},
        {name_deleted(&a, stream()), "v1/deleted/" STREAM},
        {name_former(&a, S("i-1")), "v1/nodes/ingester/i-1/"},
        {name_former(&a, S("a/b")), "v1/nodes/ingester/~828712809a185aae/"},
        {name_logs(), "v1/log/"},
        {name_log(&a, stream()), "v1/log/" STREAM "/"},
        {name_log_object(&a, stream(), 26), "v1/log/" STREAM "/000000000000001a"},
        {name_all_damaged(), "v1/damaged/"},
        {name_damaged(&a, stream()), "v1/damaged/" STREAM "/"},
        {name_damaged_object(&a, stream(), 26), "v1/damaged/" STREAM "/000000000000001a"},
        {S(STORE_CHECK_PREFIX), "v1/check/"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (!str_is(cases[i].got, cases[i].want))
            fail_msg("%.*s, not %s", STR(cases[i].got), cases[i].want);
        bool tenant = str_starts(cases[i].got, S("v1/bb/acme/"));
        if (name_is_beside_tenants(str_slice(cases[i].got, 3, cases[i].got.n)) == tenant)
            fail_msg("%s is %s", cases[i].want, tenant ? "of a tenant" : "beside the tenants");
    }
    arena_release(&a);
}

static void numbers_of_logs_are_read_as_they_are_printed(void **state)
{
    static const char *const bad[] = {
        "",       "000000000000001", "0000000000000000", "000000000000001A", "00000000000000011",
        "readme",
    };
    uint64_t number = 0;
    (void)state;
    assert_true(name_log_number(S("000000000000001a"), &number));
    assert_int_equal(number, 26);
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(name_log_number(str_of(bad[i]), &number));
    assert_int_equal(number, 26);
}

static void segments_are_read_as_they_are_printed(void **state)
{
    static const char *const good[] = {
        "000000000007964b." STREAM ".000000000000002a.00000003",
        "0000000000000000.00000000000000000000000000.0000000000000000.00000000",
        "7fffffffffffffff.7ZZZZZZZZZZZZZZZZZZZZZZZZZ.ffffffffffffffff.ffffffff",
    };
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        struct segment_name n;
        char text[SEGMENT_TEXT];
        assert_true(segment_name_parse(str_of(good[i]), &n));
        segment_name_print(&n, text);
        assert_string_equal(text, good[i]);
    }
}

static void other_segment_names_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "x",
        "000000000007964b",
        "000000000007964b.",
        "000000000007964B." STREAM ".000000000000002a.00000003",                  // upper case
        "00000000007964b." STREAM ".000000000000002a.00000003",                   // short
        "8000000000000000." STREAM ".000000000000002a.00000003",                  // before 1970
        "ffffffffffffffff." STREAM ".000000000000002a.00000003",                  // likewise
        "000000000007964b.01hzxw4t8q2j5k7m9nprstvwxy.000000000000002a.00000003",  // lower case
        "000000000007964b.8ZZZZZZZZZZZZZZZZZZZZZZZZZ.000000000000002a.00000003",  // too large
        "000000000007964b.01HZXW4T8Q2J5K7M9NPRSTVWX.000000000000002a.00000003",   // short
        "000000000007964b." STREAM ".000000000000002a.0000003",
        "000000000007964b." STREAM ".000000000000002a.000000030",
        "000000000007964b." STREAM ".000000000000002a.00000003 ",
        "000000000007964b." STREAM ".000000000000002a.00000003/",
        "000000000007964b-" STREAM ".000000000000002a.00000003",
        " 00000000007964b." STREAM ".000000000000002a.00000003",
        "+00000000007964b." STREAM ".000000000000002a.00000003",
        "0x000000000007964b." STREAM ".000000000000002a.00000003",
    };
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct segment_name n;
        str text = str_of(bad[i]);
        if (segment_name_parse(str_make(tail_guard(text.p, text.n), text.n), &n))
            fail_msg("'%s' was read", bad[i]);
    }
}

static void versions_are_read_as_they_are_printed(void **state)
{
    uint64_t v = 0;
    (void)state;
    assert_true(name_root_version(S("0000000000000001"), &v));
    assert_int_equal(v, 1);
    assert_true(name_root_version(S("ffffffffffffffff"), &v));
    assert_true(v == UINT64_MAX);
    static const char *const bad[] = {"",
                                      "1",
                                      "0000000000000000",
                                      "000000000000000A",
                                      "00000000000000001",
                                      "000000000000001 ",
                                      "m/00000000000001"};
    for (size_t i = 0; i < COUNT(bad); i++)
        if (name_root_version(str_of(bad[i]), &v)) fail_msg("'%s' was read", bad[i]);
}

static uint64_t next(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    return z ^ (z >> 27);
}

static struct segment_name any(uint64_t *state)
{
    struct segment_name s = {.hour = (int64_t)(next(state) & 3),
                             .stream = {{(uint8_t)(next(state) & 3)}},
                             .cut = next(state) & 3,
                             .part = (uint32_t)(next(state) & 3)};
    if (next(state) & 1) s.hour = (int64_t)(next(state) >> 1);
    if (next(state) & 1) s.cut = next(state);
    for (int i = 8; i < 16; i++)
        s.stream.b[i] = (uint8_t)(next(state) & 0x81);
    return s;
}

static void names_sort_as_segments_do(void **state)
{
    uint64_t seed = 1;
    (void)state;
    for (int i = 0; i < 20000; i++) {
        struct segment_name a = any(&seed);
        struct segment_name b = any(&seed);
        char x[SEGMENT_TEXT];
        char y[SEGMENT_TEXT];
        segment_name_print(&a, x);
        segment_name_print(&b, y);
        int want = strcmp(x, y);
        int got = segment_name_cmp(&a, &b);
        assert_true((want < 0) == (got < 0) && (want == 0) == (got == 0));
        struct segment_name back;
        assert_true(segment_name_parse(str_of(x), &back));
        assert_int_equal(segment_name_cmp(&a, &back), 0);
    }
}

static void tenants_are_called_as_requests_may_call_them(void **state)
{
    char longest[NAME_TENANT_MAX + 1];
    memset(longest, 'a', sizeof longest);
    (void)state;
    assert_true(name_tenant_ok(S("anonymous")));
    assert_true(name_tenant_ok(S("Team-1!_.*'()")));
    assert_true(name_tenant_ok(S("...")));
    assert_true(name_tenant_ok(str_make(longest, NAME_TENANT_MAX)));
    assert_false(name_tenant_ok(str_make(longest, NAME_TENANT_MAX + 1)));
    static const char *const bad[] = {"",    ".",    "..",  "a/b",     "a|b",
                                      "a b", "a\\b", "a\n", "\xc3\xa4"};
    for (size_t i = 0; i < COUNT(bad); i++)
        if (name_tenant_ok(str_of(bad[i]))) fail_msg("'%s' is a name", bad[i]);
    assert_false(name_tenant_ok(str_make("a\0b", 3)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_what_the_page_says),
        cmocka_unit_test(numbers_of_logs_are_read_as_they_are_printed),
        cmocka_unit_test(segments_are_read_as_they_are_printed),
        cmocka_unit_test(other_segment_names_are_refused),
        cmocka_unit_test(versions_are_read_as_they_are_printed),
        cmocka_unit_test(names_sort_as_segments_do),
        cmocka_unit_test(tenants_are_called_as_requests_may_call_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
