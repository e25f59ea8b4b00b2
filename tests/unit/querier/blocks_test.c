// SPDX-License-Identifier: Apache-2.0
//
// The cache of sections of blocks: how often something is read, by many at once too, and that
// memory that is missing, a slow store and a request that ended do no harm.
#include "sys/clock.h"
#include "unit/querier/month.h"

#include <pthread.h>
#include <time.h>

// ---- what is read, and kept

static void a_cold_flame_graph_is_two_reads_of_a_block_and_a_warm_one_none(void **state)
{
    (void)state;
    struct rig g;
    rig_make(&g, 9, 400, 8 << 20);
    static const str service = S_INIT("api");
    struct query q = {.tree.wanted = true, .from_ns = MONTH_FROM, .to_ns = INT64_MAX};
    assert_ok(selector_add(&arena, &q.selector, MATCH_EQ, S(LABEL_SERVICE), service, e));
    struct month_plan p = plan_of(g.month->days, LEVEL_NODES, MONTH_FROM, MONTH_FROM + SLOT_WINDOW);
    uint64_t first = 0;
    for (int i = 0; i < 3; i++) {
        struct block_reads reads = {0};
        struct merged m;
        assert_ok(merged_init(&m, &g.memory, 0, false, e));
        assert_ok(block_read(g.blocks, &g.req, &(struct block_task){&q, &p.p, NULL, false}, &m,
                             &reads, e));
        assert_int_equal(reads.reads, i ? 0 : 2);
        assert_int_equal(reads.objects, 1);
        assert_true(reads.nodes > 0 && m.profiles > 0 && (i == 0 || m.profiles == first));
        first = m.profiles;
        merged_release(&m);
    }
    rig_drop(&g);
}

// ---- many at once

#define THREADS   6
#define QUESTIONS 24

struct asked {
    struct query q;
    struct month_plan p;
    bool full;  // symbols
    str tree;
    uint64_t profiles;
};

struct crowd {
    struct rig *g;
    struct asked questions[QUESTIONS];
    unsigned rounds;
    _Atomic unsigned wrong;
    _Atomic uint64_t reads;
    pthread_barrier_t start;
};

static str tree_text(struct arena *a, const struct merge *m)
{
    struct tree t;
    err e = {0};
    if (!tree_build(a, &m->symbols.t, m->sums, NULL, 0, &t, &e)) return S("no tree");
    return text_of_tree(a, &t);
}

static bool ask(struct crowd *c, const struct asked *k)
{
    struct req r;
    struct merged m;
    struct block_reads reads = {0};
    err e = {0};
    req_init(&r, RANK_PUBLIC, NULL, SIZE_MAX, 0);
    bool ok = merged_init(&m, &c->g->memory, 0, k->full, &e) &&
              block_read(c->g->blocks, &r, &(struct block_task){&k->q, &k->p.p, NULL, false}, &m,
                         &reads, &e) &&
              reads.fault_count == 0 && m.profiles == k->profiles &&
              str_eq(tree_text(&r.arena, &m.stacks), k->tree);
    atomic_fetch_add(&c->reads, reads.reads);
    merged_release(&m);
    req_release(&r);
    return ok;
}

static void *ask_all(void *arg)
{
    struct crowd *c = arg;
    pthread_barrier_wait(&c->start);
    for (unsigned i = 0; i < c->rounds * QUESTIONS; i++) {
        if (!ask(c, &c->questions[i % QUESTIONS])) atomic_fetch_add(&c->wrong, 1);
    }
    return NULL;
}

static void crowd_make(struct crowd *c, struct rig *g, unsigned rounds)
{
    *c = (struct crowd){.g = g, .rounds = rounds};
    for (size_t i = 0; i < QUESTIONS; i++) {
        struct asked *k = &c->questions[i];
        struct level_ask ask = {0};
        k->q.tree.wanted = true;
        k->full = i % 3 == 0;
        some_range(&g->dice, &k->q);
        assert_ok(block_read_ask(&k->q, &ask, e));
        ask.from_ns = k->q.from_ns;
        ask.to_ns = k->q.to_ns;
        k->p = month_plan(g->month, &g->dice, &ask);
        struct head_query h = brute(&k->q);
        k->tree = fact_tree(&arena, g->facts, g->month->n, &h, 0, &k->profiles);
    }
}

