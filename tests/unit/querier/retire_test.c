// SPDX-License-Identifier: Apache-2.0
//
// Series by pod, and trees of the same ranges, while real jobs of the compactor make leaves, packs
// and days, and retire leaves at an edge within the range, in any order that plans allow. Questions
// come between any two jobs. In half of them jobs go on between two reads of one question, and the
// blocks that the newest manifest does not name are gone at once.
//
// Without rows a window is served by one block of each pack or by none. So leaves retire only once
// their hours are one block: if late hours lay in a second one, series in steps of minutes would
// miss points until both are packed, while trees are read from days and are whole.
#include "compactor/job.h"
#include "compactor/plan.h"
#include "querier/block/blocks.h"
#include "unit/compactor/world.h"
#include "unit/querier/ask.h"

#define SEEDS      3
#define DAYS       3
#define PODS       14
#define POINTS_MAX 600
#define TYPE       "cpu:nanoseconds"

struct scene {
    struct world w;
    struct ask ask;
    struct head head;
    struct store *seen;  // the querier's handle on the store
    struct mem_budget memory;
    unsigned moves;  // jobs that may go on while the question is read
    unsigned jobs;
    unsigned moved;  // of them, those within a question
    bool busy;
};

// ---- what happens to the store

static bool leaf_counts(void *arg, id128 leaf)
{
    return manifest_counts(arg, leaf);
}

// One of the jobs that are due; false: there is none.
static bool work_job(struct scene *s)
{
    struct world *w = &s->w;
    struct req r;
    struct snapshot snap;
    struct plan plan;
    struct mem_budget memory;
    struct job_report report;
    err fault = {0};
    mem_budget_init(&memory, "compactor", NULL, 0);
    req_init(&r, RANK_DUTY, NULL, 256 << 20, 0);
    assert_ok(snapshot_take(w->manifests, &r, &r.arena, S(FLEET_TENANT), &snap, e));
    struct plan_state state = {.segments = snap.segments,
                               .segment_count = snap.segment_count,
                               .counts = leaf_counts,
                               .arg = snap.manifest,
                               .now_ns = now_ns};
    state.blocks = manifest_blocks(snap.manifest, &state.block_count);
    assert_ok(plan_make(&r.arena, &state, &w->settings, &plan, e));
    const struct job_bench bench = {.manifests = w->manifests,
                                    .store = w->store,
                                    .memory = &memory,
                                    .scratch = w->scratch,
                                    .tenant = S(FLEET_TENANT),
                                    .pack_bytes = w->pack_bytes,
                                    .begun_ns = now_ns,
                                    .wall_ns = virtual_now};
    bool any = plan.n > 0;
    if (any) {
        const struct task *job = &plan.jobs[fleet_random(&w->fleet, MIN(plan.n, 4u))];
        now_ns += NS_PER_MS;
        if (job_run(&bench, &r, job, &report, &fault)) {
            w->jobs[job->kind]++;
            s->jobs++;
        } else if (fault.code != ERR_ABORTED) {
            fail_msg("%s", fault.msg);
        }
    }
    snapshot_release(&snap);
    req_release(&r);
    return any;
}

static bool is_named(const struct manifest *m, str name)
{
    size_t n = 0;
    const struct manifest_block *v = manifest_blocks(m, &n);
    for (size_t i = 0; i < n; i++) {
        if (str_eq(v[i].name, name)) return true;
    }
    return false;
}

// Takes away the blocks that the newest manifest does not name.
static void sweep(struct scene *s)
{
    struct req r;
    err fault = {0};
    req_init(&r, RANK_DUTY, NULL, 256 << 20, 0);
    struct manifest *m = manifest_newest(s->w.manifests, &r, S(FLEET_TENANT), &fault);
    assert_non_null(m);
    char *names = memstore_names(s->w.store, "");
    str rest = str_of(names);
    while (rest.n) {
        str name = str_split(rest, '\n', &rest);
        bool block = str_contains(name, S("/raw/")) || str_contains(name, S("/hours/")) ||
                     str_contains(name, S("/days/"));
        if (!block || is_named(m, name)) continue;
        memstore_drop(s->w.store, arena_str(&r.arena, name).p);
    }
    free(names);
    manifest_unref(m);
    req_release(&r);
}

