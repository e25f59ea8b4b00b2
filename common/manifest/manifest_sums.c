// SPDX-License-Identifier: Apache-2.0
//
// The sums of an expired leaf (one that retention removed) are in parents only. So no change may
// remove the last parent that names such a leaf, nor make that parent stale by replacing another
// leaf that it names: nobody could make the parent anew, and answers of later years would lack an
// hour. The compactor plans accordingly; this check holds whatever was planned, and whatever other
// writers changed in between.
//
// A parent that retention removes (change.expire) may go: its own time is over.
//
//     for each parent that the change removes or makes stale
//         for each window of it, and each expired leaf named there
//             other parents, after the change, must name the leaf in the same window, with at least
//             the same classes, for all packs of the parent
#include "base/search.h"
#include "manifest/manifest_int.h"
#include "sys/log.h"

#include <inttypes.h>
#include <stdlib.h>

struct near {
    const struct manifest_block *block;
    uint32_t reach;  // the highest pack of this block and of those before it in the list
};

struct sums_check {
    const struct manifest *base;
    const struct manifest_change *change;
    id128 *removed;  // in order
    size_t removed_count;
    id128 *expired;  // in order
    size_t expired_count;
    int64_t from_hour;  // of all that is removed
    int64_t to_hour;
    struct near *near;  // parents after the change that reach into these hours, by pack_lo
    size_t near_count;
    const struct manifest_block *
        *keepers;  // of these, for the window that is checked: find_keepers
    size_t keeper_count;
};

static bool is_removed(const struct sums_check *s, id128 id)
{
    return ids_have(s->removed, s->removed_count, id);
}

// Are the leaf's rows gone, so that only parents have its sums, once the change is made?
static bool is_expired(const struct sums_check *s, id128 leaf)
{
    if (!manifest_counts(s->base, leaf)) return false;
    return !manifest_find(s->base, leaf) || ids_have(s->expired, s->expired_count, leaf);
}

// Does the window's node count in the version before the change? If not, nothing is lost with it.
static bool counts_before(const struct sums_check *s, const struct manifest_cover *c)
{
    for (size_t i = 0; i < c->leaf_count; i++)
        if (!manifest_counts(s->base, c->leaves[i])) return false;
    return true;
}

static bool is_touched(const struct sums_check *s, const struct manifest_cover *c)
{
    for (size_t i = 0; i < c->leaf_count; i++)
        if (is_removed(s, c->leaves[i])) return true;
    return false;
}

static const struct manifest_cover *cover_like(const struct manifest_block *b,
                                               const struct manifest_cover *of)
{
    size_t from = SEARCH(at, 0, b->cover_count, (manifest_step(), b->covers[at].hour < of->hour));
    bool found = from < b->cover_count && b->covers[from].hour == of->hour &&
                 b->covers[from].hours == of->hours;
    return found ? &b->covers[from] : NULL;
}

// Has block b, which is there after the change, sums of the window as `was` had them, and will they
// count? A part of a service serves only for the same part, or for all if it is the whole.
static bool may_keep(const struct sums_check *s, const struct manifest_block *b,
                     const struct manifest_block *was, const struct manifest_cover *of)
{
    assert(was->cover_count);
    bool is_cut_otherwise = b->parts > 1 && b->part != (was->parts == b->parts ? was->part : 0);
    if (b->kind != was->kind || is_cut_otherwise || (was->classes & ~b->classes)) return false;
    if (b->pack_lo > was->pack_hi || b->pack_hi < was->pack_lo) return false;
    const struct manifest_cover *c = cover_like(b, of);
    return c && counts_before(s, c) && !is_touched(s, c);
}

// The blocks that may keep the window. Near blocks are in order of their lowest pack; from the last
// one that begins within `was` downwards, until none of those left reaches up to it.
static void find_keepers(struct sums_check *s, const struct manifest_block *was,
                         const struct manifest_cover *of)
{
    size_t to =
        SEARCH(at, 0, s->near_count, (manifest_step(), s->near[at].block->pack_lo <= was->pack_hi));
    s->keeper_count = 0;
    while (to-- > 0 && s->near[to].reach >= was->pack_lo) {
        manifest_step();
        if (may_keep(s, s->near[to].block, was, of))
            s->keepers[s->keeper_count++] = s->near[to].block;
    }
}

// Do the keepers that name the leaf cover all packs of `was`? Goes up from its lowest pack, from
// the end of one keeper to the next. 64 bits, as the highest pack is UINT32_MAX.
static bool is_kept(const struct sums_check *s, const struct manifest_block *was,
                    const struct manifest_cover *of, id128 leaf)
{
    for (uint64_t at = was->pack_lo; at <= was->pack_hi;) {
        uint64_t end = 0;
        for (size_t i = 0; i < s->keeper_count && end == 0; i++) {
            const struct manifest_block *b = s->keepers[i];
            manifest_step();
            if (b->pack_lo > at || b->pack_hi < at) continue;
            const struct manifest_cover *c = cover_like(b, of);
            assert(c);  // may_keep saw to it
            if (ids_have(c->leaves, c->leaf_count, leaf)) end = (uint64_t)b->pack_hi + 1;
        }
        if (end == 0) return false;
        at = end;
    }
    return true;
}

