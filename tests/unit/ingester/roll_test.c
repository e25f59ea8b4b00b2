// SPDX-License-Identifier: Apache-2.0
//
// Registrations follow the streams of the log. On a real ingester, whose thread of registrations
// the test is itself: the ingester has no identity.
#include "ingester/flush/flush.h"
#include "ingester/roll.h"
#include "lib/memstore.h"
#include "sys/clock.h"
#include "whole.h"

#include <stdio.h>

static struct store *store;
static struct req r;
static struct whole whole;
static char dir[DIR_MAX];
static struct roll rolls;
static struct roll_settings at_once;  // a stream is old at once
static struct roll_settings calm;     // and here never
static const struct registered_stream own = {.node = {"n", 1}, .boot = {{2}}, .directory = {{1}}};

static void begin_with(const char *flags)
{
    whole_start_with(&whole, dir, flags, store);
    whole_await(&whole);
    roll_init(&rolls, whole.in->wal, store, &own);
    whole.in->roll = &rolls;
}

static void begin(void)
{
    begin_with("--ingester.cut_age=1h");
}

static void end(void)
{
    whole_stop(&whole);
    roll_release(&rolls);
}

static int set_up(void **state)
{
    (void)state;
    store = memstore_open();
    req_init(&r, RANK_DUTY, NULL, 1 << 22, 0);
    dir_new(dir);
    at_once = (struct roll_settings){.idle_ns = INT64_MAX,
                                     .rows_age_ns = INT64_C(31) * 86400 * NS_PER_S,
                                     .asked_boot_ns = INT64_MAX};
    calm = at_once;
    calm.stream_age_ns = INT64_MAX;
    begin();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    end();
    dir_remove(dir);
    req_release(&r);
    store_close(store);
    return 0;
}

static bool push(uint64_t seed, err *e)
{
    struct dice d = {seed};
    struct fact f = fact_roll(&d, clock_wall_ns() - NS_PER_S, NS_PER_S);
    return whole_push(&whole, &f, 1, e);
}

static void flush(void)
{
    struct flush_totals done = {0};
    assert_ok(flush_now(whole.in->flush, &r, true, &done, e));
    AWAIT(wal_count(whole.in->wal).bytes == 0);
}

static void step(const struct roll_settings *t)
{
    int64_t soon_ns = 0;
    assert_ok(roll_step(&rolls, &r, t, &soon_ns, e));
}

static size_t names(id128 **v)
{
    size_t n = 0;
    assert_ok(stream_names(store, &r, &r.arena, v, &n, e));
    return n;
}

static bool is_registered(id128 stream)
{
    id128 *v = NULL;
    size_t n = names(&v);
    bool is = false;
    for (size_t i = 0; i < n; i++)
        is = is || id128_eq(v[i], stream);
    return is;
}

static id128 open_stream(void)
{
    struct wal_place place;
    assert_ok(wal_position(whole.in->wal, &place, e));
    return place.stream;
}

static void nothing_is_acknowledged_before_the_stream_is_registered(void **state)
{
    (void)state;
    id128 *v = NULL;
    err why = {0};
    struct roll_settings slow = calm;
    slow.settle_ns = 3600 * NS_PER_S;
    assert_false(push(1, &why));
    assert_int_equal(why.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(why.msg, "not registered"));
    step(&slow);
    assert_int_equal(names(&v), 1);
    assert_true(id128_eq(v[0], open_stream()));
    assert_false(push(1, &why));  // it settles
    assert_false(roll_is_open(&rolls));
    step(&calm);
    assert_true(roll_is_open(&rolls));
    assert_ok(push(1, e));
}

// Who deletes a tenant asks the processes whose streams are registered. So one that registers later
// must know by itself which tenants are closed.
static void nothing_is_acknowledged_before_closed_tenants_were_listed_after_the_registration(
    void **state)
{
    (void)state;
    struct roll_settings t = calm;
    int64_t soon_ns = INT64_MAX;
    err why = {0};
    t.asked_boot_ns = clock_boot_ns();
    step(&t);
    assert_true(is_registered(open_stream()));
    assert_false(roll_is_open(&rolls) || push(1, &why));
    assert_int_equal(why.code, ERR_UNAVAILABLE);
    assert_true(roll_wants_asking(&rolls, t.asked_boot_ns));
    assert_ok(roll_step(&rolls, &r, &t, &soon_ns, e));
    assert_false(roll_is_open(&rolls));
    assert_int_equal(soon_ns, 0);  // it is to be asked at once
    t.asked_boot_ns = clock_boot_ns();
    assert_false(roll_wants_asking(&rolls, t.asked_boot_ns));
    step(&t);
    assert_true(roll_is_open(&rolls));
    assert_ok(push(1, e));
    // The next stream was registered after that list.
    step(&t);
    assert_true(roll_wants_asking(&rolls, t.asked_boot_ns));
    assert_true(roll_is_open(&rolls));  // the one before
}

