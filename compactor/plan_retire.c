// SPDX-License-Identifier: Apache-2.0
//
// plan_retire.c - retirement: of parents that two compactors made of the same leaves all but one
// go; and blocks whose time is over go, once other blocks have their sums.
#include "compactor/plan_int.h"

#include <stdlib.h>

// Is there one block for each pack? Only then leaves may go: of two blocks that add up (one with
// late rows) neither has all sums, and a planner of queries uses one block for an expired window.
static bool is_one(const struct chosen *c)
{
    for (size_t i = 0; i < c->n; i++) {
        const struct chosen_part *x = &c->parts[i];
        for (size_t k = i + 1; k < c->n; k++) {
            const struct chosen_part *y = &c->parts[k];
            plan_stepped(1);
            if (x->pack_lo <= y->pack_hi && y->pack_lo <= x->pack_hi &&
                manifest_blocks_meet(x->block, y->block))
                return false;
        }
    }
    return !c->partial;
}

// The blocks that a retirement needs, as they are found; sort_needs makes a set of them.
struct needs {
    id128 *v;
    size_t n;
    size_t cap;
};

static bool add_needs(struct planning *p, struct needs *to, const struct chosen *c, err *e)
{
    if (!arena_grow(p->a, &to->v, &to->cap, to->n + c->n + c->leaves.n, sizeof *to->v))
        return arena_fail(p->a, e);
    for (size_t i = 0; i < c->n; i++)
        to->v[to->n++] = c->parts[i].block->id;
    if (c->leaves.n) memcpy(to->v + to->n, c->leaves.v, c->leaves.n * sizeof *to->v);
    to->n += c->leaves.n;
    assert(to->n <= to->cap);
    return true;
}

static int order_ids(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(id128));
}

static void sort_needs(struct needs *of)
{
    size_t n = 0;
    assert(of->n <= of->cap);
    if (of->n) qsort(of->v, of->n, sizeof *of->v, order_ids);
    for (size_t i = 0; i < of->n; i++) {
        if (i == 0 || !id128_eq(of->v[i], of->v[n - 1])) of->v[n++] = of->v[i];
    }
    of->n = n;
}

// The day nodes of a day that count: those of the day itself, which have series.
static bool inspect_day(struct planning *p, int64_t day, err *e)
{
    const struct manifest_block **v = NULL;
    size_t n = 0;
    struct plan_day_nodes *d = &p->day;
    if (d->known && d->day == day) return true;
    *d = (struct plan_day_nodes){.day = day};
    if (!plan_day_blocks(p, day, &v, &n, e)) return false;
    v = plan_candidates(p, v, &n, true);
    if (!v) return arena_fail(p->a, e);
    if (!plan_choose_days(p, v, n, day, &d->chosen, e)) return false;
    d->are_one = is_one(&d->chosen) && plan_chosen_has_series(&d->chosen);
    for (size_t i = 0; i < d->chosen.n; i++)
        if (d->chosen.parts[i].block->classes == 0) d->are_one = false;  // nobody else has its sums
    d->known = true;  // last: a day whose look-up failed is not taken for known
    return true;
}

// Do day nodes that count name the leaf? They, and the leaves that they name, must still be there
// when the leaf goes: the commit needs them.
static bool in_days(struct planning *p, id128 leaf, int64_t hour, struct needs *needs, bool *is,
                    err *e)
{
    struct plan_day_nodes *d = &p->day;
    if (!inspect_day(p, plan_floor(hour, HOURS_A_DAY), e)) return false;
    *is = d->are_one && leaf_set_has(&d->chosen.leaves, leaf);
    if (!*is || d->needed) return true;
    d->needed = true;
    return add_needs(p, needs, &d->chosen, e);
}

static bool hour_is_one(struct plan_hour *h)
{
    if (!h->told_one) h->one = is_one(&h->chosen) && plan_chosen_has_series(&h->chosen);
    h->told_one = true;
    return h->one;
}

