// SPDX-License-Identifier: Apache-2.0
//
// A cut closes by bytes of its log, of which a profile takes few: 60 for the smallest. What a cut
// of them needs in the head and for its flush is told by parts of one.
#include "flush_world.h"
#include "ingester/flush/flush_int.h"

#define SMALL 30  // batches
#define LARGE 100
#define EACH  500

// Profiles of a few stacks, all in one service and in the hour `hour`.
static void fill(struct world *x, int64_t hour, size_t batches)
{
    struct fact facts[EACH];
    for (size_t k = 0; k < batches; k++) {
        struct arena a;
        arena_init(&a, NULL, SIZE_MAX);
        for (size_t i = 0; i < EACH; i++) {
            facts[i] = fact_roll(&x->dice, slot_start(hour, SLOT_HOUR) + 1, HOUR - 1);
            facts[i].tenant = facts[i].service = facts[i].type = 0;
            facts[i].pod = i % 4;
            facts[i].span_id = facts[i].note = 0;
        }
        assert_ok(push_bytes(x, str_of(fact_tenants[0]), fact_batch(&a, facts, EACH), e));
        arena_release(&a);
    }
}

// Fills a cut, flushes it, and tells what it took.
struct part {
    double log;
    double head;
    double flush;
};
static struct part part_of(struct world *x, size_t batches)
{
    struct part p = {0};
    struct flush_totals done = {0};
    size_t before = head_budget(x->w.in->head)->used;
    // Asked once: the next hour may begin while the cut is filled.
    fill(x, slot_of(clock_wall_ns(), SLOT_HOUR) - 2, batches);
    struct wal_counts w = wal_count(x->w.in->wal);
    assert_int_equal(w.open_cuts + w.closed_cuts, 1);
    assert_true(w.bytes < 80 * batches * EACH);
    p.log = (double)w.bytes;
    p.head = (double)(head_budget(x->w.in->head)->used - before);
    assert_ok(flush(x, &done, e));
    assert_int_equal(done.rows, batches * EACH);
    assert_int_equal(done.segments, 1);
    p.flush = (double)x->w.in->flush->budget.peak;
    AWAIT(rows_held(x) == 0 && wal_cuts(x->w.in->wal, NULL, 0) == 0);
    return p;
}

static void a_cut_of_the_smallest_profiles_fits_the_budgets(void **state)
{
    (void)state;
    struct world x;
    world_start(&x, 1, "");
    const struct ingester_config *c = ingester_settings(x.w.in);
    struct part small = part_of(&x, SMALL);
    struct part large = part_of(&x, LARGE);
    double head = large.head / large.log * (double)c->cut_bytes;
    double each = (large.flush - small.flush) / (large.log - small.log);  // byte of the log
    double whole = small.flush + each * ((double)c->cut_bytes - small.log);
    // One that is open and one that is being flushed, and as much for tables of services.
    if (head > (double)c->head_memory / 3) fail_msg("a cut takes %.0f MB of the head", head / 1e6);
    if (whole > (double)c->flush_memory) fail_msg("its flush takes %.0f MB", whole / 1e6);
    world_end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_of_the_smallest_profiles_fits_the_budgets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
