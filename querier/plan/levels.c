// SPDX-License-Identifier: Apache-2.0
//
// Lays a range over the blocks of a view, for each elementary interval of packs (within which all
// blocks have the same services):
//
//     1. the rest is the whole range (lay_packs)
//     2. parents, the best first, take runs of whole slots out of the rest; the live leaves that
//        they do not name are added there (lay_window)
//     3. leaves take the remaining rest (add_leaves)
//     4. if an expired leaf lies in what no parent took, rows of the range are gone
//
// If rows at an edge are gone, the edge is moved outward, to wider and wider slots, and everything
// is laid anew (lay). At the end neighbouring parts of a block become one piece, segments are
// added, and leaves are read by nodes between edges of rows (put_rows).
//
// A failed allocation makes the arena fail; level_plan_given asks it at the end.
#include "querier/plan/levels.h"

#include "base/search.h"
#include "querier/plan/levels_int.h"

#include <stdlib.h>

// An edge so near to a border lies on it: requests have whole ms and include both ends, so the
// edges of whole days lie a little outside of their borders.
#define NEAR_NS INT64_C(1000000)

struct span {
    int64_t from_ns;
    int64_t to_ns;
};

// A range of a block, before leaves are split into nodes and rows.
struct part {
    const struct manifest_block *block;
    bool row_by_row;
    bool hollow;  // a window of a parent without leaves: nothing is read, but its neighbours join
    int64_t from_ns;
    int64_t to_ns;
    uint32_t pack_lo;
    uint32_t pack_hi;
};

struct layout {
    struct level_view *v;
    struct arena *arena;
    const struct level_ask *ask;
    struct span range;  // answered
    bool any_slot;      // borders of steps may lie within slots where rows are gone
    bool no_early;      // early rows may count in the slot that begins before them

    // the interval of packs that is being laid
    uint32_t pack_lo;
    uint32_t pack_hi;
    struct level_parent **parents;
    size_t parent_count;
    const struct level_raw **leaves;
    size_t leaf_count;
    const struct level_expired **expired;
    size_t expired_count;
    struct span *rest;  // spans that nothing serves yet; ascending, disjoint
    size_t rest_count;
    size_t rest_cap;

    struct part *parts;
    size_t part_count;
    size_t part_cap;
    const struct manifest_block **lacking;  // blocks that cannot be read, but are needed
    size_t lacking_count;
    size_t lacking_cap;
    int64_t slot_ns;
    bool gone;  // nothing that was laid out has some rows of the range
    struct span gone_at;
    bool gone_first;  // of the day in which the range that was asked for begins
    bool gone_last;   // of the day in which it ends
};

// ---- slots

// The narrowest slot of a kind of parent, for the use of the plan.
static int64_t grain(const struct layout *l, enum block_kind kind)
{
    if (l->ask->use == LEVEL_TOTALS) return kind == BLOCK_DAYS ? SLOT_HOUR : SLOT_MINUTE;
    return kind == BLOCK_DAYS ? SLOT_DAY : SLOT_HOUR;
}

// The first border of a step after t; INT64_MAX if there is none. Times may be anywhere in int64,
// so differences need more.
static int64_t border_after(const struct level_ask *k, int64_t t)
{
    assert(k->step_ns > 0);
    __int128 past = (__int128)t - k->first_ns;
    __int128 steps = past / k->step_ns;
    if (past % k->step_ns < 0) steps--;
    __int128 border = (__int128)k->first_ns + (steps + 1) * k->step_ns;
    return border > INT64_MAX ? INT64_MAX : (int64_t)border;
}

// Can a border of a step lie within a slot? Rows need no slots, and sums of everything no borders.
static bool has_borders_within(const struct level_ask *k, int64_t width)
{
    if (k->use == LEVEL_ROWS || (k->use == LEVEL_NODES && k->step_ns <= 0)) return false;
    if (k->step_ns <= 0) return true;
    return k->step_ns % width != 0 || k->first_ns % width != 0;
}

