// SPDX-License-Identifier: Apache-2.0
//
// plan_expired.c - the sums of expired leaves are in parents only. So: which parents no job may
// replace, which leaves retention may not remove yet, and which sums parents must have before it
// does.
#include "compactor/plan_int.h"

#include <stdlib.h>

// So long before the first rows of a day go its parents get the sums of its series.
#define SERIES_BEFORE_NS SLOT_DAY

bool plan_has_expired(const struct planning *p, id128 leaf)
{
    if (!p->state->counts(p->state->arg, leaf) || plan_live_leaf(p, leaf)) return false;
    for (size_t i = 0; i < p->bad_count; i++) {
        if (id128_eq(p->bad[i]->id, leaf)) return false;
    }
    return true;
}

bool plan_has_last(const struct planning *p, const struct manifest_cover *c,
                   const struct leaf_set *others)
{
    for (size_t i = 0; i < c->leaf_count; i++) {
        if (!leaf_set_has(others, c->leaves[i]) && plan_has_expired(p, c->leaves[i])) return true;
    }
    return false;
}

bool plan_day_has_expired(struct planning *p, int64_t day)
{
    int64_t from = day * HOURS_A_DAY;
    int64_t window = plan_floor(day, DAYS_A_WINDOW) * HOURS_A_WINDOW;
    for (enum block_kind kind = BLOCK_HOURS; kind <= BLOCK_DAYS; kind++) {
        size_t n = 0;
        const struct manifest_block **v =
            plan_blocks(p, kind, kind == BLOCK_DAYS ? window : from, from + HOURS_A_DAY, &n);
        for (size_t i = 0; i < n; i++) {
            for (size_t k = 0; k < v[i]->cover_count; k++) {
                const struct manifest_cover *c = &v[i]->covers[k];
                static const struct leaf_set none;
                bool is = plan_floor(c->hour, HOURS_A_DAY) == day;
                if (is && plan_has_last(p, c, &none)) return true;
            }
        }
    }
    return false;
}

// ---- sums of series: rows have them, as long as they are there

bool plan_needs_series(struct planning *p, int64_t day)
{
    int64_t keep = p->settings->raw_retention;
    if (keep && plan_is_due(p, slot_start(day, SLOT_DAY) + keep - SERIES_BEFORE_NS)) return true;
    return plan_day_has_expired(p, day);
}

bool plan_chosen_has_series(const struct chosen *c)
{
    for (size_t i = 0; i < c->n; i++) {
        if (!plan_has_series(c->parts[i].block)) return false;
    }
    return true;
}

static bool names_damaged(const struct planning *p, const struct manifest_block *b)
{
    for (size_t i = 0; i < p->bad_count; i++) {
        for (size_t k = 0; p->bad[i]->kind == BLOCK_RAW && k < b->cover_count; k++) {
            const struct leaf_set named = {b->covers[k].leaves, b->covers[k].leaf_count};
            if (leaf_set_has(&named, p->bad[i]->id)) return true;
        }
    }
    return false;
}

bool plan_chosen_is_spared(const struct chosen *c)
{
    for (size_t i = 0; i < c->n; i++) {
        if (c->parts[i].block->spared) return true;
    }
    return false;
}

const struct manifest_block **plan_candidates(struct planning *p,
                                              const struct manifest_block *const *v, size_t *n,
                                              bool series)
{
    const struct manifest_block **out = ARENA_ARRAY(p->a, const struct manifest_block *, *n + 1);
    size_t count = 0;
    for (size_t i = 0; out && i < *n; i++) {
        bool last = (series || v[i]->spared) && names_damaged(p, v[i]);
        bool is = series ? plan_has_series(v[i]) || last : true;
        if (is && !(last && v[i]->spared)) out[count++] = v[i];
    }
    *n = count;
    return out;
}

// ---- leaves

bool plan_have_last(const struct planning *p, const struct manifest_block *const *v, size_t n,
                    const struct leaf_set *others)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < v[i]->cover_count; k++) {
            if (plan_has_last(p, &v[i]->covers[k], others)) return true;
        }
    }
    return false;
}

bool plan_are_hiding(const struct planning *p, const struct manifest_block *const *v, size_t n)
{
    const struct plan_state *s = p->state;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < s->tombstone_count; k++) {
            if (manifest_is_hiding(&s->tombstones[k], v[i])) return true;
        }
    }
    return false;
}

bool plan_day_is_hiding(struct planning *p, int64_t day)
{
    size_t n = 0;
    if (p->state->tombstone_count == 0) return false;
    int64_t from = day * HOURS_A_DAY;
    const struct manifest_block **v = plan_blocks(p, BLOCK_RAW, from, from + HOURS_A_DAY, &n);
    return plan_are_hiding(p, v, n);
}

// Have deletions all of the day, wherever they reach into it?
static bool is_hidden_whole(const struct planning *p, int64_t day)
{
    const struct plan_state *s = p->state;
    for (size_t i = 0; i < s->tombstone_count; i++) {
        const struct hide *h = &s->tombstones[i].hide;
        if (manifest_hides_some(h, day * HOURS_A_DAY, HOURS_A_DAY) &&
            !manifest_hides_all(h, day * HOURS_A_DAY, HOURS_A_DAY))
            return false;
    }
    return true;
}

// Leaves that a deletion reaches wait to be rewritten. Those of a day of which others have expired
// never are (fold_job): they go in their time, and what parents have of the day is erased, which a
// deletion of all of it allows.
static bool is_to_be_rewritten(struct planning *p, int64_t day)
{
    if (!plan_day_is_hiding(p, day)) return false;
    return !plan_day_has_expired(p, day) || !is_hidden_whole(p, day);
}

bool plan_may_go(struct planning *p, const struct manifest_block *b)
{
    const struct plan_state *s = p->state;
    if (b->kind == BLOCK_RAW && is_to_be_rewritten(p, plan_floor(b->from_hour, HOURS_A_DAY)))
        return false;
    return b->kind != BLOCK_RAW || !s->may_go || s->may_go(s->go_arg, b->id);
}

bool plan_is_held(struct planning *p, const struct manifest_block *b)
{
    if (plan_may_go(p, b)) return false;
    p->out->held[p->out->held_count++] = b->id;
    return true;
}
