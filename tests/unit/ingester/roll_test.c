// SPDX-License-Identifier: Apache-2.0
//
// The sequence of objects of a data directory: the next number comes only once all is flushed that
// was in the log before. On a real ingester.
#include "ingester/flush/flush.h"
#include "ingester/roll.h"
#include "lib/memstore.h"
#include "sys/clock.h"
#include "whole.h"

#include <stdio.h>

#define INTERVAL (60 * NS_PER_S)

static struct store *store;
static struct req r;
static struct whole whole;
static char dir[DIR_MAX];
static struct roll sequence;
static const struct holding own = {.node = {"n", 1}, .directory = {{1}}, .boot = {{2}}};

static int set_up(void **state)
{
    (void)state;
    store = memstore_open();
    req_init(&r, RANK_DUTY, NULL, 1 << 22, 0);
    dir_new(dir);
    whole_start_with(&whole, dir, "--ingester.cut_age=1h", store);
    whole_await(&whole);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    roll_release(&sequence);
    whole_stop(&whole);
    dir_remove(dir);
    req_release(&r);
    store_close(store);
    return 0;
}

static void push(uint64_t seed)
{
    struct dice d = {seed};
    struct fact f = fact_roll(&d, clock_wall_ns() - NS_PER_S, NS_PER_S);
    assert_ok(whole_push(&whole, &f, 1, e));
}

static void flush(void)
{
    struct flush_totals done = {0};
    assert_ok(flush_now(whole.in->flush, &r, true, &done, e));
    AWAIT(wal_count(whole.in->wal).bytes == 0);
}

static bool is_due(int64_t at)
{
    return roll_is_due(&sequence, whole.in->wal, at * NS_PER_S, INTERVAL);
}

static void what_the_log_holds_holds_it_back(void **state)
{
    (void)state;
    assert_false(is_due(1000));  // nobody knows a number yet
    roll_noted(&sequence, 1, 0);
    assert_false(is_due(59));
    push(1);
    assert_false(is_due(60));
    push(2);
    assert_false(is_due(61));
    flush();
    push(3);  // after the marks
    assert_true(is_due(62));
    roll_noted(&sequence, 2, 62 * NS_PER_S);
    roll_noted(&sequence, 2, 90 * NS_PER_S);  // a LIST shows it again
    assert_false(is_due(121));
    assert_false(is_due(122));
    flush();
    assert_true(is_due(123));
}

static void what_comes_within_the_interval_is_waited_for_too(void **state)
{
    (void)state;
    roll_noted(&sequence, 1, 0);
    assert_false(is_due(10));
    push(1);
    assert_false(is_due(60));
    flush();
    assert_true(is_due(60));
}

static void an_idle_ingester_goes_on(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 5; n++) {
        roll_noted(&sequence, n, 0);
        assert_false(is_due(1));
        assert_true(is_due(60));
    }
}

static void what_a_start_finds_in_the_log_holds_it_back(void **state)
{
    (void)state;
    memstore_fail(store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, UINT64_MAX);
    push(1);
    ingester.drain(whole.in, 0);
    ingester.stop(whole.in);
    config_free(whole.config);
    whole_start_with(&whole, dir, "--ingester.cut_age=1h", store);
    roll_noted(&sequence, 7, 0);
    assert_false(is_due(100));  // maybe even before the log is read
    whole_await(&whole);
    assert_false(is_due(101));
    memstore_heal(store);
    flush();
    assert_true(is_due(102));
}

static void a_step_creates_the_next_and_keeps_two(void **state)
{
    (void)state;
    struct holding_at *v = NULL;
    size_t n = 0;
    bool existed = false;
    struct holding first = own;
    first.number = 1;
    assert_ok(holding_create(store, &r, &first, &existed, e));
    roll_noted(&sequence, 1, 0);
    for (uint64_t k = 2; k < 6; k++) {
        assert_ok(roll_step(&sequence, whole.in->wal, store, &r, &own, 0, e));
        assert_ok(holdings_inspect(store, &r, &r.arena, &v, &n, e));
        assert_int_equal(v[0].number, k);
        assert_int_equal(memstore_count(store, "v1/nodes/"), 2);
    }
    // What landed though it was told to have failed is the next number all the same.
    memstore_fail(store, MEMSTORE_CREATE, MEMSTORE_LANDS, 1, 1);
    err why = {0};
    assert_false(roll_step(&sequence, whole.in->wal, store, &r, &own, 0, &why));
    assert_int_equal(sequence.number, 5);
    assert_ok(roll_step(&sequence, whole.in->wal, store, &r, &own, 0, e));
    assert_int_equal(sequence.number, 6);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(what_the_log_holds_holds_it_back),
        CASE(what_comes_within_the_interval_is_waited_for_too),
        CASE(an_idle_ingester_goes_on),
        CASE(what_a_start_finds_in_the_log_holds_it_back),
        CASE(a_step_creates_the_next_and_keeps_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