static bool check_cover(struct sums_check *s, const struct manifest_block *b,
                        const struct manifest_cover *c, err *e)
{
    bool goes = is_removed(s, b->id);
    bool sought = false;  // keepers are sought once for a window, and for most windows never
    if (!goes && !(is_touched(s, c) && counts_before(s, c))) return true;
    for (size_t i = 0; i < c->leaf_count; i++) {
        if (!is_expired(s, c->leaves[i])) continue;
        if (!sought) find_keepers(s, b, c);
        sought = true;
        if (is_kept(s, b, c, c->leaves[i])) continue;
        char leaf[ULID_TEXT];
        char block[ULID_TEXT];
        ulid_print(c->leaves[i], leaf);
        ulid_print(b->id, block);
        return err_set(
            e, ERR_ABORTED,
            "block %s has the sums of leaf %s, whose rows are no longer kept; the change "
            "%s it and has nothing in its place",
            block, leaf, goes ? "removes" : "replaces another leaf of");
    }
    return true;
}

// The hours in which there can be parents that the change touches. All others are passed over: a
// tenant of years has thousands of parents, a change touches those of a day or a window.
static void find_hours(struct sums_check *s)
{
    s->from_hour = INT64_MAX;
    s->to_hour = INT64_MIN;
    for (size_t i = 0; i < s->removed_count; i++) {
        const struct manifest_block *b = manifest_find(s->base, s->removed[i]);
        if (!b) continue;
        s->from_hour = MIN(s->from_hour, b->from_hour);
        s->to_hour = MAX(s->to_hour, b->from_hour + (int64_t)b->hours);
    }
}

static bool is_near(const struct sums_check *s, const struct manifest_block *b)
{
    manifest_step();
    return b->cover_count && b->from_hour < s->to_hour &&
           b->from_hour + (int64_t)b->hours > s->from_hour;
}

static int by_pack(const void *a, const void *b)
{
    uint32_t x = ((const struct near *)a)->block->pack_lo;
    uint32_t y = ((const struct near *)b)->block->pack_lo;
    return x < y ? -1 : x > y;
}

static bool find_near(struct sums_check *s, struct arena *a)
{
    const struct manifest_change *c = s->change;
    size_t n = 0;
    for (size_t i = 0; i < c->add_count; i++)
        n += is_near(s, &c->add[i]);
    for (size_t i = 0; i < s->base->block_count; i++)
        n += is_near(s, &s->base->blocks[i]);
    s->near = ARENA_ARRAY(a, struct near, n);
    s->keepers = ARENA_ARRAY(a, const struct manifest_block *, n);
    if (!s->near || !s->keepers) return false;
    for (size_t i = 0; i < c->add_count; i++)
        if (is_near(s, &c->add[i])) s->near[s->near_count++].block = &c->add[i];
    for (size_t i = 0; i < s->base->block_count; i++) {
        const struct manifest_block *b = &s->base->blocks[i];
        if (is_near(s, b) && !is_removed(s, b->id) &&
            !ids_have(s->expired, s->expired_count, b->id))
            s->near[s->near_count++].block = b;
    }
    if (s->near_count) qsort(s->near, s->near_count, sizeof *s->near, by_pack);
    for (size_t i = 0; i < s->near_count; i++)
        s->near[i].reach = MAX(s->near[i].block->pack_hi, i ? s->near[i - 1].reach : 0);
    return true;
}

static bool keeps_sums(struct arena *a, const struct manifest *base,
                       const struct manifest_change *c, err *e)
{
    struct sums_check s = {.base = base,
                           .change = c,
                           .removed_count = c->remove_count,
                           .expired_count = c->expire_count};
    if (c->remove_count == 0) return true;  // nothing becomes stale, and retention may take all
    if (!ids_sort(a, c->remove, c->remove_count, &s.removed) ||
        !ids_sort(a, c->expire, c->expire_count, &s.expired)) {
        return arena_fail(a, e);
    }
    find_hours(&s);
    if (!find_near(&s, a)) return arena_fail(a, e);
    for (size_t i = 0; i < base->block_count; i++) {
        const struct manifest_block *b = &base->blocks[i];
        if (!is_near(&s, b) || ids_have(s.expired, s.expired_count, b->id)) continue;
        for (size_t k = 0; k < b->cover_count; k++)
            if (!check_cover(&s, b, &b->covers[k], e)) return false;
    }
    return true;
}

bool manifest_keeps_sums(struct req *r, struct arena *a, const struct manifest *base,
                         const struct manifest_change *c, err *e)
{
    char text[LOG_QUOTE_MAX];
    if (tombstones_allow(a, base, c, e) && keeps_sums(a, base, c, e)) return true;
    if (e->code != ERR_ABORTED) return false;
    // Plans avoid this, so a person must be able to see that one did not.
    metric_add(&manifest_refused, 1);
    log_warn(&r->log, "manifest.refused",
             "version=%" PRIu64
             " fault=%s action=\"none: the change is planned again; if this line "
             "comes again and again for the same block, report it\"",
             base->version, log_quote(text, str_of(e->msg)));
    return false;
}
