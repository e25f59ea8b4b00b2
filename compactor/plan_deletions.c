// SPDX-License-Identifier: Apache-2.0
//
// plan_deletions.c - which deletions are done: nothing has what they hide any more, and nothing
// that comes can have it.
//
//     no live block, leaf or parent, may have it     leaves are folded for that (plan.c,
//                                                    plan_leaves.c), parents follow their leaves
//     no segment waits in its hours
//     every ingester has flushed what it held when nothing else was left (watch.h), and a plan over
//     a later snapshot finds the same
#include "compactor/plan_int.h"

static bool has_hour(const struct hide *h, int64_t hour)
{
    return hide_meets(h, slot_start(hour, SLOT_HOUR), slot_start(hour + 1, SLOT_HOUR));
}

static bool is_hiding_somewhere(const struct plan_state *s, const struct manifest_tombstone *t)
{
    for (size_t i = 0; i < s->block_count; i++) {
        if (manifest_is_hiding(t, &s->blocks[i])) return true;
    }
    for (size_t i = 0; i < s->segment_count; i++) {
        if (has_hour(&t->hide, s->segments[i].name.hour)) return true;
    }
    return false;
}

bool plan_deletions(struct planning *p, err *e)
{
    const struct plan_state *s = p->state;
    struct plan *out = p->out;
    if (s->tombstone_count == 0) return true;
    out->done = ARENA_ARRAY(p->a, id128, s->tombstone_count);
    if (!out->done) return arena_fail(p->a, e);
    for (size_t i = 0; i < s->tombstone_count; i++) {
        const struct manifest_tombstone *t = &s->tombstones[i];
        bool old = plan_is_due(p, t->made_ns + p->settings->deletion_stay);
        if (!old || is_hiding_somewhere(s, t)) continue;
        if (!s->may_go || s->may_go(s->go_arg, t->id))
            out->done[out->done_count++] = t->id;
        else
            out->held[out->held_count++] = t->id;
    }
    return true;
}
