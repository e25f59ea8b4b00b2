// SPDX-License-Identifier: Apache-2.0
//
// The way through a question's plans:
//
//     1. split the question: trees and totals have plans of their own; for each tenant with blocks
//        and each part there is one plan (struct served)
//     2. make the plan; if projections lack a label that the question needs, plan again by series
//     3. read all pieces and add them to the result
//     4. objects that could not be read are noted in `without`, and what was added so far is thrown
//        away, as something of them may be in it: again from 2, without them
//     5. report what is missing, gone or rounded
//
// Each time round leaves out at least one object more, so it ends; PLANS_MAX bounds it.
#include "querier/answer/serve.h"

#include "querier/answer/explain.h"
#include "querier/block/block_read.h"
#include "querier/metrics.h"
#include "sys/clock.h"

#include <stdlib.h>

#define PLANS_MAX 64  // of one question; each leaves out at least one object more

// Trees are read from other parts of blocks than totals are, so a question for both has two plans.
#define PARTS_MAX 2

// How a tree is read if some matchers exclude (pod!="x"): directly, or as a difference. The one
// with fewer bytes is chosen.
enum way {
    WAY_OPEN,       // not chosen yet
    WAY_DIRECT,     // the keys that all matchers leave
    WAY_DIFFERENCE  // the sums of all, minus the keys that the matchers exclude
};

// One tenant's plan for a part of the question, and the objects that cannot be read.
struct served {
    const struct reconciled *of;
    const struct query *q;
    enum way way;
    // The question with the matchers of service and type only; NULL if no other matcher excludes.
    struct served *whole;
    struct level_ask ask;
    struct level_plan plan;
    str *without;
    size_t without_count;
    size_t without_cap;
    str *row_by_row;
    err why;  // of the first of `without`
    bool planned;
};

struct reading {
    const struct serving *s;
    struct merged *m;
    struct served *v;
    size_t n;
    bool stale;  // an object is gone: the snapshot is old
    bool again;  // a plan must be made anew, and *m with it
};

// ---- the question

// The id of a profile has its time in ms, so a question for some ids needs no other time.
static void narrow(const struct query *q, struct level_ask *ask)
{
    if (!q->tree.wanted || q->tree.profile_count == 0) return;
    int64_t first = INT64_MAX;
    int64_t last = INT64_MIN;
    for (size_t i = 0; i < q->tree.profile_count; i++) {
        int64_t ms = (int64_t)uuid_ms(q->tree.profiles[i]);
        first = MIN(first, ms);
        last = MAX(last, ms);
    }
    int64_t ns = 0;
    if (!__builtin_mul_overflow(first, INT64_C(1000000), &ns)) {
        ask->from_ns = MAX(ask->from_ns, ns - 1);
    }
    if (!__builtin_mul_overflow(last + 1, INT64_C(1000000), &ns)) {
        ask->to_ns = MIN(ask->to_ns, ns - 1);
    }
}

bool serve_ask(const struct query *q, struct level_ask *ask, err *e)
{
    *ask = (struct level_ask){0};
    if (!block_read_ask(q, ask, e)) return false;
    ask->from_ns = q->from_ns;
    ask->to_ns = q->to_ns;
    narrow(q, ask);
    return true;
}

static size_t split(const struct query *q, struct query parts[PARTS_MAX])
{
    parts[0] = *q;
    parts[1] = *q;
    if (!q->tree.wanted || !q->totals.wanted) return 1;
    parts[0].totals.wanted = false;
    parts[1].tree.wanted = false;
    return 2;
}

static bool leave_out(struct arena *a, struct served *v, str object, const err *why, err *e)
{
    if (!arena_grow(a, &v->without, &v->without_cap, v->without_count + 1, sizeof *v->without))
        return arena_fail(a, e);
    if (v->without_count == 0) v->why = *why;
    v->without[v->without_count++] = object;
    return true;
}

// Objects with rows that do not count are read row by row: nodes contain these rows. Those of which
// no row may count are not read at all.
static bool begin(const struct serving *s, struct served *v, err *e)
{
    const struct reconciled *t = v->of;
    if (!serve_ask(v->q, &v->ask, e)) return false;
    size_t n = 0;
    v->row_by_row = ARENA_ARRAY(s->a->arena, str, t->skip_count + t->unsearched_count + 1);
    if (!v->row_by_row) return arena_fail(s->a->arena, e);
    for (size_t i = 0; i < t->skip_count; i++)
        v->row_by_row[n++] = t->skips[i].object;
    for (size_t i = 0; i < t->unsearched_count; i++) {
        v->row_by_row[n++] = t->unsearched[i];
        if (!leave_out(s->a->arena, v, t->unsearched[i], &t->unsearched_why, e)) return false;
    }
    v->ask.row_by_row = v->row_by_row;
    v->ask.row_by_row_count = n;
    return true;
}

