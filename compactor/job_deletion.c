// SPDX-License-Identifier: Apache-2.0
#include "compactor/job_deletion.h"

bool job_hides(const struct job_bench *b, const struct task *j, bool is_leaf, struct arena *a,
               struct hide **out, size_t *n, err *e)
{
    *out = NULL;
    *n = 0;
    if (b->tombstone_count == 0 || (!is_leaf && !j->erase)) return true;
    *out = ARENA_ARRAY(a, struct hide, b->tombstone_count);
    if (!*out) return arena_fail(a, e);
    for (size_t i = 0; i < b->tombstone_count; i++) {
        const struct hide *h = &b->hides[i];
        if (is_leaf || manifest_hides_some(h, j->from_hour, j->hours)) (*out)[(*n)++] = *h;
    }
    return true;
}

// Has a source, in these hours, sums of what the tombstone hides? Only its parts that are read
// count.
static bool has_hidden_sums(const struct manifest_tombstone *t, const struct job_source *s,
                            const struct manifest_cover *c)
{
    if (!s->block || !manifest_is_hiding(t, s->block)) return false;
    for (size_t i = 0; i < s->span_count; i++) {
        const struct plan_span *x = &s->spans[i];
        if (x->from_hour < c->hour + (int64_t)c->hours &&
            c->hour < x->from_hour + (int64_t)x->hours)
            return true;
    }
    return s->span_count == 0;
}

// May a window of the result sum hidden rows? Its live leaves tell, and of expired ones the blocks
// that have their sums. Leaves are asked for their times: most of a window's days are whole ones of
// which a deletion has a part, or nothing.
static bool is_hiding_in(const struct job_bench *b, const struct manifest_tombstone *t,
                         const struct task *j, const struct manifest_cover *c)
{
    if (!manifest_hides_some(&t->hide, c->hour, c->hours)) return false;
    for (size_t i = 0; i < c->leaf_count; i++) {
        const struct manifest_block *leaf = manifest_find(b->snapshot, c->leaves[i]);
        if (leaf && manifest_is_hiding(t, leaf)) return true;
        for (size_t k = 0; !leaf && k < j->source_count; k++) {
            if (has_hidden_sums(t, &j->sources[k], c)) return true;
        }
    }
    return false;
}

uint64_t job_as_of(const struct job_bench *b, const struct task *j, bool is_leaf)
{
    if (b->tombstone_count == 0) return 0;
    for (size_t i = 0; i < b->tombstone_count && !is_leaf && !j->erase; i++) {
        for (size_t k = 0; k < j->cover_count; k++) {
            if (is_hiding_in(b, &b->tombstones[i], j, &j->covers[k])) return 0;
        }
    }
    return b->version;
}
