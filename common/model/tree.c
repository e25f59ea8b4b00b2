// SPDX-License-Identifier: Apache-2.0
//
// tree.c - tree_build in three steps: which stacks count (tree_select); the names of these in byte
// order, as ranks (rank); nodes by (parent, rank), with sums (tree_map). Then truncation and the
// TREE bytes.
#include "model/tree.h"

#include "base/hash.h"
#include "base/map.h"
#include "codec/varint.h"
#include "model/frame_name.h"
#include "model/marks.h"
#include "model/tree_int.h"
#include "model/vector.h"

// ---- which stacks count

#define MISMATCH UINT32_MAX

uint32_t tree_match(const struct symbol_table *t, uint32_t frame, uint32_t matched,
                    const str *call_site, size_t n)
{
    if (matched >= n) return matched;  // all matched, or MISMATCH
    return frame_name_is(t, frame, call_site[matched]) ? matched + 1 : MISMATCH;
}

bool tree_match_empty(const str *call_site, size_t n)
{
    return n == 0 || (n == 1 && str_is(call_site[0], STACK_UNKNOWN_NAME));
}

bool *tree_select(struct arena *a, const struct symbol_table *t, const int64_t *sums,
                  const str *call_site, size_t n)
{
    assert(n < MISMATCH);
    bool *selected = ARENA_ARRAY(a, bool, t->stack_count);
    uint32_t *matched = n > 0 ? ARENA_ARRAY(a, uint32_t, t->stack_count) : NULL;
    if (!selected || (n > 0 && !matched)) return NULL;
    selected[0] = sums[0] != 0 && tree_match_empty(call_site, n);
    for (uint32_t i = 1; i < t->stack_count; i++) {
        if (n > 0) {
            const struct symbol_stack *s = &t->stacks[i];
            matched[i] = tree_match(t, s->frame, matched[s->parent], call_site, n);
        }
        selected[i] = sums[i] != 0 && (n == 0 || matched[i] == n);
    }
    return selected;
}

// ---- ranks: the place of a name in byte order. Names are compared here, and nowhere below.
//
// A name has a number: the row of its string; of a frame whose name must be made (frame_name.h),
// the count of strings plus the frame. Frame 0 stands for the empty stack.

struct ranks {
    const struct symbol_table *t;
    uint32_t *of;  // of each frame of needed stacks; until names are sorted, the name's number
    str *made;     // by frame, NULL if no needed frame is without a name in the table
    str *names;    // by rank
    uint32_t count;
};

static uint32_t name_of_frame(const struct symbol_table *t, uint32_t frame)
{
    uint32_t row = frame_name_row(t, frame);
    return row ? row : t->string_count + frame;
}

static inline str name_text(const struct ranks *r, uint32_t name)
{
    uint32_t strings = r->t->string_count;
    if (name < strings) return r->t->strings[name];
    assert(r->made);  // mark_names made what it marked
    return r->made[name - strings];
}

struct name {
    uint64_t head;  // the first eight bytes, big-endian: decides most comparisons without a miss
    uint32_t number;
};

static uint64_t head_of(str s)
{
    unsigned char bytes[8] = {0};
    memcpy(bytes, s.p, MIN(s.n, sizeof bytes));
    uint64_t head = 0;
    for (size_t i = 0; i < sizeof bytes; i++)
        head = head << 8 | bytes[i];
    return head;
}

static int name_cmp(const struct ranks *r, const struct name *a, const struct name *b)
{
    if (a->head != b->head) return a->head < b->head ? -1 : 1;
    return str_cmp(name_text(r, a->number), name_text(r, b->number));
}

static void name_merge(const struct ranks *r, const struct name *v, struct name *out, size_t n,
                       size_t run)
{
    for (size_t from = 0; from < n; from += 2 * run) {
        size_t middle = MIN(from + run, n);
        size_t end = MIN(from + 2 * run, n);
        size_t a = from;
        size_t b = middle;
        for (size_t i = from; i < end; i++) {
            bool left = a < middle && (b == end || name_cmp(r, &v[a], &v[b]) <= 0);
            out[i] = left ? v[a++] : v[b++];
        }
    }
}

