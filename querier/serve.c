// SPDX-License-Identifier: Apache-2.0
#include "querier/serve.h"

#include "querier/block_read.h"
#include "querier/explain.h"
#include "querier/metrics.h"
#include "sys/clock.h"

#define PLANS_MAX 64  // of one question; each leaves out an object more

// Trees are read from other parts of blocks than totals are, so a question for both has two plans.
#define PARTS_MAX 2

// One tenant's plan for a part of the question, and what cannot be read.
struct served {
    const struct settled *of;
    const struct query *q;
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
    bool stale;
    bool again;  // plans changed
};

static bool no_memory(struct answer *a, err *e)
{
    if (!arena_ok(a->arena, e)) return false;
    return err_set(e, ERR_RESOURCE_EXHAUSTED, "no memory for the request");
}

// ---- the question

// The id of a profile has its time in ms: nothing else needs to be read.
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

static size_t split(const struct query *q, struct query parts[PARTS_MAX])
{
    parts[0] = *q;
    parts[1] = *q;
    if (!q->tree.wanted || !q->totals.wanted) return 1;
    parts[0].totals.wanted = false;
    parts[1].tree.wanted = false;
    return 2;
}

static bool begin(const struct serving *s, struct served *v, err *e)
{
    const struct settled *t = v->of;
    v->ask = (struct level_ask){0};
    if (!block_read_ask(v->q, &v->ask, e)) return false;
    v->ask.from_ns = v->q->from_ns;
    v->ask.to_ns = v->q->to_ns;
    narrow(v->q, &v->ask);
    v->row_by_row = ARENA_ARRAY(s->a->arena, str, t->skip_count + 1);
    if (!v->row_by_row) return no_memory(s->a, e);
    for (size_t i = 0; i < t->skip_count; i++)
        v->row_by_row[i] = t->skips[i].object;
    v->ask.row_by_row = v->row_by_row;
    v->ask.row_by_row_count = t->skip_count;
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
        if (!arena_grow(arena, &v->without, &v->without_cap, v->without_count + 1,
                        sizeof *v->without)) {
            return arena_ok(arena, e);
        }
        if (v->without_count == 0) v->why = f->why;
        v->without[v->without_count++] = f->object->name;
        v->planned = false;
        r->again = true;
    }
    return true;
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
    v->ask.without = v->without;
    v->ask.without_count = v->without_count;
    bool ok = level_plan(r->s->a->arena, &v->of->snapshot, &v->ask, &v->plan, e);
    r->s->a->work.ns[WORK_PLAN] += clock_mono_ns() - began;
    r->s->a->work.plans++;
    return ok;
}

// Projections may have lost a label that the question needs; then series have to do.
static bool make_plan(struct reading *r, struct served *v, err *e)
{
    struct answer *a = r->s->a;
    if (v->planned) return true;
    v->planned = true;
    if (!plan_once(r, v, e)) return false;
    if (v->ask.classes != 1U << BLOCK_PROJECTION || v->plan.n == 0) return true;
    bool survives = true;
    struct block_reads reads = {0};
    if (!block_read_survives(a->querier->blocks, &a->x->req, v->q, &v->plan, &survives, &reads,
                             e)) {
        return false;
    }
    count(&a->work, &reads);
    if (!note_faults(r, v, &reads, e)) return false;
    if (survives) return true;
    v->ask.classes = 1U << BLOCK_SERIES;
    return plan_once(r, v, e);
}

// ---- reading

static const struct settled_skip *skip_of(const struct settled *t, str name)
{
    for (size_t i = 0; i < t->skip_count; i++) {
        if (str_eq(t->skips[i].object, name)) return &t->skips[i];
    }
    return NULL;
}

// The pieces of objects whose rows are skipped by the same list, which may be none.
static bool read_with(struct reading *r, struct served *v, const struct settled_skip *skip, err *e)
{
    struct answer *a = r->s->a;
    struct level_plan part = v->plan;
    part.n = 0;
    part.pieces = ARENA_ARRAY(a->arena, struct level_piece, v->plan.n + 1);
    if (!part.pieces) return no_memory(a, e);
    for (size_t i = 0; i < v->plan.n; i++) {
        if (skip_of(v->of, v->plan.pieces[i].object->name) == skip) {
            part.pieces[part.n++] = v->plan.pieces[i];
        }
    }
    if (part.n == 0) return true;
    struct block_reads reads = {0};
    const struct block_task task = {v->q, &part, skip ? &skip->rows : NULL};
    bool ok = block_read(a->querier->blocks, &a->x->req, &task, r->m, &reads, e);
    count(&a->work, &reads);
    return ok && note_faults(r, v, &reads, e);
}

static bool read_part(struct reading *r, struct served *v, err *e)
{
    if (!make_plan(r, v, e)) return false;
    uint64_t began = clock_mono_ns();
    bool ok = read_with(r, v, NULL, e);
    for (size_t i = 0; ok && i < v->of->skip_count; i++)
        ok = read_with(r, v, &v->of->skips[i], e);
    r->s->a->work.ns[WORK_READ] += clock_mono_ns() - began;
    return ok;
}

static bool read_all(struct reading *r, err *e)
{
    r->again = false;
    for (size_t i = 0; i < r->n && !r->stale; i++) {
        if (!read_part(r, &r->v[i], e)) return false;
    }
    return true;
}

// ---- what became of it

static void note_gone(struct answer_work *w, const struct level_plan *p)
{
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
    // What is gone might be in a parent that cannot be read.
    for (size_t k = 0; p->gone && k < v->without_count; k++) {
        if (!fetch_miss(a->arena, &a->fetched, v->without[k], &v->why, e)) return false;
    }
    if (p->gone) note_gone(&a->work, p);
    a->work.rounded_ns = MAX(a->work.rounded_ns, level_rounding(p, &v->ask));
    explain_plan(a, v->of->tenant, p);
    return true;
}

static bool begin_anew(const struct serving *s, struct merged *m, err *e)
{
    const struct answer *a = s->a;
    merged_release(m);
    return merged_init(m, a->querier->memory, a->config->query_memory, s->q->tree.full_symbols, e);
}

bool serve(const struct serving *s, struct merged *m, bool *stale, err *e)
{
    struct answer *a = s->a;
    struct reading r = {.s = s, .m = m};
    *stale = false;
    struct query parts[PARTS_MAX];
    size_t part_count = split(s->q, parts);
    r.v = ARENA_ARRAY(a->arena, struct served, s->n * part_count);
    if (!r.v) return no_memory(a, e);
    for (size_t i = 0; i < s->n * part_count; i++) {
        const struct settled *t = &s->tenants[i / part_count];
        if (!t->has_blocks) continue;
        struct served *v = &r.v[r.n++];
        *v = (struct served){.of = t, .q = &parts[i % part_count]};
        if (!begin(s, v, e)) return false;
    }
    r.again = true;
    for (unsigned i = 0; r.again && i < PLANS_MAX; i++) {
        if (!req_alive(&a->x->req, e)) return false;
        if (!read_all(&r, e)) return false;
        if (!r.again && !r.stale) break;
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