// The first run of whole slots within (from, to]. With `whole`, slots that a border cuts are left
// out, and a run ends at a border.
static bool first_run(const struct level_ask *k, int64_t width, struct span in, bool whole,
                      struct span *out)
{
    assert(width > 0);
    int64_t from = level_up(in.from_ns, width);
    int64_t to = level_down(in.to_ns, width);
    if (!whole) {
        *out = (struct span){from, to};
        return from < to;
    }
    while (from < to) {
        int64_t border = border_after(k, from);
        int64_t cut = level_down(border, width);
        if (cut == border || cut >= to) cut = border >= to ? to : border;
        if (cut > from) {
            *out = (struct span){from, cut};
            return true;
        }
        from += width;
    }
    return false;
}

// ---- parts

static void add_part(struct layout *l, const struct manifest_block *b, bool row_by_row, bool hollow,
                     struct span at)
{
    assert(at.from_ns < at.to_ns && l->pack_lo <= l->pack_hi);
    if (!arena_grow(l->arena, &l->parts, &l->part_cap, l->part_count + 1, sizeof *l->parts)) return;
    l->parts[l->part_count++] =
        (struct part){b, row_by_row, hollow, at.from_ns, at.to_ns, l->pack_lo, l->pack_hi};
}

static void add_lacking(struct layout *l, const struct manifest_block *b)
{
    for (size_t i = 0; i < l->lacking_count; i++) {
        if (l->lacking[i] == b) return;
    }
    if (!arena_grow(l->arena, &l->lacking, &l->lacking_cap, l->lacking_count + 1,
                    sizeof(const struct manifest_block *))) {
        return;
    }
    l->lacking[l->lacking_count++] = b;
}

// Adds the leaves of a span, without those that the cover names; NULL: all of them. Leaves are in
// order of their beginning, so the search starts as far back as the longest one may reach.
static void add_leaves(struct layout *l, struct span at, const struct manifest_cover *but)
{
    int64_t earliest = level_before(at.from_ns, l->v->longest_leaf);
    size_t lo = SEARCH(k, 0, l->leaf_count, l->leaves[k]->from_ns < earliest);
    for (size_t i = lo; i < l->leaf_count && l->leaves[i]->from_ns < at.to_ns; i++) {
        const struct level_raw *leaf = l->leaves[i];
        struct span both = {MAX(at.from_ns, leaf->from_ns), MIN(at.to_ns, leaf->to_ns)};
        if (both.from_ns >= both.to_ns || (but && level_names(but, leaf->block->id))) continue;
        if (!leaf->without) {
            add_part(l, leaf->block, leaf->row_by_row, false, both);
        } else if (level_may_have(leaf->block, both.from_ns, both.to_ns)) {
            add_lacking(l, leaf->block);
        }
    }
}

// ---- the rest

// The first span of the rest that ends after t.
static size_t find_rest(const struct layout *l, int64_t t)
{
    return SEARCH(at, 0, l->rest_count, l->rest[at].to_ns <= t);
}

// Takes a span out of span i of the rest. Afterwards the part behind it is span i, or i + 1 if
// there is a part before it.
static bool cut_rest(struct layout *l, size_t i, struct span at)
{
    assert(i < l->rest_count && at.from_ns < at.to_ns);
    assert(at.from_ns >= l->rest[i].from_ns && at.to_ns <= l->rest[i].to_ns);
    struct span left = {l->rest[i].from_ns, at.from_ns};
    struct span right = {at.to_ns, l->rest[i].to_ns};
    bool has_left = left.from_ns < left.to_ns;
    bool has_right = right.from_ns < right.to_ns;
    size_t now = (size_t)has_left + has_right;
    if (!arena_grow(l->arena, &l->rest, &l->rest_cap, l->rest_count + 1, sizeof *l->rest)) {
        return false;
    }
    // One span becomes none, one or two; those behind it move by as much.
    memmove(l->rest + i + now, l->rest + i + 1, (l->rest_count - i - 1) * sizeof *l->rest);
    if (has_left) l->rest[i] = left;
    if (has_right) l->rest[i + has_left] = right;
    l->rest_count = l->rest_count - 1 + now;
    return true;
}

// ---- parents

// May the parent serve the window without losing rows? It must be whole, and name every expired
// leaf that lay in the window: other parents alone have the rows of the others.
static bool is_whole(const struct layout *l, const struct level_window *w)
{
    if (!w->whole) return false;
    int64_t earliest = level_before(w->from_ns, l->v->longest_expired);
    size_t lo = SEARCH(at, 0, l->expired_count, l->expired[at]->from_ns < earliest);
    for (size_t i = lo; i < l->expired_count && l->expired[i]->from_ns < w->to_ns; i++) {
        if (l->expired[i]->to_ns > w->from_ns && !level_names(w->cover, l->expired[i]->id)) {
            return false;
        }
    }
    return true;
}