// Whether the leaf is in hour nodes that count, in every hour of it. Without them nobody could ask
// for hours or minutes of it, though days had its sums.
static bool in_hours(struct planning *p, const struct manifest_block *leaf)
{
    size_t n = 0;
    uint32_t found = 0;
    struct plan_hour *v = plan_hours_of_day(p, plan_floor(leaf->from_hour, HOURS_A_DAY), &n);
    for (size_t i = 0; i < n; i++) {
        if (v[i].hour < leaf->from_hour || v[i].hour - leaf->from_hour >= (int64_t)leaf->hours)
            continue;
        found += hour_is_one(&v[i]) && leaf_set_has(&v[i].chosen.leaves, leaf->id);
    }
    assert(found <= leaf->hours);
    return found == leaf->hours;
}

static bool all_in_days(struct planning *p, size_t row, struct needs *needs, bool *are, err *e)
{
    const struct plan_state *s = p->state;
    assert(row < s->block_count);
    const struct manifest_block *b = &s->blocks[row];
    *are = true;
    if (b->kind == BLOCK_RAW) {
        // A damaged leaf may never get hour nodes, so they are not waited for.
        bool damaged = s->damaged_blocks && s->damaged_blocks[row];
        *are = damaged || in_hours(p, b);
        return !*are || in_days(p, b->id, b->from_hour, needs, are, e);
    }
    for (size_t i = 0; *are && i < b->cover_count; i++) {
        const struct manifest_cover *c = &b->covers[i];
        for (size_t k = 0; *are && k < c->leaf_count; k++) {
            if (!s->counts(s->arg, c->leaves[k])) continue;  // stale anyway
            if (!in_days(p, c->leaves[k], c->hour, needs, are, e)) return false;
        }
    }
    return true;
}

// A second copy of a row (a push that was repeated elsewhere, a segment that was created after all)
// is recognised by the leaf that has the first one. So a leaf stays while segments of its hours
// wait to be absorbed, and for leaf_stay after it was made, as ingesters may hold copies.
static bool is_awaited(struct planning *p, const struct manifest_block *b)
{
    size_t n = 0;
    if (b->kind != BLOCK_RAW) return false;
    const struct plan_hour *v =
        plan_hours_within(p, b->from_hour, b->from_hour + (int64_t)b->hours, &n);
    for (size_t i = 0; i < n; i++) {
        if (v[i].segment_count) return true;
    }
    return !plan_is_due(p, b->made_ns + MIN(p->settings->raw_retention, p->settings->leaf_stay));
}

// ---- what two compactors made of the same

static const struct manifest_cover *same_window(const struct manifest_block *b,
                                                const struct manifest_cover *c)
{
    for (size_t i = 0; i < b->cover_count; i++) {
        if (b->covers[i].hour == c->hour && b->covers[i].hours == c->hours) return &b->covers[i];
    }
    return NULL;
}

// Is there nothing in b that o does not have as well?
static bool is_within(const struct planning *p, const struct manifest_block *b,
                      const struct manifest_block *o)
{
    const struct plan_state *s = p->state;
    plan_stepped(1);
    // A day's gap stands where its nodes would.
    if (b->classes == 0 && (b->from_hour != o->from_hour || b->hours != o->hours)) return false;
    bool other = o->parts > 1 && (b->parts != o->parts || b->part != o->part);
    if (other || (b->classes & ~o->classes) || b->pack_lo < o->pack_lo || b->pack_hi > o->pack_hi ||
        b->from_hour < o->from_hour || b->from_hour + b->hours > o->from_hour + o->hours) {
        return false;
    }
    for (size_t i = 0; i < b->cover_count; i++) {
        const struct manifest_cover *c = &b->covers[i];
        const struct manifest_cover *d = same_window(o, c);
        const struct leaf_set part = {c->leaves, c->leaf_count};
        const struct leaf_set whole = {d ? d->leaves : NULL, d ? d->leaf_count : 0};
        plan_stepped(c->leaf_count);
        if (c->leaf_count == 0) continue;
        if (!plan_all_live(s, c) && !plan_has_last(p, c, &whole)) continue;
        if (!d || !plan_all_live(s, d)) return false;
        if (!leaf_set_within(&part, &whole)) return false;
    }
    return true;
}

