// SPDX-License-Identifier: Apache-2.0
#include "lib/memstore.h"
#include "lib/test.h"
#include "manifest/holding.h"

#include <stdio.h>

static struct store *store;
static struct req r;

static int set_up(void **state)
{
    (void)state;
    store = memstore_open();
    req_init(&r, RANK_DUTY, NULL, 1 << 22, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    req_release(&r);
    store_close(store);
    return 0;
}

static struct holding of(const char *node, uint8_t directory)
{
    return (struct holding){.node = str_of(node),
                            .directory = {{1, 2, 3, directory}},
                            .number = 1,
                            .boot = {{9}},
                            .address = S("10.0.0.1:4041"),
                            .made_ns = 1000 + directory,
                            .rows_from_ns = 7};
}

static size_t count(str node, struct holding **v)
{
    size_t n = 0;
    assert_ok(holdings_list(store, &r, &r.arena, node, v, &n, e));
    return n;
}

static void what_is_created_is_listed_until_it_is_deleted(void **state)
{
    (void)state;
    struct holding *v = NULL;
    struct holding a = of("ingester-1", 1);
    struct holding b = of("ingester-1", 2);
    struct holding c = of("ingester-10", 3);
    bool existed = true;
    assert_int_equal(count(S("ingester-1"), &v), 0);
    assert_ok(holding_create(store, &r, &a, &existed, e));
    assert_false(existed);
    assert_ok(holding_create(store, &r, &b, &existed, e));
    assert_ok(holding_create(store, &r, &c, &existed, e));
    a.made_ns = 5;  // of a later process in that directory: what is there stays
    assert_ok(holding_create(store, &r, &a, &existed, e));
    assert_true(existed);
    assert_int_equal(count(S("ingester-1"), &v), 2);
    assert_true(id128_eq(v[0].directory, a.directory) && id128_eq(v[1].directory, b.directory));
    assert_true(str_is(v[0].node, "ingester-1") && str_is(v[0].address, "10.0.0.1:4041"));
    assert_int_equal(v[0].made_ns, 1001);
    assert_int_equal(v[0].rows_from_ns, 7);
    assert_int_equal(v[0].boot.b[0], 9);
    assert_int_equal(count(S(""), &v), 3);
    assert_ok(holding_delete(store, &r, a.node, a.directory, UINT64_MAX, e));
    assert_ok(holding_delete(store, &r, a.node, a.directory, UINT64_MAX, e));
    assert_int_equal(count(S("ingester-1"), &v), 1);
    assert_true(id128_eq(v[0].directory, b.directory));
}

static void numbers_of_a_directory_are_one_directory(void **state)
{
    (void)state;
    struct holding *v = NULL;
    struct holding_at *at = NULL;
    size_t n = 0;
    bool existed = false;
    struct holding a = of("a", 1);
    struct holding b = of("b", 1);  // the same directory under another id is another one
    for (a.number = 9; a.number <= 11; a.number++) {
        a.rows_from_ns = 100 - (int64_t)a.number;
        a.made_ns = 50 + (int64_t)a.number;
        assert_ok(holding_create(store, &r, &a, &existed, e));
    }
    assert_ok(holding_create(store, &r, &b, &existed, e));
    assert_int_equal(count(S(""), &v), 2);
    assert_int_equal(v[0].number, 11);
    assert_int_equal(v[0].rows_from_ns, 89);
    assert_int_equal(v[0].made_ns, 59);
    assert_ok(holding_delete(store, &r, a.node, a.directory, 11, e));
    assert_int_equal(count(S("a"), &v), 1);
    assert_int_equal(v[0].made_ns, 61);
    assert_ok(holdings_inspect(store, &r, &r.arena, &at, &n, e));
    assert_int_equal(n, 2);
    assert_true(str_starts(at[0].directory, S("a/")) && str_starts(at[1].directory, S("b/")));
    assert_int_equal(at[0].number, 11);
    assert_int_equal(at[1].number, 1);
}

static void the_newest_object_says_when_and_where_a_directory_was_used(void **state)
{
    (void)state;
    struct holding *v = NULL;
    struct holding_at *at = NULL;
    size_t n = 0;
    bool existed = false;
    struct holding a = of("a", 1);
    a.number = 4;
    a.seen_ns = 2000;
    assert_ok(holding_create(store, &r, &a, &existed, e));
    for (int64_t i = 1; i <= 2; i++) {  // the second start finds what the first one left
        struct holding again = a;
        again.address = i == 1 ? S("10.0.0.2:4041") : S("10.0.0.3:4041");
        again.seen_ns = 2000 + i;
        again.rows_from_ns = 5;
        assert_ok(holding_renew(store, &r, &again, e));
    }
    assert_int_equal(count(S("a"), &v), 1);
    assert_int_equal(v[0].number, 4);
    assert_int_equal(v[0].seen_ns, 2002);
    assert_true(str_is(v[0].address, "10.0.0.3:4041"));
    assert_int_equal(v[0].rows_from_ns, 5);
    assert_ok(holdings_inspect(store, &r, &r.arena, &at, &n, e));
    assert_true(n == 1 && at[0].number == 4);
    // One of a program that notes no times: nobody knows when it was created.
    assert_ok(holding_delete(store, &r, a.node, a.directory, 4, e));
    a.number = 5;
    a.seen_ns = 0;
    assert_ok(holding_create(store, &r, &a, &existed, e));
    assert_int_equal(count(S("a"), &v), 1);
    assert_int_equal(v[0].seen_ns, 0);
}

static void any_id_of_a_node_has_a_name(void **state)
{
    (void)state;
    char large[256];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    const char *const ids[] = {"a", "..", ".", "a/b", "caf\xc3\xa9", "a b", "~", large};
    for (size_t i = 0; i < COUNT(ids); i++) {
        struct holding *v = NULL;
        struct holding h = of(ids[i], 1);
        bool existed = true;
        assert_ok(holding_create(store, &r, &h, &existed, e));
        if (existed) fail_msg("%s has the name of another one", ids[i]);
        if (count(str_of(ids[i]), &v) != 1 || !str_is(v[0].node, ids[i])) fail_msg("%s", ids[i]);
    }
}

static void what_cannot_be_decoded_counts_and_foreign_names_do_not(void **state)
{
    (void)state;
    struct holding *v = NULL;
    memstore_set(store, "v1/nodes/ingester/a/01HZXW4T8Q2J5K7M9NPRSTVWXY.0000000000000001",
                 S("\xff\xff"));
    memstore_set(store, "v1/nodes/ingester/a/01hzxw4t8q2j5k7m9nprstvwxy", S(""));
    memstore_set(store, "v1/nodes/ingester/a/01HZXW4T8Q2J5K7M9NPRSTVWXY", S(""));
    memstore_set(store, "v1/nodes/ingester/a/01HZXW4T8Q2J5K7M9NPRSTVWXY.1", S(""));
    memstore_set(store, "v1/nodes/ingester/a/readme", S(""));
    assert_int_equal(count(S("a"), &v), 1);
    assert_true(str_is(v[0].node, "a"));
    assert_int_equal(v[0].rows_from_ns, 0);
    assert_int_equal(v[0].made_ns, (int64_t)uuid_ms(v[0].directory) * 1000000);
}

static void a_store_that_fails_is_told(void **state)
{
    (void)state;
    struct holding h = of("a", 1);
    struct holding *v = NULL;
    size_t n = 0;
    bool existed = false;
    err why = {0};
    assert_ok(holding_create(store, &r, &h, &existed, e));
    memstore_fail(store, MEMSTORE_READ, MEMSTORE_FAILS, 1, 1);
    assert_false(holdings_list(store, &r, &r.arena, S("a"), &v, &n, &why));
    assert_int_equal(why.code, ERR_UNAVAILABLE);
    memstore_fail(store, MEMSTORE_LIST, MEMSTORE_FAILS, 1, 1);
    assert_false(holdings_list(store, &r, &r.arena, S("a"), &v, &n, &why));
    memstore_heal(store);
    assert_int_equal(count(S("a"), &v), 1);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(what_is_created_is_listed_until_it_is_deleted),
        CASE(numbers_of_a_directory_are_one_directory),
        CASE(the_newest_object_says_when_and_where_a_directory_was_used),
        CASE(any_id_of_a_node_has_a_name),
        CASE(what_cannot_be_decoded_counts_and_foreign_names_do_not),
        CASE(a_store_that_fails_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
