// SPDX-License-Identifier: Apache-2.0
#include "lib/clock.h"
#include "lib/memstore.h"
#include "lib/test.h"
#include "manifest/registry.h"
#include "sys/clock.h"

#include <stdio.h>

#define HOUR     (INT64_C(3600) * NS_PER_S)
#define MANY     300
#define AT_LEAST 16  // that are read at once

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
    assert_int_equal(second.unread, 0);
    assert_true(str_is(second.v[0].node, "a") && str_is(second.v[0].address, "10.0.0.1:4041"));
    registered_release(&second);
    put(&b, false);
    memstore_heal(store);
    assert_ok(registered_read(store, &r, NULL, NULL, &second, e));
    assert_int_equal(second.n, 2);
    registered_release(&second);
}

// ---- many

static void put_many(void)
{
    for (int i = 0; i < MANY; i++) {
        bool existed = false;
        struct registered_stream s = of("n", 0);
        s.stream = (id128){{1, (uint8_t)(i >> 8), (uint8_t)i}};
        assert_ok(stream_register(store, &r, &s, &existed, e));
    }
}

static void they_are_read_many_at_once(void **state)
{
    (void)state;
    struct registered list;
    put_many();
    memstore_set_turns(store, AT_LEAST, 0);
    memstore_reset_totals(store);
    assert_ok(registered_read(store, &r, NULL, NULL, &list, e));
    assert_int_equal(list.n, MANY);
    assert_int_equal(list.unread, 0);
    registered_release(&list);
    struct memstore_totals t = memstore_totals(store);
    assert_int_equal(t.ops[MEMSTORE_READ], MANY);
    assert_in_range(t.turns, 1, 2 * (MANY / AT_LEAST) + 2);
}

// What happens at the reads of an object whose name ends with this.
static struct {
    const char *end;
    enum memstore_fault fault;
    bool vanishes;    // it is not there during the read,
    bool comes_back;  // and is afterwards
    bool cancels;     // nobody wants to know any more
    size_t reads;
    char bytes[256];
    size_t n;
} trick;

static bool is_meant(const struct memstore_event *ev)
{
    return ev->op == MEMSTORE_READ && str_ends(ev->name, str_of(trick.end));
}

static enum memstore_fault before(void *arg, const struct memstore_event *ev)
{
    (void)arg;
    char name[200];
    if (!is_meant(ev)) return MEMSTORE_FINE;
    trick.reads++;
    if (trick.cancels) atomic_store(&ev->req->canceled, true);
    if (trick.vanishes) {
        snprintf(name, sizeof name, "%.*s", STR(ev->name));
        str bytes = memstore_bytes(ev->store, name);
        trick.n = bytes.n;
        memcpy(trick.bytes, bytes.p, bytes.n);
        memstore_drop(ev->store, name);
    }
    return trick.fault;
}

static enum memstore_fault after(void *arg, const struct memstore_event *ev)
{
    (void)arg;
    char name[200];
    snprintf(name, sizeof name, "%.*s", STR(ev->name));
    if (is_meant(ev) && trick.comes_back)
        memstore_set(ev->store, name, str_make(trick.bytes, trick.n));
    return MEMSTORE_FINE;
}

static const char *end_of(char text[ULID_TEXT], int i)
{
    ulid_print((id128){{1, (uint8_t)(i >> 8), (uint8_t)i}}, text);
    return text;
}

static void play(const char *end)
{
    memset(&trick, 0, sizeof trick);
    trick.end = end;
    memstore_set_hooks(store, before, after, NULL);
}

static void one_that_cannot_be_read_is_named_and_stops_nobody(void **state)
{
    (void)state;
    struct registered list;
    char ulid[ULID_TEXT];
    put_many();
    play(end_of(ulid, 40));
    trick.fault = MEMSTORE_FAILS;
    assert_ok(registered_read(store, &r, NULL, NULL, &list, e));
    assert_int_equal(list.n, MANY);
    assert_int_equal(list.unread, 1);
    assert_int_equal(list.untried, 0);
    const struct registered_stream *o = &list.v[40];
    assert_true(o->node.n == 0 && o->fault == ERR_UNAVAILABLE && o->why.n > 0);
    assert_int_equal(o->rows_from_ns, 0);
    assert_true(str_is(list.v[41].node, "n"));
    registered_release(&list);
}