static enum memstore_fault move_on(void *arg, const struct memstore_event *ev)
{
    struct scene *s = arg;
    if (ev->op != MEMSTORE_READ || s->moves == 0 || s->busy) return MEMSTORE_FINE;
    if (fleet_random(&s->w.fleet, 3)) return MEMSTORE_FINE;
    s->busy = true;
    s->moves--;
    s->moved += work_job(s);
    sweep(s);
    s->busy = false;
    return MEMSTORE_FINE;
}

// ---- questions

struct question {
    int64_t from_ms;
    int64_t to_ms;
    int64_t step_ms;
    bool tree;
    bool lead;
    bool spread;
    // the answer
    int64_t sums[PODS][POINTS_MAX];
    int64_t total;
};

static struct question asked;  // by answer_question, whose arguments are those of a request

static bool add_pod(struct question *q, const struct merged *m, const struct cell *c, err *e)
{
    struct total t;
    uint64_t pod = 0;
    str name = labels_get(m->totals.groups[c->group], S("pod"));
    if (!totals_show(&m->totals, c, &t, e)) return false;
    assert_true(str_u64(str_slice(name, 4, name.n), &pod) && pod < PODS);
    assert_in_range(c->point, 0, POINTS_MAX - 1);
    q->sums[pod][c->point] += t.sum;
    return true;
}

static bool answer_question(struct answer *a, str in, struct buf *out, err *e)
{
    static const str pod[] = {S_INIT("pod")};
    const struct query_range range = {asked.from_ms, asked.to_ms, false};
    struct query q = {.tree.wanted = asked.tree};
    struct merged *m = NULL;
    struct query_step step = {.seconds = (double)asked.step_ms / 1000, .lead = asked.lead};
    (void)in;
    (void)out;
    query_set_range(&q, &range);
    if (!selector_add(a->arena, &q.selector, MATCH_EQ, S(LABEL_PROFILE_TYPE), S(TYPE), e)) {
        return false;
    }
    if (!asked.tree && !query_add_totals(&q, &range, &step, e)) {
        return false;
    }
    q.totals.spread = asked.spread;
    q.totals.group_by = pod;
    q.totals.group_by_count = 1;
    if (!answer_read(a, &q, &m, e)) return false;
    for (uint32_t i = 0; !asked.tree && i < m->totals.n; i++) {
        if (!add_pod(&asked, m, &m->totals.v[i], e)) return false;
    }
    asked.total = 0;
    for (uint32_t i = 0; asked.tree && i < m->stacks.symbols.t.stack_count; i++)
        asked.total += m->stacks.sums[i];
    return true;
}

// ---- what the facts say

#define ALL_PODS (-1)

// Values may be negative: the sum, or the sum of what they are without their signs.
struct sums {
    int64_t sum;
    int64_t size;
};

static struct sums sums_of(const struct scene *s, int pod, int64_t from_ns, int64_t to_ns)
{
    struct sums all = {0};
    for (size_t i = 0; i < s->w.fleet.n; i++) {
        const struct fact *x = &s->w.fleet.facts[i];
        bool sampled = x->series % 7 == 6;
        if (x->type != 0 || sampled || x->time_ns <= from_ns || x->time_ns > to_ns) continue;
        if (pod != ALL_PODS && (int)x->series != pod) continue;
        for (uint32_t k = 0; k < x->n; k++) {
            all.sum += x->v[k].value * x->factor;
            all.size += llabs(x->v[k].value * x->factor);
        }
    }
    return all;
}

