// SPDX-License-Identifier: Apache-2.0
//
// The index of a service, in the order of its bytes: types and numbers of keys, labels of keys,
// numbers of nodes, totals and rows of each key, nodes, then the frames. Numbers that memory is
// allocated by are compared with the bytes that are left before.
#include "base/search.h"
#include "block/keys.h"
#include "block/wire_int.h"
#include "model/period.h"

const struct block_frame *block_frame_of(const struct block_frames *f, uint64_t number)
{
    size_t i = SEARCH(at, 0, f->n, f->v[at].first <= number);
    if (i == 0 || number - f->v[i - 1].first >= f->v[i - 1].count) return NULL;
    return &f->v[i - 1];
}

struct parser {
    struct arena *a;
    struct wire w;
    const struct block_service_ref *service;
    struct block_index *x;
    struct block_key_ref *keys;
    struct block_node_ref *nodes;
    int64_t from_hour;
    uint64_t totals;
    uint64_t rows;
    const int64_t *vectors;  // by node
    uint64_t other_vectors;  // vectors of other classes than ALL, which is numbered behind them
    uint64_t all_vectors;
    uint32_t first_all_frame;
};

// ---- types, keys

static void read_types(struct parser *p, uint32_t *(*counts)[BLOCK_CLASSES])
{
    struct wire *w = &p->w;
    struct block_index *x = p->x;
    x->type_count = (uint32_t)wire_count(w, 5);
    str *types = ARENA_ARRAY(p->a, str, x->type_count);
    struct block_dropped_labels *dropped =
        ARENA_ARRAY(p->a, struct block_dropped_labels, x->type_count);
    for (int c = 0; c < BLOCK_CLASSES; c++)
        (*counts)[c] = ARENA_ARRAY(p->a, uint32_t, x->type_count);
    if (p->a->exhausted) return;
    uint64_t keys = 0;
    for (uint32_t t = 0; t < x->type_count && !w->fault; t++) {
        types[t] = wire_text(w);
        if (t > 0 && str_cmp(types[t - 1], types[t]) >= 0) wire_fail(w, "types are not in order");
        uint32_t n = (uint32_t)wire_count(w, 1);
        str *names = ARENA_ARRAY(p->a, str, n);
        for (uint32_t i = 0; names && i < n; i++) {
            names[i] = wire_text(w);
            if (i > 0 && str_cmp(names[i - 1], names[i]) >= 0) {
                wire_fail(w, "labels that projections leave out are not in order");
            }
        }
        dropped[t] = (struct block_dropped_labels){names, n};
        for (int c = 0; c < BLOCK_CLASSES; c++) {
            (*counts)[c][t] = (uint32_t)wire_count(w, 1);
            keys += (*counts)[c][t];
        }
    }
    if (keys > (uint64_t)(w->end - w->at)) wire_fail(w, "there are more keys than bytes");
    x->types = types;
    x->dropped = dropped;
    x->key_count = w->fault ? 0 : (uint32_t)keys;
}

static void read_counts(struct parser *p)
{
    struct wire *w = &p->w;
    uint64_t nodes = 0;
    for (uint32_t k = 0; k < p->x->key_count && !w->fault; k++) {
        struct block_key_ref *key = &p->keys[k];
        uint64_t n = wire_u64(w);
        uint64_t totals = wire_u64(w);
        uint64_t rows = key->class == BLOCK_SERIES ? wire_u64(w) : 0;
        // Both sums stay below 2^64: what is added is checked, and what there is already.
        if (n > UINT32_MAX || totals > UINT32_MAX || rows > INT64_MAX || p->rows > INT64_MAX) {
            wire_fail(w, "a key has more than there can be");
            return;
        }
        key->first_node = (uint32_t)nodes;
        key->node_count = (uint32_t)n;
        key->first_total = p->totals;
        key->total_count = (uint32_t)totals;
        key->first_row = p->rows;
        key->row_count = rows;
        nodes += n;
        p->totals += totals;
        p->rows += rows;
        if (nodes > (uint64_t)(w->end - w->at)) wire_fail(w, "there are more nodes than bytes");
    }
    p->x->node_count = w->fault ? 0 : (uint32_t)nodes;
}