// ---- faults

static bool note_faults(struct reading *r, struct served *v, const struct block_reads *reads,
                        err *e)
{
    struct arena *arena = r->s->a->arena;
    for (size_t i = 0; i < reads->fault_count; i++) {
        const struct block_fault *f = &reads->faults[i];
        r->stale |= f->why.code == ERR_NOT_FOUND && !r->s->last;
        if (str_among(f->object->name, v->without, v->without_count)) continue;
        if (!leave_out(arena, v, f->object->name, &f->why, e)) return false;
        v->planned = false;
        r->again = true;
    }
    return true;
}

// Counts reads that were made to choose a plan. Its objects are counted when they are used.
static void count_inspecting(struct answer_work *w, const struct block_reads *reads)
{
    w->reads += reads->reads;
    w->bytes += reads->bytes;
}

static void count(struct answer_work *w, const struct block_reads *reads)
{
    w->objects += reads->objects;
    w->nodes += reads->nodes;
    w->rows += reads->rows;
    w->reads += reads->reads;
    w->bytes += reads->bytes;
    metric_add(&querier_read_objects, reads->objects);
}

// ---- plans

static bool plan_once(struct reading *r, struct served *v, err *e)
{
    uint64_t began = clock_mono_ns();
    assert(v->of->has_blocks);
    v->ask.without = v->without;
    v->ask.without_count = v->without_count;
    bool ok = level_plan(r->s->a->arena, &v->of->snapshot, &v->ask, &v->plan, e);
    r->s->a->work.ns[WORK_PLAN] += clock_mono_ns() - began;
    r->s->a->work.plans++;
    return ok;
}

// Projections lack the labels that churned, and only their indexes say which. If one is needed, the
// plan is made again for series.
static bool make_plan(struct reading *r, struct served *v, err *e)
{
    struct answer *a = r->s->a;
    if (v->planned) return true;
    assert(v->ask.from_ns <= v->ask.to_ns || v->q->tree.profile_count);
    v->planned = true;  // until an object turns out to be unreadable: note_faults clears it
    if (!plan_once(r, v, e)) return false;
    if (v->ask.classes != 1U << BLOCK_PROJECTION || v->plan.n == 0) return true;
    bool survives = true;
    struct block_reads reads = {0};
    if (!block_read_survives(a->querier->blocks, &a->x->req, v->q, &v->plan, &survives, &reads,
                             e)) {
        return false;
    }
    count_inspecting(&a->work, &reads);
    if (!note_faults(r, v, &reads, e)) return false;
    if (survives) return true;
    v->ask.classes = 1U << BLOCK_SERIES;
    return plan_once(r, v, e);
}

// ---- reading

static const struct reconciled_skip *skip_of(const struct reconciled *t, str name)
{
    for (size_t i = 0; i < t->skip_count; i++) {
        if (str_eq(t->skips[i].object, name)) return &t->skips[i];
    }
    return NULL;
}

// Reads the pieces of the objects that have this list of rows to skip; NULL: those that have none.
static bool read_with(struct reading *r, struct served *v, const struct reconciled_skip *skip,
                      bool excluded, err *e)
{
    struct answer *a = r->s->a;
    struct level_plan part = v->plan;
    part.n = 0;
    part.pieces = ARENA_ARRAY(a->arena, struct level_piece, v->plan.n + 1);
    if (!part.pieces) return arena_fail(a->arena, e);
    for (size_t i = 0; i < v->plan.n; i++) {
        if (skip_of(v->of, v->plan.pieces[i].object->name) == skip) {
            part.pieces[part.n++] = v->plan.pieces[i];
        }
    }
    if (part.n == 0) return true;
    struct block_reads reads = {0};
    const struct block_task task = {v->q, &part, skip ? &skip->rows : NULL, excluded};
    struct peer_readers readers = a->querier->readers;
    readers.split_bytes = a->config->split_bytes;
    readers.answer_max = a->config->fetch_max;
    // Calls to peers carry the tenant of the pieces.
    str all_tenants = a->x->req.tenant;
    a->x->req.tenant = v->of->tenant;
    bool ok = peer_read(&readers, a->querier->blocks, &a->x->req, &task, r->m, &reads, e);
    a->x->req.tenant = all_tenants;
    count(&a->work, &reads);
    return ok && note_faults(r, v, &reads, e);
}

