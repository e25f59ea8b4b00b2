// SPDX-License-Identifier: Apache-2.0
//
// plan_hours.c - jobs that sum the leaves of a day's hours: its hour nodes.
#include "compactor/plan_gather.h"

// A leaf of one hour counts as a whole, one of a day in those hours where nothing sums it.
static bool add_leaf(struct gathering *g, const struct manifest_block *leaf, int64_t hour, err *e)
{
    const struct chosen_part whole = {leaf, 0, UINT32_MAX};
    if (leaf->hours > 1) return gather_span(g, &whole, hour, 1, e);
    if (!arena_grow(g->p->a, &g->sources, &g->source_cap, g->source_count + 1, sizeof *g->sources))
        return arena_fail(g->p->a, e);
    // A leaf of one hour comes once, with its hour, so it is not looked for as gather_source does.
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
        (g->cover_count && !gather_empty(g, *until, h->hour, 1, e)) ||
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
    if (!ids) return arena_fail(p->a, e);
    for (size_t i = 0; i < n; i++) {
        if (!plan_has_series(v[i]) && is_covered(p, g, v[i])) ids[j->remove_count++] = v[i]->id;
    }
    j->remove = ids;
    return true;
}

// All hours of the day that wait go together: one table of symbols serves them.
bool plan_hour_nodes(struct planning *p, int64_t day, err *e)
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
    assert(n > 0);  // plan_days takes the days of the hours that there are
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
    assert(g.cover_count > 0 && until > g.covers[0].hour);
    int64_t from = g.covers[0].hour;
    struct task *j = plan_add(p, JOB_HOUR, from, (uint32_t)(until - from));
    if (!j) return arena_fail(p->a, e);
    j->due_ns = due;
    j->whole = hours[0].series;
    return gather_into(j, &g, e) && (!j->whole || replace_hours(p, &g, day, j, e));
}
