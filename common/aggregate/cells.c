// SPDX-License-Identifier: Apache-2.0
//
// cells.c - groups, cells, exemplars and annotations by hash; their order; the wire.
#include "aggregate/cells.h"

#include "base/hash.h"
#include "codec/pb.h"

#include <stdlib.h>

void cells_init(struct cells *c, struct arena *a, struct mem_budget *budget, const str *group_by,
                size_t group_by_count)
{
    *c = (struct cells){.arena = a, .group_by = group_by, .group_by_count = group_by_count};
    map_init(&c->by_labels, budget);
    map_init(&c->by_place, budget);
    map_init(&c->by_note, budget);
}

void cells_release(struct cells *c)
{
    map_release(&c->by_labels);
    map_release(&c->by_place);
    map_release(&c->by_note);
}

// ---- groups

// A copy of the array in the arena; of the strings too unless they last.
static labels keep(struct arena *a, labels ls, bool lasting)
{
    if (!lasting) return labels_copy(a, ls);
    label *v = ARENA_ARRAY(a, label, ls.n);
    if (v && ls.n) memcpy(v, ls.v, ls.n * sizeof *v);
    return (labels){v, v ? ls.n : 0};
}

// The labels of a series whose names are in group_by, or (grouped false) whose names are not. Valid
// until the next call.
static bool project(struct cells *c, const struct cells_series *s, bool grouped, labels *out,
                    err *e)
{
    if (!arena_grow(c->arena, &c->room, &c->room_cap, s->ls.n, sizeof *c->room)) {
        return arena_fail(c->arena, e);
    }
    size_t n = 0;
    for (size_t i = 0; i < s->ls.n; i++) {
        if (str_among(s->ls.v[i].name, c->group_by, c->group_by_count) == grouped) {
            c->room[n++] = s->ls.v[i];
        }
    }
    *out = (labels){c->room, n};
    return true;
}

struct group_key {
    const struct cells *c;
    labels ls;
};

static bool same_group(const void *ctx, uint32_t row)
{
    const struct group_key *k = ctx;
    return labels_eq(k->c->groups[row], k->ls);
}

// The number of a group, made if it is new.
static bool group_at(struct cells *c, labels ls, bool lasting, uint32_t *group, err *e)
{
    struct group_key key = {c, ls};
    uint64_t hash = labels_hash(ls);
    *group = map_find(&c->by_labels, hash, same_group, &key);
    if (*group != MAP_NONE) return true;
    if (!arena_grow(c->arena, &c->groups, &c->group_cap, (size_t)c->group_count + 1,
                    sizeof *c->groups)) {
        return arena_fail(c->arena, e);
    }
    c->groups[c->group_count] = keep(c->arena, ls, lasting);
    if (!arena_ok(c->arena, e) || !map_put(&c->by_labels, hash, c->group_count, e)) return false;
    *group = c->group_count++;
    return true;
}

static bool find_group(struct cells *c, struct cells_series *s, err *e)
{
    labels ls = {0};
    if (!project(c, s, true, &ls, e) || !group_at(c, ls, s->lasting, &s->group, e)) return false;
    s->has_group = true;
    return true;
}

// ---- cells

struct cell_key {
    const struct cells *c;
    uint32_t group;
    uint32_t bucket;
    int64_t point;
};

static bool same_cell(const void *ctx, uint32_t row)
{
    const struct cell_key *k = ctx;
    const struct cell *c = &k->c->v[row];
    return c->group == k->group && c->point == k->point && c->bucket == k->bucket;
}

bool cells_find(struct cells *c, struct cells_series *s, int64_t point, uint32_t bucket,
                uint32_t *row, err *e)
{
    assert(!c->finished);
    if (!s->has_group && !find_group(c, s, e)) return false;
    assert(s->group < c->group_count);
    struct cell_key key = {c, s->group, bucket, point};
    uint64_t hash =
        hash_table_and(hash_table_and(hash_table_word(s->group), (uint64_t)point), bucket);
    *row = map_find(&c->by_place, hash, same_cell, &key);
    if (*row == MAP_NONE) {
        if (!arena_grow(c->arena, &c->v, &c->cap, (size_t)c->n + 1, sizeof *c->v)) {
            return arena_fail(c->arena, e);
        }
        c->v[c->n] = (struct cell){.group = s->group, .bucket = bucket, .point = point};
        if (!map_put(&c->by_place, hash, c->n, e)) return false;
        *row = c->n++;
    }
    s->cell = *row + 1;
    return true;
}

// ---- exemplars

bool cells_offer_known(struct cells *c, uint32_t row, const struct exemplar *x, err *e)
{
    assert(!c->finished && row < c->n);
    struct cell *cell = &c->v[row];
    if (cell->best) return exemplar_merge(c->arena, &c->best[cell->best - 1], x, e);
    if (!arena_grow(c->arena, &c->best, &c->best_cap, (size_t)c->best_count + 1, sizeof *c->best)) {
        return arena_fail(c->arena, e);
    }
    c->best[c->best_count++] = *x;
    cell->best = c->best_count;
    return true;
}

bool cells_offer(struct cells *c, struct cells_series *s, uint32_t row, const struct exemplar *x,
                 err *e)
{
    assert(!c->finished && row < c->n);
    const struct exemplar *best = cells_best(c, &c->v[row]);
    struct exemplar shown = *x;
    // Most rows lose, so this comes before the work on labels. A tie goes on: it merges labels.
    if (best && exemplar_order(best, x) < 0) return true;
    if (!s->has_shown) {
        labels ls = {0};
        if (!project(c, s, false, &ls, e)) return false;
        s->shown = keep(c->arena, ls, s->lasting);
        if (!arena_ok(c->arena, e)) return false;
        s->has_shown = true;
    }
    shown.ls = s->shown;
    return cells_offer_known(c, row, &shown, e);
}