// A merge sort, between two arrays; returns the one that has the result. (qsort has no place for
// the texts.)
static struct name *name_sort(const struct ranks *r, struct name *v, struct name *spare, size_t n)
{
    for (size_t run = 1; run < n; run *= 2) {
        name_merge(r, v, spare, n, run);
        struct name *swap = v;
        v = spare;
        spare = swap;
    }
    return v;
}

// Makes the name of a frame that has none in the table, if that was not done yet.
static bool make_name(struct arena *a, struct ranks *r, uint32_t frame)
{
    const struct symbol_table *t = r->t;
    char room[FRAME_NAME_MAX];
    if (!r->made) r->made = ARENA_ARRAY(a, str, t->frame_count);
    if (!r->made) return false;
    if (r->made[frame].n == 0) r->made[frame] = arena_str(a, frame_name(t, frame, room));
    return r->made[frame].n > 0;
}

// Marks the names of needed stacks and counts them; false without memory. Stacks are many more than
// frames, so the name of each frame is looked up once.
static bool mark_names(struct arena *a, struct ranks *r, const bool *needed, uint32_t *marked,
                       uint32_t *count)
{
    const struct symbol_table *t = r->t;
    for (uint32_t i = 0; i < t->stack_count; i++) {
        if (needed[i]) r->of[t->stacks[i].frame] = 1;
    }
    for (uint32_t i = 0; i < t->frame_count; i++) {
        if (!r->of[i]) continue;
        uint32_t name = r->of[i] = name_of_frame(t, i);
        if (marked[name]) continue;
        if (name >= t->string_count && !make_name(a, r, name - t->string_count)) return false;
        marked[name] = 1;
        ++*count;
    }
    return true;
}

static bool rank(struct arena *a, const struct symbol_table *t, const bool *needed,
                 struct ranks *out)
{
    uint32_t count = 0;
    uint32_t numbers = 0;
    if (__builtin_add_overflow(t->string_count, t->frame_count, &numbers)) a->exhausted = true;
    uint32_t *by_name = ARENA_ARRAY(a, uint32_t, numbers);
    *out = (struct ranks){.t = t, .of = ARENA_ARRAY(a, uint32_t, t->frame_count)};
    if (a->exhausted || !mark_names(a, out, needed, by_name, &count)) return false;
    struct name *names = ARENA_ARRAY(a, struct name, count);
    struct name *spare = ARENA_ARRAY(a, struct name, count);
    out->names = ARENA_ARRAY(a, str, count);
    if (!names || !spare || !out->names) return false;
    uint32_t n = 0;
    for (uint32_t i = 0; i < numbers; i++) {
        if (by_name[i]) names[n++] = (struct name){head_of(name_text(out, i)), i};
    }
    assert(n == count);
    names = name_sort(out, names, spare, count);
    // Two numbers may have one text, as names that are made do: they get one rank.
    for (uint32_t i = 0; i < count; i++) {
        bool again = i > 0 && name_cmp(out, &names[i - 1], &names[i]) == 0;
        if (!again) out->names[out->count++] = name_text(out, names[i].number);
        by_name[names[i].number] = out->count - 1;
    }
    for (uint32_t i = 0; i < t->frame_count; i++) {
        if (out->of[i]) out->of[i] = by_name[out->of[i]];
    }
    return true;
}

// ---- the tree

struct builder {
    struct tree tree;
    uint32_t *ranks;  // of each node's name
    uint32_t *slots;  // open addressing over (parent, rank): node number, 0 = free
    uint32_t size;    // slots, a power of two
};

static bool init(struct builder *x, struct arena *a, uint32_t most)
{
    // At most half full, so that every search is short and ends.
    x->size = 16;
    while (x->size / 2 < most && x->size < 1u << 31)
        x->size *= 2;
    x->tree.nodes = ARENA_ARRAY(a, struct tree_node, (size_t)most + 1);
    x->ranks = ARENA_ARRAY(a, uint32_t, (size_t)most + 1);
    x->slots = ARENA_ARRAY(a, uint32_t, x->size);
    x->tree.count = 1;
    return x->tree.nodes && x->ranks && x->slots;
}