// By how much the header says that the answer was rounded; it must be whole.
static int64_t rounding_of(const struct scene *s, const char *exact)
{
    double seconds = 0;
    if (strcmp(exact, "exact") == 0) return 0;
    if (sscanf(exact, "rounded=%lf", &seconds) != 1) {
        fail_msg("after %u jobs: [%lld, %lld] step %lld is answered '%s'", s->jobs,
                 (long long)asked.from_ms, (long long)asked.to_ms, (long long)asked.step_ms, exact);
    }
    return (int64_t)(seconds * 1e9);
}

// A slot counts in the step in which it ends: so much later, or beyond the last point.
static void check_series(const struct scene *s, int64_t slack)
{
    int64_t points = (asked.to_ms - asked.from_ms + asked.step_ms - 1) / asked.step_ms + 1;
    for (int pod = 0; pod < PODS; pod++) {
        int64_t sum = 0;
        int64_t from = (asked.from_ms - (asked.lead ? asked.step_ms : 0)) * NS_PER_MS - 1;
        for (int64_t k = 0; k < points; k++) {
            bool last = k == points - 1;
            int64_t to = MIN(asked.from_ms + k * asked.step_ms, asked.to_ms) * NS_PER_MS;
            sum += asked.sums[pod][k];
            int64_t want = sums_of(s, pod, from, to).sum;
            // Rows of the first ms, and those that reach over a border, are of either side.
            int64_t after = last ? to + slack : to + (k == 0 ? NS_PER_MS : 0);
            int64_t may = sums_of(s, pod, from - slack, from).size +
                          sums_of(s, pod, to - MAX(slack, asked.spread ? 15 : 0), after).size;
            if (llabs(sum - want) <= may) continue;
            fail_msg("after %u jobs (%zu packs, %zu days, %zu retired), %u within the question: "
                     "[%lld, %lld] step %lld: pod %d up to point %lld of %lld: %lld, want %lld; %s",
                     s->jobs, s->w.jobs[JOB_PACK], s->w.jobs[JOB_DAY], s->w.jobs[JOB_RETIRE],
                     s->moved, (long long)asked.from_ms, (long long)asked.to_ms,
                     (long long)asked.step_ms, pod, (long long)k, (long long)points, (long long)sum,
                     (long long)want, ask_said(&s->ask, "flametree-explain"));
        }
    }
}

static void ask_once(struct scene *s, bool tree)
{
    static const int64_t steps[] = {60000, 810000, 900000, 3600000, 8100000, 86400000};
    struct fleet *f = &s->w.fleet;
    int64_t begin = slot_start(HOUR_0, SLOT_HOUR) / NS_PER_MS;
    int64_t day_ms = SLOT_DAY / NS_PER_MS;
    bool whole = fleet_random(f, 2);
    memset(&asked, 0, sizeof asked);
    asked.tree = tree;
    asked.from_ms = whole ? begin : begin + (int64_t)fleet_random(f, (uint64_t)(2 * day_ms));
    asked.to_ms = whole ? begin + DAYS * day_ms
                        : asked.from_ms + (int64_t)fleet_random(f, (uint64_t)day_ms) + 1;
    asked.step_ms = steps[fleet_random(f, COUNT(steps))];
    asked.spread = fleet_random(f, 2);
    asked.lead = !asked.spread && fleet_random(f, 2);
    while ((asked.to_ms - asked.from_ms) / asked.step_ms + 2 >= POINTS_MAX)
        asked.step_ms *= 2;
    ask_again(&s->ask);
    s->ask.x.req.tenant = S(FLEET_TENANT);
    ask_header(&s->ask, "flametree-explain", "1");
    if (!answer_run(&s->ask.state, &s->ask.x, S("Test"), answer_question, (str){0}, &s->ask.out,
                    &s->ask.fault)) {
        fail_msg("after %u jobs: %s", s->jobs, s->ask.fault.msg);
    }
    int64_t slack = rounding_of(s, ask_said(&s->ask, "flametree-exact"));
    if (!tree) {
        check_series(s, slack);
    } else if (slack == 0) {
        int64_t want =
            sums_of(s, ALL_PODS, asked.from_ms * NS_PER_MS - 1, asked.to_ms * NS_PER_MS).sum;
        if (asked.total != want)
            fail_msg("after %u jobs: the tree of [%lld, %lld] is %lld, want %lld", s->jobs,
                     (long long)asked.from_ms, (long long)asked.to_ms, (long long)asked.total,
                     (long long)want);
    }
}