// A reading knows one list of rows to skip. Few segments have such rows, so lists are few.
static bool read_plan(struct reading *r, struct served *v, bool excluded, err *e)
{
    bool ok = read_with(r, v, NULL, excluded, e);
    for (size_t i = 0; ok && i < v->of->skip_count; i++)
        ok = read_with(r, v, &v->of->skips[i], excluded, e);
    return ok;
}

// ---- differences: all, minus the keys that are excluded

static bool is_of_all(const struct matcher *m)
{
    return str_is(m->name, LABEL_SERVICE) || str_is(m->name, LABEL_PROFILE_TYPE);
}

// The question with the matchers of service and type only, the arena's. *whole is NULL if no other
// matcher excludes, or if the question is not for a tree of all rows (spans, profile ids) or for
// one of sums that need not fit int64. False without memory.
static bool question_of_all(struct arena *a, const struct query *q, struct query **whole)
{
    const struct query_tree *t = &q->tree;
    bool excludes = false;
    *whole = NULL;
    if (q->hide_count) return true;  // what is excluded and what is deleted may meet
    if (!t->wanted || t->by_service || t->span_count || t->trace_count || t->profile_count)
        return true;
    for (size_t i = 0; i < q->selector.n; i++) {
        const struct matcher *m = &q->selector.v[i];
        excludes |= !is_of_all(m) && (m->op == MATCH_NEQ || m->op == MATCH_NRE);
    }
    if (!excludes) return true;
    struct matcher *v = ARENA_ARRAY(a, struct matcher, q->selector.n);
    *whole = ARENA_NEW(a, struct query);
    if (!v || !*whole) return false;
    size_t n = 0;
    for (size_t i = 0; i < q->selector.n; i++) {
        if (is_of_all(&q->selector.v[i])) v[n++] = q->selector.v[i];
    }
    **whole = *q;
    (*whole)->selector.v = v;
    (*whole)->selector.n = n;
    return true;
}

// Does the plan answer its whole range?
static bool is_complete(const struct served *v)
{
    return !v->plan.gone && v->plan.missing_count == 0 && v->without_count == 0;
}

// Are both plans complete, and do they answer the same range (the one asked for, or the same
// rounded one)? Then they count the same rows, whatever classes they read, and may be subtracted.
static bool answer_alike(const struct served *v)
{
    const struct level_plan *p = &v->plan;
    const struct level_plan *all = &v->whole->plan;
    return is_complete(v) && is_complete(v->whole) && p->rounded == all->rounded &&
           (!p->rounded || (p->from_ns == all->from_ns && p->to_ns == all->to_ns));
}

static bool weigh(struct reading *r, struct served *v, bool excluded, uint64_t *bytes, err *e)
{
    struct answer *a = r->s->a;
    struct block_reads reads = {0};
    const struct block_task task = {v->q, &v->plan, NULL, excluded};
    bool ok = block_read_weigh(a->querier->blocks, &a->x->req, &task, bytes, &reads, e);
    count_inspecting(&a->work, &reads);
    return ok && note_faults(r, v, &reads, e);
}

static bool choose_way(struct reading *r, struct served *v, err *e)
{
    uint64_t direct = 0;
    uint64_t difference = 0;
    assert(v->whole && v->way == WAY_OPEN);
    if (!make_plan(r, v->whole, e)) return false;
    if (v->plan.n == 0 || !answer_alike(v)) {
        v->way = WAY_DIRECT;
        return true;
    }
    if (!weigh(r, v, false, &direct, e) || !weigh(r, v, true, &difference, e) ||
        !weigh(r, v->whole, false, &difference, e)) {
        return false;
    }
    // If weighing met objects that cannot be read, the plans are not complete any more.
    v->way = difference < direct && answer_alike(v) ? WAY_DIFFERENCE : WAY_DIRECT;
    return true;
}