static uint32_t child(struct builder *x, uint32_t parent, uint32_t name, const struct ranks *r)
{
    assert(parent < x->tree.count && name < r->count);
    uint64_t hash = hash_table_word((uint64_t)parent << 32 | name);
    uint32_t mask = x->size - 1;
    uint32_t at = (uint32_t)(hash >> 32) & mask;
    for (; x->slots[at]; at = (at + 1) & mask) {
        uint32_t node = x->slots[at];
        map_stepped();
        if (x->tree.nodes[node].parent == parent && x->ranks[node] == name) return node;
    }
    assert(x->tree.count <= x->size / 2 + 1);
    uint32_t node = x->tree.count++;
    x->tree.nodes[node] = (struct tree_node){.name = r->names[name], .parent = parent};
    x->ranks[node] = name;
    x->slots[at] = node;
    return node;
}

// Links siblings in byte order: nodes are taken by descending rank, and each is put before the
// children that its parent has so far.
static bool link_children(struct builder *x, struct arena *a, uint32_t rank_count)
{
    uint32_t *starts = ARENA_ARRAY(a, uint32_t, (size_t)rank_count + 1);
    uint32_t *order = ARENA_ARRAY(a, uint32_t, x->tree.count);
    if (!starts || !order) return false;
    for (uint32_t i = 1; i < x->tree.count; i++)
        starts[x->ranks[i] + 1]++;
    for (uint32_t i = 0; i < rank_count; i++)
        starts[i + 1] += starts[i];
    for (uint32_t i = 1; i < x->tree.count; i++)
        order[starts[x->ranks[i]]++] = i;
    for (uint32_t i = x->tree.count - 1; i-- > 0;) {
        struct tree_node *node = &x->tree.nodes[order[i]];
        struct tree_node *parent = &x->tree.nodes[node->parent];
        node->next_sibling = parent->first_child;
        parent->first_child = order[i];
    }
    return true;
}

static bool overflow(err *e)
{
    return err_set(e, ERR_OUT_OF_RANGE, "the total of a flame graph node does not fit 64 bits");
}

// Totals, in one pass from the last node: children come after their parents. `carries` are those of
// the selves (model/wide.h), and then of the totals: only the last sum of each has to fit.
static bool add_up(struct tree *t, int64_t *carries, err *e)
{
    for (uint32_t i = 1; i < t->count; i++) {
        if (carries[i] != 0) return overflow(e);
    }
    for (uint32_t i = t->count - 1; i > 0; i--) {
        struct tree_node *node = &t->nodes[i];
        wide_add_to(&node->total, &carries[i], node->self);
        if (carries[i] != 0) return overflow(e);
        wide_add_to(&t->nodes[node->parent].total, &carries[node->parent], node->total);
        t->max_self = MAX(t->max_self, node->self);
    }
    return carries[0] == 0 || overflow(e);
}

bool tree_map(struct arena *a, const struct symbol_table *t, const int64_t *sums,
              const bool *selected, struct tree *out, uint32_t **node_of, err *e)
{
    bool *needed = ARENA_ARRAY(a, bool, t->stack_count);
    uint32_t *nodes = ARENA_ARRAY(a, uint32_t, t->stack_count);
    if (!needed || !nodes) return arena_fail(a, e);
    memcpy(needed, selected, t->stack_count * sizeof *needed);
    symbols_mark_ancestors(t, needed);
    needed[0] = selected[0];  // has a node only for its own value
    struct ranks ranks;
    if (!rank(a, t, needed, &ranks)) return arena_fail(a, e);
    uint32_t most = 0;
    // Each needed stack makes one node at most.
    for (uint32_t i = 0; i < t->stack_count; i++)
        most += needed[i];
    struct builder x = {0};
    int64_t *carries = ARENA_ARRAY(a, int64_t, (size_t)most + 1);
    if (!init(&x, a, most) || !carries) return arena_fail(a, e);
    for (uint32_t i = 0; i < t->stack_count; i++) {
        if (!needed[i]) continue;
        const struct symbol_stack *s = &t->stacks[i];
        uint32_t node = child(&x, nodes[s->parent], ranks.of[s->frame], &ranks);
        // The empty stack is the root to all others, and has a node of its own beside theirs.
        nodes[i] = i ? node : 0;
        if (selected[i]) wide_add_to(&x.tree.nodes[node].self, &carries[node], sums[i]);
    }
    if (!link_children(&x, a, ranks.count)) return arena_fail(a, e);
    *out = x.tree;
    *node_of = nodes;
    return add_up(out, carries, e);
}

