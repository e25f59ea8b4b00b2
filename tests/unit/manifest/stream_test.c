// SPDX-License-Identifier: Apache-2.0
#include "lib/memstore.h"
#include "lib/test.h"
#include "manifest/stream.h"
#include "sys/clock.h"

#define HOUR (INT64_C(3600) * NS_PER_S)

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

static struct registered_stream of(const char *node, uint8_t stream)
{
    return (struct registered_stream){.stream = {{1, 2, 3, stream}},
                                      .node = str_of(node),
                                      .boot = {{9}},
                                      .address = S("10.0.0.1:4041"),
                                      .directory = {{7, stream}},
                                      .log = STREAM_LOG_LOCAL,
                                      .made_ns = 1000 * HOUR + stream,
                                      .rows_from_ns = 990 * HOUR};
}

static void put(const struct registered_stream *s, bool was_there)
{
    bool existed = !was_there;
    assert_ok(stream_register(store, &r, s, &existed, e));
    assert_int_equal(existed, was_there);
}

static void what_is_registered_is_listed_until_it_is_taken_back(void **state)
{
    (void)state;
    struct registered list;
    struct registered_stream a = of("ingester-1", 2);
    struct registered_stream b = of("a/b \xc3\xa9", 1);
    id128 *ids = NULL;
    size_t n = 1;
    assert_ok(stream_names(store, &r, &r.arena, &ids, &n, e));
    assert_int_equal(n, 0);
    put(&a, false);
    put(&b, false);
    a.made_ns = 5;  // of a later process: what is there stays
    put(&a, true);
    assert_ok(registered_read(store, &r, NULL, NULL, &list, e));
    assert_int_equal(list.n, 2);
    assert_true(id128_eq(list.v[0].stream, b.stream) && str_eq(list.v[0].node, b.node));
    const struct registered_stream *v = registered_find(&list, a.stream);
    assert_true(v == &list.v[1] && str_is(v->node, "ingester-1"));
    assert_true(id128_eq(v->boot, a.boot) && id128_eq(v->directory, a.directory));
    assert_true(str_is(v->address, "10.0.0.1:4041") && v->log == STREAM_LOG_LOCAL);
    assert_int_equal(v->made_ns, 1000 * HOUR + 2);
    assert_int_equal(v->rows_from_ns, 990 * HOUR);
    assert_null(registered_find(&list, (id128){{1, 2, 3, 3}}));
    registered_release(&list);
    assert_ok(stream_unregister(store, &r, a.stream, e));
    assert_ok(stream_unregister(store, &r, a.stream, e));
    assert_ok(stream_names(store, &r, &r.arena, &ids, &n, e));
    assert_int_equal(n, 1);
    assert_true(id128_eq(ids[0], b.stream));
}

static void an_object_is_read_once(void **state)
{
    (void)state;
    struct registered first;
    struct registered second;
    struct registered_stream a = of("a", 1);
    struct registered_stream b = of("b", 2);
    put(&a, false);
    assert_ok(registered_read(store, &r, NULL, NULL, &first, e));
    memstore_fail(store, MEMSTORE_READ, MEMSTORE_FAILS, 1, UINT64_MAX);
    assert_ok(registered_read(store, &r, NULL, &first, &second, e));
    registered_release(&first);
    assert_int_equal(second.n, 1);
    assert_true(str_is(second.v[0].node, "a") && str_is(second.v[0].address, "10.0.0.1:4041"));
    put(&b, false);
    err why = {0};
    assert_false(registered_read(store, &r, NULL, &second, &first, &why));
    assert_int_equal(why.code, ERR_UNAVAILABLE);
    registered_release(&first);
    memstore_heal(store);
    assert_ok(registered_read(store, &r, NULL, &second, &first, e));
    assert_int_equal(first.n, 2);
    registered_release(&first);
    registered_release(&second);
}

static void what_cannot_be_decoded_counts_and_foreign_names_do_not(void **state)
{
    (void)state;
    struct registered list;
    memstore_set(store, "v1/streams/01HZXW4T8Q2J5K7M9NPRSTVWXY", S("\xff\xff"));
    memstore_set(store, "v1/streams/01HZXW4T8Q2J5K7M9NPRSTVWXZ",
                 S("\x08\x02\x12\x01"
                   "a"));
    memstore_set(store, "v1/streams/01hzxw4t8q2j5k7m9nprstvwx0", S(""));
    memstore_set(store, "v1/streams/01HZXW4T8Q2J5K7M9NPRSTVWXY.1", S(""));
    memstore_set(store, "v1/streams/readme", S(""));
    assert_ok(registered_read(store, &r, NULL, NULL, &list, e));
    assert_int_equal(list.n, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(list.v[i].node.n, 0);
        assert_int_equal(list.v[i].made_ns, (int64_t)uuid_ms(list.v[i].stream) * NS_PER_MS);
        assert_int_equal(list.v[i].rows_from_ns, 0);
    }
    registered_release(&list);
}

static void a_store_that_fails_is_told(void **state)
{
    (void)state;
    struct registered list;
    err why = {0};
    memstore_fail(store, MEMSTORE_LIST, MEMSTORE_FAILS, 1, 1);
    assert_false(registered_read(store, &r, NULL, NULL, &list, &why));
    assert_int_equal(why.code, ERR_UNAVAILABLE);
    registered_release(&list);
}

// A stream that is left out is waited for by nobody.
static void a_stream_is_left_out_only_if_its_registration_is_gone(void **state)
{
    (void)state;
    struct registered list;
    struct registered_stream a = of("ingester-1", 1);
    struct registered_stream b = of("ingester-2", 2);
    err why = {0};
    put(&a, false);
    put(&b, false);
    memstore_fail(store, MEMSTORE_READ, MEMSTORE_FORGETS, 1, 1);
    assert_ok(registered_read(store, &r, NULL, NULL, &list, e));
    assert_int_equal(list.n, 2);
    registered_release(&list);
    memstore_fail(store, MEMSTORE_READ, MEMSTORE_FORGETS, 2, UINT64_MAX);
    assert_false(registered_read(store, &r, NULL, NULL, &list, &why));
    assert_int_equal(why.code, ERR_UNAVAILABLE);
    registered_release(&list);
    memstore_heal(store);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(what_is_registered_is_listed_until_it_is_taken_back),
        CASE(an_object_is_read_once),
        CASE(what_cannot_be_decoded_counts_and_foreign_names_do_not),
        CASE(a_store_that_fails_is_told),
        CASE(a_stream_is_left_out_only_if_its_registration_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