static bool read_difference(struct reading *r, struct served *v, err *e)
{
    err why = {0};
    assert(v->whole && v->way == WAY_DIFFERENCE);
    bool ok = read_plan(r, v->whole, false, &why) && read_plan(r, v, true, &why);
    if (ok && answer_alike(v)) return true;
    if (!ok && why.code != ERR_OUT_OF_RANGE) {
        *e = why;
        return false;
    }
    // Something cannot be read, or the sum of all does not fit 64 bits, though that of the question
    // may. What was added is thrown away.
    v->way = WAY_DIRECT;
    r->again = true;
    return true;
}

static bool read_part(struct reading *r, struct served *v, err *e)
{
    if (!make_plan(r, v, e)) return false;
    uint64_t began = clock_mono_ns();
    bool ok = !v->whole || v->way != WAY_OPEN || choose_way(r, v, e);
    if (ok) {
        ok = v->way == WAY_DIFFERENCE ? read_difference(r, v, e) : read_plan(r, v, false, e);
    }
    r->s->a->work.ns[WORK_READ] += clock_mono_ns() - began;
    return ok;
}

static bool read_all(struct reading *r, err *e)
{
    r->again = false;
    // All parts, also after one that has to be read again: each finds the objects that it cannot
    // read, so that one more round does for all of them.
    for (size_t i = 0; i < r->n && !r->stale; i++) {
        if (!read_part(r, &r->v[i], e)) return false;
    }
    return true;
}

// ---- reporting missing, gone and rounded parts

static void note_gone(struct answer_work *w, const struct level_plan *p)
{
    assert(p->gone && p->gone_from_ns <= p->gone_to_ns);
    if (!w->gone) {
        w->gone_from_ns = p->gone_from_ns;
        w->gone_to_ns = p->gone_to_ns;
    }
    w->gone = true;
    w->gone_from_ns = MIN(w->gone_from_ns, p->gone_from_ns);
    w->gone_to_ns = MAX(w->gone_to_ns, p->gone_to_ns);
}

static bool report(const struct reading *r, const struct served *v, err *e)
{
    struct answer *a = r->s->a;
    const struct level_plan *p = &v->plan;
    for (size_t k = 0; k < p->missing_count; k++) {
        if (!fetch_miss(a->arena, &a->fetched, p->missing[k]->name, &v->why, e)) return false;
    }
    // Rows that seem gone may have their sums in a parent that cannot be read: it is missing.
    for (size_t k = 0; p->gone && k < v->without_count; k++) {
        if (!fetch_miss(a->arena, &a->fetched, v->without[k], &v->why, e)) return false;
    }
    if (p->gone) note_gone(&a->work, p);
    for (size_t k = 0; v->q->totals.wanted && k < p->n; k++)
        a->work.sums |= p->pieces[k].use != LEVEL_ROWS;
    a->work.rounded_ns = MAX(a->work.rounded_ns, level_rounding(p, &v->ask));
    if (v->way != WAY_DIFFERENCE) {
        explain_plan(a, v->of->tenant, "", p);
    } else {
        explain_plan(a, v->of->tenant, "", &v->whole->plan);
        explain_plan(a, v->of->tenant, "minus ", p);
    }
    return true;
}

static bool begin_anew(const struct serving *s, struct merged *m, err *e)
{
    const struct answer *a = s->a;
    merged_release(m);
    return merged_init(m, a->querier->memory, a->config->query_memory, s->q->tree.full_symbols, e);
}

// ---- intervals: between two borders of deletions the same deletions hold

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

// The borders of a tenant's deletions within the range of the question, and the range's own; each
// once, in order. NULL: no memory.
static int64_t *list_borders(struct arena *a, const struct query *q, const struct reconciled *t,
                             size_t *n)
{
    int64_t *v = ARENA_ARRAY(a, int64_t, 2 * t->hide_count + 2);
    *n = 0;
    if (!v) return NULL;
    v[(*n)++] = q->from_ns;
    v[(*n)++] = q->to_ns;
    for (size_t i = 0; i < t->hide_count; i++) {
        const int64_t ends[] = {t->hides[i].from_ns, t->hides[i].to_ns};
        for (size_t k = 0; k < COUNT(ends); k++) {
            if (ends[k] > q->from_ns && ends[k] < q->to_ns) v[(*n)++] = ends[k];
        }
    }
    qsort(v, *n, sizeof *v, by_time);
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++) {
        if (kept == 0 || v[kept - 1] != v[i]) v[kept++] = v[i];
    }
    *n = kept;
    return v;
}