// Steps from which on sums do in place of rows whose durations are asked for: agents send profiles
// of ten seconds to a minute, of which a longer step's value shows little.
#define STEP_OF_SUMS (5 * SLOT_MINUTE)

// Should a parent be used, if rows could be? If few slots fit between two borders (`cut`), most
// rows are read anyway, and the slots between would be many small pieces.
static bool is_worthwhile(const struct layout *l, enum block_kind kind, bool cut)
{
    int64_t least = l->ask->durations ? STEP_OF_SUMS : 0;
    if (cut) least = MAX(least, 2 * (kind == BLOCK_DAYS ? SLOT_DAY : SLOT_HOUR));
    return l->ask->step_ns >= least;
}

// Adds a parent; of one that is cut by series all parts.
static void add_parent(struct layout *l, const struct level_parent *p, bool hollow, struct span at)
{
    for (uint32_t i = 1; p->parts && i < p->block->parts; i++)
        add_part(l, p->parts[i], false, hollow, at);
    add_part(l, p->parts ? p->parts[0] : p->block, false, hollow, at);
}

// Lets a parent serve all runs of slots that are left within a window.
static void lay_window(struct layout *l, const struct level_parent *p, const struct level_window *w,
                       bool any_slot)
{
    int64_t width = grain(l, p->block->kind);
    bool cut = has_borders_within(l->ask, width);
    if (!any_slot && !is_worthwhile(l, p->block->kind, cut)) return;
    size_t i = find_rest(l, w->from_ns);
    while (i < l->rest_count && l->rest[i].from_ns < w->to_ns) {
        struct span both = {MAX(w->from_ns, l->rest[i].from_ns), MIN(w->to_ns, l->rest[i].to_ns)};
        struct span run;
        if (!first_run(l->ask, width, both, cut && !any_slot, &run)) {
            i++;
            continue;
        }
        if (cut && any_slot) l->slot_ns = MAX(l->slot_ns, width);
        bool has_left = l->rest[i].from_ns < run.from_ns;
        if (!cut_rest(l, i, run)) return;  // no memory: the plan fails at its end
        add_parent(l, p, w->cover->leaf_count == 0, run);
        add_leaves(l, run, w->cover);
        i += has_left;
    }
}

static size_t count_worth(const struct layout *l, const struct level_parent *p)
{
    size_t n = 0;
    int64_t width = grain(l, p->block->kind);
    for (size_t i = 0; i < p->window_count; i++) {
        const struct level_window *w = &p->windows[i];
        struct span both = {MAX(w->from_ns, l->range.from_ns), MIN(w->to_ns, l->range.to_ns)};
        struct span run;
        // (is_whole last, as it looks at leaves.)
        n += w->cover->leaf_count && first_run(l->ask, width, both, false, &run) && is_whole(l, w);
    }
    return n;
}

// The coarsest first; then the one that serves most windows, the longest, the newest (ULIDs ascend
// with time).
static int parents_by_worth(const void *a, const void *b)
{
    const struct level_parent *x = *(struct level_parent *const *)a;
    const struct level_parent *y = *(struct level_parent *const *)b;
    if (x->block->kind != y->block->kind) return x->block->kind > y->block->kind ? -1 : 1;
    if (x->worth != y->worth) return x->worth > y->worth ? -1 : 1;
    if (x->block->hours != y->block->hours) return x->block->hours > y->block->hours ? -1 : 1;
    return memcmp(y->block->id.b, x->block->id.b, sizeof x->block->id.b);
}

