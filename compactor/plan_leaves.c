// SPDX-License-Identifier: Apache-2.0
//
// plan_leaves.c - leaves of days: a table of symbols is most of a small leaf, and one serves all
// hours of a day as well.
#include "compactor/plan_int.h"

#include <stdlib.h>

struct day {
    int64_t from;  // its first hour
    struct plan_hour *hours;
    size_t hour_count;
    const struct manifest_block **leaves;
    size_t leaf_count;
    struct leaf_set ids;  // of the leaves, once they are asked for
    uint64_t bytes;
    int64_t made;   // the newest leaf
    int64_t first;  // when the oldest was made
    bool wide;      // one of them is of the day already
};

static int order_ids(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(id128));
}

static bool name_leaves(struct planning *p, struct day *d, err *e)
{
    id128 *v = ARENA_ARRAY(p->a, id128, d->leaf_count + 1);
    if (!v) return arena_fail(p->a, e);
    for (size_t i = 0; i < d->leaf_count; i++)
        v[i] = d->leaves[i]->id;
    if (d->leaf_count) qsort(v, d->leaf_count, sizeof *v, order_ids);
    d->ids = (struct leaf_set){v, d->leaf_count};
    return true;
}

static void inspect_day(struct planning *p, int64_t day, struct day *d)
{
    *d = (struct day){.from = day * HOURS_A_DAY, .made = INT64_MIN, .first = INT64_MAX};
    d->hours = plan_hours_of_day(p, day, &d->hour_count);
    assert(d->hour_count > 0);  // plan_day_leaves takes the days of the hours that there are
    d->leaves = plan_blocks(p, BLOCK_RAW, d->from, d->from + HOURS_A_DAY, &d->leaf_count);
    for (size_t i = 0; i < d->leaf_count; i++) {
        d->bytes += d->leaves[i]->bytes;
        d->made = MAX(d->made, d->leaves[i]->made_ns);
        d->first = MIN(d->first, d->leaves[i]->made_ns);
        d->wide = d->wide || d->leaves[i]->hours > 1;
    }
}

// Are there two with services in common that could be one? Two of one hour alone are its own
// affair, until there is a leaf of the day.
static bool can_be_less(const struct day *d)
{
    size_t n = d->leaf_count;
    if (n == 0 || (!d->wide && d->leaves[0]->from_hour == d->leaves[n - 1]->from_hour))
        return false;
    for (size_t i = 0; i < d->leaf_count; i++) {
        for (size_t k = i + 1; k < d->leaf_count; k++) {
            const struct manifest_block *x = d->leaves[i];
            const struct manifest_block *y = d->leaves[k];
            plan_stepped(1);
            if (manifest_blocks_meet(x, y) && (d->wide || x->from_hour != y->from_hour))
                return true;
        }
    }
    return false;
}

static bool has_pending(const struct day *d)
{
    for (size_t i = 0; i < d->hour_count; i++) {
        if (d->hours[i].segment_count && d->hours[i].pending) return true;
    }
    return false;
}

// Is everything that a parent sums replaced or gone? Then it goes with the leaves.
static bool goes(const struct planning *p, const struct day *d, const struct manifest_block *b)
{
    const struct plan_state *s = p->state;
    assert(d->ids.n == d->leaf_count);  // name_leaves was called
    if (b->from_hour < d->from || b->from_hour + b->hours > d->from + HOURS_A_DAY) return false;
    for (size_t i = 0; i < b->cover_count; i++) {
        const struct manifest_cover *c = &b->covers[i];
        bool stale = c->leaf_count == 0;
        for (size_t k = 0; !stale && k < c->leaf_count; k++)
            stale = leaf_set_has(&d->ids, c->leaves[k]) || !s->counts(s->arg, c->leaves[k]);
        plan_stepped(c->leaf_count);
        if (!stale) return false;
    }
    return true;
}