// Does o stay and b go? Of parents that have the same, the one with the lowest id stays, so that
// all compactors choose the same one.
static bool keeps(const struct planning *p, const struct manifest_block *o,
                  const struct manifest_block *b)
{
    if (o == b || !is_within(p, b, o)) return false;
    return !is_within(p, o, b) || id_cmp(o->id, b->id) < 0;
}

// The block that stays in place of b, which is v[at]: one that begins where b does, or one of the
// longer blocks before it (in order). NULL: b stays.
static const struct manifest_block *keeper_of(const struct planning *p,
                                              const struct manifest_block *const *v, size_t n,
                                              size_t at, const struct manifest_block *const *longer,
                                              size_t longer_n)
{
    assert(at < n);
    const struct manifest_block *b = v[at];
    for (size_t k = 0; k < longer_n && longer[k]->from_hour < b->from_hour; k++) {
        if (keeps(p, longer[k], b)) return longer[k];
    }
    while (at && v[at - 1]->from_hour == b->from_hour)
        at--;
    for (; at < n && v[at]->from_hour == b->from_hour && v[at]->pack_lo <= b->pack_lo; at++) {
        if (keeps(p, v[at], b)) return v[at];
    }
    return NULL;
}

// A job for each parent that another one has in it. A block lies within one day (HOURS) or window
// (DAYS), so only blocks of the same one are compared.
static bool drop_copies(struct planning *p, enum block_kind kind, err *e)
{
    assert(kind == BLOCK_HOURS || kind == BLOCK_DAYS);
    const struct manifest_block **v = p->by_kind[kind];
    const struct manifest_block **longer =
        ARENA_ARRAY(p->a, const struct manifest_block *, p->kind_count[kind] + 1);
    const int64_t reach = kind == BLOCK_HOURS ? HOURS_A_DAY : HOURS_A_WINDOW;
    const uint32_t least = kind == BLOCK_HOURS ? 1 : HOURS_A_DAY;
    size_t n = p->kind_count[kind];
    size_t longer_n = 0;
    size_t first = 0;  // of the longer ones: that is of this day or window
    int64_t last = INT64_MIN;
    if (!longer) return arena_fail(p->a, e);
    for (size_t i = 0; i < n; i++) {
        int64_t number = plan_floor(v[i]->from_hour, reach);
        if (number != last) first = longer_n;
        last = number;
        if (v[i]->hours > least) longer[longer_n++] = v[i];
        const struct manifest_block *keeper =
            keeper_of(p, v, n, i, longer + first, longer_n - first);
        if (!keeper) continue;
        struct task *j = plan_add(p, JOB_RETIRE, v[i]->from_hour, v[i]->hours);
        id128 *ids = ARENA_ARRAY(p->a, id128, 2);
        if (!j || !ids) return arena_fail(p->a, e);
        // The one that stays must still be there, or both would go: two compactors may each remove
        // the copy that the other keeps.
        ids[0] = v[i]->id;
        ids[1] = keeper->id;
        j->due_ns = p->state->now_ns;
        j->remove = ids;
        j->remove_count = 1;
        j->needs = ids + 1;
        j->need_count = 1;
    }
    return true;
}

// Whether there are rows of a day. As long as there are, its day nodes may have to be made anew, of
// its hour nodes: those may have sums of rows that are gone already.
static bool has_rows(struct planning *p, int64_t day)
{
    size_t n = 0;
    int64_t from = day * HOURS_A_DAY;
    (void)plan_blocks(p, BLOCK_RAW, from, from + HOURS_A_DAY, &n);
    for (size_t i = 0; n == 0 && i < p->bad_count; i++) {
        const struct manifest_block *b = p->bad[i];
        n += b->kind == BLOCK_RAW && plan_floor(b->from_hour, HOURS_A_DAY) == day;
    }
    return n > 0;
}

// Whether a block is past its time but still of use.
static bool is_needed(struct planning *p, const struct manifest_block *b)
{
    return is_awaited(p, b) ||
           (b->kind == BLOCK_HOURS && has_rows(p, plan_floor(b->from_hour, HOURS_A_DAY)));
}

// The end of a block, in hours. Of hour nodes the end of their day, see keep_hours_together.
static int64_t last_hour(const struct manifest_block *b)
{
    int64_t end = b->from_hour + b->hours;
    if (b->kind != BLOCK_HOURS) return end;
    return (plan_floor(end - 1, HOURS_A_DAY) + 1) * HOURS_A_DAY;
}