static void lay_parents(struct layout *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->parent_count; i++) {
        l->parents[i]->worth = count_worth(l, l->parents[i]);
        if (l->parents[i]->worth) l->parents[n++] = l->parents[i];
    }
    l->parent_count = n;
    if (n) qsort(l->parents, n, sizeof(struct level_parent *), parents_by_worth);
    for (size_t i = 0; i < n; i++) {
        const struct level_parent *p = l->parents[i];
        for (size_t k = 0; k < p->window_count && l->rest_count; k++) {
            if (is_whole(l, &p->windows[k])) lay_window(l, p, &p->windows[k], false);
        }
    }
    // Where rows are gone, steps may have to be rounded to slots: the finest parents first, from
    // the back, so that they are rounded as little as possible.
    for (size_t i = n; l->any_slot && i > 0; i--) {
        const struct level_parent *p = l->parents[i - 1];
        for (size_t k = 0; k < p->window_count && l->rest_count; k++) {
            const struct level_window *w = &p->windows[k];
            if (w->expired && is_whole(l, w)) lay_window(l, p, w, true);
        }
    }
}

// ---- a range

static bool is_on_day(struct span at, int64_t t)
{
    int64_t day = slot_start(slot_of(t, SLOT_DAY), SLOT_DAY);
    return at.from_ns <= level_up(t, SLOT_DAY) && at.to_ns > day;
}

static void note_gone(struct layout *l, struct span at)
{
    if (!l->gone) l->gone_at = at;
    l->gone = true;
    l->gone_at.from_ns = MIN(l->gone_at.from_ns, at.from_ns);
    l->gone_at.to_ns = MAX(l->gone_at.to_ns, at.to_ns);
    l->gone_first |= is_on_day(at, l->ask->from_ns == INT64_MAX ? INT64_MAX : l->ask->from_ns + 1);
    l->gone_last |= is_on_day(at, l->ask->to_ns);
}

static void find_gone(struct layout *l)
{
    for (size_t i = 0; i < l->expired_count; i++) {
        const struct level_expired *x = l->expired[i];
        for (size_t k = find_rest(l, x->from_ns);
             k < l->rest_count && l->rest[k].from_ns < x->to_ns; k++) {
            note_gone(l, (struct span){MAX(x->from_ns, l->rest[k].from_ns),
                                       MIN(x->to_ns, l->rest[k].to_ns)});
        }
    }
}

static bool has_packs(const struct layout *l, uint32_t lo, uint32_t hi)
{
    return lo <= l->pack_lo && hi >= l->pack_hi;
}

// Where early rows end, if a slot begins where they do; else 0. (Slots of all widths begin at whole
// minutes.)
static int64_t early_end(const struct layout *l)
{
    const struct level_ask *k = l->ask;
    int64_t end = 0;
    if (l->no_early || k->early_ns <= 0 || k->step_ns <= 0 || k->use == LEVEL_ROWS ||
        k->first_ns % SLOT_MINUTE != 0 || __builtin_add_overflow(k->first_ns, k->early_ns, &end)) {
        return 0;
    }
    return end > l->range.from_ns && end < l->range.to_ns ? end : 0;
}

static void lay_packs(struct layout *l)
{
    struct level_view *v = l->v;
    assert(l->pack_lo <= l->pack_hi && l->range.from_ns < l->range.to_ns);
    l->parent_count = l->leaf_count = l->expired_count = 0;
    for (size_t i = 0; i < v->parent_count; i++) {
        const struct manifest_block *b = v->parents[i].block;
        if (!v->parents[i].usable || !has_packs(l, b->pack_lo, b->pack_hi)) continue;
        l->parents[l->parent_count++] = &v->parents[i];
    }
    for (size_t i = 0; i < v->leaf_count; i++) {
        const struct manifest_block *b = v->leaves[i].block;
        if (has_packs(l, b->pack_lo, b->pack_hi)) l->leaves[l->leaf_count++] = &v->leaves[i];
    }
    for (size_t i = 0; i < v->expired_count; i++) {
        const struct level_expired *x = &v->expired[i];
        // Several parents name it, each with its packs: entries of one id are neighbours.
        size_t n = l->expired_count;
        bool again = n && id128_eq(l->expired[n - 1]->id, x->id);
        if (!again && has_packs(l, x->pack_lo, x->pack_hi)) l->expired[l->expired_count++] = x;
    }
    if (!arena_grow(l->arena, &l->rest, &l->rest_cap, 2, sizeof *l->rest)) return;
    l->rest[0] = l->range;
    l->rest_count = 1;
    int64_t early = early_end(l);
    if (early) {
        l->rest[0].to_ns = early;
        l->rest[l->rest_count++] = (struct span){early, l->range.to_ns};
    }
    lay_parents(l);
    for (size_t i = 0; i < l->rest_count; i++)
        add_leaves(l, l->rest[i], NULL);
    find_gone(l);
}

