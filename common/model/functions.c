// SPDX-License-Identifier: Apache-2.0
//
// functions.c - one walk over each tree adds nodes to the rows of their names; then rows are
// sorted.
#include "model/functions.h"

#include "base/hash.h"
#include "base/map.h"
#include "codec/pb.h"
#include "model/vector.h"

#include <stdlib.h>

struct tally {
    struct function_table *table;
    uint32_t *slots;  // open addressing by name: row + 1, 0 = free
    uint32_t size;
    uint32_t *rows;     // by node of the current tree
    uint32_t *open;     // by row: how many nodes above the current one have its name
    struct wide *self;  // by row, of the current side: parts of a total that fits need not fit
    struct wide *total;
};

static uint32_t row_of(struct tally *x, str name)
{
    struct function_table *t = x->table;
    uint32_t mask = x->size - 1;
    uint32_t at = (uint32_t)(hash_table_str(name) >> 32) & mask;
    for (; x->slots[at]; at = (at + 1) & mask) {
        map_stepped();
        if (str_eq(t->rows[x->slots[at] - 1].name, name)) return x->slots[at] - 1;
    }
    assert(t->count < x->size / 2 + 1);
    t->rows[t->count].name = name;
    x->slots[at] = t->count + 1;
    return t->count++;
}

static void enter(struct tally *x, const struct tree *t, uint32_t node)
{
    const struct tree_node *n = &t->nodes[node];
    uint32_t row = row_of(x, n->name);
    x->rows[node] = row;
    wide_add(&x->self[row], n->self);
    // Below a node of the same name nothing is added: that node's total has it.
    if (x->open[row]++ == 0) wide_add(&x->total[row], n->total);
}

static void finish_side(struct tally *x, size_t side)
{
    struct function_table *t = x->table;
    for (uint32_t i = 0; i < t->count; i++) {
        t->rows[i].self[side] = wide_clip(x->self[i]);
        t->rows[i].total[side] = wide_clip(x->total[i]);
        t->clipped = t->clipped || !wide_fits(x->self[i]) || !wide_fits(x->total[i]);
        x->self[i] = x->total[i] = (struct wide){0};
    }
}

// Depth first; a node's row is open until its last child is done.
static void walk(struct tally *x, const struct tree *t, size_t side)
{
    x->table->total[side] = t->nodes[0].total;
    uint32_t node = t->nodes[0].first_child;
    while (node) {
        enter(x, t, node);
        if (t->nodes[node].first_child) {
            node = t->nodes[node].first_child;
            continue;
        }
        assert(x->open[x->rows[node]] > 0);
        x->open[x->rows[node]]--;
        while (node && !t->nodes[node].next_sibling) {
            node = t->nodes[node].parent;
            if (node) x->open[x->rows[node]]--;
        }
        if (node) node = t->nodes[node].next_sibling;
    }
    finish_side(x, side);
}

// ---- order

static int by_self(const void *a, const void *b)
{
    const struct function_row *x = a;
    const struct function_row *y = b;
    if (x->self[0] != y->self[0]) return x->self[0] > y->self[0] ? -1 : 1;
    return str_cmp(x->name, y->name);
}

struct share {
    int64_t part;
    int64_t of;
};

// By products instead of quotients, which would round: two int64 multiplied fit 128 bits.
static int share_cmp(struct share a, struct share b)
{
    __int128 x = (__int128)a.part * b.of;
    __int128 y = (__int128)b.part * a.of;
    return (x > y) - (x < y);
}

// A side with total 0 has no shares.
static struct share share_of(const struct function_row *r, const int64_t *total, size_t side)
{
    if (total[side] <= 0) return (struct share){0, 1};
    return (struct share){r->total[side], total[side]};
}

static int by_share(const void *a, const void *b, void *arg)
{
    const int64_t *total = arg;
    const struct function_row *rows[2] = {a, b};
    struct share most[2];
    for (size_t i = 0; i < 2; i++) {
        struct share left = share_of(rows[i], total, 0);
        struct share right = share_of(rows[i], total, 1);
        most[i] = share_cmp(left, right) >= 0 ? left : right;
    }
    int order = share_cmp(most[1], most[0]);
    return order ? order : str_cmp(rows[0]->name, rows[1]->name);
}

bool functions_build(struct arena *a, const struct tree *const *trees, size_t sides,
                     struct function_table *out, err *e)
{
    assert(sides == 1 || sides == FUNCTIONS_SIDES);
    uint32_t nodes = 0;
    uint32_t widest = 0;
    for (size_t s = 0; s < sides; s++) {
        nodes += trees[s]->count;
        widest = MAX(widest, trees[s]->count);
    }
    *out = (struct function_table){.sides = sides};
    struct tally x = {.table = out, .size = 16};
    while (x.size / 2 < nodes && x.size < 1u << 31)
        x.size *= 2;
    x.slots = ARENA_ARRAY(a, uint32_t, x.size);
    x.rows = ARENA_ARRAY(a, uint32_t, widest);
    x.open = ARENA_ARRAY(a, uint32_t, nodes);
    out->rows = ARENA_ARRAY(a, struct function_row, nodes);
    x.self = ARENA_ARRAY(a, struct wide, nodes);
    x.total = ARENA_ARRAY(a, struct wide, nodes);
    if (!x.slots || !x.rows || !x.open || !out->rows || !x.self || !x.total)
        return arena_fail(a, e);
    for (size_t s = 0; s < sides; s++)
        walk(&x, trees[s], s);
    if (out->count == 0) return true;
    if (sides == 1) {
        qsort(out->rows, out->count, sizeof *out->rows, by_self);
    } else {
        qsort_r(out->rows, out->count, sizeof *out->rows, by_share, out->total);
    }
    return true;
}

// The fields of both messages: a row's name is 1, self and total of its sides follow; so do, after
// the rows, the sides' totals and the number of rows.
static void put_sides(const struct function_table *t, size_t from, size_t to, uint64_t limit,
                      struct buf *out)
{
    uint32_t n = limit && limit < t->count ? (uint32_t)limit : t->count;
    for (uint32_t i = 0; i < n && !out->failed; i++) {
        const struct function_row *r = &t->rows[i];
        uint32_t field = 1;
        size_t mark = pb_begin(out, 1);
        pb_put_bytes_opt(out, field++, r->name);
        for (size_t s = from; s < to; s++) {
            pb_put_i64_opt(out, field++, r->self[s]);
            pb_put_i64_opt(out, field++, r->total[s]);
        }
        pb_end(out, mark);
    }
    uint32_t field = 2;
    for (size_t s = from; s < to; s++)
        pb_put_i64_opt(out, field++, t->total[s]);
    pb_put_i64_opt(out, field, t->count);
}

void functions_put(const struct function_table *t, uint64_t limit, struct buf *out)
{
    put_sides(t, 0, t->sides, limit, out);
}

void functions_put_side(const struct function_table *t, size_t side, uint64_t limit,
                        struct buf *out)
{
    assert(side < t->sides);
    put_sides(t, side, side + 1, limit, out);
}
