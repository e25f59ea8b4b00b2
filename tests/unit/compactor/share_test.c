// SPDX-License-Identifier: Apache-2.0
//
// Several processes go through one backlog. In each round each takes the first job that it may,
// of those that were not done when the round began, as processes do whose jobs take equally long.
#include "compactor/share.h"
#include "lib/test.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST  8
#define DAY_0 INT64_C(20300)

struct crowd {
    size_t n;
    bool unknown;  // they do not know of each other
    bool dead;     // the first is listed, and not there
    size_t rounds;
    size_t wasted;
};

static void name_them(struct member *m, char (*names)[8], const struct crowd *c)
{
    for (size_t i = 0; i < c->n; i++) {
        snprintf(names[i], sizeof names[i], "c%zu", i);
        m[i] = (struct member){.id = str_of(names[i]), .kind = MEMBER_COMPACTOR};
        m[i].alive = !(c->dead && i == 0);
    }
}

// What is left of the plan.
static struct plan left_of(struct arena *a, const struct plan *all, const bool *done, size_t *which)
{
    struct plan p = {.jobs = ARENA_ARRAY(a, struct task, all->n + 1)};
    for (size_t i = 0; i < all->n; i++) {
        if (done[i]) continue;
        which[p.n] = i;
        p.jobs[p.n++] = all->jobs[i];
    }
    return p;
}

static void go_through(const struct plan *all, struct crowd *c, bool behind)
{
    struct member m[MOST];
    char names[MOST][8];
    bool *done = calloc(all->n, 1);
    size_t *which = calloc(all->n, sizeof *which);
    size_t missing = all->n;
    name_them(m, names, c);
    while (missing && c->rounds < 10 * all->n) {
        struct arena a;
        bool *taken = calloc(all->n, 1);
        arena_init(&a, NULL, 64 << 20);
        struct plan p = left_of(&a, all, done, which);
        for (size_t i = c->dead; i < c->n; i++) {
            struct share s = {.members = m, .member_count = c->n, .me = m[i].id, .tenant = S("t")};
            err e = {0};
            if (c->unknown) s.member_count = 0;
            s.raced = c->unknown;
            s.behind = behind;
            struct share_pick *v = share_order(&a, &p, &s, &e);
            assert_non_null(v);
            if (v[0].from_ns != INT64_MIN) continue;
            c->wasted += taken[which[v[0].job]];
            taken[which[v[0].job]] = true;
        }
        for (size_t i = 0; i < all->n; i++) {
            missing -= taken[i];
            done[i] = done[i] || taken[i];
        }
        c->rounds++;
        free(taken);
        arena_release(&a);
    }
    assert_int_equal(missing, 0);
    free(done);
    free(which);
}

static struct plan backlog(enum job_kind kind, uint32_t hours, size_t n)
{
    struct plan p = {.jobs = calloc(n, sizeof(struct task)), .n = n};
    for (size_t i = 0; i < n; i++) {
        p.jobs[i] = (struct task){.kind = kind, .hours = hours};
        p.jobs[i].from_hour = DAY_0 * 24 + (int64_t)(i * hours);
    }
    return p;
}

static void a_backlog_of_one_tenant_shrinks_as_fast_as_there_are_processes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum job_kind kind;
        uint32_t hours;
        size_t n;
        bool unknown;
        bool dead;
        double least;  // of n jobs in n / processes rounds
    } cases[] = {
        {"hours of a month", JOB_LEAF, 1, 672, false, false, 0.8},
        {"hours of two days", JOB_LEAF, 1, 48, false, false, 0.8},
        {"days of a quarter", JOB_DAY, 24, 84, false, false, 0.8},
        {"days of a year", JOB_FOLD, 24, 364, false, false, 0.8},
        {"one of the list is gone", JOB_LEAF, 1, 672, false, true, 0.8},
        {"they do not know of each other", JOB_LEAF, 1, 672, true, false, 0.8},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct plan all = backlog(cases[i].kind, cases[i].hours, cases[i].n);
        for (size_t k = 2; k <= MOST; k++) {
            struct crowd c = {.n = k, .unknown = cases[i].unknown, .dead = cases[i].dead};
            go_through(&all, &c, true);
            size_t there = k - cases[i].dead;
            double speed = (double)all.n / (double)c.rounds / (double)there;
            print_message("%s: %zu processes, %zu rounds, %zu jobs for nothing, %.2f\n",
                          cases[i].name, there, c.rounds, c.wasted, speed);
            if (speed < cases[i].least)
                fail_msg("%s: %zu processes are %.2f times as fast each", cases[i].name, there,
                         speed);
        }
        free(all.jobs);
    }
}