static bool is_same_day(const struct manifest_block *a, const struct manifest_block *b)
{
    return a->kind == b->kind && last_hour(a) == last_hour(b);
}

// The hour nodes of a day, which lie one after the other, go together: a leaf of the day that only
// one hour still names would be taken for one of that hour (querier/plan/levels_window.c).
static void keep_hours_together(const struct plan_state *s, bool *over)
{
    size_t end = 0;
    for (size_t i = 0; i < s->block_count; i = end) {
        bool all = over[i];
        for (end = i + 1; end < s->block_count && is_same_day(&s->blocks[i], &s->blocks[end]);
             end++)
            all = all && over[end];
        for (size_t k = i; k < end && s->blocks[i].kind == BLOCK_HOURS; k++)
            over[k] = all;
    }
}

// Finds the blocks older than days_retention. They go in the order of time, whatever their kind,
// but not from the first leaf on that is held back: parents beside it would only be made anew.
static void find_ends(struct planning *p, bool *over, bool *ends)
{
    const struct plan_state *s = p->state;
    int64_t keep = p->settings->days_retention;
    int64_t first = INT64_MAX;  // hour of a leaf that is held back
    for (size_t i = 0; keep && i < s->block_count; i++) {
        const struct manifest_block *b = &s->blocks[i];
        over[i] = ends[i] = plan_is_due(p, slot_start(last_hour(b), SLOT_HOUR) + keep);
        if (ends[i] && plan_is_held(p, b)) first = MIN(first, b->from_hour);
    }
    for (size_t i = 0; i < s->block_count; i++) {
        const struct manifest_block *b = &s->blocks[i];
        over[i] = over[i] && (b->kind == BLOCK_RAW ? plan_may_go(p, b) : last_hour(b) <= first);
    }
}

bool plan_retire(struct planning *p, err *e)
{
    const struct plan_settings *set = p->settings;
    const struct plan_state *s = p->state;
    const int64_t keep[] = {[BLOCK_RAW] = set->raw_retention,
                            [BLOCK_HOURS] = set->hours_retention,
                            [BLOCK_DAYS] = set->days_retention};
    id128 *v = ARENA_ARRAY(p->a, id128, s->block_count + 1);
    bool *over = ARENA_ARRAY(p->a, bool, s->block_count + 1);
    bool *ends = ARENA_ARRAY(p->a, bool, s->block_count + 1);
    p->out->held = ARENA_ARRAY(p->a, id128, s->block_count + s->tombstone_count + 1);
    if (!v || !over || !ends || !p->out->held) return arena_fail(p->a, e);
    if (!drop_copies(p, BLOCK_HOURS, e) || !drop_copies(p, BLOCK_DAYS, e)) return false;
    find_ends(p, over, ends);
    struct needs needs = {0};
    for (size_t i = 0; i < s->block_count; i++) {
        const struct manifest_block *b = &s->blocks[i];
        int64_t end = slot_start(last_hour(b), SLOT_HOUR);
        if (!ends[i] && b->kind != BLOCK_DAYS && keep[b->kind] &&
            plan_is_due(p, end + keep[b->kind]) && !is_needed(p, b) &&
            !all_in_days(p, i, &needs, &over[i], e)) {
            return false;
        }
        if (!ends[i] && over[i]) over[i] = !plan_is_held(p, b);
    }
    if (p->out->held_count) p->out->later[JOB_RETIRE]++;
    keep_hours_together(s, over);
    size_t n = 0;
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < s->block_count; i++) {
        if (!over[i]) continue;
        first = MIN(first, s->blocks[i].from_hour);
        v[n++] = s->blocks[i].id;
    }
    if (n == 0) return true;
    sort_needs(&needs);
    struct task *j = plan_add(p, JOB_RETIRE, first, 1);
    if (!j) return arena_fail(p->a, e);
    j->due_ns = s->now_ns;
    j->expire = v;
    j->expire_count = n;
    j->needs = needs.v;
    j->need_count = needs.n;
    return true;
}
