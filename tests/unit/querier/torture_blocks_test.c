// SPDX-License-Identifier: Apache-2.0
//
// Every want of a question, read out of blocks while regexes run out of memory as they match. An
// answer is the true one or none: a service or a type that could not be matched is never left out.
#include "lib/torture.h"
#include "unit/querier/month.h"

struct asked {
    struct month *month;
    struct query q;
    struct month_plan p;
};

static bool note_loose(void *arg, const struct level_object *o, struct loose_key key, err *e)
{
    (void)o;
    (void)key;
    (void)e;
    ++*(unsigned *)arg;
    return true;
}

// Found: numbers of everything that the question can want.
static bool read_all(struct blocks *b, struct req *r, const struct asked *k, struct merged *m,
                     struct buf *out, err *e)
{
    struct block_reads reads = {0};
    unsigned loose = 0;
    uint64_t bytes = 0;
    bool survives = false;
    const struct block_task task = {&k->q, &k->p.p, NULL, false};
    const struct block_loose want = {.fn = note_loose, .arg = &loose};
    if (!block_read(b, r, &task, m, &reads, e) || !merged_finish(m, e) ||
        !block_read_weigh(b, r, &task, &bytes, &reads, e) ||
        !block_read_survives(b, r, &k->q, &k->p.p, &survives, &reads, e) ||
        !block_read_loose(b, r, &k->q, &k->p.p, &want, &reads, e)) {
        return false;
    }
    assert_int_equal(reads.fault_count, 0);
    buf_printf(out, "%llu %u %u %llu %llu %u %llu %d %u", (unsigned long long)m->profiles,
               (unsigned)m->sets.n, (unsigned)m->names.n, (unsigned long long)m->there.profiles,
               (unsigned long long)m->there.series, (unsigned)m->totals.n,
               (unsigned long long)bytes, survives, loose);
    return true;
}

static bool read_fresh(struct torture_bench *bench, void *arg, err *e)
{
    const struct asked *k = arg;
    struct merged m = {0};
    struct req r;
    struct blocks *b = blocks_new(k->month->store, &bench->budget, 8 << 20);
    req_init(&r, RANK_PUBLIC, &bench->budget, SIZE_MAX, 0);
    bool ok = merged_init(&m, &bench->budget, 0, false, e) &&
              read_all(b, &r, k, &m, &bench->out, e) && buf_ok(&bench->out, e);
    merged_release(&m);
    req_release(&r);
    blocks_free(b);
    return ok;
}

static void what_a_regex_could_not_match_is_never_left_out(void **state)
{
    static const str service[] = {S_INIT(LABEL_SERVICE)};
    static const struct {
        const char *name;
        struct query q;
        const char *selector;
    } cases[] = {
        {"tree", {.tree.wanted = true}, "{service_name=~\"a.+|w.+\"}"},
        {"tree_of_pods", {.tree.wanted = true}, "{service_name=~\"a.+|w.+\",pod=~\".+\"}"},
        {"services", {.labels = {true, false, service, 1}}, "{service_name=~\"a.+\"}"},
        {"labels", {.labels.wanted = true}, "{__profile_type__=~\".*cpu.*\"}"},
        {"stats", {.stats = true}, "{__profile_type__!~\".*mem.*\"}"},
        {"sizes", {.stats = true, .stat_sizes = true}, "{__profile_type__=~\".*cpu.*\"}"},
        {"series",
         {.totals = {.wanted = true,
                     .first_ns = MONTH_FROM,
                     .step_ns = SLOT_DAY,
                     .points = MONTH_DAYS + 1}},
         "{__profile_type__=~\".*cpu.*\"}"},
    };
    (void)state;
    struct rig g;
    rig_make(&g, 61, 60, 8 << 20);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char name[64];
        struct asked k = {.month = g.month, .q = cases[i].q};
        struct level_ask ask = {0};
        assert_ok(selector_parse(&arena, str_of(cases[i].selector), &k.q.selector, e));
        assert_ok(block_read_ask(&k.q, &ask, e));
        ask.from_ns = k.q.from_ns = MONTH_FROM;
        ask.to_ns = k.q.to_ns = MONTH_FROM + SLOT_WINDOW;
        k.p = month_plan(g.month, &g.dice, &ask);
        snprintf(name, sizeof name, "querier.blocks.%s", cases[i].name);
        const struct torture_maker m = {
            .name = name, .make = read_fresh, .arg = &k, .is_start = true, .most = 60};
        if (torture_make(&m).calls == 0) fail_msg("%s: no regex was met", cases[i].name);
    }
    rig_drop(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(what_a_regex_could_not_match_is_never_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
