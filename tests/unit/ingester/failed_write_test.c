// SPDX-License-Identifier: Apache-2.0
//
// A write to the log fails, and its entry is on disk all the same. Until the log was read again
// nobody knows what the cut has, so it is neither flushed nor dropped; whoever repeats the push is
// told that it is known, and every answer has its rows.
#include "base/fault.h"
#include "flush_world.h"
#include "lib/clock.h"
#include "sys/thread.h"

#include <errno.h>

// ---- a log whose third write fails

static struct {
    struct world *x;
    _Atomic unsigned writes;
    _Atomic unsigned recoveries;
    bool tries_flush;   // the log takes its time to open, and the flush thread is woken meanwhile
    bool stays_closed;  // the log never opens again
} faulty;

static _Atomic bool recovery_waits;

#define FLUSH_TRIES 300  // milliseconds, each with a wake

static bool fail_third(const char *name)
{
    if (strcmp(name, "wal.sync.after") == 0 && atomic_fetch_add(&faulty.writes, 1) + 1 == 3) {
        errno = EIO;
        return true;
    }
    if (strcmp(name, "wal.open") == 0 && faulty.stays_closed) {
        errno = EIO;
        return true;
    }
    if (strcmp(name, "wal.recover") != 0) return false;
    atomic_fetch_add(&faulty.recoveries, 1);
    AWAIT(!atomic_load(&recovery_waits));
    for (size_t i = 0; faulty.tries_flush && i < FLUSH_TRIES; i++) {
        flush_wake(faulty.x->w.in->flush);
        usleep(1000);
    }
    return false;
}

static void faulty_start(struct world *x, uint64_t seed, bool tries_flush)
{
#ifndef FT_FAULTS
    skip();
#endif
    world_start(x, seed, "");
    faulty.x = x;
    faulty.tries_flush = tries_flush;
    faulty.stays_closed = false;
    atomic_store(&faulty.writes, 0);
    atomic_store(&faulty.recoveries, 0);
    fault_on(fail_third);
}

static void faulty_end(struct world *x)
{
    fault_on(NULL);
    assert_int_equal(atomic_load(&faulty.recoveries), 1);
    world_end(x);
}

// ---- a push that can be repeated

struct repeatable {
    struct arena arena;
    struct batch batch;
    str tenant;
    str bytes;
};

static void repeatable_make(struct repeatable *p, struct world *x)
{
    arena_init(&p->arena, NULL, SIZE_MAX);
    struct fact f = fact_roll(&x->dice, clock_wall_ns() - 1, 1);
    f.tenant = 0;
    f.service = 0;
    p->tenant = str_of(fact_tenants[f.tenant]);
    p->bytes = rich_batch(&p->arena, &x->dice, &f, 1, &p->batch);
}

static void repeatable_until_taken(struct repeatable *p, struct world *x)
{
    err e = {0};
    AWAIT(push_bytes(x, p->tenant, p->bytes, &e) || e.code != ERR_UNAVAILABLE);
    if (e.code != ERR_OK && e.code != ERR_UNAVAILABLE) fail_msg("%s", e.msg);
    lines_of_batch(&x->want[0], p->tenant, &p->batch);
    x->rows += p->batch.record_count;
}

static void two_pushes(struct world *x)
{
    for (int i = 0; i < 2; i++) {
        struct repeatable p;
        repeatable_make(&p, x);
        repeatable_until_taken(&p, x);
        arena_release(&p.arena);
    }
}

static void *flush_once(void *arg)
{
    struct flush_totals done = {0};
    assert_ok(flush(arg, &done, e));
    return NULL;
}

// ---- tests

