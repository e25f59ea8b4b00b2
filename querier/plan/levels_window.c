// SPDX-License-Identifier: Apache-2.0
//
// The view of a range: leaves, parents with their windows, expired leaves, and the elementary
// intervals of packs. Blocks outside of the days of the range and of the packs asked for are left
// out.
#include "querier/plan/levels_int.h"

#include <stdlib.h>

static int by_id(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(id128));
}

bool level_names(const struct manifest_cover *c, id128 id)
{
    if (c->leaf_count == 0) return false;
    return bsearch(&id, c->leaves, c->leaf_count, sizeof *c->leaves, by_id) != NULL;
}

int64_t level_hours_end(int64_t hour, uint32_t hours)
{
    int64_t end = 0;
    if (__builtin_add_overflow(hour, (int64_t)hours, &end)) return INT64_MAX;
    return slot_start(end, SLOT_HOUR);
}

static bool overlaps(const struct level_view *v, const struct manifest_block *b)
{
    return slot_start(b->from_hour, SLOT_HOUR) < v->to_ns &&
           level_hours_end(b->from_hour, b->hours) > v->from_ns && b->pack_lo <= v->ask->pack_hi &&
           b->pack_hi >= v->ask->pack_lo && b->pack_lo <= b->pack_hi && b->hours > 0;
}

static void add_leaf(struct level_view *v, const struct manifest_block *b)
{
    const struct level_ask *k = v->ask;
    assert(v->leaf_count < v->given->block_count);
    struct level_raw *leaf = &v->leaves[v->leaf_count++];
    *leaf = (struct level_raw){
        .block = b,
        .from_ns = slot_start(b->from_hour, SLOT_HOUR),
        .to_ns = level_hours_end(b->from_hour, b->hours),
        .without = str_among(b->name, k->without, k->without_count),
        .row_by_row = str_among(b->name, k->row_by_row, k->row_by_row_count),
    };
}

static bool add_expired(struct level_view *v, const struct level_window *w,
                        const struct manifest_block *parent, id128 id)
{
    if (!arena_grow(v->arena, &v->expired, &v->expired_cap, v->expired_count + 1,
                    sizeof *v->expired)) {
        return false;
    }
    v->expired[v->expired_count++] =
        (struct level_expired){id, w->from_ns, w->to_ns, parent->pack_lo, parent->pack_hi};
    return true;
}

static bool add_window(struct level_view *v, const struct level_parent *p,
                       const struct manifest_cover *c)
{
    const struct manifest_block *b = p->block;
    struct level_window w = {
        .cover = c,
        .from_ns = MAX(slot_start(c->hour, SLOT_HOUR), slot_start(b->from_hour, SLOT_HOUR)),
        .to_ns = MIN(level_hours_end(c->hour, c->hours), level_hours_end(b->from_hour, b->hours)),
        .whole = true,
    };
    if (w.from_ns >= w.to_ns || w.from_ns >= v->to_ns || w.to_ns <= v->from_ns) return true;
    for (size_t i = 0; i < c->leaf_count; i++) {
        enum level_leaf state = v->given->leaf(v->given->arg, c->leaves[i]);
        // The parent is stale in this window: it sums a leaf whose rows are another leaf's now.
        if (state == LEVEL_DEAD) w.whole = false;
        if (state != LEVEL_EXPIRED) continue;
        w.expired = true;
        if (!add_expired(v, &w, b, c->leaves[i])) return false;
    }
    if (!arena_grow(v->arena, &v->windows, &v->window_cap, v->window_count + 1,
                    sizeof *v->windows)) {
        return false;
    }
    v->windows[v->window_count++] = w;
    return true;
}

static bool add_parent(struct level_view *v, const struct manifest_block *b)
{
    const struct level_ask *k = v->ask;
    assert(v->parent_count < v->given->block_count);
    struct level_parent *p = &v->parents[v->parent_count++];
    *p = (struct level_parent){
        .block = b,
        .usable = b->classes && k->use != LEVEL_ROWS && (k->classes & ~b->classes) == 0 &&
                  !str_among(b->name, k->without, k->without_count),
    };
    // Also of a parent that is not usable: its covers say which expired leaves there were.
    size_t first = v->window_count;
    for (size_t i = 0; i < b->cover_count; i++) {
        if (!add_window(v, p, &b->covers[i])) return false;
    }
    p->window_count = v->window_count - first;
    return true;
}