// n keys of a class of a type.
static void set_keys(struct parser *p, struct block_key_ref one, const labels *ls, uint32_t first,
                     uint32_t n)
{
    assert(first + n <= p->x->key_count);
    for (uint32_t k = first; k < first + n; k++) {
        one.ls = ls[k];
        one.sampled = block_is_sampled(ls[k]);
        p->keys[k] = one;
        if (k > first && labels_cmp(ls[k - 1], ls[k]) >= 0) {
            wire_fail(&p->w, "keys are not in order");
        }
    }
}

static bool read_keys(struct parser *p, err *e)
{
    struct block_index *x = p->x;
    uint32_t *counts[BLOCK_CLASSES] = {0};
    read_types(p, &counts);
    if (!arena_ok(p->a, e)) return false;
    str postings = wire_str(&p->w);
    labels *ls = NULL;
    if (p->w.fault) return wire_done(&p->w, "index", e);
    if (!block_postings_parse(p->a, postings, x->key_count, &x->postings, &ls, e)) return false;
    p->keys = ARENA_ARRAY(p->a, struct block_key_ref, x->key_count);
    if (!p->keys) return arena_fail(p->a, e);
    x->keys = p->keys;
    uint32_t first = 0;
    // Keys come type by type, in each class by class: the order that counts were read in.
    for (uint32_t i = 0; i < x->type_count * BLOCK_CLASSES; i++) {
        struct block_key_ref one = {.class = (enum block_class)(i % BLOCK_CLASSES),
                                    .type = i / BLOCK_CLASSES};
        uint32_t n = counts[one.class][one.type];
        set_keys(p, one, ls, first, n);
        first += n;
    }
    read_counts(p);
    return true;
}

// ---- nodes

// v[0], v[count], v[2 * count] ...: the node's number in each column. Everything is relative, so
// that numbers are small: the slot to the block's first hour, times to the slot and to each other.
static bool node_of(struct block_node *n, int64_t from_hour, const int64_t *v, size_t count)
{
    int64_t base = slot_after(slot_start(from_hour, SLOT_HOUR), n->width);
    int64_t start = 0;
    uint64_t end = 0;
    if (__builtin_add_overflow(base, v[0], &n->slot)) return false;
    if (__builtin_mul_overflow(n->slot, n->width, &start)) return false;
    n->profiles = (uint64_t)v[count];
    n->total = v[2 * count];
    if (v[count] <= 0 || v[3 * count] <= 0 || v[4 * count] < 0) return false;
    if (__builtin_add_overflow(start, v[3 * count], &n->first_ns)) return false;
    if (__builtin_add_overflow(n->first_ns, v[4 * count], &n->last_ns)) return false;
    end = (uint64_t)n->last_ns - (uint64_t)start;
    return end <= (uint64_t)n->width;
}

#define NODE_COLUMNS 7  // those of node_of, factor, vector

static void read_nodes(struct parser *p)
{
    struct wire *w = &p->w;
    size_t n = p->x->node_count;
    p->nodes = ARENA_ARRAY(p->a, struct block_node_ref, n);
    int64_t *columns = ARENA_ARRAY(p->a, int64_t, NODE_COLUMNS * n);
    p->x->nodes = p->nodes;
    if (!p->nodes || !columns) return;
    p->vectors = columns + (NODE_COLUMNS - 1) * n;
    str widths = wire_bytes(w, n);
    for (int c = 0; c < NODE_COLUMNS; c++)
        wire_numbers(w, columns + c * n, n);
    for (size_t i = 0; i < n && !w->fault; i++) {
        p->nodes[i].node.width = block_width_of((uint8_t)widths.p[i]);
        p->nodes[i].factor = columns[5 * n + i];
        if (p->nodes[i].factor < 1) wire_fail(w, "the factor of a node is less than 1");
        if (p->nodes[i].node.width == 0) {
            wire_fail(w, "the width of a node is none");
        } else if (!node_of(&p->nodes[i].node, p->from_hour, columns + i, n)) {
            wire_fail(w, "a node has times outside of its slot, or no profiles");
        }
    }
}

