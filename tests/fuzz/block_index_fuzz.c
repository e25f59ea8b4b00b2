// SPDX-License-Identifier: Apache-2.0
//
// The contents of an index, without CRC32C. Properties: only data_loss (or what the arena holds);
// of what parses every number is in range: keys have their nodes, totals and rows, these have their
// frames, and frames follow one another without gaps.
#include "block/keys.h"
#include "block/reader.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok) abort();
}

// Frames cover 0 .. sum - 1.
static void check_frames(const struct block_frames *f, uint64_t sum)
{
    uint64_t first = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        must(f->v[i].first == first && f->v[i].count > 0 && f->v[i].extent.stored > 0);
        must(f->v[i].first_ns <= f->v[i].last_ns);
        must(block_frame_of(f, first) == &f->v[i]);
        first += f->v[i].count;
    }
    must(first == sum && block_frame_of(f, first) == NULL);
}

static void check_nodes(const struct block_index *x, const struct block_key_ref *k)
{
    must(k->first_node <= x->node_count && k->node_count <= x->node_count - k->first_node);
    for (uint32_t i = 0; i < k->node_count; i++) {
        const struct block_node_ref *n = &x->nodes[k->first_node + i];
        must(n->frame < x->nodes_at.n && n->place < x->nodes_at.v[n->frame].count);
        must(n->factor >= 1);
        must(slot_of(n->node.first_ns, n->node.width) == n->node.slot);
        must(slot_of(n->node.last_ns, n->node.width) == n->node.slot);
        must(n->node.first_ns <= n->node.last_ns && n->node.profiles > 0);
    }
}

static void check(struct arena *a, const struct block_index *x)
{
    uint64_t nodes = 0;
    uint64_t totals = 0;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < x->key_count; i++) {
        const struct block_key_ref *k = &x->keys[i];
        must(k->type < x->type_count && k->class < BLOCK_CLASSES);
        must(k->first_node == nodes && k->first_total == totals && k->first_row == rows);
        must(k->class == BLOCK_SERIES || k->row_count == 0);
        nodes += k->node_count;
        totals += k->total_count;
        rows += k->row_count;
        check_nodes(x, k);
        if (i == 0 || k[-1].type != k->type || k[-1].class != k->class) continue;
        must(labels_cmp(k[-1].ls, k->ls) < 0);
    }
    must(nodes == x->node_count && x->stack_count > 0);
    const struct block_frames *at = &x->nodes_at;
    uint64_t vectors = at->n ? at->v[at->n - 1].first + at->v[at->n - 1].count : 0;
    check_frames(at, vectors);
    must(vectors <= 2 * nodes);
    check_frames(&x->totals, totals);
    check_frames(&x->heads, rows);
    must(x->details.n == x->heads.n && (x->spans.n == 0) == (x->blooms.stored == 0));
    for (uint32_t i = 0; i < x->spans.n; i++)
        must(block_frame_of(&x->heads, x->spans.v[i].first)->first == x->spans.v[i].first);
    struct block_set set = {0};
    struct selector all = {0};
    err e = {0};
    must(block_select(x->postings, a, &all, &set, &e) || e.code == ERR_RESOURCE_EXHAUSTED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct block_index x = {0};
    struct block_service_ref s = {.totals = {.at = 1000}, .all = {.at = 2000}};
    err e = {0};
    arena_init(&a, NULL, (size_t)256 << 20);
    if (block_index_parse(&a, str_make(data, size), &s, &x, &e)) {
        check(&a, &x);
    } else {
        must(e.code == ERR_DATA_LOSS || e.code == ERR_RESOURCE_EXHAUSTED);
    }
    arena_release(&a);
    return 0;
}
