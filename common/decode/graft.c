// SPDX-License-Identifier: Apache-2.0
#include "decode/graft.h"

#include "base/hash.h"
#include "base/utf8.h"
#include "model/marks.h"

bool graft_begin(struct graft *g, struct arena *a, size_t encoded_bytes,
                 const struct decode_options *o, const struct profile_type *types,
                 uint32_t type_count, err *e)
{
    *g = (struct graft){0};
    map_init(&g->known, a->budget);
    return stacks_begin(&g->s, a, encoded_bytes, o, types, type_count, e);
}

void graft_release(struct graft *g)
{
    map_release(&g->known);
    stacks_release(&g->s);
}

static bool graft_push(struct graft *g, const struct graft_node *node, uint32_t *row, err *e)
{
    struct arena *a = g->s.a;
    size_t n = g->node_count + 1;
    if (n >= GRAFT_NONE)
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "more than %u nodes", GRAFT_NONE);
    if (!arena_grow(a, &g->nodes, &g->node_cap, n, sizeof *g->nodes)) return arena_fail(a, e);
    *row = (uint32_t)g->node_count;
    g->nodes[g->node_count++] = *node;
    if (node->depth <= STACKS_DEPTH) g->nodes[*row].outer = *row;
    return true;
}

bool graft_root(struct graft *g, const struct profile_label *labels, size_t n, uint32_t *node,
                err *e)
{
    struct profile *p = g->s.p;
    struct arena *a = g->s.a;
    if (!arena_grow(a, &g->roots, &g->root_cap, g->root_count + 1, sizeof *g->roots) ||
        !arena_grow(a, &p->labels, &g->label_cap, (size_t)p->label_count + n, sizeof *p->labels))
        return arena_fail(a, e);
    struct graft_labels *own = &g->roots[g->root_count];
    *own = (struct graft_labels){.first = p->label_count};
    for (size_t i = 0; i < n; i++) {
        if (labels[i].text.n == 0) continue;
        struct profile_label *to = &p->labels[p->label_count++];
        *to = labels[i];
        if (utf8_is_text(to->text)) continue;
        graft_lose(g, LOSS_BAD_TEXT, 1);
        to->text = utf8_mended(a, to->text);
    }
    own->count = p->label_count - own->first;
    const struct graft_node root = {GRAFT_NONE, (uint32_t)g->root_count++, 0, 0, 0};
    return graft_push(g, &root, node, e);
}

struct graft_probe {
    const struct graft *g;
    uint32_t parent;
    uint32_t frame;
};

static bool graft_same(const void *ctx, uint32_t row)
{
    const struct graft_probe *want = ctx;
    const struct graft_node *node = &want->g->nodes[row];
    return node->parent == want->parent && node->frame == want->frame;
}

bool graft_child(struct graft *g, uint32_t parent, uint32_t frame, uint32_t *node, err *e)
{
    assert(parent < g->node_count && frame < g->s.p->function_count);
    const struct graft_probe want = {g, parent, frame};
    uint64_t hash = hash_table_word((uint64_t)parent << 32 | frame);
    *node = map_find(&g->known, hash, graft_same, &want);
    if (*node != MAP_NONE) return true;
    const struct graft_node *above = &g->nodes[parent];
    const struct graft_node new = {parent, frame, above->depth + 1, above->outer, 0};
    return graft_push(g, &new, node, e) && map_put(&g->known, hash, *node, e);
}

bool graft_named(struct graft *g, uint32_t parent, str name, uint32_t *node, err *e)
{
    uint32_t frame = 0;
    return stacks_frame(&g->s, name, (str){0}, 0, &frame, e) &&
           graft_child(g, parent, frame, node, e);
}

// A row of values, all 0, for a node that has none.
static bool graft_put_row(struct graft *g, uint32_t node, err *e)
{
    struct arena *a = g->s.a;
    size_t from = g->value_rows * g->s.type_count;
    if (!arena_grow(a, &g->values, &g->value_cap, from + g->s.type_count, sizeof *g->values))
        return arena_fail(a, e);
    memset(&g->values[from], 0, g->s.type_count * sizeof *g->values);
    g->nodes[node].row = (uint32_t)++g->value_rows;
    return true;
}