// While nothing is late each does its own jobs, and nobody does another's.
static void who_is_in_time_leaves_others_their_jobs(void **state)
{
    (void)state;
    struct plan all = backlog(JOB_LEAF, 1, 96);
    struct crowd c = {.n = 4};
    go_through(&all, &c, false);
    assert_int_equal(c.wasted, 0);
    free(all.jobs);
}

static void the_second_comes_ten_minutes_later(void **state)
{
    (void)state;
    struct member m[2] = {{.id = S("a"), .alive = true}, {.id = S("b"), .alive = true}};
    struct plan all = backlog(JOB_DAY, 24, 10);
    struct arena a;
    err e = {0};
    bool mine[2][10] = {{false}};
    arena_init(&a, NULL, 1 << 20);
    for (size_t i = 0; i < 2; i++) {
        struct share s = {.members = m, .member_count = 2, .me = m[i].id, .tenant = S("t")};
        for (size_t k = 0; k < all.n; k++)
            all.jobs[k].due_ns = (int64_t)k;
        const struct share_pick *v = share_order(&a, &all, &s, &e);
        assert_non_null(v);
        for (size_t k = 0; k < all.n; k++) {
            mine[i][v[k].job] = !v[k].shared;
            if (v[k].shared)
                assert_int_equal(v[k].from_ns, (int64_t)v[k].job + SHARE_WAIT_NS);
            else
                assert_int_equal(v[k].from_ns, INT64_MIN);
        }
    }
    for (size_t k = 0; k < all.n; k++)
        assert_true(mine[0][k] != mine[1][k]);
    free(all.jobs);
    arena_release(&a);
}

// While all are at work a helper takes only jobs of an owner that no other helper takes, and none
// of the next ones of the owner, who may have done them already.
static void helpers_share_the_last_jobs_of_an_owner(void **state)
{
    (void)state;
    for (size_t k = 2; k <= MOST; k++) {
        struct plan all = backlog(JOB_LEAF, 1, 672);
        struct crowd c = {.n = k};
        struct member m[MOST];
        char names[MOST][8];
        size_t helped[672] = {0};
        size_t owned[672] = {0};
        size_t alone[MOST] = {0};
        bool begun[MOST] = {false};
        name_them(m, names, &c);
        for (size_t i = 0; i < k; i++) {
            struct share s = {.members = m, .member_count = k, .me = m[i].id, .tenant = S("t")};
            struct arena a;
            err e = {0};
            s.behind = s.moves = true;
            arena_init(&a, NULL, 4 << 20);
            const struct share_pick *v = share_order(&a, &all, &s, &e);
            assert_non_null(v);
            for (size_t n = 0; n < all.n; n++) {
                assert_true(v[n].shared);
                owned[v[n].job] += v[n].helps ? 0 : i + 1;
                helped[v[n].job] += v[n].helps && v[n].from_ns == INT64_MIN;
            }
            arena_release(&a);
        }
        for (size_t n = 0; n < all.n; n++) {
            assert_in_range(owned[n], 1, k);  // by one process, as numbers add up
            assert_in_range(helped[n], 0, 1);
            size_t owner = owned[n] - 1;
            // From the first one on that is helped with all are.
            begun[owner] = begun[owner] || helped[n];
            assert_int_equal(begun[owner], helped[n]);
            alone[owner] += !helped[n];
        }
        for (size_t i = 0; i < k; i++)
            assert_true(alone[i] >= SHARE_NEXT);
        free(all.jobs);
    }
}

static void few_jobs_are_left_to_an_owner_that_is_at_work(void **state)
{
    (void)state;
    struct member m[2] = {{.id = S("a"), .alive = true}, {.id = S("b"), .alive = true}};
    struct plan all = backlog(JOB_FOLD, 24, SHARE_FEW);
    for (int moves = 0; moves < 2; moves++) {
        size_t at_once[2] = {0};
        for (size_t i = 0; i < 2; i++) {
            struct share s = {.members = m, .member_count = 2, .me = m[i].id, .tenant = S("t")};
            struct arena a;
            err e = {0};
            s.behind = true;
            s.moves = moves;
            arena_init(&a, NULL, 1 << 20);
            const struct share_pick *v = share_order(&a, &all, &s, &e);
            assert_non_null(v);
            for (size_t n = 0; n < all.n; n++)
                at_once[i] += v[n].from_ns == INT64_MIN;
            arena_release(&a);
        }
        assert_int_equal(at_once[0] + at_once[1], moves ? SHARE_FEW : 2 * SHARE_FEW);
        assert_int_equal(MAX(at_once[0], at_once[1]), SHARE_FEW);
    }
    free(all.jobs);
}

