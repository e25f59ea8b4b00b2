// SPDX-License-Identifier: Apache-2.0
#include "lib/memstore.h"
#include "lib/test.h"
#include "manifest/forgotten.h"

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
                                      .directory = {{7, stream}},
                                      .log = STREAM_LOG_LOCAL,
                                      .made_ns = 1000 + stream};
}

static struct registered_stream registered(const char *node, uint8_t stream)
{
    struct registered_stream v = of(node, stream);
    bool existed = true;
    assert_ok(stream_register(store, &r, &v, &existed, e));
    assert_false(existed);
    return v;
}

static size_t since(uint8_t stream, struct ended_deletion **v)
{
    size_t n = 0;
    assert_ok(deletions_since(store, &r, &r.arena, (id128){{1, 2, 3, stream}}, v, &n, e));
    return n;
}

static struct manifest_tombstone tombstone(uint8_t id, const char *match)
{
    struct manifest_tombstone t = {.id = {{id}}, .hide = {.from_ns = -1, .to_ns = 500}};
    assert_ok(selector_parse(&r.arena, str_of(match), &t.hide.selector, e));
    return t;
}

static void it_is_noted_before_the_registration_goes(void **state)
{
    struct forgotten_stream *v = NULL;
    size_t n = 0;
    err fault = {0};
    (void)state;
    struct registered_stream a = registered("ingester-2", 2);
    struct registered_stream unknown = {.stream = {{1, 2, 3, 1}}};
    memstore_fail(store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, 1);
    assert_false(stream_forget(store, &r, &a, 77, &fault));
    assert_int_equal(memstore_count(store, "v1/streams/"), 1);
    memstore_fail(store, MEMSTORE_DELETE, MEMSTORE_FAILS, 1, 1);
    assert_false(stream_forget(store, &r, &a, 77, &fault));
    assert_int_equal(memstore_count(store, "v1/forgotten/"), 1);
    assert_ok(stream_forget(store, &r, &a, 78, e));
    assert_int_equal(memstore_count(store, "v1/streams/"), 0);
    assert_ok(stream_forget(store, &r, &unknown, 79, e));
    memstore_set(store, "v1/forgotten/readme", S("x"));
    memstore_set(store, "v1/forgotten/01HZXW4T8Q2J5K7M9NPRSTVWXY", S("\xff\xff"));
    assert_ok(forgotten_read(store, &r, &r.arena, &v, &n, e));
    assert_int_equal(n, 3);
    assert_true(id128_eq(v[0].stream, unknown.stream) && v[0].node.n == 0);
    assert_true(id128_eq(v[1].stream, a.stream) && str_is(v[1].node, "ingester-2"));
    assert_true(id128_eq(v[1].directory, a.directory) && id128_eq(v[1].boot, a.boot));
    assert_true(v[1].log == STREAM_LOG_LOCAL && v[1].made_ns == 1002 && v[1].forgotten_ns == 77);
    assert_int_equal(v[2].node.n, 0);  // nobody can read it, but it is there
}

static void deletions_are_noted_for_the_streams_that_miss_them(void **state)
{
    struct ended_deletion *v = NULL;
    const struct manifest_tombstone t = tombstone(21, "{pod!=\"x\"}");
    const struct manifest_tombstone u = tombstone(22, "{}");
    bool is = true;
    (void)state;
    assert_ok(deletion_note_end(store, &r, S("acme"), t.id, &t, 5, e));
    assert_int_equal(memstore_count(store, "v1/deleted/"), 0);  // nobody misses it
    struct registered_stream a = registered("a", 1);
    struct registered_stream b = registered("b", 2);
    assert_ok(stream_forget(store, &r, &a, 1, e));
    assert_ok(deletion_note_end(store, &r, S("acme"), t.id, &t, 5, e));
    assert_ok(deletion_note_end(store, &r, S("acme"), t.id, &t, 6, e));
    assert_ok(stream_forget(store, &r, &b, 2, e));
    assert_ok(deletion_note_end(store, &r, S("acme"), u.id, &u, 7, e));
    assert_ok(deletion_note_end(store, &r, S("other"), (id128){{23}}, NULL, 8, e));
    assert_int_equal(memstore_count(store, "v1/deleted/"), 3);
    assert_int_equal(since(1, &v), 3);
    assert_true(id128_eq(v[0].id, t.id) && str_is(v[0].tenant, "acme"));
    assert_true(v[0].hide.from_ns == -1 && v[0].hide.to_ns == 500);
    static const label x[] = {{S("pod"), S("x")}};
    assert_ok(hide_is_of(&v[0].hide, (labels){x, 1}, &is, e));
    assert_false(is);
    assert_true(str_is(v[2].tenant, "other"));
    assert_true(hide_has_time(&v[2].hide, 0) && hide_has_time(&v[2].hide, INT64_MAX));
    assert_ok(hide_is_of(&v[2].hide, (labels){x, 1}, &is, e));
    assert_true(is);
    assert_int_equal(since(2, &v), 2);
    assert_int_equal(since(3, &v), 0);
    // They go with the last stream that misses them.
    assert_ok(forgotten_clear(store, &r, a.stream, e));
    assert_int_equal(memstore_count(store, "v1/forgotten/"), 1);
    assert_int_equal(memstore_count(store, "v1/deleted/"), 2);
    assert_int_equal(since(2, &v), 2);
    assert_ok(forgotten_clear(store, &r, b.stream, e));
    assert_int_equal(memstore_count(store, "v1/"), 0);
    assert_ok(forgotten_clear(store, &r, b.stream, e));
}

static void a_deletion_that_cannot_be_read_is_no_reason_to_bring_anything_back(void **state)
{
    struct ended_deletion *v = NULL;
    size_t n = 0;
    static const char *const bad[] = {"\xff\xff", "\x08\x02", "\x08\x01\x1a\x02\x0a\x00"};
    (void)state;
    struct registered_stream a = registered("a", 1);
    assert_ok(stream_forget(store, &r, &a, 1, e));
    for (size_t i = 0; i < COUNT(bad); i++) {
        err fault = {0};
        // The last one has a zero byte.
        str bytes = i == 2 ? str_make(bad[i], 6) : str_of(bad[i]);
        memstore_set(store, "v1/deleted/01HZXW4T8Q2J5K7M9NPRSTVWXY", bytes);
        if (i == 2) {  // it names no stream: it concerns none
            assert_int_equal(since(1, &v), 0);
            continue;
        }
        assert_false(deletions_since(store, &r, &r.arena, a.stream, &v, &n, &fault));
        assert_int_equal(fault.code, ERR_DATA_LOSS);
    }
    memstore_fail(store, MEMSTORE_LIST, MEMSTORE_FAILS, 1, 1);
    err fault = {0};
    assert_false(deletions_since(store, &r, &r.arena, a.stream, &v, &n, &fault));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_is_noted_before_the_registration_goes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(deletions_are_noted_for_the_streams_that_miss_them, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_deletion_that_cannot_be_read_is_no_reason_to_bring_anything_back, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