static void crowd_run(struct crowd *c)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&c->start, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_all, c), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&c->start);
    assert_int_equal(c->wrong, 0);
}

static void many_threads_share_a_cache_that_is_too_small_and_stays_within_its_bytes(void **state)
{
    static const size_t sizes[] = {1, 32 << 10, 256 << 10};
    (void)state;
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct rig g;
        struct crowd *c = ARENA_NEW(&arena, struct crowd);
        rig_make(&g, 11 + i, 400, sizes[i]);
        crowd_make(c, &g, 2);
        crowd_run(c);
        if (g.memory.used > sizes[i]) {
            fail_msg("%zu bytes are kept, of which at most %zu", (size_t)g.memory.used, sizes[i]);
        }
        rig_drop(&g);
    }
}

static void what_many_need_at_once_is_read_once(void **state)
{
    (void)state;
    struct rig g;
    struct crowd *c = ARENA_NEW(&arena, struct crowd);
    rig_make(&g, 21, 400, 8 << 20);
    crowd_make(c, &g, 1);
    for (size_t i = 0; i < QUESTIONS; i++) {
        struct asked *k = &c->questions[i];
        *k = c->questions[0];
        k->q.from_ns = MONTH_FROM;
        k->q.to_ns = MONTH_FROM + SLOT_WINDOW;
        k->p = plan_of(g.month->days, LEVEL_NODES, k->q.from_ns, k->q.to_ns);
        struct head_query h = brute(&k->q);
        k->tree = fact_tree(&arena, g.facts, g.month->n, &h, 0, &k->profiles);
    }
    crowd_run(c);
    // Two reads if one thread is ahead of all others. Else each section (the footer; index, symbols
    // and sums of a service) has at most one reader: threads share out the services of a block, and
    // what is read along with an index is not kept yet when who finds that index asks for it.
    assert_in_range(c->reads, 2, 1 + 3 * COUNT(fact_services));
    rig_drop(&g);
}

// ---- limits

static void a_query_that_does_not_fit_says_so_and_leaves_nothing(void **state)
{
    (void)state;
    struct rig g;
    rig_make(&g, 31, 400, 8 << 20);
    struct query q = {.tree.wanted = true, .from_ns = MONTH_FROM, .to_ns = INT64_MAX};
    struct month_plan p = plan_of(g.month->days, LEVEL_NODES, MONTH_FROM, MONTH_FROM + SLOT_WINDOW);
    for (size_t limit = 16 << 10; limit < 512 << 10; limit += 4 << 10) {
        struct block_reads reads = {0};
        struct merged m;
        err e = {0};
        bool ok = merged_init(&m, &g.memory, limit, limit % 8192 == 0, &e) &&
                  block_read(g.blocks, &g.req, &(struct block_task){&q, &p.p, NULL, false}, &m,
                             &reads, &e);
        if (!ok) assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
        assert_int_equal(reads.fault_count, 0);
        merged_release(&m);
        assert_int_equal(m.memory.used, 0);
    }
    rig_drop(&g);
}

static void a_request_that_is_over_reads_nothing_more(void **state)
{
    (void)state;
    struct rig g;
    rig_make(&g, 32, 300, 8 << 20);
    struct query q = {.tree.wanted = true, .from_ns = MONTH_FROM, .to_ns = INT64_MAX};
    struct month_plan p = plan_of(g.month->days, LEVEL_NODES, MONTH_FROM, MONTH_FROM + SLOT_WINDOW);
    struct block_reads reads = {0};
    struct merged m;
    err e = {0};
    atomic_store(&g.req.canceled, true);
    assert_true(merged_init(&m, &g.memory, 0, true, &e));
    assert_false(
        block_read(g.blocks, &g.req, &(struct block_task){&q, &p.p, NULL, false}, &m, &reads, &e));
    assert_int_equal(e.code, ERR_CANCELED);
    assert_int_equal(reads.fault_count, 0);
    merged_release(&m);
    rig_drop(&g);
}