// What goes wrong of the creations meanwhile: nothing; all of them, so that the pieces are found
// out and not written.
static void a_cut_is_not_flushed_before_its_log_was_read_again(void **state)
{
    (void)state;
    for (unsigned store_fails = 0; store_fails < 2; store_fails++) {
        struct world x;
        struct repeatable third;
        struct flush_totals done = {0};
        pthread_t flusher;
        err fault = {0};
        faulty_start(&x, 11 + store_fails, true);
        two_pushes(&x);
        repeatable_make(&third, &x);
        if (store_fails) memstore_fail(x.store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, UINT64_MAX);
        assert_false(push_bytes(&x, third.tenant, third.bytes, &fault));
        assert_int_equal(fault.code, ERR_UNAVAILABLE);
        if (!store_fails) assert_ok(thread_start(&flusher, "flusher", flush_once, &x, e));
        AWAIT(atomic_load(&faulty.recoveries) == 1);
        repeatable_until_taken(&third, &x);
        check(&x);
        memstore_heal(x.store);
        if (!store_fails) thread_join(flusher);
        check(&x);
        assert_ok(flush(&x, &done, e));
        check(&x);
        AWAIT(rows_held(&x) == 0);
        check(&x);
        restart(&x);
        check(&x);
        arena_release(&third.arena);
        faulty_end(&x);
    }
}

// Without waiting there is nothing to say yet: which rows the cut has is not known.
static void a_flush_says_that_the_log_is_opened_again(void **state)
{
    (void)state;
    struct world x;
    struct repeatable third;
    struct flush_totals done = {0};
    struct req r;
    err fault = {0};
    faulty_start(&x, 21, false);
    atomic_store(&recovery_waits, true);
    two_pushes(&x);
    repeatable_make(&third, &x);
    assert_false(push_bytes(&x, third.tenant, third.bytes, &fault));
    req_init(&r, RANK_PUBLIC, &x.w.memory, SIZE_MAX, (uint64_t)(60 * NS_PER_S));
    assert_false(flush_now(x.w.in->flush, &r, false, &done, &fault));
    assert_int_equal(fault.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(fault.msg, "opened again"));
    atomic_store(&recovery_waits, false);
    // Who waits gets all that was acknowledged before.
    assert_ok(flush_now(x.w.in->flush, &r, true, &done, e));
    assert_true(done.rows >= x.rows);
    req_release(&r);
    repeatable_until_taken(&third, &x);
    check(&x);
    arena_release(&third.arena);
    faulty_end(&x);
}

// The flush of an earlier cut begins before the write fails and ends after the log was read again.
struct held {
    _Atomic bool on;
    _Atomic unsigned waiting;
};

static enum memstore_fault hold(void *arg, const struct memstore_event *ev)
{
    struct held *h = arg;
    if (ev->op != MEMSTORE_CREATE || !str_contains(ev->name, S("/live/a/"))) return MEMSTORE_FINE;
    atomic_fetch_add(&h->waiting, 1);
    AWAIT(!atomic_load(&h->on));
    return MEMSTORE_FINE;
}

static void a_flush_under_way_when_the_write_fails_ends_well(void **state)
{
    (void)state;
    struct world x;
    struct repeatable third;
    struct held h = {.on = true};
    pthread_t flusher;
    struct flush_totals done = {0};
    err fault = {0};
    faulty_start(&x, 31, false);
    memstore_set_hooks(x.store, hold, NULL, &h);
    two_pushes(&x);
    assert_ok(thread_start(&flusher, "flusher", flush_once, &x, e));
    AWAIT(atomic_load(&h.waiting) > 0);
    repeatable_make(&third, &x);
    assert_false(push_bytes(&x, third.tenant, third.bytes, &fault));
    repeatable_until_taken(&third, &x);
    check(&x);
    atomic_store(&h.on, false);
    thread_join(flusher);
    check(&x);
    assert_ok(flush(&x, &done, e));
    AWAIT(rows_held(&x) == 0);
    check(&x);
    arena_release(&third.arena);
    faulty_end(&x);
}

// The process ends before the log could be opened again: what is in doubt stays in the log.
static void what_is_in_doubt_at_the_end_stays_in_the_log(void **state)
{
    (void)state;
    struct world x;
    struct repeatable third;
    err fault = {0};
    faulty_start(&x, 41, true);
    faulty.stays_closed = true;
    two_pushes(&x);
    repeatable_make(&third, &x);
    assert_false(push_bytes(&x, third.tenant, third.bytes, &fault));
    AWAIT(atomic_load(&faulty.recoveries) == 1);
    ingester.drain(x.w.in, clock_mono_ns() + (uint64_t)(60 * NS_PER_S));
    assert_int_equal(segments(&x), 0);
    whole_stop(&x.w);
    fault_on(NULL);
    start(&x);
    repeatable_until_taken(&third, &x);
    check(&x);
    struct flush_totals done = {0};
    assert_ok(flush(&x, &done, e));
    check(&x);
    arena_release(&third.arena);
    world_end(&x);
}