// Everyone's looks at an idle tenant together are one in each time, whoever is there.
static void idle_tenants_are_looked_at_in_turn(void **state)
{
    (void)state;
    enum {
        TIMES = 60,
        TENANTS = 12
    };
    const int64_t every = 10 * SLOT_MINUTE;
    for (size_t n = 1; n <= MOST; n++) {
        struct crowd c = {.n = n, .dead = n > 2 && n % 2};
        struct member m[MOST];
        char names[MOST][8];
        size_t firsts = 0;
        name_them(m, names, &c);
        for (size_t t = 0; t < TENANTS; t++) {
            char tenant[16];
            struct arena a;
            size_t inspections[2 * TIMES] = {0};
            size_t of_first = 0;
            snprintf(tenant, sizeof tenant, "tenant-%zu", t);
            arena_init(&a, NULL, 1 << 20);
            for (size_t i = c.dead; i < n; i++) {
                const struct share s = {.members = m,
                                        .member_count = n,
                                        .me = m[i].id,
                                        .tenant = str_of(tenant)};
                const struct share_place at = share_place_of(&a, &s);
                assert_int_equal(at.count, n - c.dead);
                int64_t now = 0;
                int64_t last = INT64_MIN;
                while ((now = share_idle_inspect(&at, str_of(tenant), every, now)) <
                       TIMES * every) {
                    assert_true(now > last);
                    last = now;
                    inspections[now / every]++;
                    of_first += at.place == 0;
                }
                firsts += at.place == 0 && i == c.dead;
            }
            for (size_t k = 1; k < TIMES; k++)
                assert_int_equal(inspections[k], 1);
            assert_in_range(of_first, n == 1 ? TIMES - 1 : TIMES / 2 - 1,
                            n == 1 ? TIMES : TIMES / 2 + 1);
            arena_release(&a);
        }
        // Tenants are the first ones' of different processes.
        assert_true(n < 2 || n - c.dead == 1 || firsts < TENANTS);
    }
}

static void few_small_jobs_are_one_process_s(void **state)
{
    (void)state;
    struct member m[MOST];
    char names[MOST][8];
    struct crowd c = {.n = 4};
    name_them(m, names, &c);
    for (size_t n = SHARE_FEW; n <= SHARE_FEW + 1; n++) {
        for (int large = 0; large < 2; large++) {
            struct plan p = backlog(JOB_LEAF, 1, n);
            size_t owners = 0;
            p.jobs[0].bytes = large ? SHARE_FEW_BYTES + 1 : 0;
            for (size_t i = 0; i < c.n; i++) {
                struct arena a;
                struct share s = {.members = m,
                                  .member_count = c.n,
                                  .me = m[i].id,
                                  .tenant = S("t")};
                arena_init(&a, NULL, 1 << 20);
                err e = {0};
                const struct share_pick *v = share_order(&a, &p, &s, &e);
                assert_non_null(v);
                bool owns = v[0].from_ns == INT64_MIN;
                owners += owns;
                if (n == SHARE_FEW && !large)
                    assert_int_equal(owns, share_place_of(&a, &s).place == 0);
                arena_release(&a);
            }
            assert_int_equal(owners == 1, n == SHARE_FEW && !large);
            free(p.jobs);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_backlog_of_one_tenant_shrinks_as_fast_as_there_are_processes),
        cmocka_unit_test(who_is_in_time_leaves_others_their_jobs),
        cmocka_unit_test(the_second_comes_ten_minutes_later),
        cmocka_unit_test(helpers_share_the_last_jobs_of_an_owner),
        cmocka_unit_test(few_jobs_are_left_to_an_owner_that_is_at_work),
        cmocka_unit_test(idle_tenants_are_looked_at_in_turn),
        cmocka_unit_test(few_small_jobs_are_one_process_s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