// ---- annotations

struct note_key {
    const struct cells *c;
    uint32_t cell;
    label note;
};

static bool same_note(const void *ctx, uint32_t row)
{
    const struct note_key *k = ctx;
    const struct cell_note *n = &k->c->notes[row];
    return n->cell == k->cell && str_eq(n->note.name, k->note.name) &&
           str_eq(n->note.value, k->note.value);
}

bool cells_annotate(struct cells *c, uint32_t row, label note, bool lasting, err *e)
{
    struct note_key key = {c, row, note};
    uint64_t hash = hash_table_and(hash_table_and(hash_table_word(row), hash_table_str(note.name)),
                                   hash_table_str(note.value));
    assert(!c->finished && row < c->n);
    if (map_find(&c->by_note, hash, same_note, &key) != MAP_NONE) return true;
    if (!arena_grow(c->arena, &c->notes, &c->note_cap, (size_t)c->note_count + 1,
                    sizeof *c->notes)) {
        return arena_fail(c->arena, e);
    }
    if (!lasting) note = (label){arena_str(c->arena, note.name), arena_str(c->arena, note.value)};
    c->notes[c->note_count] = (struct cell_note){row, c->v[row].notes, note};
    if (!arena_ok(c->arena, e) || !map_put(&c->by_note, hash, c->note_count, e)) return false;
    c->v[row].notes = ++c->note_count;
    return true;
}

bool cells_notes(const struct cells *c, const struct cell *cell, labels *out, err *e)
{
    size_t n = 0;
    *out = (labels){0};
    for (uint32_t at = cell->notes; at; at = c->notes[at - 1].next)
        n++;
    if (n == 0) return true;
    label *v = ARENA_ARRAY(c->arena, label, n);
    if (!v) return arena_fail(c->arena, e);
    *out = (labels){v, n};
    n = 0;
    for (uint32_t at = cell->notes; at; at = c->notes[at - 1].next)
        v[n++] = c->notes[at - 1].note;
    qsort(v, n, sizeof *v, label_order);
    return true;
}

// ---- order

struct ranked {
    labels ls;
    uint32_t group;
};

static int by_labels(const void *a, const void *b)
{
    return labels_cmp(((const struct ranked *)a)->ls, ((const struct ranked *)b)->ls);
}

static int by_place(const void *a, const void *b)
{
    const struct cell *x = a;
    const struct cell *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    if (x->point != y->point) return x->point < y->point ? -1 : 1;
    return x->bucket < y->bucket ? -1 : x->bucket > y->bucket;
}

bool cells_finish(struct cells *c, err *e)
{
    assert(!c->finished);
    struct ranked *order = ARENA_ARRAY(c->arena, struct ranked, c->group_count);
    uint32_t *rank = ARENA_ARRAY(c->arena, uint32_t, c->group_count);
    if (!order || !rank) return arena_fail(c->arena, e);
    for (uint32_t i = 0; i < c->group_count; i++)
        order[i] = (struct ranked){c->groups[i], i};
    if (c->group_count) qsort(order, c->group_count, sizeof *order, by_labels);
    for (uint32_t i = 0; i < c->group_count; i++) {
        c->groups[i] = order[i].ls;
        rank[order[i].group] = i;
    }
    // The indexes are stale from here on, which is why nothing may be added after this.
    for (uint32_t i = 0; i < c->n; i++)
        c->v[i].group = rank[c->v[i].group];
    if (c->n) qsort(c->v, c->n, sizeof *c->v, by_place);
    c->finished = true;
    return true;
}

bool cells_clip(struct cells *c, cell_clipped_fn *fn, void *arg, err *e)
{
    assert(c->finished);
    for (uint32_t i = 0; i < c->n;) {
        uint32_t group = c->v[i].group;
        size_t clipped = 0;
        for (; i < c->n && c->v[i].group == group; i++) {
            struct cell *cell = &c->v[i];
            if (cell->carry == 0) continue;
            cell->sum = wide_clip((struct wide){cell->sum, cell->carry});
            cell->carry = 0;
            clipped++;
        }
        if (clipped && !fn(arg, c->groups[group], clipped, e)) return false;
    }
    return true;
}

// ---- the wire

bool cells_encode(const struct cells *c, cell_encode_fn *encode, struct buf *out, uint32_t field,
                  err *e)
{
    assert(c->finished);
    for (uint32_t i = 0; i < c->n;) {
        uint32_t group = c->v[i].group;
        size_t mark = pb_begin(out, field);
        labels_put_set(c->groups[group], out, 1);
        for (; i < c->n && c->v[i].group == group; i++) {
            if (!encode(c, &c->v[i], out, e)) return false;
        }
        pb_end(out, mark);
    }
    return true;
}

// Two passes over the message, because the group's labels may come behind its cells.
bool cells_merge_bytes(struct cells *c, str bytes, cell_merge_fn *merge, err *e)
{
    str group = {0};
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_BYTES) group = r.bytes;
    }
    struct cells_series s = {.lasting = true, .has_group = true};
    if (!pb_done(&r, e) || !labels_decode_set(c->arena, group, &s.ls, e) ||
        !group_at(c, s.ls, true, &s.group, e)) {
        return false;
    }
    r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field == 2 && r.type == PB_BYTES && !merge(c, &s, r.bytes, e)) return false;
    }
    return pb_done(&r, e);
}
