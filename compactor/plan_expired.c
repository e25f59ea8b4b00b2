// SPDX-License-Identifier: Apache-2.0
//
// plan_expired.c - what retention took is in parents only: which of them no job may take, and which
// leaves it may not take yet.
#include "compactor/plan_int.h"

#include <stdlib.h>

static int order_live(const void *id, const void *block)
{
    return id_cmp(*(const id128 *)id, (*(const struct manifest_block *const *)block)->id);
}

bool plan_has_expired(const struct planning *p, id128 leaf)
{
    size_t n = p->kind_count[BLOCK_RAW];
    if (!p->state->counts(p->state->arg, leaf)) return false;
    if (n && bsearch(&leaf, p->live, n, sizeof(const struct manifest_block *), order_live))
        return false;
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

bool plan_may_go(const struct planning *p, const struct manifest_block *b)
{
    const struct plan_state *s = p->state;
    return b->kind != BLOCK_RAW || !s->may_go || s->may_go(s->go_arg, b->id);
}

bool plan_is_held(struct planning *p, const struct manifest_block *b)
{
    if (plan_may_go(p, b)) return false;
    p->out->held[p->out->held_count++] = b->id;
    return true;
}
