// SPDX-License-Identifier: Apache-2.0
//
// A merge that loses a row names nothing: the job fails, what it is made from lives on.
#include "unit/compactor/world.h"

// The first try loses a row and ends with its service, so the second one loses its second service,
// the third that is come by.
#define LOST_TWICE "compact.row.lost=eio@3;compact.service.lost=eio@3"

static size_t count_blocks(struct world *w)
{
    struct req r;
    err fault = {0};
    size_t n = 0;
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    struct manifest *m = manifest_newest(w->manifests, &r, S(FLEET_TENANT), &fault);
    assert_non_null(m);
    (void)manifest_blocks(m, &n);
    manifest_unref(m);
    req_release(&r);
    return n;
}

static void a_leaf_without_one_of_its_rows_is_not_named(void **state)
{
    (void)state;
#ifdef FT_FAULTS
    static const char *const faults[] = {
        "written or were copies",
        "the sources have",
    };
    struct world w;
    world_init(&w, 21);
    now_ns = slot_start(HOUR_0 + 100, SLOT_HOUR);
    fleet_hour(&w.fleet, HOUR_0 + 1, 300);
    fleet_flush(&w.fleet, w.store, 0, 50);
    w.may_fail = true;
    for (size_t i = 0; i < COUNT(faults); i++) {
        assert_int_equal(work_once(&w), 0);
        assert_int_equal(w.fault.code, ERR_INTERNAL);
        if (!strstr(w.fault.msg, faults[i])) fail_msg("%s", w.fault.msg);
        assert_int_equal(count_blocks(&w), 0);
    }
    // The next try loses nothing: the sources are still there.
    w.may_fail = false;
    work_until_done(&w);
    assert_int_equal(check_all(&w, BLOCK_RAW), 1);
    assert_true(w.duplicates > 10);
    world_release(&w);
#else
    skip();
#endif
}

static void all_rows_are_counted_whatever_the_way_of_a_merge(void **state)
{
    (void)state;
    static const struct {
        size_t memory;
        uint64_t pack_bytes;
        uint64_t day_leaf_bytes;
    } cases[] = {
        {0, 0, 0}, {0, 2000, 0}, {4 << 20, 0, 0}, {0, 0, 1 << 20}, {4 << 20, 4000, 1 << 20}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct world w;
        world_init(&w, 22 + i);
        w.memory = cases[i].memory;
        w.pack_bytes = cases[i].pack_bytes;
        w.settings.day_leaf_bytes = cases[i].day_leaf_bytes;
        w.settings.fold_interval = SLOT_DAY;
        now_ns = slot_start(HOUR_0 + 49, SLOT_HOUR);
        for (int64_t hour = 0; hour < 3; hour++)
            fleet_hour(&w.fleet, HOUR_0 + hour, 200);
        fleet_flush(&w.fleet, w.store, 0, 20);
        work_until_done(&w);
        size_t before = w.fleet.n;
        fleet_hour(&w.fleet, HOUR_0 + 1, 20);
        fleet_flush(&w.fleet, w.store, before, 20);
        size_t copy[] = {40, 41, 42};
        fleet_segment(&w.fleet, w.store, copy, 3, true);
        work_until_done(&w);
        now_ns += SLOT_DAY;
        work_until_done(&w);
        assert_int_equal(w.failed, 0);
        assert_true(w.jobs[JOB_FOLD] > 0);
        assert_true(check_all(&w, BLOCK_RAW) > 0);
        world_release(&w);
    }
}

int main(void)
{
    setenv("FLAMETREE_FAULTS", LOST_TWICE, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leaf_without_one_of_its_rows_is_not_named),
        cmocka_unit_test(all_rows_are_counted_whatever_the_way_of_a_merge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
