// SPDX-License-Identifier: Apache-2.0
//
// Label sets, names and series that a walk has seen: found by hash, so that memory follows the
// answer and not what was read.
#include "querier/block_cells.h"

#include "base/hash.h"

struct block_cells {
    struct map series;
    uint64_t *prints;  // of series
    size_t print_cap;
    uint32_t print_count;
};

static bool begin(struct block_walk *w, err *e)
{
    if (w->cells) return true;
    w->cells = ARENA_NEW(&w->arena, struct block_cells);
    if (!w->cells) return block_no_room(w, e);
    map_init(&w->cells->series, &w->m->memory);
    return true;
}

void block_cells_release(struct block_walk *w)
{
    if (!w->cells) return;
    map_release(&w->cells->series);
}

// ---- series

bool block_labels_of(struct block_walk *w, const struct block_unit *u, uint32_t key, labels *out,
                     err *e)
{
    const struct block_key_ref *k = &u->index->keys[key];
    *out = k->ls;
    if (k->class != BLOCK_ALL) return true;
    label *v = ARENA_ARRAY(&w->wave, label, 2);
    if (!v) return block_no_room(w, e);
    v[0] = (label){S(LABEL_PROFILE_TYPE), u->index->types[k->type]};
    v[1] = (label){S(LABEL_SERVICE), u->service->name};
    *out = (labels){v, 2};
    return true;
}

bool block_series_init(struct block_walk *w, const struct block_unit *u, struct block_series *s,
                       err *e)
{
    s->v = ARENA_ARRAY(&w->wave, struct cells_series *, u->index->key_count);
    return s->v || block_no_room(w, e);
}

bool block_series_of(struct block_walk *w, const struct block_unit *u, struct block_series *s,
                     uint32_t key, struct cells_series **out, err *e)
{
    *out = s->v[key];
    if (*out) return true;
    struct cells_series *made = ARENA_NEW(&w->wave, struct cells_series);
    if (!made) return block_no_room(w, e);
    s->v[key] = made;
    *out = made;
    return block_labels_of(w, u, key, &made->ls, e);
}

struct print_key {
    const struct block_cells *c;
    uint64_t print;
};

static bool same_print(const void *ctx, uint32_t row)
{
    const struct print_key *k = ctx;
    return k->c->prints[row] == k->print;
}

bool block_series_seen(struct block_walk *w, labels ls, err *e)
{
    if (!begin(w, e)) return false;
    struct block_cells *c = w->cells;
    struct print_key key = {c, labels_fingerprint(ls)};
    uint64_t hash = hash_table_word(key.print);
    if (map_find(&c->series, hash, same_print, &key) != MAP_NONE) return true;
    if (!arena_grow(&w->arena, &c->prints, &c->print_cap, c->print_count + 1, sizeof *c->prints)) {
        return block_no_room(w, e);
    }
    c->prints[c->print_count] = key.print;
    w->m->there.series++;
    return map_put(&c->series, hash, c->print_count++, e);
}
