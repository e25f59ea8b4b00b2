// SPDX-License-Identifier: Apache-2.0
//
// Appends that wait at one time are written together, and each is rung once.
#include "ingester/log/wal_int.h"
#include "ingester/metrics.h"
#include "sys/clock.h"
#include "sys/thread.h"
#include "whole.h"

#include <sched.h>

#define THREADS 8
#define ROUNDS  5

static int64_t fake_clock(void)
{
    return 1000 * NS_PER_S;
}

static unsigned waiting(struct wal *w)
{
    unsigned n = 0;
    lock_take(&w->lock);
    for (const struct waiter *x = w->first; x; x = x->next)
        n++;
    lock_give(&w->lock);
    return n;
}

struct pusher {
    struct wal *wal;
    struct wal_place place;
};

static void *push_one(void *arg)
{
    struct pusher *p = arg;
    struct wal_item item = {.rows = S("one")};
    assert_ok(wal_append(p->wal, S("t"), &item, 1, &p->place, e));
    wal_unpin(p->wal, p->place.cut);
    return NULL;
}

static void those_who_wait_share_one_write(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    dir_new(dir);
    struct wal_options o = {.dir = dir,
                            .owner = "ingester-0",
                            .buffers = 4 << 20,
                            .cut_bytes = 1 << 20,
                            .cut_age_ns = 600 * NS_PER_S,
                            .keep_ns = 31 * 86400 * NS_PER_S,
                            .wall_ns = fake_clock,
                            .boot_ns = fake_clock};
    static struct pusher pushers[THREADS];
    pthread_t threads[THREADS];
    struct wal *w = NULL;
    assert_ok((w = wal_open(&o, e)) != NULL);
    assert_ok(wal_begin(w, e));
    for (unsigned round = 0; round < ROUNDS; round++) {
        wal_take_lead(w);
        int64_t commits = atomic_load(&ingester_log_commits.cells[0].sum);
        for (unsigned i = 0; i < THREADS; i++) {
            pushers[i] = (struct pusher){.wal = w};
            assert_ok(thread_start(&threads[i], "pusher", push_one, &pushers[i], e));
        }
        while (waiting(w) < THREADS)
            sched_yield();
        wal_give_lead(w);
        uint64_t seen = 0;
        for (unsigned i = 0; i < THREADS; i++) {
            thread_join(threads[i]);
            seen |= UINT64_C(1) << (pushers[i].place.last_seq - 1 - (uint64_t)round * THREADS);
        }
        assert_int_equal(seen, (1u << THREADS) - 1);
        assert_int_equal(atomic_load(&ingester_log_commits.cells[0].sum), commits + 1);
    }
    wal_drain(w);
    wal_close(w);
    dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_who_wait_share_one_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
