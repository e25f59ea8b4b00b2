// SPDX-License-Identifier: Apache-2.0
//
// Segments are absorbed and deleted over a store whose operations are slow: what takes time is how
// many of them come one after the other, and that is what is counted. So many of 10,000 segments
// take less than a minute at 30 ms each.
#include "unit/compactor/slow.h"

#define SEGMENTS 2000
#define HOURS    24
#define WIDTH    16  // operations that the store does at once
#define A_JOB    8   // turns of a job besides its sources
#define A_SWEEP  20  // of a sweep besides deletions

static uint64_t turns(struct world *w)
{
    struct memstore_totals t = memstore_totals(w->store);
    memstore_reset_totals(w->store);
    return t.turns;
}

static void segments_of_a_slow_store_are_read_and_deleted_together(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 3);
    slow_fill(&w, SEGMENTS);
    memstore_set_turns(w.store, WIDTH, 0);
    memstore_reset_totals(w.store);
    work_until_done(&w);
    struct memstore_totals t = memstore_totals(w.store);
    uint64_t absorbed = turns(&w);
    assert_int_equal(w.jobs[JOB_LEAF], HOURS);
    // Each segment is read once, whatever it is needed for.
    uint64_t least = SEGMENTS;
    assert_in_range(t.ops[MEMSTORE_READ], least, least + least / 10);
    assert_int_equal(slow_sweep(&w), SEGMENTS);
    uint64_t deleted = turns(&w);
    print_message("%d segments: %llu turns until they are absorbed, %llu until they are deleted\n",
                  SEGMENTS, (unsigned long long)absorbed, (unsigned long long)deleted);
    assert_in_range(absorbed, 1, SEGMENTS / WIDTH + HOURS * (A_JOB + 1));
    assert_in_range(deleted, 1, SEGMENTS / WIDTH + A_SWEEP);
    assert_int_equal(check_all(&w, BLOCK_DAYS), 1);
    world_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_of_a_slow_store_are_read_and_deleted_together)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