// The question within an interval, with the deletions that hold there.
static bool set_interval(struct arena *a, const struct reconciled *t, int64_t from_ns,
                         int64_t to_ns, struct query *q)
{
    struct hide *v = ARENA_ARRAY(a, struct hide, t->hide_count + 1);
    if (!v) return false;
    q->from_ns = from_ns;
    q->to_ns = to_ns;
    q->hides = v;
    q->hide_count = 0;
    for (size_t i = 0; i < t->hide_count; i++) {
        if (hide_meets(&t->hides[i], from_ns, to_ns)) v[q->hide_count++] = t->hides[i];
    }
    return true;
}

// A plan for one part of the question.
static bool list_plan(struct reading *r, const struct reconciled *t, const struct query *q,
                      bool first, err *e)
{
    struct arena *arena = r->s->a->arena;
    struct query *whole = NULL;
    struct served *v = &r->v[r->n++];
    *v = (struct served){.of = t, .q = q};
    if (!begin(r->s, v, e)) return false;
    if (!first) return true;
    if (!question_of_all(arena, q, &whole)) return arena_fail(arena, e);
    if (!whole) return true;
    v->whole = ARENA_NEW(arena, struct served);
    if (!v->whole) return arena_fail(arena, e);
    *v->whole = (struct served){.of = t, .q = whole};
    return begin(r->s, v->whole, e);
}

static bool list_tenant(struct reading *r, const struct reconciled *t, const struct query *parts,
                        size_t part_count, err *e)
{
    struct arena *arena = r->s->a->arena;
    size_t n = 0;
    const int64_t *borders = list_borders(arena, &parts[0], t, &n);
    // An empty range, or one of a single border, has one interval, which is itself.
    size_t intervals = n > 1 ? n - 1 : 1;
    struct query *q = ARENA_ARRAY(arena, struct query, intervals * part_count);
    if (!borders || !q) return arena_fail(arena, e);
    for (size_t i = 0; i < intervals; i++) {
        for (size_t k = 0; k < part_count; k++, q++) {
            *q = parts[k];
            bool ok = t->hide_count == 0 ||
                      set_interval(arena, t, borders[i], borders[MIN(i + 1, n - 1)], q);
            if (!ok) return arena_fail(arena, e);
            if (!list_plan(r, t, q, k == 0, e)) return false;
        }
    }
    return true;
}

// Lists the plans that are needed: for each tenant with blocks one for each interval and part. The
// first part has the tree, so only there a difference may be read. None is made yet.
static bool list_plans(struct reading *r, const struct query parts[PARTS_MAX], size_t part_count,
                       err *e)
{
    const struct serving *s = r->s;
    size_t most = 0;
    for (size_t i = 0; i < s->n; i++)
        most += (2 * s->tenants[i].hide_count + 1) * part_count;
    r->v = ARENA_ARRAY(s->a->arena, struct served, most);
    if (!r->v) return arena_fail(s->a->arena, e);
    for (size_t i = 0; i < s->n; i++) {
        if (s->tenants[i].has_blocks && !list_tenant(r, &s->tenants[i], parts, part_count, e))
            return false;
    }
    assert(r->n <= most);
    return true;
}

bool serve(const struct serving *s, struct merged *m, bool *stale, err *e)
{
    struct answer *a = s->a;
    struct reading r = {.s = s, .m = m};
    // What is in *m may be thrown away (begin_anew).
    assert(s->n > 0 && m->profiles == 0 && m->totals.n == 0 && m->heat.n == 0 && m->sets.n == 0);
    *stale = false;
    struct query parts[PARTS_MAX];
    size_t part_count = split(s->q, parts);
    if (!list_plans(&r, parts, part_count, e)) return false;
    r.again = true;
    for (unsigned i = 0; r.again && i < PLANS_MAX; i++) {
        if (!req_alive(&a->x->req, e)) return false;
        if (!read_all(&r, e)) return false;
        if (!r.again && !r.stale) break;
        // Something of an object that failed halfway may be in *m.
        metric_add(&querier_plans_repeated, 1);
        if (!begin_anew(s, m, e)) return false;
        *stale = r.stale;
        if (r.stale) return true;
    }
    if (r.again) {
        return err_set(e, ERR_UNAVAILABLE, "%d objects cannot be read, the first: %s", PLANS_MAX,
                       r.v[0].why.msg);
    }
    for (size_t i = 0; i < r.n; i++) {
        if (!report(&r, &r.v[i], e)) return false;
    }
    return true;
}