static int64_t *graft_values(const struct graft *g, size_t node)
{
    assert(g->nodes[node].row > 0);
    return &g->values[(size_t)(g->nodes[node].row - 1) * g->s.type_count];
}

bool graft_add(struct graft *g, uint32_t node, uint32_t type, int64_t value, err *e)
{
    assert(node < g->node_count && type < g->s.type_count);
    if (value == 0) return true;
    if (g->nodes[node].parent == GRAFT_NONE &&
        !graft_named(g, node, S(STACK_UNKNOWN_NAME), &node, e))
        return false;
    if (g->nodes[node].row == 0 && !graft_put_row(g, node, e)) return false;
    int64_t *sum = &graft_values(g, node)[type];
    if (!__builtin_add_overflow(*sum, value, sum)) return true;
    return err_set(e, ERR_OUT_OF_RANGE, "the values of a stack add up to more than 64 bits");
}

static bool graft_has_value(const struct graft *g, size_t node)
{
    for (uint32_t k = 0; g->nodes[node].row && k < g->s.type_count; k++) {
        if (graft_values(g, node)[k]) return true;
    }
    return false;
}

static bool graft_sample(struct graft *g, size_t node, err *e)
{
    struct profile *p = g->s.p;
    uint32_t *leaf = NULL;
    int64_t *to = NULL;
    uint32_t depth = g->nodes[node].depth;
    if (!stacks_sample(&g->s, depth, &leaf, &to, e)) return false;
    memcpy(to, graft_values(g, node), g->s.type_count * sizeof *to);
    for (uint32_t i = 0; i < depth; i++, node = g->nodes[node].parent)
        leaf[i] = g->nodes[node].frame;
    const struct graft_labels *own = &g->roots[g->nodes[node].frame];
    p->samples[p->sample_count - 1].first_label = own->first;
    p->samples[p->sample_count - 1].label_count = own->count;
    return true;
}

// The number of samples and of the frames of all of them.
static size_t graft_count(const struct graft *g, uint64_t *frames)
{
    size_t samples = 0;
    *frames = 0;
    for (size_t i = 0; i < g->node_count; i++) {
        if (!graft_has_value(g, i)) continue;
        *frames += g->nodes[i].depth;
        samples++;
    }
    return samples;
}

// Cuts all deep stacks.
static bool graft_cut(struct graft *g, err *e)
{
    size_t n = g->node_count;
    for (size_t i = 0; i < n; i++) {
        uint32_t cut = 0;
        if (g->nodes[i].depth <= STACKS_DEPTH || !graft_has_value(g, i)) continue;
        if (!graft_named(g, g->nodes[i].outer, S(STACK_CUT_NAME), &cut, e)) return false;
        if (cut == i) continue;
        losses_add(&g->s.p->losses, LOSS_STACK_DEPTH, 1);
        for (uint32_t k = 0; k < g->s.type_count; k++) {
            int64_t value = graft_values(g, i)[k];
            graft_values(g, i)[k] = 0;
            if (!graft_add(g, cut, k, value, e)) return false;
        }
    }
    return true;
}

bool graft_finish(struct graft *g, struct profile **out, err *e)
{
    uint64_t frames = 0;
    size_t samples = graft_count(g, &frames);
    if (stacks_are_deep(&g->s, frames)) {
        if (!graft_cut(g, e)) return false;
        samples = graft_count(g, &frames);
    }
    if (samples == 0) return err_set(e, ERR_INVALID_ARGUMENT, "there is no sample in this file");
    if (!stacks_expect(&g->s, samples, frames, e)) return false;
    for (size_t i = 0; i < g->node_count; i++) {
        if (graft_has_value(g, i) && !graft_sample(g, i, e)) return false;
    }
    if (!stacks_finish(&g->s, e)) return false;
    // Not the text's size, which has much besides stacks.
    g->s.p->encoded_bytes = decode_pprof_size(g->s.p);
    *out = g->s.p;
    return arena_ok(g->s.a, e);
}
