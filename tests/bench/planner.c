// SPDX-License-Identifier: Apache-2.0
//
// bench.planner BLOCKS - what a plan of a tenant with so many blocks costs, on one core.
//
// Tab-separated: a line for each state of tests/unit/compactor/many.h: its name, blocks, jobs that
// are due, milliseconds of plan and order of jobs (the best of three), bytes.
#include "compactor/share.h"
#include "unit/compactor/many.h"

#include <stdio.h>
#include <time.h>

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double measure(const struct many *m, size_t *jobs, size_t *bytes)
{
    struct arena a;
    struct plan plan;
    err e = {0};
    const struct member all[] = {{.id = S("a"), .kind = MEMBER_COMPACTOR, .alive = true},
                                 {.id = S("b"), .kind = MEMBER_COMPACTOR, .alive = true}};
    const struct share s = {.members = all,
                            .member_count = COUNT(all),
                            .me = S("a"),
                            .tenant = S("t")};
    arena_init(&a, NULL, SIZE_MAX);
    double begun = now_ms();
    bool ok = plan_make(&a, &m->state, &m->settings, &plan, &e) && share_order(&a, &plan, &s, &e);
    double ms = now_ms() - begun;
    if (!ok) {
        fprintf(stderr, "bench.planner: %s\n", e.msg);
        exit(1);
    }
    *jobs = plan.n;
    *bytes = a.used;
    arena_release(&a);
    return ms;
}

int main(int argc, char **argv)
{
    size_t n = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : 50000;
    for (size_t i = 0; i < COUNT(many_shapes); i++) {
        struct many m;
        size_t jobs = 0;
        size_t bytes = 0;
        many_init(&m, &many_shapes[i], n);
        double best = measure(&m, &jobs, &bytes);
        for (int k = 0; k < 2; k++) {
            double ms = measure(&m, &jobs, &bytes);
            best = ms < best ? ms : best;
        }
        printf("%s\t%zu\t%zu\t%.1f\t%zu\n", many_shapes[i].name, m.n, jobs, best, bytes);
        if (fflush(stdout)) return 1;
        many_release(&m);
    }
    return 0;
}