// Are both blocks parts of the same parent? They must agree in all but the part, covers included:
// else the parts would sum different leaves.
static bool is_same_cut(const struct level_parent *x, const struct level_parent *y)
{
    const struct manifest_block *a = x->block;
    const struct manifest_block *b = y->block;
    if (a->kind != b->kind || a->parts != b->parts || a->pack_lo != b->pack_lo ||
        a->pack_hi != b->pack_hi || a->from_hour != b->from_hour || a->hours != b->hours ||
        a->classes != b->classes || a->cover_count != b->cover_count) {
        return false;
    }
    for (size_t i = 0; i < a->cover_count; i++) {
        const struct manifest_cover *c = &a->covers[i];
        const struct manifest_cover *d = &b->covers[i];
        if (c->hour != d->hour || c->hours != d->hours || c->leaf_count != d->leaf_count ||
            (c->leaf_count &&
             memcmp(c->leaves, d->leaves, c->leaf_count * sizeof *c->leaves) != 0)) {
            return false;
        }
    }
    return true;
}

// Sums of a part of a service's series are used only together with those of all other parts. The
// first part stands for them.
static bool join_parts(struct level_view *v)
{
    for (size_t i = 0; i < v->parent_count; i++) {
        struct level_parent *p = &v->parents[i];
        const uint32_t parts = p->block->parts;
        if (parts < 2 || !p->usable) continue;
        uint32_t found = 1;
        const struct manifest_block **all =
            arena_array(v->arena, sizeof(const struct manifest_block *), parts);
        if (!all) return false;
        assert(p->block->part < parts);  // manifest_block_check saw to it
        all[p->block->part] = p->block;
        for (size_t k = i + 1; k < v->parent_count; k++) {
            struct level_parent *o = &v->parents[k];
            if (!o->usable || !is_same_cut(p, o)) continue;
            found += !all[o->block->part];
            all[o->block->part] = o->block;
            o->usable = false;
        }
        p->usable = found == parts;
        p->parts = all;
    }
    return true;
}

static int leaves_by_time(const void *a, const void *b)
{
    const struct level_raw *x = a;
    const struct level_raw *y = b;
    if (x->from_ns != y->from_ns) return x->from_ns < y->from_ns ? -1 : 1;
    return by_id(&x->block->id, &y->block->id);
}

static int expired_by_id(const void *a, const void *b)
{
    return by_id(&((const struct level_expired *)a)->id, &((const struct level_expired *)b)->id);
}

static int expired_by_time(const void *a, const void *b)
{
    const struct level_expired *x = a;
    const struct level_expired *y = b;
    if (x->from_ns != y->from_ns) return x->from_ns < y->from_ns ? -1 : 1;
    int ids = expired_by_id(a, b);
    if (ids) return ids;
    if (x->pack_lo != y->pack_lo) return x->pack_lo < y->pack_lo ? -1 : 1;
    return x->pack_hi < y->pack_hi ? -1 : x->pack_hi > y->pack_hi;
}

// Where was an expired leaf? Its own entry is gone; each parent that names it says that it was in a
// certain window. It was in the narrowest one. If several windows of that width name it, it was a
// leaf of many hours, and lay in all windows that name it. (One hour alone never names a leaf of a
// day: compactors make, pack and retire the hours of a day together.) Its packs are not known
// either, so it may have been in those of every parent that names it.
static void narrow_expired(struct level_expired *v, size_t n)
{
    assert(n > 0);
    struct level_expired in = v[0];
    struct level_expired all = v[0];
    bool several = false;
    for (size_t i = 1; i < n; i++) {
        int64_t width = in.to_ns - in.from_ns;
        all.from_ns = MIN(all.from_ns, v[i].from_ns);
        all.to_ns = MAX(all.to_ns, v[i].to_ns);
        if (v[i].to_ns - v[i].from_ns < width) {
            in = v[i];
            several = false;
        } else if (v[i].to_ns - v[i].from_ns == width) {
            several |= v[i].from_ns != in.from_ns;
        }
    }
    if (several) in = all;
    for (size_t i = 0; i < n; i++) {
        v[i].from_ns = in.from_ns;
        v[i].to_ns = in.to_ns;
    }
}