// ---- scenes

static void scene_open(struct scene *s, uint64_t seed)
{
    err fault = {0};
    memset(s, 0, sizeof *s);
    world_init(&s->w, seed);
    mem_budget_init(&s->memory, "querier", NULL, 0);
    s->head = (struct head){.member = "one", .stream = 1};
    ask_open(&s->ask, &s->head, 1);
    s->seen = memstore_again(s->w.store);
    s->ask.state.memory = &s->memory;
    s->ask.state.manifests = manifests_open(s->seen, &s->memory, virtual_now, &fault);
    assert_non_null(s->ask.state.manifests);
    s->ask.state.blocks = blocks_new(s->seen, &s->memory, 1 << 20);
    memstore_set_hooks(s->seen, move_on, NULL, s);
    struct plan_settings *p = &s->w.settings;
    struct fleet *f = &s->w.fleet;
    *p = (struct plan_settings){
        .fold_interval = fleet_random(f, 2) ? SLOT_DAY : SLOT_HOUR,
        .pack_interval = fleet_random(f, 2) ? 6 * SLOT_HOUR : 0,
        .window_interval = SLOT_DAY,
        .day_leaf_bytes = fleet_random(f, 2) ? (uint64_t)1 << 29 : 0,
        .raw_retention = SLOT_DAY,
    };
    s->w.pack_bytes = fleet_random(f, 3) ? (uint64_t)1 << 29 : 4000;
}

static void scene_close(struct scene *s)
{
    ask_close(&s->ask);
    blocks_free(s->ask.state.blocks);
    manifests_close(s->ask.state.manifests);
    store_close(s->seen);
    world_release(&s->w);
}

static void ask_all(struct scene *s)
{
    for (int i = 0; i < 4; i++) {
        s->moves = i % 2 ? (unsigned)fleet_random(&s->w.fleet, 3) : 0;
        ask_once(s, i == 2);
    }
    s->moves = 0;
}

static void series_are_whole_while_leaves_retire(void **state)
{
    (void)state;
    unsigned moved = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct scene s;
        scene_open(&s, seed);
        struct fleet *f = &s.w.fleet;
        for (int64_t hour = 0; hour < DAYS * 24; hour++) {
            if (fleet_random(f, 3)) fleet_hour(f, HOUR_0 + hour, 3 + fleet_random(f, 12));
        }
        fleet_flush(f, s.w.store, 0, 20);
        now_ns = slot_start(HOUR_0 + DAYS * 24 - 20, SLOT_HOUR);
        for (int64_t hour = 0; hour < 80; hour += 4) {
            now_ns += 4 * SLOT_HOUR;
            if (hour < 30 && fleet_random(f, 3) == 0) {  // late rows
                size_t before = f->n;
                fleet_hour(f, HOUR_0 + 24 + (int64_t)fleet_random(f, 40), 5);
                fleet_flush(f, s.w.store, before, 20);
            }
            ask_all(&s);
            while (work_job(&s))
                if (fleet_random(f, 4) == 0) ask_all(&s);
        }
        moved += s.moved;
        print_message("seed %llu: %u jobs, %u within questions; %zu packs, %zu days, %zu retired\n",
                      (unsigned long long)seed, s.jobs, s.moved, s.w.jobs[JOB_PACK],
                      s.w.jobs[JOB_DAY], s.w.jobs[JOB_RETIRE]);
        scene_close(&s);
    }
    assert_true(moved > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(series_are_whole_while_leaves_retire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