// A store that takes its time: a read longer than the request has.
static enum memstore_fault slow(void *arg, const struct memstore_event *ev)
{
    (void)arg;
    if (ev->op == MEMSTORE_READ) nanosleep(&(struct timespec){.tv_nsec = 30 * NS_PER_MS}, NULL);
    return MEMSTORE_FINE;
}

static bool read_within(struct rig *g, const struct asked *k, uint64_t limit_ns, uint64_t *profiles,
                        err *e)
{
    struct block_reads reads = {0};
    struct merged m;
    struct req r;
    req_init(&r, RANK_PUBLIC, &g->memory, SIZE_MAX, limit_ns);
    bool ok =
        merged_init(&m, &g->memory, 0, true, e) &&
        block_read(g->blocks, &r, &(struct block_task){&k->q, &k->p.p, NULL, false}, &m, &reads, e);
    assert_int_equal(reads.fault_count, 0);  // it is slow, not damaged
    *profiles = m.profiles;
    merged_release(&m);
    req_release(&r);
    return ok;
}

static void slow_reads_end_with_the_time_of_the_request_and_cost_nothing_else(void **state)
{
    (void)state;
    struct rig g;
    struct asked k = {.q = {.tree.wanted = true, .from_ns = MONTH_FROM, .to_ns = INT64_MAX}};
    uint64_t profiles = 0;
    err fault = {0};
    rig_make(&g, 33, 300, 8 << 20);
    k.p = plan_of(g.month->days, LEVEL_NODES, MONTH_FROM, MONTH_FROM + SLOT_WINDOW);
    memstore_set_hooks(g.month->store, slow, NULL, NULL);
    assert_false(read_within(&g, &k, 10 * NS_PER_MS, &profiles, &fault));
    assert_int_equal(fault.code, ERR_DEADLINE_EXCEEDED);
    assert_ok(read_within(&g, &k, 600 * NS_PER_S, &profiles, e));
    assert_true(profiles > 0);
    memstore_set_hooks(g.month->store, NULL, NULL, NULL);
    k.profiles = profiles;
    assert_ok(read_within(&g, &k, 0, &profiles, e));
    assert_int_equal(profiles, k.profiles);
    rig_drop(&g);
}

// ---- prefetch

static bool prefetch_all(struct rig *g, const struct query *q, const struct level_plan *p,
                         struct block_reads *reads, err *e)
{
    struct req r;
    req_init(&r, RANK_PUBLIC, &g->memory, SIZE_MAX, 0);
    bool ok =
        block_read_into_cache(g->blocks, &r, &(struct block_task){q, p, NULL, false}, reads, e);
    req_release(&r);
    return ok;
}

static uint64_t read_now(struct rig *g, const struct query *q, const struct level_plan *p,
                         struct block_reads *reads)
{
    struct merged m;
    assert_ok(merged_init(&m, &g->memory, 0, false, e));
    assert_ok(
        block_read(g->blocks, &g->req, &(struct block_task){q, p, NULL, false}, &m, reads, e));
    assert_ok(merged_finish(&m, e));
    uint64_t found = m.profiles + m.sets.n + m.names.n + m.there.profiles + m.totals.n;
    merged_release(&m);
    return found;
}