static bool list_removed(struct planning *p, const struct day *d, struct task *j, err *e)
{
    const struct manifest_block **parents[BLOCK_DAYS + 1] = {0};
    size_t count[BLOCK_DAYS + 1] = {0};
    size_t most = d->leaf_count;
    for (enum block_kind kind = BLOCK_HOURS; kind <= BLOCK_DAYS; kind++) {
        parents[kind] = plan_blocks(p, kind, d->from, d->from + HOURS_A_DAY, &count[kind]);
        most += count[kind];
    }
    id128 *v = ARENA_ARRAY(p->a, id128, most + 1);
    if (!v) return arena_fail(p->a, e);
    size_t n = 0;
    for (size_t i = 0; i < d->leaf_count; i++)
        v[n++] = d->leaves[i]->id;
    for (enum block_kind kind = BLOCK_HOURS; kind <= BLOCK_DAYS; kind++) {
        for (size_t i = 0; i < count[kind]; i++) {
            if (goes(p, d, parents[kind][i])) v[n++] = parents[kind][i]->id;
        }
    }
    assert(n <= most);
    j->remove = v;
    j->remove_count = n;
    return true;
}

static bool day_leaf_job(struct planning *p, struct day *d, int64_t due, err *e)
{
    struct task *j = plan_add(p, JOB_FOLD, d->from, HOURS_A_DAY);
    struct job_source *sources = ARENA_ARRAY(p->a, struct job_source, d->leaf_count + 1);
    if (!j || !sources) return arena_fail(p->a, e);
    if (!name_leaves(p, d, e)) return false;
    for (size_t i = 0; i < d->leaf_count; i++)
        sources[i].block = d->leaves[i];
    j->sources = sources;
    j->source_count = d->leaf_count;
    j->bytes = d->bytes;
    j->due_ns = due;
    return list_removed(p, d, j, e);
}

// How much came to a day since its leaf was made.
static struct plan_amount amount_of_day(const struct day *d)
{
    struct plan_amount m = {.kind = JOB_FOLD,
                            .from_hour = d->from,
                            .hours = HOURS_A_DAY,
                            .newest_ns = d->made};
    for (size_t i = 0; i < d->leaf_count; i++) {
        const struct manifest_block *b = d->leaves[i];
        if (b->hours > 1) {
            m.before += b->bytes;
        } else {
            m.bytes += b->bytes;
            m.sources++;
        }
    }
    return m;
}

static void hold_hours(struct day *d)
{
    for (size_t i = 0; i < d->hour_count; i++)
        d->hours[i].pending = d->hours[i].folds = true;
}

static bool plan_day_leaf(struct planning *p, int64_t day, err *e)
{
    const struct plan_settings *set = p->settings;
    const int64_t now_ns = p->state->now_ns;
    struct day d;
    inspect_day(p, day, &d);
    if (d.wide && plan_are_hiding(p, d.leaves, d.leaf_count) && !plan_day_has_expired(p, day)) {
        hold_hours(&d);
        return day_leaf_job(p, &d, now_ns, e);
    }
    if (!d.wide && (set->day_leaf_bytes == 0 || d.bytes >= set->day_leaf_bytes)) return true;
    int64_t over = slot_start(day + 1, SLOT_DAY) + (set->asked ? 0 : set->day_delay);
    int64_t due = d.wide ? MAX(over, plan_next_slot(d.made, set->fold_interval)) : over;
    // Not worth it shortly before rows go.
    int64_t first_end = slot_start(d.from + 1, SLOT_HOUR);
    if (set->raw_retention && first_end + set->raw_retention <= MAX(due, now_ns) + SLOT_DAY)
        return true;
    if (plan_day_has_expired(p, day)) return true;
    // Hours whose first leaf is about to come are waited for: each leaf more is a merge more.
    bool waits = has_pending(&d);
    if (!waits && !can_be_less(&d)) return true;
    const struct plan_amount m = amount_of_day(&d);
    if (!plan_is_due(p, over) || !plan_is_time(p, &m, &due)) return true;
    // Of a day that lies back it is counted from when its first leaf came.
    int64_t since = d.wide ? due : MAX(due, MIN(d.first, now_ns));
    waits = waits && !plan_is_due(p, since + PLAN_PATIENCE_NS);
    if (!waits && !can_be_less(&d)) return true;
    // Also while it waits: a fold or a node of one of the hours would be replaced with the day.
    hold_hours(&d);
    return waits || day_leaf_job(p, &d, due, e);
}

bool plan_day_leaves(struct planning *p, err *e)
{
    int64_t last = INT64_MIN;
    for (size_t i = 0; i < p->hour_count; i++) {
        int64_t day = plan_floor(p->hours[i].hour, HOURS_A_DAY);
        if (day == last) continue;
        last = day;
        if (!plan_day_leaf(p, day, e)) return false;
    }
    return true;
}
