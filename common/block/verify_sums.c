// SPDX-License-Identifier: Apache-2.0
//
// Compares sums with their parts: nodes with rows, with nodes of other classes, with narrower
// nodes, and with totals.
#include "base/search.h"
#include "block/verify_int.h"

#include <inttypes.h>

// The node as it should be, added up from its parts.
struct sums {
    int64_t *v;  // by stack
    struct block_node node;
    bool fits;
};

static void begin(struct verify *v, struct sums *s, const struct block_node *like)
{
    assert(like->width > 0);
    memset(s->v, 0, v->symbols.stack_count * sizeof *s->v);
    s->node = (struct block_node){.slot = like->slot,
                                  .width = like->width,
                                  .first_ns = INT64_MAX,
                                  .last_ns = INT64_MIN};
    s->fits = true;
}

static void add(struct verify *v, struct sums *s, const struct block_node *n, str columns,
                int64_t factor)
{
    err ignored = {0};
    s->node.profiles += n->profiles;
    s->node.first_ns = MIN(s->node.first_ns, n->first_ns);
    s->node.last_ns = MAX(s->node.last_ns, n->last_ns);
    s->fits = s->fits && !__builtin_add_overflow(s->node.total, n->total, &s->node.total) &&
              columns.p && columns_add(columns, factor, s->v, v->symbols.stack_count, &ignored);
}

// Compares node i with the sum of its parts; `of` names them in messages ("its rows").
static void compare(struct verify *v, const struct block_key_ref *k, uint32_t i, struct sums *s,
                    const char *of)
{
    const struct block_node *n = &v->index.nodes[i].node;
    str type = v->index.types[k->type];
    char slot[VERIFY_SLOT_TEXT];
    err ignored = {0};
    assert(s->node.slot == n->slot && s->node.width == n->width);  // begin() was for this node
    verify_slot(slot, n->slot, n->width);
    if (!s->fits) {
        verify_fault(v, "node %u of type %.*s, %s: %s do not fit int64", i, STR(type), slot, of);
        return;
    }
    if (n->profiles != s->node.profiles || n->total != s->node.total) {
        verify_fault(v,
                     "node %u of type %.*s, %s: %" PRIu64 " profiles, total %" PRId64
                     "; %s have %" PRIu64 ", %" PRId64,
                     i, STR(type), slot, n->profiles, n->total, of, s->node.profiles,
                     s->node.total);
        return;
    }
    if (n->first_ns != s->node.first_ns || n->last_ns != s->node.last_ns) {
        verify_fault(v,
                     "node %u of type %.*s, %s: times %" PRId64 " to %" PRId64 "; %s have %" PRId64
                     " to %" PRId64,
                     i, STR(type), slot, n->first_ns, n->last_ns, of, s->node.first_ns,
                     s->node.last_ns);
    }
    // Subtracting the node's vector must leave nothing. A vector that is damaged was reported.
    if (!v->node_vectors[i].p || !columns_add(v->node_vectors[i], -v->index.nodes[i].factor, s->v,
                                              v->symbols.stack_count, &ignored)) {
        return;
    }
    for (uint32_t stack = 0; stack < v->symbols.stack_count; stack++) {
        if (s->v[stack] == 0) continue;
        verify_fault(v, "node %u of type %.*s, %s: at stack %u %s have %" PRId64 " more", i,
                     STR(type), slot, stack, of, s->v[stack]);
        return;
    }
}

// ---- nodes of ALL and rows

// The first of the key's rows whose time is after ns.
static uint64_t row_after(const struct verify *v, const struct block_key_ref *k, int64_t ns)
{
    assert(k->first_row + k->row_count <= v->row_count);
    return SEARCH(at, k->first_row, k->first_row + k->row_count, v->times[at] <= ns);
}

static void add_rows(struct verify *v, struct sums *s, uint32_t type)
{
    int64_t from = slot_start(s->node.slot, s->node.width);
    int64_t until = slot_start(s->node.slot + 1, s->node.width);
    for (uint32_t i = 0; i < v->index.key_count; i++) {
        const struct block_key_ref *k = &v->index.keys[i];
        if (k->type != type || k->class != BLOCK_SERIES || k->sampled) continue;
        uint64_t end = row_after(v, k, until);
        for (uint64_t row = row_after(v, k, from); row < end; row++) {
            const struct block_node one = {.profiles = 1,
                                           .total = v->row_totals[row],
                                           .first_ns = v->times[row],
                                           .last_ns = v->times[row]};
            assert(v->row_vectors[row] < v->vector_count);  // else the rows are not whole
            add(v, s, &one, v->vectors[v->row_vectors[row]], v->factors[row]);
        }
    }
}

// Each node is the sum of its rows. In a segment each row is in some node as well; leaves have no
// nodes of few rows.
static void check_rows(struct verify *v, struct sums *s, const struct block_key_ref *all)
{
    uint64_t summed = 0;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < all->node_count; i++) {
        uint32_t node = all->first_node + i;
        begin(v, s, &v->index.nodes[node].node);
        add_rows(v, s, all->type);
        compare(v, all, node, s, "its rows");
        summed += s->node.profiles;
    }
    for (uint32_t i = 0; i < v->index.key_count; i++) {
        const struct block_key_ref *k = &v->index.keys[i];
        if (k->type == all->type && !k->sampled) rows += k->row_count;
    }
    // Only where nothing is left out can the numbers be compared.
    if (v->src->footer.about.kind == BLOCK_SEGMENT && rows != summed) {
        verify_fault(v, "type %.*s: nodes are of %" PRIu64 " of %" PRIu64 " rows",
                     STR(v->index.types[all->type]), summed, rows);
    }
}