// ---- the directory of the log is gone when it is opened again

enum gone {
    REMOVED,    // there is no directory
    UNMOUNTED,  // an empty one is in its place
    REPLACED,   // another log is in its place
    GONES
};

static void make_other_log(const char *dir)
{
    struct wal_options o = {.dir = dir,
                            .owner = "ingester-1",
                            .buffers = 4 << 20,
                            .cut_bytes = 1 << 20,
                            .cut_age_ns = HOUR,
                            .keep_ns = HOUR};
    struct wal_place place;
    struct wal_item item = {.rows = S("x"), .count = 1};
    struct wal *other = wal_open(&o, &(err){0});
    assert_non_null(other);
    assert_ok(wal_begin(other, e));
    assert_ok(wal_append(other, S("t"), &item, 1, &place, e));
    wal_unpin(other, place.cut);
    wal_drain(other);
    wal_close(other);
}

static bool says_not_ready(struct world *x, const char *words)
{
    struct buf why;
    buf_init(&why, NULL, 4096);
    bool says = !ingester.ready(x->w.in, &why) && str_contains(buf_view(&why), str_of(words));
    buf_release(&why);
    return says;
}

static void a_log_that_vanished_is_waited_for_and_memory_answers(void **state)
{
    (void)state;
    for (unsigned how = 0; how < GONES; how++) {
        struct world x;
        struct repeatable third;
        struct flush_totals done = {0};
        char other[DIR_MAX];
        char log[DIR_PATH_MAX];
        char aside[DIR_PATH_MAX];
        char file[DIR_PATH_MAX + 20];
        err fault = {0};
        dir_new(other);
        if (how == REPLACED) make_other_log(other);
        faulty_start(&x, 51 + how, false);
        dir_path(log, x.dir, "ingester/log");
        dir_path(aside, x.dir, "ingester/aside");
        two_pushes(&x);
        assert_int_equal(rename(log, aside), 0);
        if (how != REMOVED) assert_int_equal(rename(other, log), 0);
        repeatable_make(&third, &x);
        // The room of the disk is known for a while. Later the directory itself is missed.
        if (how == REMOVED) clock_pass_mono(NS_PER_S);
        assert_false(push_bytes(&x, third.tenant, third.bytes, &fault));
        AWAIT(atomic_load(&faulty.recoveries) > 1);
        AWAIT(says_not_ready(&x, "this process wrote"));
        check(&x);
        assert_false(push_bytes(&x, third.tenant, third.bytes, &fault));
        assert_int_equal(fault.code, ERR_UNAVAILABLE);
        assert_non_null(strstr(fault.msg, "this process wrote"));
        snprintf(file, sizeof file, "%s/CURRENT", log);
        assert_int_equal(access(file, F_OK) == 0, how == REPLACED);  // nothing was made there
        // Between two tries: no disk changes while a database on it is being opened.
        unsigned tries = atomic_load(&faulty.recoveries);
        atomic_store(&recovery_waits, true);
        AWAIT(atomic_load(&faulty.recoveries) > tries);
        if (how == UNMOUNTED) dir_remove(log);
        if (how == REPLACED) assert_int_equal(rename(log, other), 0);
        assert_int_equal(rename(aside, log), 0);
        atomic_store(&recovery_waits, false);
        whole_await(&x.w);
        repeatable_until_taken(&third, &x);
        check(&x);
        assert_ok(flush(&x, &done, e));
        AWAIT(rows_held(&x) == 0);
        check(&x);
        restart(&x);
        check(&x);
        arena_release(&third.arena);
        fault_on(NULL);
        world_end(&x);
        if (how != UNMOUNTED) dir_remove(other);
    }
}

int main(void)
{
    clock_take_over();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_is_not_flushed_before_its_log_was_read_again),
        cmocka_unit_test(a_flush_says_that_the_log_is_opened_again),
        cmocka_unit_test(a_flush_under_way_when_the_write_fails_ends_well),
        cmocka_unit_test(what_is_in_doubt_at_the_end_stays_in_the_log),
        cmocka_unit_test(a_log_that_vanished_is_waited_for_and_memory_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