static void the_next_stream_is_registered_ahead(void **state)
{
    (void)state;
    id128 *v = NULL;
    step(&calm);
    step(&calm);
    assert_int_equal(names(&v), 2);
    assert_true(id128_eq(v[0], open_stream()));
    for (int i = 0; i < 3; i++)
        step(&calm);
    assert_int_equal(names(&v), 2);
    assert_true(id128_eq(v[0], open_stream()));
}

static void an_old_stream_ends_with_its_cut_and_goes_when_it_is_flushed(void **state)
{
    (void)state;
    id128 *v = NULL;
    step(&calm);
    step(&calm);
    step(&calm);
    assert_ok(push(1, e));
    id128 first = open_stream();
    step(&at_once);
    assert_true(id128_eq(open_stream(), first));  // its cut is open
    assert_ok(push(2, e));
    assert_true(id128_eq(open_stream(), first));
    assert_ok(wal_cut_now(whole.in->wal, e));
    assert_ok(push(3, e));
    id128 second = open_stream();
    assert_false(id128_eq(second, first));
    // The flush has the cut of the first stream by now, or will have it.
    step(&calm);
    assert_true(is_registered(second) && roll_is_open(&rolls));
    flush();
    step(&calm);
    assert_false(is_registered(first));
    assert_true(is_registered(second));
    step(&calm);
    assert_int_equal(names(&v), 2);
}

static void a_registration_stays_while_the_log_has_rows_of_the_stream(void **state)
{
    (void)state;
    step(&calm);
    step(&calm);
    step(&calm);
    memstore_fail(store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, UINT64_MAX);
    assert_ok(push(1, e));
    id128 first = open_stream();
    assert_ok(wal_cut_now(whole.in->wal, e));
    int64_t soon_ns = 0;
    err ignored = {0};
    (void)!roll_step(&rolls, &r, &at_once, &soon_ns, &ignored);
    assert_ok(push(2, e));  // in the next stream, which was registered ahead
    assert_false(id128_eq(open_stream(), first));
    for (int i = 0; i < 3; i++)
        (void)!roll_step(&rolls, &r, &at_once, &soon_ns, &ignored);
    assert_true(is_registered(first));
    memstore_heal(store);
    flush();
    for (int i = 0; i < 3; i++)
        step(&calm);
    assert_false(is_registered(first));
}

static void an_idle_ingester_goes_on(void **state)
{
    (void)state;
    id128 *v = NULL;
    step(&at_once);
    for (int i = 0; i < 5; i++) {
        id128 before = open_stream();
        step(&at_once);
        step(&at_once);
        step(&at_once);
        assert_false(id128_eq(open_stream(), before));
        assert_false(is_registered(before));
        assert_in_range(names(&v), 1, 2);
    }
    err why = {0};
    if (!push(1, &why)) fail_msg("%s", why.msg);
}

static void a_start_takes_over_what_it_finds(void **state)
{
    (void)state;
    struct registered list;
    struct registered_stream stray = own;
    bool existed = false;
    stray.stream = (id128){{9}};
    step(&calm);
    step(&calm);
    memstore_fail(store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, UINT64_MAX);
    assert_ok(push(1, e));
    id128 first = open_stream();
    id128 *v = NULL;
    assert_int_equal(names(&v), 2);
    id128 ahead = v[1];
    end();
    begin();
    memstore_heal(store);
    assert_ok(stream_register(store, &r, &stray, &existed, e));
    stray.stream = (id128){{8}};
    stray.directory = (id128){{7}};
    assert_ok(stream_register(store, &r, &stray, &existed, e));
    assert_ok(registered_read(store, &r, NULL, NULL, &list, e));
    assert_ok(roll_saw(&rolls, &list, e));
    registered_release(&list);
    step(&calm);
    assert_false(is_registered(ahead) || is_registered((id128){{9}}));  // they were empty
    assert_true(is_registered((id128){{8}}));                           // of another directory
    flush();
    step(&calm);
    assert_false(is_registered(first));
    // Somebody deleted one that is in use.
    step(&calm);
    assert_true(roll_is_open(&rolls));
    assert_ok(stream_unregister(store, &r, open_stream(), e));
    assert_ok(registered_read(store, &r, NULL, NULL, &list, e));
    assert_ok(roll_saw(&rolls, &list, e));
    registered_release(&list);
    assert_false(roll_is_open(&rolls));
    step(&calm);
    assert_true(roll_is_open(&rolls) && is_registered(open_stream()));
}

