// SPDX-License-Identifier: Apache-2.0
//
// plan_days.c - jobs that make parents of parents: packs of hours, days, windows.
#include "compactor/plan_int.h"

#include <stdlib.h>

// A day waits so long for hours that cannot be made; then it is made without them.
#define PATIENCE_NS SLOT_DAY

// The blocks chosen for a run of child windows, which become a job's sources.
struct gathered {
    const struct manifest_block *block;
    struct plan_span *spans;
    size_t n;
    size_t cap;
};
struct gathering {
    struct planning *p;
    struct gathered *sources;
    size_t source_count;
    size_t source_cap;
    struct manifest_cover *covers;
    size_t cover_count;
    size_t cover_cap;
    struct leaf_set leaves;
};

static struct gathered *source_of(struct gathering *g, const struct manifest_block *b)
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

static bool add_span(struct gathering *g, const struct chosen_part *part, int64_t hour,
                     uint32_t hours, err *e)
{
    struct gathered *s = source_of(g, part->block);
    if (!s) return arena_ok(g->p->a, e);
    struct plan_span *last = s->n ? &s->spans[s->n - 1] : NULL;
    if (last && last->pack_lo == part->pack_lo && last->pack_hi == part->pack_hi &&
        last->from_hour + last->hours == hour) {
        last->hours += hours;
        return true;
    }
    if (!arena_grow(g->p->a, &s->spans, &s->cap, s->n + 1, sizeof *s->spans))
        return arena_ok(g->p->a, e);
    s->spans[s->n++] = (struct plan_span){hour, hours, part->pack_lo, part->pack_hi};
    return true;
}

static bool gather_sources(struct gathering *g, const struct chosen *c, int64_t hour,
                           uint32_t hours, err *e)
{
    for (size_t i = 0; i < c->n; i++) {
        if (!add_span(g, &c->parts[i], hour, hours, e)) return false;
    }
    return leaf_set_union(g->p->a, &g->leaves, &c->leaves, &g->leaves, e);
}

static bool gather_cover(struct gathering *g, const struct leaf_set *leaves, int64_t hour,
                         uint32_t hours, err *e)
{
    if (!arena_grow(g->p->a, &g->covers, &g->cover_cap, g->cover_count + 1, sizeof *g->covers))
        return arena_ok(g->p->a, e);
    g->covers[g->cover_count++] = (struct manifest_cover){.hour = hour,
                                                          .hours = hours,
                                                          .leaves = leaves->v,
                                                          .leaf_count = (uint32_t)leaves->n};
    return true;
}

// Names empty child windows from .. to - 1 too, so that a query over them reads the block as one
// piece.
static bool fill_covers(struct gathering *g, int64_t from, int64_t to, uint32_t hours, err *e)
{
    static const struct leaf_set none;
    for (int64_t hour = from; hour < to; hour += hours) {
        if (!gather_cover(g, &none, hour, hours, e)) return false;
    }
    return true;
}

