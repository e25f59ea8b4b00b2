// SPDX-License-Identifier: Apache-2.0
//
// label_sets.c - sets found by hash while they are added, sorted at the end.
#include "aggregate/label_sets.h"

#include "codec/pb.h"

#include <stdlib.h>

void label_sets_init(struct label_sets *s, struct arena *a, struct mem_budget *budget)
{
    *s = (struct label_sets){.arena = a};
    map_init(&s->seen, budget);
}

void label_sets_release(struct label_sets *s)
{
    map_release(&s->seen);
}

struct set_key {
    const struct label_sets *s;
    labels ls;
};

static bool same_set(const void *ctx, uint32_t row)
{
    const struct set_key *k = ctx;
    return labels_eq(k->s->v[row], k->ls);
}

// With `copy` the set is copied, else its array and strings outlive the sets.
static bool add(struct label_sets *s, labels ls, bool copy, err *e)
{
    struct set_key key = {s, ls};
    uint64_t hash = labels_hash(ls);
    assert(!s->finished);
    if (map_find(&s->seen, hash, same_set, &key) != MAP_NONE) return true;
    if (!arena_grow(s->arena, &s->v, &s->cap, (size_t)s->n + 1, sizeof *s->v)) {
        return arena_fail(s->arena, e);
    }
    s->v[s->n] = copy ? labels_copy(s->arena, ls) : ls;
    return arena_ok(s->arena, e) && map_put(&s->seen, hash, s->n++, e);
}

bool label_sets_add(struct label_sets *s, labels ls, err *e)
{
    return add(s, ls, true, e);
}

bool label_sets_add_name(struct label_sets *s, str name, err *e)
{
    const label one = {.name = name};
    return add(s, (labels){&one, 1}, true, e);
}

bool label_sets_merge_bytes(struct label_sets *s, str bytes, err *e)
{
    labels ls = {0};
    return labels_decode_set(s->arena, bytes, &ls, e) && add(s, ls, false, e);
}

bool label_sets_merge_name(struct label_sets *s, str name, err *e)
{
    label *one = ARENA_NEW(s->arena, label);
    if (!one) return arena_fail(s->arena, e);
    one->name = name;
    return add(s, (labels){one, 1}, false, e);
}

static int by_labels(const void *a, const void *b)
{
    return labels_cmp(*(const labels *)a, *(const labels *)b);
}

void label_sets_finish(struct label_sets *s)
{
    uint32_t n = 0;
    // Equal sets can only be there if the owner changed some; the index keeps others apart.
    if (s->n) qsort(s->v, s->n, sizeof *s->v, by_labels);
    for (uint32_t i = 0; i < s->n; i++) {
        if (n == 0 || !labels_eq(s->v[n - 1], s->v[i])) s->v[n++] = s->v[i];
    }
    s->n = n;
    s->finished = true;
}

void label_sets_encode(const struct label_sets *s, struct buf *out, uint32_t field)
{
    assert(s->finished);
    for (uint32_t i = 0; i < s->n; i++)
        labels_put_set(s->v[i], out, field);
}

void label_sets_encode_names(const struct label_sets *s, struct buf *out, uint32_t field)
{
    assert(s->finished);
    for (uint32_t i = 0; i < s->n; i++)
        pb_put_bytes(out, field, label_sets_name(s, i));
}
