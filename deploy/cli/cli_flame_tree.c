// SPDX-License-Identifier: Apache-2.0
//
// cli_flame_tree.c - flame_read_tree in three steps: the records of the bytes, linked
// (tree_records); a number for each name (number_names); nodes level by level, laid out as bars
// (lay_out_tree).
#include "codec/varint.h"
#include "deploy/cli/cli_flame.h"

#include <stdlib.h>

// A record, in the order of the bytes: parents come before their children.
struct record {
    str name;
    int64_t self;
    int64_t total;
    uint64_t missing;      // children that are still to come
    uint32_t parent;       // FLAME_NONE of the root
    uint32_t first_child;  // FLAME_NONE = none
    uint32_t next_sibling;
    uint32_t name_number;
};

struct records {
    struct record *v;
    uint32_t n;
    size_t cap;
};

static bool refuse_tree(err *e, const char *what)
{
    return err_set(e, ERR_INVALID_ARGUMENT, "the tree is malformed: it %s", what);
}

// ---- records

static bool tree_record(const uint8_t **at, const uint8_t *end, struct record *out)
{
    uint64_t length = 0;
    uint64_t self = 0;
    *out = (struct record){.parent = FLAME_NONE,
                           .first_child = FLAME_NONE,
                           .next_sibling = FLAME_NONE};
    if (!varint_get(at, end, &length) || length > (uint64_t)(end - *at)) return false;
    out->name = str_make(*at, (size_t)length);
    *at += length;
    if (!varint_get(at, end, &self) || !varint_get(at, end, &out->missing)) return false;
    out->self = (int64_t)self;
    return true;
}

static bool tree_records(struct arena *a, str bytes, struct records *r, err *e)
{
    const uint8_t *at = (const uint8_t *)bytes.p;
    const uint8_t *end = at + bytes.n;
    uint32_t parent = FLAME_NONE;
    while (at < end) {
        if (r->n == FLAME_NONE || !arena_grow(a, &r->v, &r->cap, (size_t)r->n + 1, sizeof *r->v))
            return arena_fail(a, e);
        struct record *n = &r->v[r->n];
        if (!tree_record(&at, end, n)) return refuse_tree(e, "ends within a node");
        while (parent != FLAME_NONE && r->v[parent].missing == 0)
            parent = r->v[parent].parent;
        if (parent == FLAME_NONE && r->n > 0) return refuse_tree(e, "has more than one root");
        n->parent = parent;
        if (parent != FLAME_NONE) {
            // Siblings come from the last to the first.
            struct record *p = &r->v[parent];
            n->next_sibling = p->first_child;
            p->first_child = r->n;
            p->missing--;
        }
        parent = r->n++;
    }
    for (; parent != FLAME_NONE; parent = r->v[parent].parent)
        if (r->v[parent].missing) return refuse_tree(e, "ends before its last node");
    return true;
}

static bool add_tree_totals(struct records *r, bool *is_signed, err *e)
{
    // The sum of all selves without their signs fits, and so do all sums of selves.
    int64_t sum = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        int64_t self = r->v[i].self;
        if (self == INT64_MIN || __builtin_add_overflow(sum, self < 0 ? -self : self, &sum))
            return err_set(e, ERR_OUT_OF_RANGE, "the values of the tree do not fit 64 bits");
        *is_signed = *is_signed || self < 0;
    }
    for (uint32_t i = r->n; i-- > 0;) {
        r->v[i].total += r->v[i].self;
        if (i > 0) r->v[r->v[i].parent].total += r->v[i].total;
    }
    return true;
}

// ---- names

static int by_record_name(const void *a, const void *b)
{
    return str_cmp((*(struct record *const *)a)->name, (*(struct record *const *)b)->name);
}

static bool number_names(struct arena *a, struct records *r, struct flame *out)
{
    struct record **sorted = ARENA_ARRAY(a, struct record *, r->n);
    out->names = ARENA_ARRAY(a, str, r->n);
    if (!sorted || !out->names) return false;
    for (uint32_t i = 0; i < r->n; i++)
        sorted[i] = &r->v[i];
    qsort(sorted, r->n, sizeof *sorted, by_record_name);
    for (uint32_t i = 0; i < r->n; i++) {
        if (i == 0 || !str_eq(sorted[i]->name, sorted[i - 1]->name))
            out->names[out->name_count++] = sorted[i]->name;
        sorted[i]->name_number = out->name_count - 1;
    }
    return true;
}

// ---- layout

static int64_t fit_room(int64_t value, int64_t room)
{
    return MIN(MAX(value, 0), room);
}

// Appends the children of node `at`, those with width first: a bar of none is the last among its
// siblings, as in flame graphs (model/flamegraph.c).
static void hang_children(const struct records *r, uint32_t *record_of, struct flame *out,
                          uint32_t at)
{
    const struct flame_node parent = out->nodes[at];
    int64_t own = fit_room(parent.self, parent.width);
    uint32_t last = FLAME_NONE;
    for (int flat = 0; flat < 2; flat++) {
        int64_t room = parent.width - own;
        int64_t left = parent.left + own;
        for (uint32_t c = r->v[record_of[at]].first_child; c != FLAME_NONE;
             c = r->v[c].next_sibling) {
            int64_t width = fit_room(r->v[c].total, room);
            room -= width;
            left += width;
            if (flat != (width == 0)) continue;
            uint32_t node = out->count++;
            record_of[node] = c;
            out->nodes[node] = (struct flame_node){.name = r->v[c].name_number,
                                                   .parent = at,
                                                   .first_child = FLAME_NONE,
                                                   .next_sibling = FLAME_NONE,
                                                   .left = left - width,
                                                   .width = width,
                                                   .self = r->v[c].self,
                                                   .total = r->v[c].total};
            if (last == FLAME_NONE)
                out->nodes[at].first_child = node;
            else
                out->nodes[last].next_sibling = node;
            last = node;
        }
    }
}

static bool lay_out_tree(struct arena *a, const struct records *r, struct flame *out)
{
    uint32_t *record_of = ARENA_ARRAY(a, uint32_t, r->n);
    out->nodes = ARENA_ARRAY(a, struct flame_node, r->n);
    out->level_ends = ARENA_ARRAY(a, uint32_t, r->n);
    if (!record_of || !out->nodes || !out->level_ends) return false;
    const struct record *root = &r->v[0];
    out->nodes[0] = (struct flame_node){.name = root->name_number,
                                        .parent = FLAME_NONE,
                                        .first_child = FLAME_NONE,
                                        .next_sibling = FLAME_NONE,
                                        .width = MAX(root->total, 0),
                                        .self = root->self,
                                        .total = root->total};
    out->count = 1;
    for (uint32_t from = 0; from < out->count;) {
        uint32_t to = out->count;
        out->level_ends[out->level_count++] = to;
        for (; from < to; from++)
            hang_children(r, record_of, out, from);
    }
    assert(out->count == r->n);
    out->total = out->nodes[0].total;
    return true;
}

bool flame_read_tree(struct arena *a, str bytes, struct flame *out, err *e)
{
    struct records r = {0};
    *out = (struct flame){0};
    if (!tree_records(a, bytes, &r, e)) return false;
    if (r.n == 0) return true;
    if (!add_tree_totals(&r, &out->is_signed, e)) return false;
    if (r.v[0].name.n == 0) r.v[0].name = S("total");
    if (!number_names(a, &r, out) || !lay_out_tree(a, &r, out)) return arena_fail(a, e);
    if (out->nodes[0].width == 0 && !out->is_signed) out->count = 0;  // no data
    return true;
}