// A process leaves a row in a log in the store, and the next one of its directory begins.
static id128 leave_in_store(void)
{
    static const char flags[] =
        "--ingester.cut_age=1h --ingester.log=object --ingester.log_linger=0s";
    end();
    begin_with(flags);
    step(&calm);
    assert_ok(push(1, e));
    id128 stream = open_stream();
    memstore_fail(store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, UINT64_MAX);
    end();
    memstore_heal(store);
    assert_true(is_registered(stream));
    begin_with(flags);
    assert_true(wal_has_stream(whole.in->wal, stream));
    return stream;
}

static void others_cover(id128 stream)
{
    struct registered list;
    assert_ok(stream_unregister(store, &r, stream, e));
    assert_ok(registered_read(store, &r, NULL, NULL, &list, e));
    assert_ok(roll_saw(&rolls, &list, e));
    registered_release(&list);
}

// Its objects are being deleted. Were it registered anew, whoever adopts it would tell them as
// lost.
static void a_stream_in_the_store_that_others_covered_is_not_registered_anew(void **state)
{
    (void)state;
    id128 before = leave_in_store();
    others_cover(before);
    step(&calm);
    assert_false(is_registered(before));
    assert_true(roll_is_open(&rolls));
    id128 after = leave_in_store();
    step(&calm);
    assert_true(is_registered(after));
    others_cover(after);
    step(&calm);
    assert_false(is_registered(after));
    flush();
    step(&calm);
    assert_false(is_registered(before) || is_registered(after));
}

static void a_registration_that_landed_though_it_failed_counts(void **state)
{
    (void)state;
    int64_t soon_ns = 0;
    err why = {0};
    memstore_fail(store, MEMSTORE_CREATE, MEMSTORE_LANDS, 1, 1);
    assert_false(roll_step(&rolls, &r, &calm, &soon_ns, &why));
    assert_false(roll_is_open(&rolls));
    step(&calm);
    assert_true(roll_is_open(&rolls));
}

static void an_end_leaves_what_has_rows(void **state)
{
    (void)state;
    id128 *v = NULL;
    step(&calm);
    step(&calm);
    memstore_fail(store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, UINT64_MAX);
    assert_ok(push(1, e));
    id128 first = open_stream();
    ingester.drain(whole.in, 0);
    assert_ok(roll_end(&rolls, &r, e));
    assert_int_equal(names(&v), 1);
    assert_true(id128_eq(v[0], first));
    memstore_heal(store);
}

static void it_promises_the_age_that_all_its_streams_keep(void **state)
{
    (void)state;
    struct registered list;
    struct roll_settings longer = calm;
    assert_int_equal(roll_rows_age(&rolls), INT64_MAX);
    step(&calm);
    longer.rows_age_ns *= 2;
    step(&longer);
    step(&longer);
    assert_int_equal(roll_rows_age(&rolls), calm.rows_age_ns);
    assert_ok(registered_read(store, &r, NULL, NULL, &list, e));
    assert_int_equal(list.n, 2);
    assert_true(list.v[0].rows_from_ns > list.v[1].rows_from_ns);
    assert_true(list.v[0].rows_from_ns < clock_wall_ns() - calm.rows_age_ns);
    registered_release(&list);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(nothing_is_acknowledged_before_the_stream_is_registered),
        CASE(nothing_is_acknowledged_before_closed_tenants_were_listed_after_the_registration),
        CASE(the_next_stream_is_registered_ahead),
        CASE(an_old_stream_ends_with_its_cut_and_goes_when_it_is_flushed),
        CASE(a_registration_stays_while_the_log_has_rows_of_the_stream),
        CASE(an_idle_ingester_goes_on),
        CASE(a_start_takes_over_what_it_finds),
        CASE(a_stream_in_the_store_that_others_covered_is_not_registered_anew),
        CASE(a_registration_that_landed_though_it_failed_counts),
        CASE(an_end_leaves_what_has_rows),
        CASE(it_promises_the_age_that_all_its_streams_keep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
