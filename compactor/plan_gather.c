// SPDX-License-Identifier: Apache-2.0
//
// plan_gather.c - the blocks that a job of a parent reads, and those that it replaces.
#include "compactor/plan_gather.h"

struct gathered *gather_source(struct gathering *g, const struct manifest_block *b)
{
    for (size_t i = 0; i < g->source_count; i++) {
        if (g->sources[i].block == b) return &g->sources[i];
    }
    if (!arena_grow(g->p->a, &g->sources, &g->source_cap, g->source_count + 1, sizeof *g->sources))
        return NULL;
    struct gathered *s = &g->sources[g->source_count++];
    *s = (struct gathered){.block = b};
    return s;
}

bool gather_span(struct gathering *g, const struct chosen_part *part, int64_t hour, uint32_t hours,
                 err *e)
{
    assert(hours > 0 && part->pack_lo <= part->pack_hi);
    struct gathered *s = gather_source(g, part->block);
    if (!s) return arena_fail(g->p->a, e);
    struct plan_span *last = s->n ? &s->spans[s->n - 1] : NULL;
    // Children come in order of time, so runs of hours of the same packs become one span.
    if (last && last->pack_lo == part->pack_lo && last->pack_hi == part->pack_hi &&
        last->from_hour + last->hours == hour) {
        last->hours += hours;
        return true;
    }
    if (!arena_grow(g->p->a, &s->spans, &s->cap, s->n + 1, sizeof *s->spans))
        return arena_fail(g->p->a, e);
    s->spans[s->n++] = (struct plan_span){hour, hours, part->pack_lo, part->pack_hi};
    return true;
}

bool gather_sources(struct gathering *g, const struct chosen *c, int64_t hour, uint32_t hours,
                    err *e)
{
    for (size_t i = 0; i < c->n; i++) {
        if (!gather_span(g, &c->parts[i], hour, hours, e)) return false;
    }
    return leaf_set_union(g->p->a, &g->leaves, &c->leaves, &g->leaves, e);
}

bool gather_cover(struct gathering *g, const struct leaf_set *leaves, int64_t hour, uint32_t hours,
                  err *e)
{
    if (!arena_grow(g->p->a, &g->covers, &g->cover_cap, g->cover_count + 1, sizeof *g->covers))
        return arena_fail(g->p->a, e);
    assert(g->cover_count == 0 || g->covers[g->cover_count - 1].hour < hour);
    g->covers[g->cover_count++] = (struct manifest_cover){.hour = hour,
                                                          .hours = hours,
                                                          .leaves = leaves->v,
                                                          .leaf_count = (uint32_t)leaves->n};
    return true;
}

bool gather_empty(struct gathering *g, int64_t from, int64_t to, uint32_t hours, err *e)
{
    static const struct leaf_set none;
    assert(hours > 0);
    for (int64_t hour = from; hour < to; hour += hours) {
        if (!gather_cover(g, &none, hour, hours, e)) return false;
    }
    return true;
}

bool gather_into(struct task *j, const struct gathering *g, err *e)
{
    struct job_source *v = ARENA_ARRAY(g->p->a, struct job_source, g->source_count + 1);
    if (!v) return arena_fail(g->p->a, e);
    for (size_t i = 0; i < g->source_count; i++) {
        const struct gathered *from = &g->sources[i];
        v[i] =
            (struct job_source){.block = from->block, .spans = from->spans, .span_count = from->n};
        j->bytes += from->block->bytes;
    }
    j->sources = v;
    j->source_count = g->source_count;
    j->covers = g->covers;
    j->cover_count = g->cover_count;
    j->needs = g->leaves.v;
    j->need_count = g->leaves.n;
    return true;
}

struct plan_hour *plan_hours_of_day(const struct planning *p, int64_t day, size_t *n)
{
    return plan_hours_within(p, day * HOURS_A_DAY, (day + 1) * HOURS_A_DAY, n);
}

bool plan_all_live(const struct plan_state *s, const struct manifest_cover *c)
{
    for (size_t i = 0; i < c->leaf_count; i++) {
        if (!s->counts(s->arg, c->leaves[i])) return false;
    }
    return true;
}

// Does the job sum all that a damaged block sums? Then it replaces it. Another damaged block stays:
// queries for what only it has say that it is missing.
static bool is_replaced(const struct planning *p, const struct task *j,
                        const struct manifest_block *bad)
{
    enum block_kind kind = j->kind == JOB_PACK ? BLOCK_HOURS : BLOCK_DAYS;
    bool series = bad->classes >> BLOCK_SERIES & 1;
    if (bad->kind != kind || (series && j->kind == JOB_WINDOW)) return false;
    for (size_t i = 0; i < bad->cover_count; i++) {
        const struct manifest_cover *c = &bad->covers[i];
        const struct leaf_set part = {c->leaves, c->leaf_count};
        static const struct leaf_set none;
        bool within =
            c->leaf_count == 0 || (!plan_all_live(p->state, c) && !plan_has_last(p, c, &none));
        for (size_t k = 0; !within && k < j->cover_count; k++) {
            const struct manifest_cover *d = &j->covers[k];
            const struct leaf_set whole = {d->leaves, d->leaf_count};
            within = d->hour == c->hour && d->hours == c->hours && leaf_set_within(&part, &whole);
        }
        if (!within) return false;
    }
    return true;
}

bool gather_removed(struct planning *p, struct task *j, const struct manifest_block *const *v,
                    size_t n, err *e)
{
    id128 *to = ARENA_ARRAY(p->a, id128, n + p->bad_count + 1);
    if (!to) return arena_fail(p->a, e);
    for (size_t i = 0; i < n; i++)
        to[i] = v[i]->id;
    for (size_t i = 0; i < p->bad_count; i++) {
        if (is_replaced(p, j, p->bad[i])) to[n++] = p->bad[i]->id;
    }
    j->remove = to;
    j->remove_count = n;
    return true;
}

bool gather_are_live(const struct planning *p, const struct leaf_set *leaves)
{
    for (size_t i = 0; i < leaves->n; i++) {
        if (!plan_live_leaf(p, leaves->v[i])) return false;
    }
    return true;
}