// In order of width, slot.
static void check_nodes(struct parser *p)
{
    for (uint32_t k = 0; k < p->x->key_count && !p->w.fault; k++) {
        const struct block_key_ref *key = &p->keys[k];
        for (uint32_t i = 1; i < key->node_count; i++) {
            const struct block_node *one = &p->nodes[key->first_node + i - 1].node;
            const struct block_node *two = &p->nodes[key->first_node + i].node;
            if (one->width < two->width || (one->width == two->width && one->slot < two->slot)) {
                continue;
            }
            wire_fail(&p->w, "nodes are not in order");
        }
    }
}

// ---- frames

static void read_times(struct wire *w, struct block_frame *f)
{
    f->first_ns = wire_i64(w);
    uint64_t length = wire_u64(w);
    f->last_ns = (int64_t)((uint64_t)f->first_ns + length);
    if (length > (uint64_t)INT64_MAX - (uint64_t)f->first_ns) {
        wire_fail(w, "the time of a frame does not fit 64 bits");
    }
}

// The frames of a kind: sections one after the other, each with its distance to the one before, the
// first one to `base`. `most`: items that a frame may have; sum: items of all; `timed`: frames have
// a first and a last time.
static struct block_frames read_frames(struct parser *p, uint64_t base, uint64_t most, uint64_t sum,
                                       bool timed)
{
    struct wire *w = &p->w;
    struct block_frames f = {.n = (uint32_t)wire_count(w, 8)};
    struct block_frame *v = ARENA_ARRAY(p->a, struct block_frame, f.n);
    uint64_t first = 0;
    f.v = v;
    for (uint32_t i = 0; v && i < f.n && !w->fault; i++) {
        v[i].first = first;
        v[i].count = wire_u64(w);
        uint64_t gap = wire_u64(w);
        if (gap > INT64_MAX || base > INT64_MAX) wire_fail(w, "a frame is outside of any object");
        if (v[i].count == 0 || v[i].count > most) wire_fail(w, "a frame has too many or no items");
        v[i].extent = wire_extent(w, base + gap, &base, false);
        if (v[i].extent.stored == 0) wire_fail(w, "a frame is nowhere");
        if (v[i].count > sum - first) wire_fail(w, "frames have more items than there are");
        if (timed) read_times(w, &v[i]);
        if (!w->fault) first += v[i].count;
    }
    if (v && first != sum) wire_fail(w, "frames have fewer items than there are");
    return f;
}

// The frames of details (all), or of spans (those heads whose rows have some): each has the rows of
// one frame of heads.
static struct block_frames read_beside(struct parser *p, const struct block_frames *heads, bool all)
{
    struct wire *w = &p->w;
    uint64_t base = 0;
    struct block_frames f = {.n = all ? heads->n : (uint32_t)wire_count(w, 7)};
    struct block_frame *v = ARENA_ARRAY(p->a, struct block_frame, f.n);
    uint64_t run = 0;
    f.v = v;
    for (uint32_t i = 0; v && i < f.n && !w->fault; i++, run++) {
        uint64_t skipped = all ? 0 : wire_u64(w);
        run += MIN(skipped, heads->n);
        if (run >= heads->n) {
            wire_fail(w, "a frame of spans has no rows");
            break;
        }
        v[i] = heads->v[run];
        uint64_t gap = wire_u64(w);
        if (gap > INT64_MAX || base > INT64_MAX) wire_fail(w, "a frame is outside of any object");
        v[i].extent = wire_extent(w, base + gap, &base, false);
        if (v[i].extent.stored == 0) wire_fail(w, "a frame is nowhere");
    }
    return f;
}

// Their number, which is not more than there are nodes, and their frames.
static struct block_frames read_vectors(struct parser *p, uint64_t base, uint64_t *n)
{
    *n = wire_u64(&p->w);
    if (*n > p->x->node_count) wire_fail(&p->w, "there are more vectors than nodes");
    return read_frames(p, base, UINT64_MAX, *n, false);
}