bool tree_build(struct arena *a, const struct symbol_table *t, const int64_t *sums,
                const str *call_site, size_t n, struct tree *out, err *e)
{
    uint32_t *node_of = NULL;
    bool *selected = tree_select(a, t, sums, call_site, n);
    if (!selected) return arena_fail(a, e);
    return tree_map(a, t, sums, selected, out, &node_of, e);
}

// ---- truncation

// The k-th largest of n numbers, k from 1: a radix select, byte by byte from the top, so that no
// input makes it slow.
static int64_t kth_largest(const int64_t *v, size_t n, uint64_t k)
{
    assert(k >= 1 && k <= n);
    const uint64_t sign = (uint64_t)1 << 63;
    uint64_t known = 0;
    uint64_t mask = 0;
    for (int shift = 56; shift >= 0; shift -= 8) {
        size_t counts[256] = {0};
        for (size_t i = 0; i < n; i++) {
            uint64_t key = (uint64_t)v[i] ^ sign;
            if ((key & mask) == known) counts[key >> shift & 0xff]++;
        }
        // From the largest byte on; k becomes the place among the numbers that have this byte too.
        unsigned byte = 255;
        for (; counts[byte] < k; byte--) {
            assert(byte > 0);
            k -= counts[byte];
        }
        known |= (uint64_t)byte << shift;
        mask |= (uint64_t)0xff << shift;
    }
    return (int64_t)(known ^ sign);
}

bool *tree_keep(struct arena *a, const struct tree *t, const int64_t *sizes, int64_t max_nodes)
{
    bool *keep = ARENA_ARRAY(a, bool, t->count);
    if (!keep) return NULL;
    uint32_t nodes = t->count - 1;
    bool all = max_nodes <= 0 || (uint64_t)max_nodes >= nodes;
    int64_t least = all ? INT64_MIN : kth_largest(sizes + 1, nodes, (uint64_t)max_nodes);
    keep[0] = true;
    // Values may be negative, so a child can be larger than its parent, which may be removed.
    for (uint32_t i = 1; i < t->count; i++)
        keep[i] = keep[t->nodes[i].parent] && sizes[i] >= least;
    return keep;
}

// Appends to a list of children, whose last one is *last (0: none yet).
static void append(struct tree_node *nodes, uint32_t parent, uint32_t node, uint32_t *last)
{
    *(*last ? &nodes[*last].next_sibling : &nodes[parent].first_child) = node;
    *last = node;
}

struct cut {
    const struct tree *in;
    struct tree *out;
    const uint32_t *ids;  // of kept nodes in the new tree; 0 = removed
};

// Links the kept children of a kept node; removed ones are added up in its last child, "other".
static void cut_children(struct cut *x, uint32_t node)
{
    const struct tree_node *from = x->in->nodes;
    struct tree_node *to = x->out->nodes;
    uint32_t parent = x->ids[node];
    uint32_t last = 0;
    uint32_t other = 0;
    uint32_t removed = 0;
    struct wide rest = {0};  // a part of a total that fits need not fit, as values may be negative
    for (uint32_t c = from[node].first_child; c; c = from[c].next_sibling) {
        uint32_t id = x->ids[c];
        if (!id) {
            removed++;
            wide_add(&rest, from[c].total);
        } else if (str_is(from[c].name, TREE_OTHER)) {
            other = id;
        }
    }
    for (uint32_t c = from[node].first_child; c; c = from[c].next_sibling) {
        uint32_t id = x->ids[c];
        if (id && (id != other || !removed)) append(to, parent, id, &last);
    }
    if (!removed) return;
    x->out->hidden += (double)wide_clip(rest);
    if (!other) {
        other = x->out->count++;
        to[other] = (struct tree_node){.name = S(TREE_OTHER), .parent = parent};
    }
    append(to, parent, other, &last);
    struct wide total = rest;
    wide_add(&rest, to[other].self);
    wide_add(&total, to[other].total);
    to[other].self = wide_clip(rest);
    to[other].total = wide_clip(total);
    x->out->clipped = x->out->clipped || !wide_fits(rest) || !wide_fits(total);
}

