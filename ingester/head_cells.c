// SPDX-License-Identifier: Apache-2.0
#include "ingester/head_cells.h"

#include "base/hash.h"

#include <stdlib.h>

// walk_labels takes no names for all of them; here it is none of them.
static const str none;

void cells_init(struct cells *c, struct arena *a, struct mem_budget *memory, const str *group_by,
                size_t group_by_count, bool with_best)
{
    *c = (struct cells){.arena = a,
                        .group_by = group_by_count ? group_by : &none,
                        .group_by_count = group_by_count,
                        .with_best = with_best,
                        .room.arena = a};
    map_init(&c->by_labels, memory);
    map_init(&c->by_key, memory);
    map_init(&c->by_note, memory);
}

void cells_release(struct cells *c)
{
    map_release(&c->by_labels);
    map_release(&c->by_key);
    map_release(&c->by_note);
}

// ---- groups

struct group_key {
    const struct cells *c;
    labels ls;
};

static bool same_group(const void *ctx, uint32_t row)
{
    const struct group_key *k = ctx;
    return labels_eq(k->c->groups[row], k->ls);
}

bool cells_group(struct cells *c, const struct service_head *s, uint32_t series, uint32_t *group,
                 err *e)
{
    labels ls;
    if (!walk_labels(&c->room, s, series, c->group_by, c->group_by_count, &ls, e)) return false;
    struct group_key key = {c, ls};
    uint64_t hash = labels_hash(ls);
    *group = map_find(&c->by_labels, hash, same_group, &key);
    if (*group != MAP_NONE) return true;
    if (!arena_grow(c->arena, &c->groups, &c->group_cap, (size_t)c->group_count + 1,
                    sizeof *c->groups)) {
        return arena_ok(c->arena, e);
    }
    c->groups[c->group_count] = labels_copy(c->arena, ls);
    if (!arena_ok(c->arena, e) || !map_put(&c->by_labels, hash, c->group_count, e)) return false;
    *group = c->group_count++;
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

bool cells_at(struct cells *c, uint32_t group, int64_t point, uint32_t bucket, uint32_t *row,
              err *e)
{
    struct cell_key key = {c, group, bucket, point};
    uint64_t hash = hash_table_and(hash_table_and(hash_table_word(group), (uint64_t)point), bucket);
    *row = map_find(&c->by_key, hash, same_cell, &key);
    if (*row != MAP_NONE) return true;
    if (!arena_grow(c->arena, &c->v, &c->cap, (size_t)c->n + 1, sizeof *c->v)) {
        return arena_ok(c->arena, e);
    }
    if (c->with_best &&
        !arena_grow(c->arena, &c->best, &c->best_cap, (size_t)c->n + 1, sizeof *c->best)) {
        return arena_ok(c->arena, e);
    }
    c->v[c->n] = (struct cell){.group = group, .bucket = bucket, .point = point, .best = c->n};
    if (c->with_best) c->best[c->n] = (struct found){0};
    if (!map_put(&c->by_key, hash, c->n, e)) return false;
    *row = c->n++;
    return true;
}

void cells_offer(struct cells *c, uint32_t row, const struct found *f)
{
    if (found_before(f, &c->best[row])) c->best[row] = *f;
}

static int by_place(const void *a, const void *b)
{
    const struct cell *x = a;
    const struct cell *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    if (x->point != y->point) return x->point < y->point ? -1 : 1;
    return x->bucket < y->bucket ? -1 : x->bucket > y->bucket;
}

void cells_sort(struct cells *c)
{
    if (c->n) qsort(c->v, c->n, sizeof *c->v, by_place);
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

bool cells_note(struct cells *c, uint32_t row, const struct row_notes *notes, err *e)
{
    for (uint32_t i = 0; i < notes->count; i++) {
        struct note_key key = {c, row, row_note(notes, i)};
        uint64_t hash =
            hash_table_and(hash_table_and(hash_table_word(row), hash_table_str(key.note.name)),
                           hash_table_str(key.note.value));
        if (map_find(&c->by_note, hash, same_note, &key) != MAP_NONE) continue;
        if (!arena_grow(c->arena, &c->notes, &c->note_cap, (size_t)c->note_count + 1,
                        sizeof *c->notes)) {
            return arena_ok(c->arena, e);
        }
        c->notes[c->note_count] = (struct cell_note){row, c->v[row].notes, key.note};
        if (!map_put(&c->by_note, hash, c->note_count, e)) return false;
        c->v[row].notes = ++c->note_count;
    }
    return true;
}

bool cells_notes(const struct cells *c, const struct cell *cell, const label **out, size_t *n,
                 err *e)
{
    *n = 0;
    *out = NULL;
    for (uint32_t at = cell->notes; at; at = c->notes[at - 1].next)
        ++*n;
    if (*n == 0) return true;
    label *v = ARENA_ARRAY(c->arena, label, *n);
    if (!v) return arena_ok(c->arena, e);
    size_t used = 0;
    for (uint32_t at = cell->notes; at; at = c->notes[at - 1].next)
        v[used++] = c->notes[at - 1].note;
    qsort(v, used, sizeof *v, label_order);
    *out = v;
    return true;
}