static void prefetched_sections_are_not_read_again(void **state)
{
    static const str service[] = {S_INIT(LABEL_SERVICE)};
    static const struct {
        const char *name;
        struct query q;
        bool all;  // nothing is left to read
    } cases[] = {
        {"a flame graph", {.tree.wanted = true}, true},
        {"services, by footers", {.labels = {true, false, service, 1}}, true},
        {"names", {.labels = {.wanted = true, .names_only = true}}, false},
        {"what there is, by footers", {.stats = true}, true},
        {"sizes", {.stats = true, .stat_sizes = true}, false},
        {"series",
         {.totals = {.wanted = true,
                     .first_ns = MONTH_FROM,
                     .step_ns = SLOT_DAY,
                     .points = MONTH_DAYS + 1}},
         false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct rig g;
        struct query q = cases[i].q;
        struct block_reads cold = {0};
        struct block_reads before = {0};
        struct block_reads after = {0};
        rig_make(&g, 51, 300, 8 << 20);
        q.from_ns = MONTH_FROM;
        q.to_ns = MONTH_FROM + SLOT_WINDOW;
        struct month_plan p = plan_of(g.month->days, q.totals.wanted ? LEVEL_TOTALS : LEVEL_NODES,
                                      q.from_ns, q.to_ns);
        assert_ok(prefetch_all(&g, &q, &p.p, &before, e));
        uint64_t found = read_now(&g, &q, &p.p, &after);
        rig_drop(&g);
        rig_make(&g, 51, 300, 8 << 20);
        p = plan_of(g.month->days, q.totals.wanted ? LEVEL_TOTALS : LEVEL_NODES, q.from_ns,
                    q.to_ns);
        if (read_now(&g, &q, &p.p, &cold) != found || found == 0) fail_msg("%s", cases[i].name);
        if (before.reads == 0 || after.reads >= cold.reads || (cases[i].all && after.reads > 0)) {
            fail_msg("%s: %llu reads, %llu prefetched, then %llu", cases[i].name,
                     (unsigned long long)cold.reads, (unsigned long long)before.reads,
                     (unsigned long long)after.reads);
        }
        rig_drop(&g);
    }
}

// ---- memory that is not there

struct tortured {
    struct rig *g;
    const struct query *q;
    const struct level_plan *p;
};

static bool read_fresh(void *arg, err *e)
{
    struct tortured *t = arg;
    struct mem_budget memory;
    struct block_reads reads = {0};
    struct merged m = {0};
    struct req r;
    mem_budget_init(&memory, "process", NULL, 0);
    struct blocks *b = blocks_new(t->g->month->store, &memory, 8 << 20);
    req_init(&r, RANK_PUBLIC, &memory, SIZE_MAX, 0);
    bool ok = merged_init(&m, &memory, 0, false, e) &&
              block_read(b, &r, &(struct block_task){t->q, t->p, NULL, false}, &m, &reads, e) &&
              merged_finish(&m, e);
    assert_int_equal(reads.fault_count, 0);
    merged_release(&m);
    req_release(&r);
    blocks_free(b);
    assert_int_equal(memory.used, 0);
    return ok;
}

static void memory_may_end_anywhere(void **state)
{
    static const str by[] = {S_INIT("pod")};
    const struct query questions[] = {{.tree.wanted = true},
                                      {.totals = {.wanted = true,
                                                  .first_ns = MONTH_FROM,
                                                  .step_ns = SLOT_DAY,
                                                  .points = MONTH_DAYS,
                                                  .group_by = by,
                                                  .group_by_count = 1,
                                                  .exemplars = EXEMPLAR_SPAN}},
                                      {.heat = {.wanted = true,
                                                .kind = EXEMPLAR_PROFILE,
                                                .step_ns = SLOT_HOUR,
                                                .slots = 24,
                                                .first_ns = MONTH_FROM,
                                                .exemplars = true,
                                                .bound_count = 1,
                                                .largest = 10000}},
                                      {.labels = {.wanted = true}},
                                      {.stats = true, .stat_sizes = true}};
    (void)state;
    struct rig g;
    rig_make(&g, 41, 120, 8 << 20);
    for (size_t i = 0; i < COUNT(questions); i++) {
        struct query q = questions[i];
        struct level_ask ask = {0};
        assert_ok(block_read_ask(&q, &ask, e));
        ask.from_ns = q.from_ns = MONTH_FROM;
        ask.to_ns = q.to_ns = MONTH_FROM + 40 * SLOT_HOUR;
        struct month_plan p = month_plan(g.month, &g.dice, &ask);
        struct tortured t = {&g, &q, &p.p};
        assert_true(torture(read_fresh, &t) > 0);
    }
    rig_drop(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(a_cold_flame_graph_is_two_reads_of_a_block_and_a_warm_one_none),
        ARENA_TEST(many_threads_share_a_cache_that_is_too_small_and_stays_within_its_bytes),
        ARENA_TEST(what_many_need_at_once_is_read_once),
        ARENA_TEST(a_query_that_does_not_fit_says_so_and_leaves_nothing),
        ARENA_TEST(a_request_that_is_over_reads_nothing_more),
        ARENA_TEST(slow_reads_end_with_the_time_of_the_request_and_cost_nothing_else),
        ARENA_TEST(prefetched_sections_are_not_read_again),
        ARENA_TEST(memory_may_end_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