// Vectors of nodes: first frames with the vectors of other classes, then frames with those of ALL.
static void read_node_frames(struct parser *p)
{
    struct block_index *x = p->x;
    struct block_frames other = read_vectors(p, 0, &p->other_vectors);
    struct block_frames all = read_vectors(p, p->service->all.at, &p->all_vectors);
    struct block_frame *v = ARENA_ARRAY(p->a, struct block_frame, (size_t)other.n + all.n);
    if (!v || p->w.fault) return;
    if (other.n) memcpy(v, other.v, other.n * sizeof *v);
    for (uint32_t i = 0; i < all.n; i++) {
        v[other.n + i] = all.v[i];
        v[other.n + i].first += p->other_vectors;
    }
    x->nodes_at = (struct block_frames){v, other.n + all.n};
    p->first_all_frame = other.n;
}

// A node of ALL has a vector of ALL, any other one of either.
static void place_nodes(struct parser *p)
{
    const struct block_frames *at = &p->x->nodes_at;
    const struct block_frame *f = NULL;
    for (uint32_t k = 0; k < p->x->key_count && !p->w.fault; k++) {
        bool all = p->keys[k].class == BLOCK_ALL;
        uint64_t first = all ? p->other_vectors : 0;
        uint64_t count = p->all_vectors + (all ? 0 : p->other_vectors);
        for (uint32_t i = 0; i < p->keys[k].node_count; i++) {
            uint32_t node = p->keys[k].first_node + i;
            uint64_t number = (uint64_t)p->vectors[node];
            if (number >= count) {
                wire_fail(&p->w, "the vector of a node is not there");
                return;
            }
            number += first;
            // Nodes of a key mostly have their vectors one after the other, in one frame.
            if (!f || number < f->first || number - f->first >= f->count) {
                f = block_frame_of(at, number);
                assert(f);  // frames have all numbers below the sum: read_frames saw to it
            }
            p->nodes[node].frame = (uint32_t)(f - at->v);
            p->nodes[node].place = (uint32_t)(number - f->first);
        }
    }
}

static void read_periods(struct parser *p)
{
    struct wire *w = &p->w;
    uint32_t n = p->x->type_count;
    int64_t *periods = ARENA_ARRAY(p->a, int64_t, n);
    p->x->periods = periods;
    // Blocks of versions before 5, and services whose profiles state none, end here.
    if (!periods || w->fault || w->at == w->end) return;
    wire_numbers(w, periods, n);
    for (uint32_t t = 0; t < n; t++) {
        if (periods[t] < PERIOD_SEVERAL) wire_fail(w, "a period is negative");
    }
}

bool block_index_parse(struct arena *a, str contents, const struct block_service_ref *service,
                       struct block_index *out, err *e)
{
    struct parser p = {.a = a, .w = wire_of(contents), .service = service, .x = out};
    struct wire *w = &p.w;
    uint64_t end = 0;
    *out = (struct block_index){0};
    uint64_t stacks = wire_u64(w);
    p.from_hour = wire_i64(w);
    if (stacks == 0 || stacks > UINT32_MAX) wire_fail(w, "the number of stacks is no such number");
    if (!block_hours_are_sane(p.from_hour, 1)) wire_fail(w, "its first hour is no such hour");
    out->stack_count = (uint32_t)stacks;
    if (!read_keys(&p, e)) {
        if (e->code == ERR_INVALID_ARGUMENT) e->code = ERR_DATA_LOSS;
        return false;
    }
    read_nodes(&p);
    if (!arena_ok(a, e)) return false;
    assert(out->node_count == 0 || p.vectors);
    check_nodes(&p);
    uint64_t vectors = wire_u64(w);
    out->vectors = read_frames(&p, 0, UINT64_MAX, vectors, false);
    read_node_frames(&p);
    out->totals = read_frames(&p, service->totals.at, BLOCK_RUN_MAX, p.totals, false);
    out->heads = read_frames(&p, 0, BLOCK_RUN_MAX, p.rows, true);
    if (!arena_ok(a, e)) return false;
    out->details = read_beside(&p, &out->heads, true);
    out->spans = read_beside(&p, &out->heads, false);
    out->blooms = wire_extent(w, out->spans.n ? wire_u64(w) : 0, &end, false);
    if ((out->blooms.stored != 0) != (out->spans.n != 0)) {
        wire_fail(w, "there are spans or their filters, not both");
    }
    if (!arena_ok(a, e)) return false;
    place_nodes(&p);
    read_periods(&p);
    return arena_ok(a, e) && wire_done(w, "index", e);
}