// ---- nodes and nodes

// Its node of that slot; UINT32_MAX: none. A key's nodes are in order of width, slot.
static uint32_t node_of(const struct verify *v, const struct block_key_ref *k, int64_t width,
                        int64_t slot)
{
    const struct block_node_ref *nodes = v->index.nodes;
    uint32_t end = k->first_node + k->node_count;
    uint32_t i = (uint32_t)SEARCH(at, k->first_node, end,
                                  nodes[at].node.width < width || (nodes[at].node.width == width &&
                                                                   nodes[at].node.slot < slot));
    bool found = i < end && nodes[i].node.width == width && nodes[i].node.slot == slot;
    return found ? i : UINT32_MAX;
}

// A node of ALL is the sum of the nodes of series, or of projections, for hours and days, which
// every key has.
static void check_classes(struct verify *v, struct sums *s, const struct block_key_ref *all,
                          enum block_class class, const char *of)
{
    bool any = false;
    for (uint32_t i = 0; i < v->index.key_count; i++) {
        const struct block_key_ref *k = &v->index.keys[i];
        any = any || (k->type == all->type && k->class == class && k->node_count > 0);
    }
    if (!any) return;
    for (uint32_t i = 0; i < all->node_count; i++) {
        uint32_t at = all->first_node + i;
        const struct block_node *n = &v->index.nodes[at].node;
        if (n->width != SLOT_HOUR && n->width != SLOT_DAY) continue;
        begin(v, s, n);
        for (uint32_t j = 0; j < v->index.key_count; j++) {
            const struct block_key_ref *k = &v->index.keys[j];
            if (k->type != all->type || k->class != class || k->sampled) continue;
            uint32_t part = node_of(v, k, n->width, n->slot);
            if (part == UINT32_MAX) continue;
            add(v, s, &v->index.nodes[part].node, v->node_vectors[part],
                v->index.nodes[part].factor);
        }
        compare(v, all, at, s, of);
    }
}

// A wider node is the sum of the narrowest ones within.
static void check_widths(struct verify *v, struct sums *s, const struct block_key_ref *k)
{
    if (k->node_count == 0) return;
    const struct block_node_ref *nodes = v->index.nodes + k->first_node;
    int64_t narrow = nodes[0].node.width;  // nodes are in order of width
    assert(narrow > 0);
    for (uint32_t i = 0; i < k->node_count; i++) {
        const struct block_node *n = &nodes[i].node;
        if (n->width == narrow || n->width % narrow) continue;
        int64_t parts = n->width / narrow;
        begin(v, s, n);
        for (uint32_t j = 0; j < k->node_count && nodes[j].node.width == narrow; j++) {
            int64_t slot = nodes[j].node.slot;
            bool within = (slot >= 0 ? slot / parts : -((-slot + parts - 1) / parts)) == n->slot;
            if (!within) continue;
            add(v, s, &nodes[j].node, v->node_vectors[k->first_node + j], nodes[j].factor);
        }
        compare(v, k, k->first_node + i, s, "those within");
    }
}

// ---- nodes and totals

static void check_totals(struct verify *v, const struct block_key_ref *k, uint32_t key)
{
    int64_t width = v->src->footer.about.kind == BLOCK_DAYS ? SLOT_HOUR : SLOT_MINUTE;
    assert(k->first_total + k->total_count <= v->total_count);
    for (uint32_t i = 0; i < k->node_count; i++) {
        const struct block_node *n = &v->index.nodes[k->first_node + i].node;
        if (n->width <= width) continue;
        int64_t sum = 0;
        uint64_t profiles = 0;
        bool fits = true;
        for (uint32_t t = 0; t < k->total_count; t++) {
            const struct block_total *total = &v->totals[k->first_total + t];
            int64_t start = slot_start(total->slot, width);
            if (start < slot_start(n->slot, n->width) || start >= slot_start(n->slot + 1, n->width))
                continue;
            fits = fits && !__builtin_add_overflow(sum, total->sum, &sum);
            profiles += total->profiles;
        }
        if (fits && sum == n->total && profiles == n->profiles) continue;
        char slot[VERIFY_SLOT_TEXT];
        verify_fault(v,
                     "key %u, %s: node of %" PRIu64 " profiles, total %" PRId64
                     "; totals within have %" PRIu64 ", %" PRId64,
                     key, verify_slot(slot, n->slot, n->width), n->profiles, n->total, profiles,
                     sum);
    }
}

bool verify_sums(struct verify *v, err *e)
{
    const struct block_index *x = &v->index;
    struct sums s = {.v = ARENA_ARRAY(&v->arena, int64_t, v->symbols.stack_count)};
    if (!s.v) return arena_fail(&v->arena, e);
    for (uint32_t i = 0; i < x->key_count; i++) {
        const struct block_key_ref *k = &x->keys[i];
        if (!block_source_alive(v->src, e)) return false;
        if (v->totals_whole && k->total_count > 0) check_totals(v, k, i);
        if (!v->nodes_whole) continue;
        check_widths(v, &s, k);
        if (k->class != BLOCK_ALL) continue;
        if (v->row_count && v->rows_whole && v->vectors_whole) check_rows(v, &s, k);
        check_classes(v, &s, k, BLOCK_SERIES, "nodes of series");
        check_classes(v, &s, k, BLOCK_PROJECTION, "nodes of projections");
    }
    return true;
}
