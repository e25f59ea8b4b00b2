// SPDX-License-Identifier: Apache-2.0
//
// plan_days.c - jobs that sum the hours of a day, and the order of a day's jobs.
#include "compactor/plan_gather.h"

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

bool plan_is_day(const struct manifest_block *b, int64_t day)
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
    if (!*out) return arena_fail(p->a, e);
    *n = 0;
    for (size_t i = 0; i < all; i++) {
        if (plan_is_day(v[i], day)) (*out)[(*n)++] = v[i];
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
        if (!v) return arena_fail(p->a, e);
    }
    d->again = n > 0;
    d->made = plan_newest_made(v, n);
    // The day that a window has counts as well, as it does for queries: it is not made again.
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
    g->source_count = 0;  // the hour nodes: their leaves, which stay gathered, are read instead
    for (size_t i = 0; i < g->leaves.n; i++) {
        const struct manifest_block *leaf = plan_live_leaf(p, g->leaves.v[i]);
        assert(leaf);  // gather_are_live saw to it
        if (!gather_source(g, leaf)) return arena_fail(p->a, e);
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
    assert(n > 0);  // plan_days takes the days of the hours that there are
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
    bool by_rows = !is.series && gather_are_live(p, &g.leaves);
    if (is.spared && !by_rows) return true;
    const struct plan_settings *set = p->settings;
    int64_t first = 0;
    const struct plan_amount m = plan_amount_of_day(p, day, &g.leaves, &d.have.leaves, &first);
    int64_t over = slot_start(day + 1, SLOT_DAY) + (set->asked ? 0 : set->day_delay);
    int64_t due = d.again ? MAX(over, plan_next_slot(d.made, set->fold_interval)) : over;
    if (!plan_is_due(p, over) || !plan_is_time(p, &m, &due)) return true;
    // If the day ended long ago (late data), patience begins when its first leaf came.
    int64_t since = d.again ? due : MAX(due, MIN(first, p->state->now_ns));
    if (is.pending && !plan_is_due(p, since + PLAN_PATIENCE_NS)) return true;
    struct task *j = plan_add(p, JOB_DAY, day * HOURS_A_DAY, HOURS_A_DAY);
    if (!j) return arena_fail(p->a, e);
    if (!gather_cover(&g, &g.leaves, day * HOURS_A_DAY, HOURS_A_DAY, e)) return false;
    if (by_rows && !take_leaves(&g, e)) return false;
    if (!gather_into(j, &g, e)) return false;
    j->due_ns = due;
    return gather_removed(p, j, d.own, d.n, e);
}

bool plan_days(struct planning *p, err *e)
{
    int64_t last = INT64_MIN;
    for (size_t i = 0; i < p->hour_count; i++) {
        int64_t day = plan_floor(p->hours[i].hour, HOURS_A_DAY);
        if (day == last) continue;
        last = day;
        if (!plan_hour_nodes(p, day, e) || !plan_pack(p, day, e) || !day_job(p, day, e))
            return false;
    }
    return true;
}