static void lay_range(struct layout *l)
{
    // All of the attempt before is dropped: with other edges each block may serve another range.
    l->part_count = l->lacking_count = 0;
    l->slot_ns = 0;
    l->gone = l->gone_first = l->gone_last = false;
    if (l->range.from_ns >= l->range.to_ns) return;
    for (size_t i = 0; i + 1 < l->v->pack_count; i++) {
        l->pack_lo = (uint32_t)l->v->packs[i];
        l->pack_hi = (uint32_t)(l->v->packs[i + 1] - 1);
        lay_packs(l);
    }
}

// ---- edges: moved outward, from slot to wider slot, until no expired leaf is cut by them

static const int64_t edges_of_nodes[] = {1, SLOT_HOUR, SLOT_DAY};
static const int64_t edges_of_totals[] = {1, SLOT_MINUTE, SLOT_HOUR, SLOT_DAY};

// The range with its edges on borders of slots of these widths: outward, but inward if an edge lies
// only just outside of a border (NEAR_NS).
static struct span round_range(const struct level_ask *k, int64_t first, int64_t last)
{
    assert(first > 0 && last > 0);
    struct span outward = {level_down(k->from_ns, first), level_up(k->to_ns, last)};
    struct span near = outward;
    int64_t up = level_up(k->from_ns, first);
    int64_t down = level_down(k->to_ns, last);
    if (up > k->from_ns && up - k->from_ns <= NEAR_NS) near.from_ns = up;
    if (down < k->to_ns && k->to_ns - down <= NEAR_NS) near.to_ns = down;
    return near.from_ns < near.to_ns ? near : outward;
}

// Lets sums serve where rows are gone, though they show less than rows: before the range is made
// wider. False if that was done already.
static bool allow_sums(struct layout *l)
{
    if (early_end(l)) {
        l->no_early = true;
        return true;
    }
    // Days have totals of hours, and steps of minutes have borders within these.
    bool useful = has_borders_within(l->ask, SLOT_HOUR) || l->ask->durations;
    if (l->ask->use != LEVEL_TOTALS || l->any_slot || !useful) return false;
    l->any_slot = true;
    return true;
}

// Tries widths of the two edges until nothing is gone. If even days do not help at an edge, rows
// are gone for good there, and the edge goes back to its place.
static void lay(struct layout *l)
{
    bool totals = l->ask->use == LEVEL_TOTALS;
    const int64_t *edges = totals ? edges_of_totals : edges_of_nodes;
    size_t last = totals ? COUNT(edges_of_totals) - 1 : COUNT(edges_of_nodes) - 1;
    if (l->ask->use == LEVEL_ROWS) last = 0;
    size_t from = 0;
    size_t to = 0;
    bool from_stays = false;  // rounding it does not help
    bool to_stays = false;
    // It ends: each round widens an edge, or gives one up for good, or allows slots or early rows,
    // once.
    for (;;) {
        assert(from <= last && to <= last);
        l->range = round_range(l->ask, edges[from], edges[to]);
        lay_range(l);
        if (!l->gone || last == 0) return;
        bool more_from = l->gone_first && !from_stays;
        bool more_to = l->gone_last && !to_stays;
        if (allow_sums(l)) continue;
        if ((more_from && from < last) || (more_to && to < last)) {
            from += more_from && from < last;
            to += more_to && to < last;
        } else if (more_from || more_to) {
            from_stays |= more_from;
            to_stays |= more_to;
            if (more_from) from = 0;
            if (more_to) to = 0;
        } else {
            return;
        }
    }
}

// ---- result

