// SPDX-License-Identifier: Apache-2.0
//
// Plans over a snapshot. The planner itself needs no manifest: it gets live blocks, segments and a
// function that says what became of a leaf.
#include "querier/plan/levels.h"

static enum level_leaf leaf_state(const void *arg, id128 id)
{
    const struct manifest *m = arg;
    const struct manifest_block *b = manifest_find(m, id);
    if (b && b->kind == BLOCK_RAW) return LEVEL_LIVE;
    return manifest_counts(m, id) ? LEVEL_EXPIRED : LEVEL_DEAD;
}

struct level_given level_given_of(const struct snapshot *s)
{
    struct level_given g = {.tenant = manifest_tenant(s->manifest),
                            .segments = s->segments,
                            .segment_count = s->segment_count,
                            .leaf = leaf_state,
                            .arg = s->manifest};
    g.blocks = manifest_blocks(s->manifest, &g.block_count);
    return g;
}

bool level_plan(struct arena *a, const struct snapshot *s, const struct level_ask *ask,
                struct level_plan *out, err *e)
{
    const struct level_given g = level_given_of(s);
    return level_plan_given(a, &g, ask, out, e);
}
