// SPDX-License-Identifier: Apache-2.0
//
// Work on a deletion while each allocation and each call of the store fails once: it is done all
// the same, and nothing else is lost.
#include "lib/torture.h"
#include "unit/compactor/world.h"

#define DAYS 2

static void erase_begin(void *arg)
{
    struct world *w = arg;
    world_init(w, 6);
    w->settings.day_leaf_bytes = 1 << 20;
    world_fill(w, DAYS, 3);
    work_until_done(w);
    world_delete(w, "{pod=\"pod-1\"}", -1, slot_start(HOUR_0 + 28, SLOT_HOUR));
}

static void expired_begin(void *arg)
{
    struct world *w = arg;
    world_begin_expired(w, 6, DAYS, 3);
    world_delete(w, "{pod=\"pod-1\"}", -1, slot_start(HOUR_0 + 24, SLOT_HOUR));
}

static bool erase_run(void *arg, err *e)
{
    struct world *w = arg;
    w->may_fail = true;
    w->fault = (err){0};
    w->failed = 0;
    for (int i = 0; i < 6; i++)
        (void)work_once(w);
    if (w->failed == 0) return true;
    *e = w->fault;
    return false;
}

static void erase_check(void *arg, bool done)
{
    struct world *w = arg;
    if (!done) return;
    assert_int_equal(count_tombstones(w), 0);
    check_each_level(w);
}

static void erase_end(void *arg)
{
    world_release(arg);
}

static void deletions_fail_and_are_done_all_the_same(void **state)
{
    (void)state;
    static struct world w;
    void (*const begins[])(void *) = {erase_begin, expired_begin};
    for (size_t i = 0; i < COUNT(begins); i++)
        torture_work(&(struct torture_work){.name = i ? "compactor.expired" : "compactor.erase",
                                            .begin = begins[i],
                                            .run = erase_run,
                                            .check = erase_check,
                                            .end = erase_end,
                                            .arg = &w,
                                            .codes = 1u << ERR_ABORTED,
                                            .lives_on = true,
                                            .most = 10});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deletions_fail_and_are_done_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
