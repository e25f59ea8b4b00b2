// SPDX-License-Identifier: Apache-2.0
//
// The choice for one window of time, a range of packs at a time:
//
//     1. candidates: blocks with the window whose leaves all count; the parts of a service that is
//        cut by its series are one candidate, if all of them are there
//     2. the best ones first (order_candidates)
//     3. between two borders of packs a candidate is or is not as a whole, so for each such range
//        candidates are taken whose leaves no better one has (choose_range)
//     4. a leaf that the choice does not name in all of its packs makes it partial (named_whole)
#include "compactor/choose.h"

#include "base/search.h"

#include <stdlib.h>

// ---- sets

static int order_ids(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(id128));
}

bool leaf_set_has(const struct leaf_set *s, id128 id)
{
    plan_stepped(1);
    return s->n && bsearch(&id, s->v, s->n, sizeof id, order_ids);
}

const struct manifest_block *leaf_of(const struct manifest_block *const *live, size_t n, id128 id)
{
    size_t i = SEARCH(at, 0, n, id_cmp(live[at]->id, id) < 0);
    return i < n && id128_eq(live[i]->id, id) ? live[i] : NULL;
}

bool leaf_set_within(const struct leaf_set *part, const struct leaf_set *whole)
{
    if (part->n > whole->n) return false;
    // A few are looked up one by one; more are found in one pass over both, which are in order.
    if (part->n < whole->n / 16) {
        for (size_t i = 0; i < part->n; i++) {
            if (!leaf_set_has(whole, part->v[i])) return false;
        }
        return true;
    }
    size_t found = 0;
    for (size_t i = 0; i < whole->n && found < part->n; i++) {
        int order = id_cmp(whole->v[i], part->v[found]);
        if (order > 0) break;
        found += order == 0;
    }
    plan_stepped(whole->n);
    return found == part->n;
}

bool leaf_set_union(struct arena *a, const struct leaf_set *x, const struct leaf_set *y,
                    struct leaf_set *out, err *e)
{
    id128 *v = ARENA_ARRAY(a, id128, x->n + y->n + 1);
    if (!v) return arena_fail(a, e);
    size_t n = 0;
    size_t i = 0;
    size_t j = 0;
    plan_stepped(x->n + y->n);
    while (i < x->n || j < y->n) {
        int c = i == x->n ? 1 : j == y->n ? -1 : id_cmp(x->v[i], y->v[j]);
        v[n++] = c <= 0 ? x->v[i] : y->v[j];
        i += c <= 0;
        j += c >= 0;
    }
    assert(n <= x->n + y->n);
    *out = (struct leaf_set){v, n};  // only now: `out` may be x or y
    return true;
}

// ---- choosing

// A block, or the first of all parts of a service that is cut by its series.
struct candidate {
    const struct manifest_block *block;
    const struct manifest_block **parts;  // NULL: there is only the one
    uint32_t missing;                     // of them
    struct leaf_set leaves;
};
struct candidates {
    struct candidate *v;
    size_t n;
};

static const struct manifest_cover *cover_of(const struct manifest_block *b, int64_t hour,
                                             uint32_t hours)
{
    for (size_t i = 0; i < b->cover_count; i++) {
        if (b->covers[i].hour == hour && b->covers[i].hours == hours) return &b->covers[i];
    }
    return NULL;
}

// Sums before gaps; then the one with most leaves; then hours that have series; then the one that
// covers more hours, so that one object serves many windows; then the newest.
static int order_candidates(const void *a, const void *b)
{
    const struct candidate *x = a;
    const struct candidate *y = b;
    if (!x->block->classes != !y->block->classes) return x->block->classes ? -1 : 1;
    if (x->leaves.n != y->leaves.n) return x->leaves.n > y->leaves.n ? -1 : 1;
    bool hours = x->block->kind == BLOCK_HOURS;
    uint32_t series = (x->block->classes ^ y->block->classes) & 1u << BLOCK_SERIES;
    if (hours && series) return x->block->classes & series ? -1 : 1;
    if (x->block->hours != y->block->hours) return x->block->hours > y->block->hours ? -1 : 1;
    if (x->block->made_ns != y->block->made_ns)
        return x->block->made_ns > y->block->made_ns ? -1 : 1;
    return -id_cmp(x->block->id, y->block->id);
}

static int order_borders(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static bool apart(const struct leaf_set *x, const struct leaf_set *y)
{
    for (size_t i = 0; i < x->n; i++) {
        if (leaf_set_has(y, x->v[i])) return false;
    }
    return true;
}

static bool all_count(const struct plan_state *s, const struct manifest_cover *cover)
{
    for (size_t i = 0; i < cover->leaf_count; i++) {
        if (!s->counts(s->arg, cover->leaves[i])) return false;
    }
    return true;
}

static bool is_same_cut(const struct candidate *c, const struct manifest_block *b,
                        const struct manifest_cover *cover)
{
    const struct manifest_block *o = c->block;
    return o->parts == b->parts && o->pack_lo == b->pack_lo && o->pack_hi == b->pack_hi &&
           o->classes == b->classes && o->hours == b->hours && c->leaves.n == cover->leaf_count &&
           memcmp(c->leaves.v, cover->leaves, c->leaves.n * sizeof *cover->leaves) == 0;
}

// Parts of equal cuts that sum the same leaves are one candidate, whoever made which of them.
static bool add_candidate(struct arena *a, struct candidates *to, const struct manifest_block *b,
                          const struct manifest_cover *cover)
{
    struct candidate *c = &to->v[to->n];
    if (b->parts < 2) {
        *c = (struct candidate){.block = b, .leaves = {cover->leaves, cover->leaf_count}};
        to->n++;
        return true;
    }
    for (c = to->v; c < to->v + to->n; c++) {
        if (is_same_cut(c, b, cover)) break;
    }
    if (c == to->v + to->n) {
        *c = (struct candidate){.block = b,
                                .missing = b->parts,
                                .leaves = {cover->leaves, cover->leaf_count}};
        // (candidates.v has room: one row for each block, and this is the first of its cut.)
        c->parts = arena_array(a, sizeof(const struct manifest_block *), b->parts);
        if (!c->parts) return false;
        to->n++;
    }
    assert(b->part < b->parts);  // manifest_block_check saw to it
    const struct manifest_block **at = &c->parts[b->part];
    c->missing -= !*at;
    if (!*at || id_cmp(b->id, (*at)->id) < 0) *at = b;
    return true;
}

static void drop_incomplete(struct candidates *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (c->v[i].missing) continue;
        if (c->v[i].parts) c->v[i].block = c->v[i].parts[0];
        c->v[n++] = c->v[i];
    }
    c->n = n;
}

