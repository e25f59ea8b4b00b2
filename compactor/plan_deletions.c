// SPDX-License-Identifier: Apache-2.0
//
// plan_deletions.c - which deletions are done: nothing has what they hide any more, and nothing
// that comes can have it.
//
//     no live block, leaf or parent, may have it     leaves are folded for that (plan.c,
//                                                    plan_leaves.c), parents follow their leaves
//     no segment waits in its hours
//
// And the jobs for days whose single profiles have expired: parents have the last sums of them, so
// these are made anew of themselves, of the sums of series that stay (erase). Windows have no
// series: they go once leaves and the days in them are clean, and are made anew of these.
//
// A deletion goes when
//
//     nothing may have it, as above
//     every ingester has flushed what it held when nothing else was left (watch.h), and a plan over
//     a later snapshot finds the same
#include "compactor/plan_int.h"

static bool has_hour(const struct hide *h, int64_t hour)
{
    return hide_meets(h, slot_start(hour, SLOT_HOUR), slot_start(hour + 1, SLOT_HOUR));
}

// May a parent have what is hidden? What it sums of a leaf that is there is clean if the leaf is,
// whenever the parent was made. A leaf that was replaced may have had it, and so may an expired
// one.
static bool has_hidden_sums(const struct planning *p, const struct manifest_tombstone *t,
                            const struct manifest_block *b)
{
    for (size_t i = 0; i < b->cover_count; i++) {
        const struct manifest_cover *c = &b->covers[i];
        if (!manifest_hides_some(&t->hide, c->hour, c->hours)) continue;
        for (size_t k = 0; k < c->leaf_count; k++) {
            const struct manifest_block *leaf = plan_live_leaf(p, c->leaves[k]);
            if (!leaf || manifest_is_hiding(t, leaf)) return true;
        }
    }
    return false;
}

static bool may_have(const struct planning *p, const struct manifest_tombstone *t,
                     const struct manifest_block *b)
{
    return manifest_is_hiding(t, b) && (b->kind == BLOCK_RAW || has_hidden_sums(p, t, b));
}

static bool is_hiding_somewhere(const struct planning *p, const struct manifest_tombstone *t)
{
    const struct plan_state *s = p->state;
    for (size_t i = 0; i < s->block_count; i++) {
        if (may_have(p, t, &s->blocks[i])) return true;
    }
    for (size_t i = 0; i < s->segment_count; i++) {
        if (has_hour(&t->hide, s->segments[i].name.hour)) return true;
    }
    return false;
}

// ---- sums whose rows have expired

static bool is_hiding(const struct planning *p, const struct manifest_block *b)
{
    const struct plan_state *s = p->state;
    for (size_t i = 0; i < s->tombstone_count; i++) {
        if (may_have(p, &s->tombstones[i], b)) return true;
    }
    return false;
}

static bool are_hidden_whole(const struct planning *p, const struct manifest_block *b)
{
    const struct plan_state *s = p->state;
    for (size_t i = 0; i < s->tombstone_count; i++) {
        if (manifest_is_hiding(&s->tombstones[i], b) &&
            !manifest_hides_all(&s->tombstones[i].hide, b->from_hour, b->hours))
            return false;
    }
    return true;
}

static bool erase_job(struct planning *p, const struct manifest_block *b, err *e)
{
    struct task *j =
        plan_add(p, b->kind == BLOCK_HOURS ? JOB_PACK : JOB_DAY, b->from_hour, b->hours);
    struct job_source *source = ARENA_NEW(p->a, struct job_source);
    id128 *id = ARENA_NEW(p->a, id128);
    if (!j || !source || !id) return arena_fail(p->a, e);
    source->block = b;
    *id = b->id;
    j->erase = true;
    j->due_ns = p->state->now_ns;
    j->bytes = b->bytes;
    j->sources = source;
    j->source_count = 1;
    j->covers = b->covers;
    j->cover_count = b->cover_count;
    j->remove = id;
    j->remove_count = 1;
    return true;
}

static bool erase_window(struct planning *p, const struct manifest_block *b, err *e)
{
    struct task *j = plan_add(p, JOB_RETIRE, b->from_hour, b->hours);
    id128 *id = ARENA_NEW(p->a, id128);
    if (!j || !id) return arena_fail(p->a, e);
    *id = b->id;
    j->due_ns = p->state->now_ns;
    j->remove = id;
    j->remove_count = 1;
    return true;
}

// Has it the sums of an expired leaf, in hours that a deletion reaches?
static bool has_last(struct planning *p, const struct manifest_block *b)
{
    static const struct leaf_set none;
    const struct plan_state *s = p->state;
    for (size_t i = 0; i < b->cover_count; i++) {
        const struct manifest_cover *c = &b->covers[i];
        for (size_t k = 0; k < s->tombstone_count; k++) {
            if (manifest_hides_some(&s->tombstones[k].hide, c->hour, c->hours) &&
                plan_has_last(p, c, &none))
                return true;
        }
    }
    return false;
}

// Windows wait for leaves, too: one that is made anew while its leaves may have hidden rows is not
// clean, and would go again.
static bool erase_expired(struct planning *p, err *e)
{
    bool days = plan_are_hiding(p, p->by_kind[BLOCK_RAW], p->kind_count[BLOCK_RAW]);
    for (enum block_kind kind = BLOCK_HOURS; kind <= BLOCK_DAYS; kind++) {
        for (size_t i = 0; i < p->kind_count[kind]; i++) {
            const struct manifest_block *b = p->by_kind[kind][i];
            if (b->hours > HOURS_A_DAY || !is_hiding(p, b) || !has_last(p, b)) continue;
            days = true;
            if (plan_has_series(b) && b->classes && are_hidden_whole(p, b) && !erase_job(p, b, e))
                return false;
        }
    }
    for (size_t i = 0; !days && i < p->kind_count[BLOCK_DAYS]; i++) {
        const struct manifest_block *b = p->by_kind[BLOCK_DAYS][i];
        if (b->hours > HOURS_A_DAY && is_hiding(p, b) && has_last(p, b) && !erase_window(p, b, e))
            return false;
    }
    return true;
}

bool plan_deletions(struct planning *p, err *e)
{
    const struct plan_state *s = p->state;
    struct plan *out = p->out;
    if (s->tombstone_count == 0) return true;
    out->done = ARENA_ARRAY(p->a, id128, s->tombstone_count);
    if (!out->done) return arena_fail(p->a, e);
    if (!erase_expired(p, e)) return false;
    for (size_t i = 0; i < s->tombstone_count; i++) {
        const struct manifest_tombstone *t = &s->tombstones[i];
        bool old = plan_is_due(p, t->made_ns + p->settings->deletion_stay);
        if (!old || is_hiding_somewhere(p, t)) continue;
        if (!s->may_go || s->may_go(s->go_arg, t->id))
            out->done[out->done_count++] = t->id;
        else
            out->held[out->held_count++] = t->id;
    }
    return true;
}