// (By address: any order of blocks will do here, the plan is sorted by kind and time at its end.)
static int parts_by_time(const void *a, const void *b)
{
    const struct part *x = a;
    const struct part *y = b;
    if (x->block != y->block) return x->block < y->block ? -1 : 1;
    if (x->pack_lo != y->pack_lo) return x->pack_lo < y->pack_lo ? -1 : 1;
    return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

static int parts_by_pack(const void *a, const void *b)
{
    const struct part *x = a;
    const struct part *y = b;
    if (x->block != y->block) return x->block < y->block ? -1 : 1;
    if (x->from_ns != y->from_ns) return x->from_ns < y->from_ns ? -1 : 1;
    if (x->to_ns != y->to_ns) return x->to_ns < y->to_ns ? -1 : 1;
    return x->pack_lo < y->pack_lo ? -1 : x->pack_lo > y->pack_lo;
}

// Neighbours in time of one block and packs become one part.
static void join_times(struct layout *l)
{
    struct part *v = l->parts;
    size_t n = 0;
    qsort(v, l->part_count, sizeof *v, parts_by_time);
    for (size_t i = 0; i < l->part_count; i++) {
        struct part *last = n ? &v[n - 1] : NULL;
        if (!last || last->block != v[i].block || last->pack_lo != v[i].pack_lo ||
            last->to_ns != v[i].from_ns) {
            v[n++] = v[i];
            continue;
        }
        last->to_ns = v[i].to_ns;
        last->hollow &= v[i].hollow;
    }
    l->part_count = n;
}

// Neighbours in packs of one block and range become one part.
static void join_packs(struct layout *l)
{
    struct part *v = l->parts;
    size_t n = 0;
    qsort(v, l->part_count, sizeof *v, parts_by_pack);
    for (size_t i = 0; i < l->part_count; i++) {
        struct part *last = n ? &v[n - 1] : NULL;
        if (!last || last->block != v[i].block || last->from_ns != v[i].from_ns ||
            last->to_ns != v[i].to_ns || last->hollow != v[i].hollow ||
            (uint64_t)last->pack_hi + 1 != v[i].pack_lo) {
            v[n++] = v[i];
            continue;
        }
        last->pack_hi = v[i].pack_hi;
    }
    l->part_count = n;
}

static const struct level_object *object_of(struct arena *a, const struct manifest_block *b)
{
    struct level_object *o = ARENA_NEW(a, struct level_object);
    if (o) {
        *o = (struct level_object){.kind = b->kind, .block = b, .name = b->name, .bytes = b->bytes};
    }
    return o;
}

static void put_piece(struct level_plan *out, struct level_piece piece, enum level_use use,
                      struct span at)
{
    if (at.from_ns >= at.to_ns) return;
    // A block says when its first and last row are: outside of that there is nothing to read.
    if (piece.object->block && !level_may_have(piece.object->block, at.from_ns, at.to_ns)) return;
    piece.use = use;
    piece.from_ns = at.from_ns;
    piece.to_ns = at.to_ns;
    out->pieces[out->n++] = piece;
}

// Rows at the edges, nodes of ALL between them.
static void put_rows(struct level_plan *out, const struct level_ask *k, struct level_piece piece,
                     int64_t width, struct span at)
{
    int64_t from = level_up(at.from_ns, width);
    int64_t to = level_down(at.to_ns, width);
    if (k->use != LEVEL_NODES || (k->classes & ~(1U << BLOCK_ALL)) || from >= to) {
        put_piece(out, piece, LEVEL_ROWS, at);
        return;
    }
    put_piece(out, piece, LEVEL_ROWS, (struct span){at.from_ns, from});
    put_piece(out, piece, LEVEL_NODES, (struct span){from, to});
    put_piece(out, piece, LEVEL_ROWS, (struct span){to, at.to_ns});
}

static void put_parts(const struct layout *l, struct level_plan *out)
{
    const struct level_object *object = NULL;
    for (size_t i = 0; i < l->part_count && out->pieces; i++) {
        const struct part *p = &l->parts[i];
        if (p->hollow) continue;
        // Parts of a block are neighbours after join_packs, so each block has one object.
        if (!object || object->block != p->block) object = object_of(l->arena, p->block);
        if (!object) return;
        struct span at = {p->from_ns, p->to_ns};
        struct level_piece piece = {.object = object, .pack_lo = p->pack_lo, .pack_hi = p->pack_hi};
        bool nodes = !p->row_by_row && (p->block->classes & (1U << BLOCK_ALL));
        if (p->block->kind != BLOCK_RAW)
            put_piece(out, piece, l->ask->use, at);
        else if (nodes)
            put_rows(out, l->ask, piece, SLOT_FIVE, at);
        else
            put_piece(out, piece, LEVEL_ROWS, at);
    }
}

static void put_segments(const struct layout *l, struct level_plan *out)
{
    const struct level_given *g = l->v->given;
    const struct level_ask *k = l->ask;
    for (size_t i = 0; i < g->segment_count && out->pieces; i++) {
        const struct snapshot_segment *s = &g->segments[i];
        struct span hour = {slot_start(s->name.hour, SLOT_HOUR), level_hours_end(s->name.hour, 1)};
        struct span at = {MAX(hour.from_ns, l->range.from_ns), MIN(hour.to_ns, l->range.to_ns)};
        if (at.from_ns >= at.to_ns) continue;
        struct level_object *o = ARENA_NEW(l->arena, struct level_object);
        if (!o) return;
        *o = (struct level_object){.kind = BLOCK_SEGMENT,
                                   .segment = s,
                                   .name = name_segment(l->arena, g->tenant, &s->name),
                                   .bytes = s->bytes};
        if (str_among(o->name, k->without, k->without_count)) {
            out->missing[out->missing_count++] = o;
            continue;
        }
        struct level_piece piece = {.object = o, .pack_lo = k->pack_lo, .pack_hi = k->pack_hi};
        if (str_among(o->name, k->row_by_row, k->row_by_row_count)) {
            put_piece(out, piece, LEVEL_ROWS, at);
        } else {
            put_rows(out, k, piece, SLOT_HOUR, at);
        }
    }
}

static int pieces_by_kind(const void *a, const void *b)
{
    const struct level_piece *x = a;
    const struct level_piece *y = b;
    if (x->object->kind != y->object->kind) return x->object->kind > y->object->kind ? -1 : 1;
    if (x->from_ns != y->from_ns) return x->from_ns < y->from_ns ? -1 : 1;
    int names = str_cmp(x->object->name, y->object->name);
    if (names) return names;
    return x->pack_lo < y->pack_lo ? -1 : x->pack_lo > y->pack_lo;
}

bool level_plan_given(struct arena *a, const struct level_given *g, const struct level_ask *ask,
                      struct level_plan *out, err *e)
{
    *out = (struct level_plan){.from_ns = ask->from_ns, .to_ns = ask->to_ns};
    if (ask->from_ns >= ask->to_ns || ask->pack_lo > ask->pack_hi) return true;
    struct level_view view = {.arena = a,
                              .given = g,
                              .ask = ask,
                              .from_ns = level_down(ask->from_ns, SLOT_DAY),
                              .to_ns = level_up(ask->to_ns, SLOT_DAY)};
    if (!level_inspect(&view, e)) return false;
    struct layout l = {.v = &view, .arena = a, .ask = ask};
    l.parents = arena_array(a, sizeof(struct level_parent *), view.parent_count + 1);
    l.leaves = arena_array(a, sizeof(const struct level_raw *), view.leaf_count + 1);
    l.expired = arena_array(a, sizeof(const struct level_expired *), view.expired_count + 1);
    if (!arena_ok(a, e)) return false;
    lay(&l);
    if (l.part_count) {
        join_times(&l);
        join_packs(&l);
    }

    size_t most = 3 * (l.part_count + g->segment_count);  // put_rows makes three of one
    out->pieces = ARENA_ARRAY(a, struct level_piece, most + 1);
    out->missing =
        arena_array(a, sizeof(const struct level_object *), l.lacking_count + g->segment_count + 1);
    if (!arena_ok(a, e)) return false;
    put_parts(&l, out);
    put_segments(&l, out);
    for (size_t i = 0; i < l.lacking_count && arena_ok(a, e); i++)
        out->missing[out->missing_count++] = object_of(a, l.lacking[i]);
    if (!arena_ok(a, e)) return false;
    assert(out->n <= most && out->missing_count <= l.lacking_count + g->segment_count);
    if (out->n) qsort(out->pieces, out->n, sizeof *out->pieces, pieces_by_kind);
    out->from_ns = l.range.from_ns;
    out->to_ns = l.range.to_ns;
    out->slot_ns = MAX(l.slot_ns, l.no_early ? ask->early_ns + 1 : 0);
    out->gone = l.gone;
    out->gone_from_ns = l.gone_at.from_ns;
    out->gone_to_ns = l.gone_at.to_ns;
    out->rounded = level_rounding(out, ask) > 0;
    return true;
}