static void a_read_that_finds_nothing_is_believed_if_a_list_lacks_it_too(void **state)
{
    (void)state;
    struct registered list;
    char ulid[ULID_TEXT];
    put_many();
    play(end_of(ulid, MANY - 1));
    trick.vanishes = trick.comes_back = true;
    assert_ok(registered_read(store, &r, NULL, NULL, &list, e));
    assert_int_equal(list.n, MANY);
    assert_int_equal(list.unread, 1);
    assert_int_equal(list.v[MANY - 1].fault, ERR_UNAVAILABLE);
    assert_true(list.v[MANY - 1].why.n > 0);
    registered_release(&list);
    trick.comes_back = false;
    assert_ok(registered_read(store, &r, NULL, NULL, &list, e));
    assert_int_equal(list.n, MANY - 1);
    assert_int_equal(list.unread, 0);
    registered_release(&list);
}

static void damage_on_the_way_is_found(void **state)
{
    (void)state;
    struct registered list;
    struct registered_stream a = of("ingester-1", 2);
    put(&a, false);
    char *names = memstore_names(store, "v1/streams/");
    names[strcspn(names, "\n")] = '\0';
    size_t n = memstore_bytes(store, names).n;
    for (size_t at = 0; at < n; at++) {
        memstore_flip(store, names, at, at % 8);
        assert_ok(registered_read(store, &r, NULL, NULL, &list, e));
        assert_int_equal(list.n, 1);
        if (list.unread == 0) {  // its sum may have become an unknown field, and no more than that
            assert_true(str_is(list.v[0].node, "ingester-1"));
            assert_true(id128_eq(list.v[0].boot, a.boot) && list.v[0].made_ns == a.made_ns);
            assert_true(id128_eq(list.v[0].directory, a.directory));
        }
        registered_release(&list);
        memstore_flip(store, names, at, at % 8);
    }
    free(names);
}

static void a_registration_of_an_earlier_program_has_no_sum(void **state)
{
    (void)state;
    struct registered list;
    memstore_set(store, "v1/streams/01HZXW4T8Q2J5K7M9NPRSTVWXY",
                 S("\x08\x01\x12\x03"
                   "old\x22\x05"
                   "h:123"));
    assert_ok(registered_read(store, &r, NULL, NULL, &list, e));
    assert_int_equal(list.n, 1);
    assert_true(str_is(list.v[0].node, "old") && str_is(list.v[0].address, "h:123"));
    registered_release(&list);
}

// ---- a removal that something on the way answered

static void a_removal_without_effect_is_not_believed(void **state)
{
    (void)state;
    struct registered_stream a = of("a", 1);
    err why = {0};
    put(&a, false);
    memstore_fail(store, MEMSTORE_DELETE, MEMSTORE_PRETENDS, 1, 1);
    assert_false(stream_unregister(store, &r, a.stream, &why));
    assert_int_equal(why.code, ERR_UNAVAILABLE);
    assert_ok(stream_unregister(store, &r, a.stream, e));
    assert_int_equal(memstore_count(store, "v1/streams/"), 0);
}

// ---- what a process knows

static void what_was_read_is_kept_when_time_is_over(void **state)
{
    (void)state;
    struct req short_one;
    struct registered list;
    struct registry *g = registry_new(store, NULL, "test");
    char ulid[ULID_TEXT];
    put_many();
    req_init(&short_one, RANK_DUTY, NULL, 1 << 22, 0);
    play(end_of(ulid, MANY / 2));
    trick.cancels = true;
    memstore_reset_totals(store);
    assert_ok(registry_read(g, &short_one, NULL, &list, e));
    assert_int_equal(list.n, MANY);
    assert_in_range(list.untried, MANY / 4, MANY / 2 + 1);
    assert_int_equal(list.untried, list.unread);
    assert_int_equal(registry_tell(g).unread, list.unread);
    registered_release(&list);
    req_release(&short_one);
    memstore_set_hooks(store, NULL, NULL, NULL);
    memstore_reset_totals(store);
    assert_ok(registry_read(g, &r, NULL, &list, e));
    assert_int_equal(list.unread, 0);
    assert_in_range(memstore_totals(store).ops[MEMSTORE_READ], MANY / 4, MANY / 2 + AT_LEAST);
    registered_release(&list);
    // From now on a LIST is enough.
    memstore_reset_totals(store);
    assert_ok(registry_read(g, &r, NULL, &list, e));
    registered_release(&list);
    assert_int_equal(memstore_totals(store).ops[MEMSTORE_READ], 0);
    assert_int_equal(registry_tell(g).streams, MANY);
    assert_int_equal(registry_tell(g).unread, 0);
    registry_free(g);
}

