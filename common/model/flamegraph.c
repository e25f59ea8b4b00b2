// SPDX-License-Identifier: Apache-2.0
//
// flamegraph.c - numbers of names, levels of bars; for a diff, two trees are first given the same
// shape, so that one walk serves both.
#include "model/flamegraph.h"

#include "base/hash.h"
#include "base/map.h"
#include "codec/pb.h"
#include "model/tree_int.h"
#include "model/vector.h"

// One side for a flame graph, two for a diff; both trees of a diff have the same shape and names.
struct layout {
    const struct tree *sides[2];
    size_t side_count;
    uint32_t *names;  // of each node, its number
    uint32_t *flat;   // scratch: children without width
    struct buf *out;
};

// ---- names

struct numbering {
    str *texts;  // by number
    uint32_t count;
    uint32_t *slots;  // open addressing by text: number, 0 = free ("total" is never looked up)
    uint32_t size;
};

static uint32_t number_of(struct numbering *n, str text)
{
    uint32_t mask = n->size - 1;
    uint32_t at = (uint32_t)(hash_table_str(text) >> 32) & mask;
    for (; n->slots[at]; at = (at + 1) & mask) {
        map_stepped();
        if (str_eq(n->texts[n->slots[at]], text)) return n->slots[at];
    }
    assert(n->count > 0 && n->count < n->size);  // number 0 is "total", and a slot stays free
    n->texts[n->count] = text;
    n->slots[at] = n->count;
    return n->count++;
}

// Depth first, last child first: children are pushed in order, so that the last is popped next.
static bool put_names(struct layout *x, struct arena *a)
{
    const struct tree *t = x->sides[0];
    struct numbering n = {.size = 16};
    while (n.size / 2 < t->count && n.size < 1u << 31)
        n.size *= 2;
    n.slots = ARENA_ARRAY(a, uint32_t, n.size);
    n.texts = ARENA_ARRAY(a, str, t->count);
    x->names = ARENA_ARRAY(a, uint32_t, t->count);
    uint32_t *todo = ARENA_ARRAY(a, uint32_t, t->count);
    if (!n.slots || !n.texts || !x->names || !todo) return false;
    n.texts[n.count++] = S("total");
    // A list instead of recursion: a tree may be a million nodes deep. Each node waits once at
    // most.
    uint32_t waiting = 0;
    todo[waiting++] = 0;
    while (waiting > 0) {
        uint32_t node = todo[--waiting];
        if (node != 0) x->names[node] = number_of(&n, t->nodes[node].name);
        for (uint32_t c = t->nodes[node].first_child; c; c = t->nodes[c].next_sibling)
            todo[waiting++] = c;
    }
    for (uint32_t i = 0; i < n.count; i++)
        pb_put_bytes(x->out, 1, n.texts[i]);
    return true;
}

// ---- levels

// A bar lies within that of its parent, as clients expect. Where values are negative, a node's
// total may be less than 0, or more than its parent has room for: then the bar is narrower than its
// value. A bar without width is the last among its siblings and has none above it, or clients could
// take it and those for another's: its self is the total of all that it stands for. So selves add
// up to the total in any case.
struct bar {
    uint32_t node;
    int64_t x[2];      // left edge on each side
    int64_t width[2];  // the total, where no value is negative
};

static bool is_flat(const struct bar *b)
{
    // The root has no siblings.
    return b->node != 0 && b->width[0] == 0 && b->width[1] == 0;
}

// A value, cut to the width that is left.
static int64_t fit(int64_t value, int64_t left)
{
    return MIN(MAX(value, 0), left);
}

static void put_bar(struct layout *l, const struct bar *b, bool flat, int64_t ends[2])
{
    uint8_t bytes[7 * VARINT_MAX];
    size_t n = 0;
    for (size_t s = 0; s < l->side_count; s++) {
        const struct tree_node *node = &l->sides[s]->nodes[b->node];
        // Clients add the numbers of a level up, so each bar says how far it is from the one
        // before.
        // Bars lie within the root's, whose width fits, so no edge is outside 64 bits.
        n += varint_put(bytes + n, (uint64_t)(b->x[s] - ends[s]));
        ends[s] = b->x[s] + b->width[s];
        n += varint_put(bytes + n, (uint64_t)b->width[s]);
        n += varint_put(bytes + n, (uint64_t)(flat ? node->total : node->self));
    }
    n += varint_put(bytes + n, l->names[b->node]);
    buf_put(l->out, bytes, n);
}