bool tree_cut(struct arena *a, const struct tree *in, const bool *keep, struct tree *out, err *e)
{
    uint32_t *ids = ARENA_ARRAY(a, uint32_t, in->count);
    bool *loses = ARENA_ARRAY(a, bool, in->count);
    if (!ids || !loses) return arena_fail(a, e);
    size_t count = 0;
    size_t others = 0;
    for (uint32_t i = 0; i < in->count; i++) {
        uint32_t parent = in->nodes[i].parent;
        if (keep[i]) {
            ids[i] = (uint32_t)count++;
        } else if (keep[parent] && !loses[parent]) {
            loses[parent] = true;
            others++;
        }
    }
    struct tree cut = {.nodes = ARENA_ARRAY(a, struct tree_node, count + others),
                       .removed = in->count - (uint32_t)count};
    if (!cut.nodes) return arena_fail(a, e);
    for (uint32_t i = 0; i < in->count; i++) {
        if (!keep[i]) continue;
        const struct tree_node *n = &in->nodes[i];
        cut.nodes[cut.count++] = (struct tree_node){.name = n->name,
                                                    .self = n->self,
                                                    .total = n->total,
                                                    .parent = ids[n->parent]};
    }
    struct cut x = {in, &cut, ids};
    for (uint32_t i = 0; i < in->count; i++) {
        if (keep[i]) cut_children(&x, i);
    }
    assert(cut.count <= count + others);
    for (uint32_t i = 1; i < cut.count; i++)
        cut.max_self = MAX(cut.max_self, cut.nodes[i].self);
    *out = cut;
    return true;
}

bool tree_truncate(struct arena *a, const struct tree *in, int64_t max_nodes, struct tree *out,
                   err *e)
{
    if (max_nodes <= 0 || (uint64_t)max_nodes >= in->count - 1) {
        *out = *in;
        return true;
    }
    int64_t *sizes = ARENA_ARRAY(a, int64_t, in->count);
    if (!sizes) return arena_fail(a, e);
    for (uint32_t i = 0; i < in->count; i++)
        sizes[i] = in->nodes[i].total;
    const bool *keep = tree_keep(a, in, sizes, max_nodes);
    if (!keep) return arena_fail(a, e);
    return tree_cut(a, in, keep, out, e);
}

// ---- TREE bytes

static uint32_t child_count(const struct tree *t, uint32_t node)
{
    uint32_t n = 0;
    for (uint32_t c = t->nodes[node].first_child; c; c = t->nodes[c].next_sibling)
        n++;
    return n;
}

// One node; returns its length. Written only if `to` is not NULL.
static size_t put_node(const struct tree *t, uint32_t node, uint8_t *to)
{
    const struct tree_node *n = &t->nodes[node];
    uint8_t head[VARINT_MAX];
    uint8_t tail[2 * VARINT_MAX];
    size_t head_n = varint_put(head, n->name.n);
    size_t tail_n = varint_put(tail, (uint64_t)n->self);
    tail_n += varint_put(tail + tail_n, child_count(t, node));
    if (to) {
        memcpy(to, head, head_n);
        if (n->name.n) memcpy(to + head_n, n->name.p, n->name.n);
        memcpy(to + head_n + n->name.n, tail, tail_n);
    }
    return head_n + n->name.n + tail_n;
}

static uint32_t first_leaf(const struct tree *t, uint32_t node)
{
    while (t->nodes[node].first_child)
        node = t->nodes[node].first_child;
    return node;
}

// Pre-order with siblings from last to first is post-order with siblings from first to last, read
// backwards; and post-order needs no stack. So the bytes are filled from their end.
bool tree_bytes(const struct tree *t, struct buf *out, err *e)
{
    if (t->count <= 1) return buf_ok(out, e);
    size_t size = 0;
    for (uint32_t i = 0; i < t->count; i++)
        size += put_node(t, i, NULL);
    uint8_t *bytes = (uint8_t *)buf_reserve(out, size);
    if (!bytes) return buf_ok(out, e);
    size_t at = size;
    uint32_t node = first_leaf(t, 0);
    while (node != 0) {
        at -= put_node(t, node, NULL);
        put_node(t, node, bytes + at);
        const struct tree_node *n = &t->nodes[node];
        node = n->next_sibling ? first_leaf(t, n->next_sibling) : n->parent;
    }
    at -= put_node(t, 0, bytes);
    assert(at == 0);
    out->n += size;
    return true;
}