static void one_that_fails_rests_before_it_is_read_again(void **state)
{
    (void)state;
#ifndef FT_FAULTS
    skip();
#endif
    struct registered list;
    struct registry *g = registry_new(store, NULL, "test");
    char ulid[ULID_TEXT];
    put_many();
    play(end_of(ulid, 7));
    trick.fault = MEMSTORE_FAILS;
    for (int i = 0; i < 3; i++) {
        assert_ok(registry_read(g, &r, NULL, &list, e));
        assert_int_equal(list.unread, 1);
        registered_release(&list);
    }
    assert_int_equal(trick.reads, 1);
    clock_pass_mono(2 * NS_PER_S);
    assert_ok(registry_read(g, &r, NULL, &list, e));
    registered_release(&list);
    assert_int_equal(trick.reads, 2);
    trick.fault = MEMSTORE_FINE;
    clock_pass_mono(2 * NS_PER_S);
    assert_ok(registry_read(g, &r, NULL, &list, e));
    assert_int_equal(list.unread, 0);
    registered_release(&list);
    registry_free(g);
}

static void what_is_gone_is_forgotten(void **state)
{
    (void)state;
    struct registered list;
    struct registry *g = registry_new(store, NULL, "test");
    struct registered_stream a = of("a", 1);
    put(&a, false);
    assert_ok(registry_read(g, &r, NULL, &list, e));
    registered_release(&list);
    assert_ok(stream_unregister(store, &r, a.stream, e));
    assert_ok(registry_read(g, &r, NULL, &list, e));
    assert_int_equal(list.n, 0);
    registered_release(&list);
    a.address = S("10.0.0.2:4041");
    put(&a, false);
    assert_ok(registry_read(g, &r, NULL, &list, e));
    assert_true(str_is(list.v[0].address, "10.0.0.2:4041"));
    registered_release(&list);
    registry_free(g);
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
        assert_int_equal(list.v[i].fault, ERR_DATA_LOSS);
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
    put(&a, false);
    put(&b, false);
    memstore_fail(store, MEMSTORE_READ, MEMSTORE_FORGETS, 1, 1);
    assert_ok(registered_read(store, &r, NULL, NULL, &list, e));
    assert_int_equal(list.n, 2);
    registered_release(&list);
    memstore_fail(store, MEMSTORE_READ, MEMSTORE_FORGETS, 2, UINT64_MAX);
    assert_ok(registered_read(store, &r, NULL, NULL, &list, e));
    assert_int_equal(list.n, 2);
    assert_true(list.unread > 0);
    registered_release(&list);
    memstore_heal(store);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(what_is_registered_is_listed_until_it_is_taken_back),
        CASE(an_object_is_read_once),
        CASE(they_are_read_many_at_once),
        CASE(one_that_cannot_be_read_is_named_and_stops_nobody),
        CASE(a_read_that_finds_nothing_is_believed_if_a_list_lacks_it_too),
        CASE(damage_on_the_way_is_found),
        CASE(a_registration_of_an_earlier_program_has_no_sum),
        CASE(a_removal_without_effect_is_not_believed),
        CASE(what_was_read_is_kept_when_time_is_over),
        CASE(one_that_fails_rests_before_it_is_read_again),
        CASE(what_is_gone_is_forgotten),
        CASE(what_cannot_be_decoded_counts_and_foreign_names_do_not),
        CASE(a_store_that_fails_is_told),
        CASE(a_stream_is_left_out_only_if_its_registration_is_gone),
    };
    clock_take_over();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