// Appends the bars of a bar's children to the queue.
static void queue_children(const struct layout *l, struct bar *bars, const struct bar *b,
                           uint32_t *queued)
{
    const struct tree_node *nodes = l->sides[0]->nodes;
    if (!nodes[b->node].first_child) return;
    // The children lie side by side above their parent, behind what is its own.
    struct bar next = *b;
    int64_t left[2] = {0};
    for (size_t s = 0; s < l->side_count; s++) {
        int64_t own = fit(l->sides[s]->nodes[b->node].self, b->width[s]);
        next.x[s] += own;
        left[s] = b->width[s] - own;
    }
    uint32_t flat = 0;
    for (uint32_t c = nodes[b->node].first_child; c; c = nodes[c].next_sibling) {
        next.node = c;
        for (size_t s = 0; s < l->side_count; s++)
            next.width[s] = fit(l->sides[s]->nodes[c].total, left[s]);
        assert(*queued < l->sides[0]->count);  // a tree has no node twice
        if (is_flat(&next))
            l->flat[flat++] = c;
        else
            bars[(*queued)++] = next;
        for (size_t s = 0; s < l->side_count; s++) {
            next.x[s] += next.width[s];
            left[s] -= next.width[s];
        }
    }
    for (uint32_t i = 0; i < flat; i++) {
        next.node = l->flat[i];
        next.width[0] = next.width[1] = 0;
        bars[(*queued)++] = next;
    }
}

static bool put_levels(struct layout *l, struct arena *a, err *e)
{
    struct bar *bars = ARENA_ARRAY(a, struct bar, l->sides[0]->count);
    l->flat = ARENA_ARRAY(a, uint32_t, l->sides[0]->count);
    if (!bars || !l->flat) return arena_fail(a, e);
    // bars[0] is the root: node 0, at 0. The queue grows by the level below while one is written.
    for (size_t s = 0; s < l->side_count; s++)
        bars[0].width[s] = MAX(l->sides[s]->nodes[0].total, 0);
    uint32_t queued = 1;
    for (uint32_t from = 0; from < queued;) {
        uint32_t to = queued;
        int64_t ends[2] = {0};
        size_t level = pb_begin(l->out, 2);
        size_t values = pb_begin(l->out, 1);
        for (; from < to; from++) {
            bool flat = is_flat(&bars[from]);
            put_bar(l, &bars[from], flat, ends);
            if (!flat) queue_children(l, bars, &bars[from], &queued);
        }
        pb_end(l->out, values);
        pb_end(l->out, level);
    }
    return true;
}

static bool put_graph(struct layout *l, struct arena *a, err *e)
{
    struct wide total = {
        0};  // of both sides of a comparison, which both fit, and their sum need not
    int64_t max_self = 0;
    assert(l->side_count == 1 || l->sides[0]->count == l->sides[1]->count);  // unite saw to it
    for (size_t s = 0; s < l->side_count; s++) {
        wide_add(&total, l->sides[s]->nodes[0].total);
        max_self = MAX(max_self, l->sides[s]->max_self);
    }
    if (!put_names(l, a)) return arena_fail(a, e);
    if (!put_levels(l, a, e)) return false;
    pb_put_i64_opt(l->out, 3, wide_clip(total));
    pb_put_i64_opt(l->out, 4, max_self);
    return buf_ok(l->out, e);
}

bool tree_flamegraph(struct arena *a, const struct tree *t, struct buf *out, err *e)
{
    struct layout l = {.sides = {t}, .side_count = 1, .out = out};
    return put_graph(&l, a, e);
}

// ---- diff

struct pair {
    uint32_t nodes[2];  // of left and right; 0 = that side has none (but for the root)
};

struct unite {
    const struct tree *from[2];
    struct tree to[2];
    struct pair *pairs;  // of each united node
};

static uint32_t first_child(const struct tree *t, uint32_t united, uint32_t node)
{
    return united == 0 || node != 0 ? t->nodes[node].first_child : 0;
}

