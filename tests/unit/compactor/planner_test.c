// SPDX-License-Identifier: Apache-2.0
//
// What a plan of very many blocks costs, as the number of blocks, windows, leaves and jobs that it
// looks at: so many for each block there is, however many there are.
#include "lib/test.h"
#include "unit/compactor/many.h"

#define FEW    3000
#define MOST   30000
#define A_LOOK 40  // looks at most for each block, segment and named leaf

static double inspections(const struct many_shape *s, size_t n, size_t *jobs)
{
    struct many m;
    struct arena a;
    struct plan plan;
    many_init(&m, s, n);
    arena_init(&a, NULL, SIZE_MAX);
    size_t named = 0;
    for (size_t i = 0; i < m.n; i++) {
        for (size_t k = 0; k < m.blocks[i].cover_count; k++)
            named += m.blocks[i].covers[k].leaf_count;
    }
    plan_inspected = 0;
    assert_ok(plan_make(&a, &m.state, &m.settings, &plan, e));
    double each = (double)plan_inspected / (double)(m.n + named + m.state.segment_count);
    // A plan takes no more memory than a few times what it is of.
    assert_true(a.used < (m.n + m.state.segment_count) * 4096);
    *jobs = plan.n;
    arena_release(&a);
    many_release(&m);
    return each;
}

static void a_plan_looks_at_each_block_a_few_times(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(many_shapes); i++) {
        const struct many_shape *s = &many_shapes[i];
        size_t few_jobs = 0;
        size_t jobs = 0;
        double few = inspections(s, FEW, &few_jobs);
        double many = inspections(s, MOST, &jobs);
        print_message("%s: %.1f looks a block of %d, %.1f of %d; %zu jobs\n", s->name, few, FEW,
                      many, MOST, jobs);
        if (many > A_LOOK || many > 1.5 * few + 1)
            fail_msg("%s: %.1f looks a block, and %.1f of ten times as many", s->name, few, many);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_plan_looks_at_each_block_a_few_times)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