static bool give(struct task *j, const struct gathering *g, err *e)
{
    struct job_source *v = ARENA_ARRAY(g->p->a, struct job_source, g->source_count + 1);
    if (!v) return arena_ok(g->p->a, e);
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

// The job replaces these blocks, and damaged ones whose sums it has.
static bool list_removed(struct planning *p, struct task *j, const struct manifest_block *const *v,
                         size_t n, err *e)
{
    id128 *to = ARENA_ARRAY(p->a, id128, n + p->bad_count + 1);
    if (!to) return arena_ok(p->a, e);
    for (size_t i = 0; i < n; i++)
        to[i] = v[i]->id;
    for (size_t i = 0; i < p->bad_count; i++) {
        if (is_replaced(p, j, p->bad[i])) to[n++] = p->bad[i]->id;
    }
    j->remove = to;
    j->remove_count = n;
    return true;
}

// Is there a damaged one among the hour nodes of a day?
static bool has_bad_hours(const struct planning *p, int64_t from)
{
    for (size_t i = 0; i < p->bad_count; i++) {
        const struct manifest_block *b = p->bad[i];
        if (b->kind == BLOCK_HOURS && plan_floor(b->from_hour, HOURS_A_DAY) * HOURS_A_DAY == from)
            return true;
    }
    return false;
}

// ---- hours

// A leaf of one hour counts as a whole, one of a day in those hours where nothing sums it.
static bool add_leaf(struct gathering *g, const struct manifest_block *leaf, int64_t hour, err *e)
{
    const struct chosen_part whole = {leaf, 0, UINT32_MAX};
    if (leaf->hours > 1) return add_span(g, &whole, hour, 1, e);
    if (!arena_grow(g->p->a, &g->sources, &g->source_cap, g->source_count + 1, sizeof *g->sources))
        return arena_ok(g->p->a, e);
    g->sources[g->source_count++] = (struct gathered){.block = leaf};
    return true;
}

static bool add_hour(struct gathering *g, const struct plan_hour *h, int64_t *until, err *e)
{
    for (size_t i = 0; i < h->leaf_count; i++) {
        bool is = leaf_set_has(&h->unnamed, h->leaves[i]->id);
        if (is && !add_leaf(g, h->leaves[i], h->hour, e)) return false;
    }
    if (!leaf_set_union(g->p->a, &g->leaves, &h->unnamed, &g->leaves, e) ||
        (g->cover_count && !fill_covers(g, *until, h->hour, 1, e)) ||
        !gather_cover(g, &h->unnamed, h->hour, 1, e)) {
        return false;
    }
    *until = h->hour + 1;
    return true;
}

static int64_t hour_due(const struct planning *p, const struct plan_hour *h, struct plan_amount *m)
{
    int64_t due = INT64_MIN;
    for (size_t i = 0; i < h->leaf_count; i++) {
        if (leaf_set_has(&h->unnamed, h->leaves[i]->id)) {
            m->newest_ns = MAX(m->newest_ns, h->leaves[i]->made_ns);
            m->bytes += h->leaves[i]->bytes;
            m->sources++;
        }
        // A day's leaf has nothing to wait for.
        int64_t delay = h->leaves[i]->hours > 1 ? 0 : p->settings->hour_delay;
        if (leaf_set_has(&h->unnamed, h->leaves[i]->id))
            due = MAX(due, h->leaves[i]->made_ns + delay);
    }
    return due;
}

// Is everything that a block sums in the covers of the job as well, or stale?
static bool is_covered(const struct planning *p, const struct gathering *g,
                       const struct manifest_block *b)
{
    for (size_t i = 0; i < b->cover_count; i++) {
        const struct manifest_cover *c = &b->covers[i];
        const struct leaf_set part = {c->leaves, c->leaf_count};
        bool within = c->leaf_count == 0 || !plan_all_live(p->state, c);
        for (size_t k = 0; !within && k < g->cover_count; k++) {
            const struct leaf_set whole = {g->covers[k].leaves, g->covers[k].leaf_count};
            within = g->covers[k].hour == c->hour && leaf_set_within(&part, &whole);
        }
        if (!within) return false;
    }
    return true;
}

// Hours that get series now take the place of those without.
static bool replace_hours(struct planning *p, const struct gathering *g, int64_t day,
                          struct task *j, err *e)
{
    size_t n = 0;
    int64_t from = day * HOURS_A_DAY;
    const struct manifest_block **v = plan_blocks(p, BLOCK_HOURS, from, from + HOURS_A_DAY, &n);
    id128 *ids = ARENA_ARRAY(p->a, id128, n + 1);
    if (!ids) return arena_ok(p->a, e);
    for (size_t i = 0; i < n; i++) {
        if (!plan_has_series(v[i]) && is_covered(p, g, v[i])) ids[j->remove_count++] = v[i]->id;
    }
    j->remove = ids;
    return true;
}

// All hours of the day that wait go together: one table of symbols serves them.
static bool hour_job(struct planning *p, int64_t day, err *e)
{
    struct gathering g = {.p = p};
    size_t n = 0;
    int64_t until = 0;
    int64_t due = INT64_MAX;
    bool has_nodes = false;
    struct plan_amount m = {.kind = JOB_HOUR,
                            .from_hour = day * HOURS_A_DAY,
                            .hours = HOURS_A_DAY,
                            .newest_ns = INT64_MIN};
    struct plan_hour *hours = plan_hours_of_day(p, day, &n);
    for (size_t i = 0; i < n; i++) {
        has_nodes = has_nodes || hours[i].chosen.n;
        // Nodes of leaves that are about to be folded would be stale at once.
        if (hours[i].unnamed.n == 0 || hours[i].folds) continue;
        due = MIN(due, hour_due(p, &hours[i], &m));
        if (!add_hour(&g, &hours[i], &until, e)) return false;
    }
    // A day that lies back and has none has no further leaves to wait for but those that are due.
    int64_t over = slot_start(day + 1, SLOT_DAY) + p->settings->day_delay;
    if (g.source_count && !has_nodes && plan_is_due(p, over)) m.enough = 1;
    if (g.source_count == 0 || !plan_is_time(p, &m, &due)) return true;
    int64_t from = g.covers[0].hour;
    struct task *j = plan_add(p, JOB_HOUR, from, (uint32_t)(until - from));
    if (!j) return arena_ok(p->a, e);
    j->due_ns = due;
    j->whole = hours[0].series;
    return give(j, &g, e) && (!j->whole || replace_hours(p, &g, day, j, e));
}

// ---- packs

// Are all leaves live, so that their rows can be read?
static bool are_live(const struct planning *p, const struct leaf_set *leaves)
{
    for (size_t i = 0; i < leaves->n; i++) {
        if (!plan_live_leaf(p, leaves->v[i])) return false;
    }
    return true;
}

// Since when have blocks of hours waited that are not in the day's pack? The pack is the widest
// block from the day's first hour, or several of that width that one job made.
static int64_t unpacked_since(const struct manifest_block *const *v, size_t n, int64_t from,
                              struct plan_amount *m)
{
    uint32_t widest = 0;
    for (size_t i = 0; i < n; i++)
        widest = MAX(widest, v[i]->hours);
    int64_t oldest = INT64_MAX;
    uint64_t packs = 0;
    for (size_t i = 0; i < n; i++) {
        m->newest_ns = MAX(m->newest_ns, v[i]->made_ns);
        if (v[i]->hours == widest && v[i]->from_hour == from) {
            packs += v[i]->part ? 0 : (uint64_t)v[i]->pack_hi - v[i]->pack_lo + 1;
            m->before += v[i]->bytes;
        } else {
            oldest = MIN(oldest, v[i]->made_ns);
            m->bytes += v[i]->bytes;
            m->sources++;
        }
    }
    return packs > (uint64_t)UINT32_MAX + 1 ? v[0]->made_ns : oldest;
}

// All hour nodes of a day so far become one block; what is stale goes with the rest.
static bool pack_job(struct planning *p, int64_t day, err *e)
{
    size_t n = 0;
    int64_t from = day * HOURS_A_DAY;
    const struct manifest_block **v = plan_blocks(p, BLOCK_HOURS, from, from + HOURS_A_DAY, &n);
    bool bad = has_bad_hours(p, from);
    if (n < 2 && !(n == 1 && bad)) return true;
    struct plan_amount m = {.kind = JOB_PACK,
                            .from_hour = from,
                            .hours = HOURS_A_DAY,
                            .newest_ns = INT64_MIN};
    int64_t oldest = unpacked_since(v, n, from, &m);
    if (bad) oldest = INT64_MIN + 1;
    if (oldest == INT64_MAX) return true;
    int64_t due = plan_next_slot(oldest, p->settings->pack_interval);
    if (!plan_is_time(p, &m, &due)) return true;

    struct gathering g = {.p = p};
    size_t hour_count = 0;
    struct plan_hour *hours = plan_hours_of_day(p, day, &hour_count);
    int64_t until = from;
    bool series = true;
    bool spared = false;
    for (size_t i = 0; i < hour_count; i++) {
        const struct chosen *c = &hours[i].chosen;
        if (c->n == 0 || c->partial) continue;
        series = series && plan_chosen_has_series(c);
        spared = spared || plan_chosen_is_spared(c);
        if (!fill_covers(&g, until, hours[i].hour, 1, e) ||
            !gather_sources(&g, c, hours[i].hour, 1, e) ||
            !gather_cover(&g, &c->leaves, hours[i].hour, 1, e)) {
            return false;
        }
        until = hours[i].hour + 1;
    }
    if (g.source_count == 0 || plan_have_last(p, v, n, &g.leaves)) return true;
    if (!series && plan_day_has_expired(p, day)) return true;  // rows that series are in are gone
    // Where sums are spared, rows answer: all of these must be live.
    if (spared && !are_live(p, &g.leaves)) return true;
    struct task *j = plan_add(p, JOB_PACK, from, (uint32_t)(until - from));
    if (!j) return arena_ok(p->a, e);
    if (!give(j, &g, e)) return false;
    j->due_ns = bad ? p->state->now_ns : due;
    return list_removed(p, j, v, n, e);
}

// ---- days

bool plan_choose_days(struct planning *p, const struct manifest_block *const *v, size_t n,
                      int64_t day, struct chosen *out, err *e)
{
    const struct choice c = {.state = p->state,
                             .candidates = v,
                             .n = n,
                             .live = p->live,
                             .live_count = p->kind_count[BLOCK_RAW]};
    return choose(p->a, &c, day * HOURS_A_DAY, HOURS_A_DAY, out, e);
}

static bool is_day(const struct manifest_block *b, int64_t day)
{
    return b->hours == HOURS_A_DAY && b->from_hour == day * HOURS_A_DAY;
}

bool plan_day_blocks(struct planning *p, int64_t day, const struct manifest_block ***out, size_t *n,
                     err *e)
{
    size_t all = 0;
    const struct manifest_block **v =
        plan_blocks(p, BLOCK_DAYS, day * HOURS_A_DAY, day * HOURS_A_DAY + 1, &all);
    *out = ARENA_ARRAY(p->a, const struct manifest_block *, all + 1);
    if (!*out) return arena_ok(p->a, e);
    *n = 0;
    for (size_t i = 0; i < all; i++) {
        if (is_day(v[i], day)) (*out)[(*n)++] = v[i];
    }
    return true;
}

// The day nodes that there are of a day: in its own blocks, and in its window's, which have no
// series.
struct day_state {
    const struct manifest_block **own;
    size_t n;
    struct chosen have;  // with series, if these are needed
    bool again;          // day nodes were made before,
    int64_t made;        // the newest of them then
};

static bool inspect_day(struct planning *p, int64_t day, bool series, struct day_state *d, err *e)
{
    *d = (struct day_state){.made = INT64_MIN};
    if (!plan_day_blocks(p, day, &d->own, &d->n, e)) return false;
    const struct manifest_block **v = d->own;
    size_t n = d->n;
    if (series) {
        v = plan_candidates(p, d->own, &n, true);
        if (!v) return arena_ok(p->a, e);
    }
    d->again = n > 0;
    d->made = plan_newest_made(v, n);
    if (!series) {
        int64_t from = plan_floor(day, DAYS_A_WINDOW) * HOURS_A_WINDOW;
        v = plan_blocks(p, BLOCK_DAYS, from, (day + 1) * HOURS_A_DAY, &n);
    }
    if (!plan_choose_days(p, v, n, day, &d->have, e)) return false;
    d->again = d->again || d->have.n;
    for (size_t k = 0; k < d->have.n; k++)
        d->made = MAX(d->made, d->have.parts[k].block->made_ns);
    return true;
}

// A day is made of rows instead of hour nodes, if these lack series and all leaves are live.
static bool take_leaves(struct gathering *g, err *e)
{
    struct planning *p = g->p;
    g->source_count = 0;
    for (size_t i = 0; i < g->leaves.n; i++) {
        const struct manifest_block *leaf = plan_live_leaf(p, g->leaves.v[i]);
        assert(leaf);  // are_live saw to it
        if (!source_of(g, leaf)) return arena_ok(p->a, e);
    }
    return true;
}

// The hour nodes of a day.
struct day_hours {
    bool needs;    // the day needs sums of series
    bool pending;  // some hour nodes are still to be made
    bool series;   // all have sums of series
    bool spared;   // some have no sums, as rows are as small
};

static bool gather_hours(struct gathering *g, int64_t day, struct day_hours *is, err *e)
{
    size_t n = 0;
    struct plan_hour *hours = plan_hours_of_day(g->p, day, &n);
    *is = (struct day_hours){.needs = hours[0].series, .series = true};
    for (size_t i = 0; i < n; i++) {
        const struct chosen *c = &hours[i].chosen;
        is->pending = is->pending || hours[i].pending;
        if (c->n == 0 || c->partial) continue;
        is->series = is->series && plan_chosen_has_series(c);
        is->spared = is->spared || plan_chosen_is_spared(c);
        if (!gather_sources(g, c, hours[i].hour, 1, e)) return false;
    }
    return true;
}

static bool day_job(struct planning *p, int64_t day, err *e)
{
    struct gathering g = {.p = p};
    struct day_state d;
    struct day_hours is;
    if (!gather_hours(&g, day, &is, e)) return false;
    if (g.leaves.n == 0) return true;
    if (!inspect_day(p, day, is.needs, &d, e)) return false;
    bool same = !d.have.partial && leaf_set_within(&g.leaves, &d.have.leaves);
    // Leaves that the day has and no hour node names any more would be lost with the old day.
    if (same || !leaf_set_within(&d.have.leaves, &g.leaves)) return true;
    if (plan_have_last(p, d.own, d.n, &g.leaves)) return true;
    if (!is.series && plan_day_has_expired(p, day))
        return true;  // rows that series are in are gone
    bool by_rows = !is.series && are_live(p, &g.leaves);
    if (is.spared && !by_rows) return true;
    const struct plan_settings *set = p->settings;
    int64_t first = 0;
    const struct plan_amount m = plan_amount_of_day(p, day, &g.leaves, &d.have.leaves, &first);
    int64_t over = slot_start(day + 1, SLOT_DAY) + (set->asked ? 0 : set->day_delay);
    int64_t due = d.again ? MAX(over, plan_next_slot(d.made, set->fold_interval)) : over;
    if (!plan_is_due(p, over) || !plan_is_time(p, &m, &due)) return true;
    // If the day ended long ago (late data), patience begins when its first leaf came.
    int64_t since = d.again ? due : MAX(due, MIN(first, p->state->now_ns));
    if (is.pending && !plan_is_due(p, since + PATIENCE_NS)) return true;
    struct task *j = plan_add(p, JOB_DAY, day * HOURS_A_DAY, HOURS_A_DAY);
    if (!j || !gather_cover(&g, &g.leaves, day * HOURS_A_DAY, HOURS_A_DAY, e))
        return arena_ok(p->a, e);
    if (by_rows && !take_leaves(&g, e)) return false;
    if (!give(j, &g, e)) return false;
    j->due_ns = due;
    return list_removed(p, j, d.own, d.n, e);
}

bool plan_days(struct planning *p, err *e)
{
    int64_t last = INT64_MIN;
    for (size_t i = 0; i < p->hour_count; i++) {
        int64_t day = plan_floor(p->hours[i].hour, HOURS_A_DAY);
        if (day == last) continue;
        last = day;
        if (!hour_job(p, day, e) || !pack_job(p, day, e) || !day_job(p, day, e)) return false;
    }
    return true;
}

// ---- windows

struct window {
    int64_t number;
    const struct manifest_block **all;  // that lie in it
    size_t n;
    const struct manifest_block **packed;  // those of several days
    size_t packed_n;
    bool whole;     // a packed one covers the window to its end
    int64_t made;   // the newest packed one
    int64_t first;  // when the oldest of all was made
};

static bool find_window(struct planning *p, int64_t number, struct window *w, err *e)
{
    int64_t from = number * HOURS_A_WINDOW;
    *w = (struct window){.number = number, .made = INT64_MIN, .first = INT64_MAX};
    w->all = plan_blocks(p, BLOCK_DAYS, from, from + HOURS_A_WINDOW, &w->n);
    w->packed = ARENA_ARRAY(p->a, const struct manifest_block *, w->n + 1);
    if (!w->packed) return arena_ok(p->a, e);
    for (size_t i = 0; i < w->n; i++) {
        const struct manifest_block *b = w->all[i];
        w->first = MIN(w->first, b->made_ns);
        if (is_day(b, plan_floor(b->from_hour, HOURS_A_DAY))) continue;
        w->packed[w->packed_n++] = b;
        w->whole = w->whole || b->hours == HOURS_A_WINDOW;
        w->made = MAX(w->made, b->made_ns);
    }
    return true;
}

// The best of each day, on its way to be one block.
struct window_days {
    struct gathering g;
    size_t n;        // that have something
    size_t missing;  // that packed blocks lack, wholly or in part
    int64_t until;   // the hour behind the last
    bool loses;      // packed blocks have what nobody could give again
    struct plan_amount amount;
};

static bool gather_day(struct planning *p, const struct window *w, int64_t day,
                       struct window_days *d, err *e)
{
    struct chosen best = {0};
    struct chosen have = {0};
    int64_t hour = day * HOURS_A_DAY;
    if (!plan_choose_days(p, w->all, w->n, day, &best, e) ||
        !plan_choose_days(p, w->packed, w->packed_n, day, &have, e)) {
        return false;
    }
    if (best.n == 0 || best.partial) return true;
    d->loses = d->loses || !leaf_set_within(&have.leaves, &best.leaves);
    d->missing += have.partial || !leaf_set_within(&best.leaves, &have.leaves);
    d->n++;
    if (!fill_covers(&d->g, d->until, hour, HOURS_A_DAY, e) ||
        !gather_sources(&d->g, &best, hour, HOURS_A_DAY, e) ||
        !gather_cover(&d->g, &best.leaves, hour, HOURS_A_DAY, e)) {
        return false;
    }
    d->until = hour + HOURS_A_DAY;
    return true;
}

// Two days that packed blocks lack are much: of one its own block does as well.
static struct plan_amount amount_of_window(const struct window *w, int64_t from)
{
    struct plan_amount m = {.kind = JOB_WINDOW,
                            .from_hour = from,
                            .hours = HOURS_A_WINDOW,
                            .newest_ns = INT64_MIN,
                            .enough = 2};
    for (size_t i = 0; i < w->n; i++)
        m.newest_ns = MAX(m.newest_ns, w->all[i]->made_ns);
    for (size_t i = 0; i < w->packed_n; i++)
        m.before += w->packed[i]->bytes;
    return m;
}

static bool window_job(struct planning *p, const struct window *w, err *e)
{
    const struct plan_settings *set = p->settings;
    int64_t from = w->number * HOURS_A_WINDOW;
    int64_t end = slot_start(w->number + 1, SLOT_WINDOW) + (set->asked ? 0 : set->day_delay);
    int64_t first = w->number * DAYS_A_WINDOW;
    struct window_days d = {.g = {.p = p}, .until = from, .amount = amount_of_window(w, from)};
    for (int64_t day = first; day < first + DAYS_A_WINDOW; day++) {
        if (!gather_day(p, w, day, &d, e)) return false;
    }
    bool complete = plan_is_due(p, end);
    // A single day's own block serves as well as a window with nothing else in it.
    if (d.loses || d.n < 2 || (d.missing == 0 && (w->whole || !complete))) return true;
    if (plan_have_last(p, w->packed, w->packed_n, &d.g.leaves)) return true;
    d.amount.sources = d.missing;
    int64_t due = w->packed_n ? plan_next_slot(w->made, set->window_interval)
                              : MIN(w->first, p->state->now_ns) + PATIENCE_NS;
    if (w->packed_n == 0 && plan_is_quiet(p, JOB_WINDOW, from, HOURS_A_WINDOW))
        due = MIN(due, p->state->now_ns);  // nothing more is about to come
    if (!plan_is_time(p, &d.amount, &due)) return true;
    if (complete) {
        if (!fill_covers(&d.g, d.until, from + HOURS_A_WINDOW, HOURS_A_DAY, e)) return false;
        d.until = from + HOURS_A_WINDOW;
    }
    struct task *j = plan_add(p, JOB_WINDOW, from, (uint32_t)(d.until - from));
    if (!j) return arena_ok(p->a, e);
    if (!give(j, &d.g, e)) return false;
    j->until_hour = d.until;
    j->due_ns = due;
    return list_removed(p, j, w->packed, w->packed_n, e);
}

bool plan_windows(struct planning *p, err *e)
{
    int64_t last = INT64_MIN;
    for (size_t i = 0; i < p->kind_count[BLOCK_DAYS]; i++) {
        struct window w;
        int64_t number = plan_floor(p->by_kind[BLOCK_DAYS][i]->from_hour, HOURS_A_WINDOW);
        if (number == last) continue;
        last = number;
        if (!find_window(p, number, &w, e) || !window_job(p, &w, e)) return false;
    }
    return true;
}