// Adds a united node as the next child of its parent, *last being the one before (0: none).
static void add_child(struct unite *u, uint32_t parent, struct pair p, uint32_t *last)
{
    uint32_t id = u->to[0].count;
    assert((p.nodes[0] || p.nodes[1]) && id == u->to[1].count);
    u->pairs[id] = p;
    const struct tree_node *named =
        p.nodes[0] ? &u->from[0]->nodes[p.nodes[0]] : &u->from[1]->nodes[p.nodes[1]];
    for (size_t s = 0; s < 2; s++) {
        struct tree_node *nodes = u->to[s].nodes;
        nodes[id] = (struct tree_node){.name = named->name, .parent = parent};
        if (p.nodes[s]) {
            nodes[id].self = u->from[s]->nodes[p.nodes[s]].self;
            nodes[id].total = u->from[s]->nodes[p.nodes[s]].total;
        }
        *(*last ? &nodes[*last].next_sibling : &nodes[parent].first_child) = id;
        u->to[s].count++;
    }
    *last = id;
}

// The children of a united node: both lists are in byte order, equal names are one child.
static void unite_children(struct unite *u, uint32_t node)
{
    struct pair p = u->pairs[node];
    uint32_t l = first_child(u->from[0], node, p.nodes[0]);
    uint32_t r = first_child(u->from[1], node, p.nodes[1]);
    uint32_t last = 0;
    while (l || r) {
        int order = l ? -1 : 1;
        if (l && r) order = str_cmp(u->from[0]->nodes[l].name, u->from[1]->nodes[r].name);
        add_child(u, node, (struct pair){{order <= 0 ? l : 0, order >= 0 ? r : 0}}, &last);
        if (order <= 0) l = u->from[0]->nodes[l].next_sibling;
        if (order >= 0) r = u->from[1]->nodes[r].next_sibling;
    }
}

// Gives two trees the same shape, that of their union, in one walk through both, level by level.
static bool unite(struct unite *u, struct arena *a)
{
    size_t most = (size_t)u->from[0]->count + u->from[1]->count;
    u->pairs = ARENA_ARRAY(a, struct pair, most);
    if (!u->pairs) return false;
    for (size_t s = 0; s < 2; s++) {
        u->to[s].nodes = ARENA_ARRAY(a, struct tree_node, most);
        if (!u->to[s].nodes) return false;
        u->to[s].nodes[0].total = u->from[s]->nodes[0].total;
        u->to[s].count = 1;
        u->to[s].max_self = u->from[s]->max_self;
    }
    for (uint32_t i = 0; i < u->to[0].count; i++)
        unite_children(u, i);
    assert(u->to[0].count <= most);
    return true;
}

static bool truncate_both(struct unite *u, struct arena *a, int64_t max_nodes, err *e)
{
    uint32_t count = u->to[0].count;
    int64_t *sizes = ARENA_ARRAY(a, int64_t, count);
    if (!sizes) return arena_fail(a, e);
    for (uint32_t i = 0; i < count; i++)
        sizes[i] = MAX(u->to[0].nodes[i].total, u->to[1].nodes[i].total);
    // One decision for both, by the larger side: they must keep the same shape.
    const bool *keep = tree_keep(a, &u->to[0], sizes, max_nodes);
    if (!keep) return arena_fail(a, e);
    return tree_cut(a, &u->to[0], keep, &u->to[0], e) && tree_cut(a, &u->to[1], keep, &u->to[1], e);
}

bool tree_flamegraph_diff(struct arena *a, const struct tree *left, const struct tree *right,
                          int64_t max_nodes, struct tree_shown *shown, struct buf *out, err *e)
{
    struct unite u = {.from = {left, right}};
    if (!unite(&u, a)) return arena_fail(a, e);
    uint32_t frames = u.to[0].count - 1;
    bool all = max_nodes <= 0 || (uint64_t)max_nodes >= frames;
    if (!all && !truncate_both(&u, a, max_nodes, e)) return false;
    if (shown) {
        *shown = (struct tree_shown){
            .sent = frames - u.to[0].removed,
            .all = frames,
            .total = (double)left->nodes[0].total + (double)right->nodes[0].total,
            .hidden = u.to[0].hidden + u.to[1].hidden,
            .clipped = u.to[0].clipped || u.to[1].clipped,
        };
    }
    struct layout l = {.sides = {&u.to[0], &u.to[1]}, .side_count = 2, .out = out};
    if (!put_graph(&l, a, e)) return false;
    pb_put_i64_opt(out, 5, left->nodes[0].total);
    pb_put_i64_opt(out, 6, right->nodes[0].total);
    return buf_ok(out, e);
}