static void add_chosen(struct chosen *out, const struct manifest_block *b, uint32_t lo, uint32_t hi)
{
    for (size_t k = 0; k < out->n; k++) {
        if (out->parts[k].block != b || out->parts[k].pack_hi + 1u != lo) continue;
        out->parts[k].pack_hi = hi;
        return;
    }
    out->parts[out->n++] = (struct chosen_part){b, lo, hi};
}

// The choice for one range of packs, in which a candidate is or is not as a whole.
static bool choose_range(struct arena *a, const struct candidates *c, uint32_t lo, uint32_t hi,
                         struct chosen *out, struct leaf_set *named, err *e)
{
    *named = (struct leaf_set){0};
    for (size_t i = 0; i < c->n; i++) {
        const struct manifest_block *b = c->v[i].block;
        if (b->pack_lo > lo || b->pack_hi < hi || !apart(&c->v[i].leaves, named)) continue;
        if (!leaf_set_union(a, named, &c->v[i].leaves, named, e)) return false;
        add_chosen(out, b, lo, hi);
        for (uint32_t k = 1; c->v[i].parts && k < b->parts; k++)
            add_chosen(out, c->v[i].parts[k], lo, hi);
    }
    return true;
}

// Is each leaf named in all packs that it has?
static bool named_whole(const struct choice *c, const struct chosen *out, id128 leaf, int64_t hour,
                        uint32_t hours)
{
    const struct manifest_block *b = leaf_of(c->live, c->live_count, leaf);
    if (!b) return true;  // expired: nobody knows any more, and nothing can be made of it anew
    uint64_t want = (uint64_t)b->pack_hi - b->pack_lo + 1;
    uint64_t got = 0;
    for (size_t i = 0; i < out->n; i++) {
        if (out->parts[i].block->part) continue;  // part 0 stands for all parts of its cut
        const struct manifest_cover *cover = cover_of(out->parts[i].block, hour, hours);
        assert(cover);  // without one the block was no candidate
        const struct leaf_set names = {cover->leaves, cover->leaf_count};
        uint32_t lo = MAX(out->parts[i].pack_lo, b->pack_lo);
        uint32_t hi = MIN(out->parts[i].pack_hi, b->pack_hi);
        if (lo <= hi && leaf_set_has(&names, leaf)) got += (uint64_t)hi - lo + 1;
    }
    return got == want;
}

bool choose(struct arena *a, const struct choice *c, int64_t hour, uint32_t hours,
            struct chosen *out, err *e)
{
    assert(hours > 0);
    *out = (struct chosen){0};
    struct candidates candidates = {.v = ARENA_ARRAY(a, struct candidate, c->n + 1)};
    uint64_t *borders = ARENA_ARRAY(a, uint64_t, 2 * c->n + 1);
    if (!candidates.v || !borders) return arena_fail(a, e);
    size_t border_count = 0;
    plan_stepped(c->n);
    for (size_t i = 0; i < c->n; i++) {
        const struct manifest_block *b = c->candidates[i];
        const struct manifest_cover *cover = cover_of(b, hour, hours);
        if (!cover || cover->leaf_count == 0 || !all_count(c->state, cover)) continue;
        if (!add_candidate(a, &candidates, b, cover)) return arena_fail(a, e);
        borders[border_count++] = b->pack_lo;
        borders[border_count++] = (uint64_t)b->pack_hi + 1;
    }
    drop_incomplete(&candidates);
    if (candidates.n == 0) return true;
    qsort(candidates.v, candidates.n, sizeof *candidates.v, order_candidates);
    qsort(borders, border_count, sizeof *borders, order_borders);
    assert(border_count <= 2 * c->n);
    out->parts = ARENA_ARRAY(a, struct chosen_part, c->n * border_count);
    if (!out->parts) return arena_fail(a, e);
    for (size_t i = 0; i + 1 < border_count; i++) {
        if (borders[i] == borders[i + 1]) continue;
        struct leaf_set named = {0};
        if (!choose_range(a, &candidates, (uint32_t)borders[i], (uint32_t)(borders[i + 1] - 1), out,
                          &named, e) ||
            !leaf_set_union(a, &out->leaves, &named, &out->leaves, e)) {
            return false;
        }
    }
    for (size_t i = 0; i < out->leaves.n && !out->partial; i++)
        out->partial = !named_whole(c, out, out->leaves.v[i], hour, hours);
    return true;
}
