// SPDX-License-Identifier: Apache-2.0
//
// Two equal pushes at once, a cut that ends between them, and a start: the row is in the log once,
// so it counts once when one cut has left for the store and the other has not.
#include "base/fault.h"
#include "flush_world.h"
#include "sys/thread.h"

// ---- pushes that stand still between staging and log

static struct {
    _Atomic unsigned came;
    _Atomic unsigned may_go;
} gate;

static bool stand_still(const char *name)
{
    if (strcmp(name, "append.log.before") != 0) return false;
    unsigned number = atomic_fetch_add(&gate.came, 1) + 1;
    AWAIT(number <= atomic_load(&gate.may_go));
    return false;
}

struct twin {
    struct world *x;
    str tenant;
    str bytes;
    _Atomic bool done;
};

static void *push_twin(void *arg)
{
    struct twin *t = arg;
    assert_ok(push_bytes(t->x, t->tenant, t->bytes, e));
    atomic_store(&t->done, true);
    return NULL;
}

// The second one gets so far as it can: to the log, or to where it waits for the first.
#define SETTLES 300  // milliseconds

static void two_equal_pushes_across_a_border_count_once_after_a_start(void **state)
{
    (void)state;
#ifndef FT_FAULTS
    skip();
#endif
    struct world x;
    struct arena a;
    struct batch b;
    struct flush_totals done = {0};
    pthread_t threads[2];
    world_start(&x, 51, "");
    arena_init(&a, NULL, SIZE_MAX);
    struct fact f = fact_roll(&x.dice, clock_wall_ns() - 1, 1);
    struct twin twins[2];
    for (int i = 0; i < 2; i++)
        twins[i] = (struct twin){.x = &x, .tenant = str_of(fact_tenants[f.tenant])};
    twins[0].bytes = rich_batch(&a, &x.dice, &f, 1, &b);
    twins[1].bytes = twins[0].bytes;
    lines_of_batch(&x.want[f.tenant], twins[0].tenant, &b);
    fault_on(stand_still);
    assert_ok(thread_start(&threads[0], "twin", push_twin, &twins[0], e));
    AWAIT(atomic_load(&gate.came) == 1);
    assert_ok(thread_start(&threads[1], "twin", push_twin, &twins[1], e));
    for (int i = 0; i < SETTLES && atomic_load(&gate.came) < 2; i++)
        usleep(1000);
    atomic_store(&gate.may_go, 1);
    thread_join(threads[0]);
    // The cut ends, goes to the store and is dropped; then the second push writes, if it does.
    AWAIT(atomic_load(&gate.came) == 2 || atomic_load(&twins[1].done));
    assert_ok(flush(&x, &done, e));
    AWAIT(wal_cuts(x.w.in->wal, NULL, 0) == 0);
    atomic_store(&gate.may_go, 2);
    thread_join(threads[1]);
    fault_on(NULL);
    check(&x);
    restart(&x);
    check(&x);
    assert_ok(flush(&x, &done, e));
    check(&x);
    arena_release(&a);
    world_end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_equal_pushes_across_a_border_count_once_after_a_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
