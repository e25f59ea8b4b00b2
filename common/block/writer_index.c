// SPDX-License-Identifier: Apache-2.0
//
// Writes the index of a service: types, keys and their postings, nodes, and where frames are.
#include "block/keys.h"
#include "block/writer_int.h"

static void put_types(const struct writer_service *s, struct buf *out)
{
    wire_put_u64(out, s->type_count);
    for (uint32_t t = 0; t < s->type_count; t++) {
        const struct writer_type *type = &s->types[t];
        wire_put_str(out, type->name);
        wire_put_u64(out, type->dropped_count);
        for (uint32_t i = 0; i < type->dropped_count; i++)
            wire_put_str(out, type->dropped[i]);
        for (int c = 0; c < BLOCK_CLASSES; c++)
            wire_put_u64(out, type->keys[c]);
    }
}

// The length of the postings comes before them, so they are made in another buffer, the one for
// packed bytes.
static bool put_keys(struct block_writer *w, struct buf *out, err *e)
{
    struct writer_service *s = &w->s;
    struct arena scratch;
    struct buf *postings = &w->packed;
    arena_init(&scratch, w->memory, SIZE_MAX);
    buf_clear(postings);
    labels *ls = ARENA_ARRAY(&scratch, labels, s->key_count);
    for (uint32_t k = 0; ls && k < s->key_count; k++)
        ls[k] = s->keys[k].ls;
    bool ok = arena_ok(&scratch, e) &&
              block_postings_encode(&scratch, ls, s->key_count, postings, e) && buf_ok(postings, e);
    wire_put_str(out, buf_view(postings));
    for (uint32_t k = 0; k < s->key_count; k++) {
        wire_put_u64(out, s->keys[k].nodes);
        wire_put_u64(out, s->keys[k].totals);
        if (s->keys[k].class == BLOCK_SERIES) wire_put_u64(out, s->keys[k].rows);
    }
    arena_release(&scratch);
    return ok;
}

#define NODE_COLUMNS 7

// Vectors of ALL are numbered after the vectors of other classes; nodes of ALL count from 0.
static int64_t vector_of_node(const struct writer_service *s, const struct writer_node *n, bool all)
{
    return (int64_t)(n->vector + (n->of_all && !all ? s->node_vectors.total : 0));
}

static int64_t part_of_node(const struct writer_node *x, int64_t from_hour, int column)
{
    const struct block_node *n = &x->node;
    switch (column) {
    case 0:
        return n->slot - slot_of(slot_start(from_hour, SLOT_HOUR) + 1, n->width);
    case 1:
        return (int64_t)n->profiles;
    case 2:
        return n->total;
    case 3:
        return n->first_ns - slot_start(n->slot, n->width);
    case 4:
        return n->last_ns - n->first_ns;
    default:
        return x->factor;
    }
}

static bool put_nodes(struct block_writer *w, struct buf *out, err *e)
{
    struct writer_service *s = &w->s;
    for (uint32_t i = 0; i < s->node_count; i++) {
        uint8_t code = 0;
        while (block_width_of(code) != s->nodes[i].node.width)
            code++;
        buf_byte(out, code);
    }
    if (!writer_column(w, s->node_count, e)) return false;
    int64_t *column = w->column;
    for (int c = 0; c < NODE_COLUMNS - 1; c++) {
        for (uint32_t i = 0; i < s->node_count; i++)
            column[i] = part_of_node(&s->nodes[i], w->about.from_hour, c);
        wire_put_numbers(out, column, s->node_count);
    }
    uint32_t node = 0;
    for (uint32_t k = 0; k < s->key_count; k++) {
        bool all = s->keys[k].class == BLOCK_ALL;
        for (uint32_t i = 0; i < s->keys[k].nodes; i++, node++)
            column[node] = vector_of_node(s, &s->nodes[node], all);
    }
    wire_put_numbers(out, column, s->node_count);
    return true;
}

// Places are differences to the end of the frame before. Kept frames have places relative to their
// section; the footer says where that is.
static void put_frames(struct buf *out, const struct writer_frames *f, bool timed)
{
    uint64_t base = 0;
    wire_put_u64(out, f->n);
    for (uint32_t i = 0; i < f->n; i++) {
        const struct block_frame *one = &f->v[i];
        wire_put_u64(out, one->count);
        wire_put_u64(out, one->extent.at - base);
        wire_put_extent(out, &one->extent);
        base = one->extent.at + one->extent.stored;
        if (!timed) continue;
        wire_put_i64(out, one->first_ns);
        wire_put_u64(out, (uint64_t)one->last_ns - (uint64_t)one->first_ns);
    }
}

// Details are of every run of heads, spans of some.
static void put_beside(struct buf *out, const struct writer_frames *f, bool all)
{
    uint64_t base = 0;
    uint64_t run = 0;
    if (!all) wire_put_u64(out, f->n);
    for (uint32_t i = 0; i < f->n; i++) {
        const struct block_frame *one = &f->v[i];
        if (!all) wire_put_u64(out, one->first - run);
        run = one->first + 1;
        wire_put_u64(out, one->extent.at - base);
        wire_put_extent(out, &one->extent);
        base = one->extent.at + one->extent.stored;
    }
}

// Without any there is no column, and the block is one of an older version.
static bool put_periods(struct block_writer *w, struct buf *out, err *e)
{
    const struct writer_service *s = &w->s;
    bool any = false;
    if (!writer_column(w, s->type_count, e)) return false;
    for (uint32_t t = 0; t < s->type_count; t++) {
        w->column[t] = s->types[t].period;
        any = any || s->types[t].period != 0;
    }
    if (any) wire_put_numbers(out, w->column, s->type_count);
    w->has_periods = w->has_periods || any;
    return true;
}

bool writer_index(struct block_writer *w, struct buf *out, err *e)
{
    struct writer_service *s = &w->s;
    wire_put_u64(out, s->stack_count);
    wire_put_i64(out, w->about.from_hour);
    put_types(s, out);
    if (!put_keys(w, out, e) || !put_nodes(w, out, e)) return false;
    wire_put_u64(out, s->vector_count);
    put_frames(out, &s->row_vectors.frames, false);
    wire_put_u64(out, s->node_vectors.total);
    put_frames(out, &s->node_vectors.frames, false);
    wire_put_u64(out, s->all_vectors.total);
    put_frames(out, &s->all_vectors.frames, false);
    put_frames(out, &s->totals, false);
    put_frames(out, &s->heads, true);
    put_beside(out, &s->details, true);
    put_beside(out, &s->spans, false);
    if (s->spans.n) wire_put_u64(out, s->blooms.at);
    wire_put_extent(out, &s->blooms);
    return put_periods(w, out, e);
}