// One entry for each expired leaf and packs, in order of time.
static void unite_expired(struct level_view *v)
{
    struct level_expired *x = v->expired;
    if (v->expired_count == 0) return;
    qsort(x, v->expired_count, sizeof *x, expired_by_id);
    size_t begin = 0;
    for (size_t i = 1; i <= v->expired_count; i++) {
        if (i < v->expired_count && id128_eq(x[i].id, x[begin].id)) continue;
        narrow_expired(x + begin, i - begin);
        v->longest_expired = MAX(v->longest_expired, x[begin].to_ns - x[begin].from_ns);
        begin = i;
    }
    qsort(x, v->expired_count, sizeof *x, expired_by_time);
    size_t n = 0;
    for (size_t i = 0; i < v->expired_count; i++) {
        if (n == 0 || expired_by_time(&x[n - 1], &x[i])) x[n++] = x[i];
    }
    v->expired_count = n;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void add_packs(struct level_view *v, const struct manifest_block *b)
{
    if (b->pack_lo > v->ask->pack_lo) v->packs[v->pack_count++] = b->pack_lo;
    if (b->pack_hi < v->ask->pack_hi) v->packs[v->pack_count++] = (uint64_t)b->pack_hi + 1;
}

// The borders of packs of all blocks cut the packs asked for into elementary intervals: within one,
// a block has all services or none.
static bool split_packs(struct level_view *v)
{
    v->packs = ARENA_ARRAY(v->arena, uint64_t, 2 * (v->leaf_count + v->parent_count) + 2);
    if (!v->packs) return false;
    assert(v->ask->pack_lo <= v->ask->pack_hi);
    v->packs[v->pack_count++] = v->ask->pack_lo;
    v->packs[v->pack_count++] = (uint64_t)v->ask->pack_hi + 1;
    for (size_t i = 0; i < v->leaf_count; i++)
        add_packs(v, v->leaves[i].block);
    for (size_t i = 0; i < v->parent_count; i++)
        add_packs(v, v->parents[i].block);
    qsort(v->packs, v->pack_count, sizeof *v->packs, by_number);
    size_t n = 0;
    for (size_t i = 0; i < v->pack_count; i++) {
        if (n == 0 || v->packs[n - 1] != v->packs[i]) v->packs[n++] = v->packs[i];
    }
    assert(n >= 2);  // one interval at least
    v->pack_count = n;
    return true;
}

// Some rows of these leaves do not count, so no window may serve that has them summed up.
static void break_windows(struct level_view *v)
{
    for (size_t i = 0; i < v->leaf_count; i++) {
        if (!v->leaves[i].row_by_row) continue;
        for (size_t k = 0; k < v->window_count; k++)
            if (level_names(v->windows[k].cover, v->leaves[i].block->id))
                v->windows[k].whole = false;
    }
}

bool level_inspect(struct level_view *v, err *e)
{
    const struct level_given *g = v->given;
    v->leaves = ARENA_ARRAY(v->arena, struct level_raw, g->block_count + 1);
    v->parents = ARENA_ARRAY(v->arena, struct level_parent, g->block_count + 1);
    for (size_t i = 0; i < g->block_count && arena_ok(v->arena, e); i++) {
        const struct manifest_block *b = &g->blocks[i];
        if (!overlaps(v, b)) continue;
        if (b->kind == BLOCK_RAW) add_leaf(v, b);
        if (b->kind == BLOCK_HOURS || b->kind == BLOCK_DAYS) (void)add_parent(v, b);
    }
    if (!arena_ok(v->arena, e) || !split_packs(v) || !join_parts(v)) return arena_fail(v->arena, e);
    // The array of windows grew until now, so pointers into it are set only here.
    size_t first = 0;
    for (size_t i = 0; i < v->parent_count; i++) {
        v->parents[i].windows = v->windows + first;
        first += v->parents[i].window_count;
    }
    assert(first == v->window_count);
    break_windows(v);
    if (v->leaf_count) qsort(v->leaves, v->leaf_count, sizeof *v->leaves, leaves_by_time);
    for (size_t i = 0; i < v->leaf_count; i++)
        v->longest_leaf = MAX(v->longest_leaf, v->leaves[i].to_ns - v->leaves[i].from_ns);
    unite_expired(v);
    return true;
}
