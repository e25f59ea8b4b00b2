// SPDX-License-Identifier: Apache-2.0
//
// The list of registered streams that queries share.
#include "lib/clock.h"
#include "lib/dir.h"
#include "lib/memstore.h"
#include "lib/test.h"
#include "querier/head/streams.h"
#include "sys/clock.h"
#include "sys/thread.h"

#include <stdlib.h>

#define THREADS 6

static struct store *store;
static struct mem_budget memory;
static struct streams *streams;
static struct req r;

static int set_up(void **state)
{
    (void)state;
    store = memstore_open();
    mem_budget_init(&memory, "test", NULL, 0);
    streams = streams_new(store, &memory);
    req_init(&r, RANK_PUBLIC, &memory, 1 << 22, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    req_release(&r);
    streams_free(streams);
    store_close(store);
    return (int)atomic_load(&memory.used);
}

static id128 of(uint8_t n)
{
    return (id128){{n}};
}

static void enroll(uint8_t n, const char *node, const char *address, uint8_t directory)
{
    bool existed = false;
    const struct registered_stream s = {.stream = of(n),
                                        .node = str_of(node),
                                        .address = str_of(address),
                                        .directory = {{directory}}};
    assert_ok(stream_register(store, &r, &s, &existed, e));
}

static const struct registered *take(uint64_t not_before)
{
    const struct registered *list = NULL;
    assert_ok(streams_take(streams, &r, not_before, &list, e));
    return list;
}

// A stream of the newest list is missed; `waits` says whether a query should wait for it.
static bool waits;

static int64_t missed(uint8_t n, int64_t now)
{
    const struct registered *list = take(0);
    const struct registered_stream *o = registered_find(list, of(n));
    const struct registered_stream gone = {.stream = of(n)};
    return streams_miss(streams, list, o ? o : &gone, now, &waits);
}

static bool is(void *arg, id128 stream)
{
    return id128_eq(stream, *(const id128 *)arg);
}

static void a_list_that_is_new_enough_is_shared(void **state)
{
    (void)state;
    enroll(1, "a", "h:1", 1);
    const struct registered *first = take(0);
    assert_int_equal(first->n, 1);
    enroll(2, "b", "h:2", 2);
    assert_ptr_equal(take(0), first);
    uint64_t now = clock_mono_ns();
    const struct registered *second = take(now);
    assert_int_equal(second->n, 2);
    assert_int_equal(first->n, 1);  // who has it keeps it
    assert_true(str_is(first->v[0].node, "a"));
    assert_ptr_equal(take(now), second);
    enroll(3, "c", "h:3", 3);
    clock_pass(NS_PER_S);  // the machine was suspended
    assert_int_equal(take(now)->n, 3);
}

static void a_store_that_fails_is_told_and_asked_again(void **state)
{
    (void)state;
    const struct registered *list = NULL;
    err why = {0};
    enroll(1, "a", "h:1", 1);
    memstore_fail(store, MEMSTORE_LIST, MEMSTORE_FAILS, 1, 1);
    assert_false(streams_take(streams, &r, 0, &list, &why));
    assert_int_equal(why.code, ERR_UNAVAILABLE);
    assert_int_equal(take(0)->n, 1);
}

static void nodes_have_their_newest_address(void **state)
{
    (void)state;
    struct stream_node *v = NULL;
    size_t n = 9;
    assert_ok(streams_nodes(streams, &r.arena, &v, &n, e));
    assert_int_equal(n, 0);
    enroll(1, "a", "h:1", 1);
    enroll(2, "a", "h:2", 1);
    enroll(3, "b", "h:3", 2);
    enroll(4, "c", "", 3);
    (void)take(0);
    assert_ok(streams_nodes(streams, &r.arena, &v, &n, e));
    assert_int_equal(n, 2);
    assert_true(str_is(v[0].node, "b") && str_is(v[0].address, "h:3") && !v[0].waited);
    assert_true(str_is(v[1].node, "a") && str_is(v[1].address, "h:2"));
    (void)missed(3, 5);
    streams_waited(streams, of(3));
    assert_ok(streams_nodes(streams, &r.arena, &v, &n, e));
    assert_true(v[0].waited && !v[1].waited);
}

static void what_was_missed_once_is_known(void **state)
{
    (void)state;
    for (uint8_t i = 1; i <= 3; i++)
        enroll(i, "a", "h:1", 1);
    (void)take(0);
    assert_int_equal(missed(1, 10), 10);
    assert_true(waits);
    assert_int_equal(missed(2, 20), 20);
    streams_waited(streams, of(1));
    streams_waited(streams, of(9));
    assert_int_equal(missed(1, 40), 10);
    assert_false(waits);
    assert_int_equal(missed(2, 40), 20);
    assert_true(waits);
    assert_int_equal(missed(2, 15), 15);  // the clock was set back
    streams_answered(streams, take(0), is, &(id128){{1}});
    assert_int_equal(missed(1, 50), 50);
    assert_true(waits);
    assert_int_equal(missed(2, 50), 20);
    // It is gone, and nothing has to be known of it.
    assert_ok(stream_unregister(store, &r, of(2), e));
    (void)take(clock_mono_ns());
    assert_int_equal(missed(2, 60), 60);
}

static void what_nobody_answers_for_long_is_lost(void **state)
{
    (void)state;
    streams_lose_after(streams, 100);
    for (uint8_t i = 1; i <= 3; i++)
        enroll(i, "a", "h:1", 1);
    (void)take(0);
    (void)missed(1, 1000);
    (void)missed(1, 1099);
    assert_true(waits);
    assert_int_equal(missed(1, 1100), 1000);
    assert_false(waits);
    (void)missed(1, 1099);  // the clock was set back
    assert_true(waits);
    (void)missed(1, 1200);
    streams_answered(streams, take(0), is, &(id128){{1}});
    (void)take(clock_mono_ns());
    assert_int_equal(missed(1, 1300), 1300);
    assert_true(waits);
}

static void start_anew(const char *path)
{
    req_release(&r);
    streams_free(streams);
    streams = streams_new(store, &memory);
    streams_keep_in(streams, path);
    req_init(&r, RANK_PUBLIC, &memory, 1 << 22, 0);
}

static void since_when_it_is_missed_outlives_the_process(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    char path[DIR_PATH_MAX];
    int64_t hour = 3600 * NS_PER_S;
    int64_t now = clock_wall_ns() / NS_PER_MS * NS_PER_MS;
    dir_new(dir);
    dir_path(path, dir, "cache/missed_streams");
    enroll(1, "a", "h:1", 1);
    enroll(2, "a", "h:1", 1);
    streams_keep_in(streams, path);
    (void)take(0);
    assert_int_equal(missed(1, now - 2 * hour), now - 2 * hour);
    (void)missed(2, now - hour / 2);
    streams_waited(streams, of(2));
    streams_keep(streams);
    for (int i = 0; i < 2; i++) {
        start_anew(path);
        streams_lose_after(streams, hour);
        (void)take(0);
        assert_int_equal(missed(1, now), now - 2 * hour);
        assert_false(waits);
        assert_int_equal(missed(2, now), now - hour / 2);
        assert_true(waits);  // this process has not waited for it yet
    }
    // A stream that is answered leaves the file as well.
    streams_answered(streams, take(0), is, &(id128){{1}});
    start_anew(path);
    (void)take(0);
    assert_int_equal(missed(1, now), now);
    assert_int_equal(missed(2, now), now - hour / 2);
    streams_keep(streams);
    dir_remove(dir);
}

static void *ask(void *arg)
{
    for (int i = 0; i < 50; i++) {
        struct req own;
        const struct registered *list = NULL;
        err ignored = {0};
        req_init(&own, RANK_PUBLIC, &memory, 1 << 22, 0);
        if (!streams_take(streams, &own, clock_mono_ns(), &list, &ignored) || list->n != 1) abort();
        req_release(&own);
    }
    return arg;
}

static void many_ask_at_once(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    enroll(1, "a", "h:1", 1);
    for (int i = 0; i < THREADS; i++)
        assert_ok(thread_start(&threads[i], "test.ask", ask, NULL, e));
    for (int i = 0; i < THREADS; i++)
        thread_join(threads[i]);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_list_that_is_new_enough_is_shared),
        CASE(a_store_that_fails_is_told_and_asked_again),
        CASE(nodes_have_their_newest_address),
        CASE(what_was_missed_once_is_known),
        CASE(what_nobody_answers_for_long_is_lost),
        CASE(since_when_it_is_missed_outlives_the_process),
        CASE(many_ask_at_once),
    };
    clock_take_over();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
