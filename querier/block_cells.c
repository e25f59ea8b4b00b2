// SPDX-License-Identifier: Apache-2.0
//
// Sums by (group, point) and counts by (group, slot, bucket): rows of the merged, found by hash, so
// that memory follows the answer and not what was read.
#include "querier/block_cells.h"

#include "base/hash.h"

struct block_cells {
    struct map totals;
    struct map cells;
    struct map sets;
    struct map names;
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
    map_init(&w->cells->totals, &w->m->memory);
    map_init(&w->cells->cells, &w->m->memory);
    map_init(&w->cells->sets, &w->m->memory);
    map_init(&w->cells->names, &w->m->memory);
    map_init(&w->cells->series, &w->m->memory);
    return true;
}

void block_cells_release(struct block_walk *w)
{
    if (!w->cells) return;
    map_release(&w->cells->totals);
    map_release(&w->cells->cells);
    map_release(&w->cells->sets);
    map_release(&w->cells->names);
    map_release(&w->cells->series);
}

bool block_group(struct block_walk *w, const struct block_unit *u, uint32_t key, const str *names,
                 size_t n, uint32_t *group, err *e)
{
    const struct block_key_ref *k = &u->index->keys[key];
    const label of_all[] = {{S(LABEL_PROFILE_TYPE), u->index->types[k->type]},
                            {S(LABEL_SERVICE), u->service->name}};
    labels all = k->class == BLOCK_ALL ? (labels){of_all, COUNT(of_all)} : k->ls;
    label *v = ARENA_ARRAY(&w->wave, label, MIN(all.n, n));
    size_t kept = 0;
    if (!v) return block_no_room(w, e);
    for (size_t i = 0; i < all.n && kept < n; i++) {
        if (str_among(all.v[i].name, names, n)) v[kept++] = all.v[i];
    }
    return merged_group(w->m, (labels){v, kept}, group, e);
}

// ---- totals

struct total_key {
    const struct merged *m;
    uint32_t group;
    int64_t point;
};

static bool same_total(const void *ctx, uint32_t row)
{
    const struct total_key *k = ctx;
    const struct merged_total *t = &k->m->totals[row];
    return t->group == k->group && t->point == k->point;
}

bool block_total_at(struct block_walk *w, uint32_t group, int64_t point, uint32_t *row, err *e)
{
    if (!begin(w, e)) return false;
    struct total_key key = {w->m, group, point};
    uint64_t hash = hash_table_and(hash_table_word(group), (uint64_t)point);
    *row = map_find(&w->cells->totals, hash, same_total, &key);
    if (*row != MAP_NONE) return true;
    return merged_new_total(w->m, group, point, row, e) &&
           map_put(&w->cells->totals, hash, *row, e);
}

// ---- cells of heat maps

struct cell_key {
    const struct merged *m;
    uint32_t group;
    uint32_t bucket;
    int64_t slot;
};

static bool same_cell(const void *ctx, uint32_t row)
{
    const struct cell_key *k = ctx;
    const struct merged_cell *c = &k->m->cells[row];
    return c->group == k->group && c->slot == k->slot && c->bucket == k->bucket;
}

bool block_cell_at(struct block_walk *w, uint32_t group, int64_t slot, uint32_t bucket,
                   uint32_t *row, err *e)
{
    if (!begin(w, e)) return false;
    struct cell_key key = {w->m, group, bucket, slot};
    uint64_t hash = hash_table_and(hash_table_and(hash_table_word(group), (uint64_t)slot), bucket);
    *row = map_find(&w->cells->cells, hash, same_cell, &key);
    if (*row != MAP_NONE) return true;
    return merged_new_cell(w->m, group, slot, bucket, row, e) &&
           map_put(&w->cells->cells, hash, *row, e);
}

// ---- exemplars

static bool labels_without(struct arena *a, labels all, const str *names, size_t n, labels *out)
{
    label *v = ARENA_ARRAY(a, label, all.n);
    size_t kept = 0;
    if (!v) return false;
    for (size_t i = 0; i < all.n; i++) {
        if (!str_among(all.v[i].name, names, n)) v[kept++] = all.v[i];
    }
    *out = labels_copy(a, (labels){v, kept});
    return !a->exhausted;
}

bool block_offer(struct block_walk *w, const struct block_offered *o,
                 const struct merged_exemplar **best, err *e)
{
    const struct block_hit *h = o->hit;
    struct merged_exemplar x = {.profile = h->id, .time_ns = h->time_ns, .value = o->value};
    if (o->span) {
        x.span_id = o->span->span_id;
        x.has_trace = o->span->has_trace;
        x.trace = o->span->trace;
    }
    if (*best && !merged_is_before(&x, *best)) return true;
    struct merged_exemplar *kept = ARENA_NEW(&w->m->arena, struct merged_exemplar);
    labels all = h->unit->index->keys[h->key].ls;
    if (!kept || !labels_without(&w->m->arena, all, o->without, o->without_count, &x.ls)) {
        return block_no_room(w, e);
    }
    *kept = x;
    *best = kept;
    return true;
}

// ---- annotations

static bool has_note(const struct merged_total *t, const label *note)
{
    for (size_t i = 0; i < t->annotation_count; i++) {
        if (label_order(&t->annotations[i], note) == 0) return true;
    }
    return false;
}

bool block_annotate(struct block_walk *w, uint32_t row, labels notes, err *e)
{
    struct merged *m = w->m;
    for (size_t i = 0; i < notes.n; i++) {
        if (has_note(&m->totals[row], &notes.v[i])) continue;
        labels one = labels_copy(&m->arena, (labels){&notes.v[i], 1});
        if (m->arena.exhausted) return block_no_room(w, e);
        struct merged_total more = {.annotations = one.v, .annotation_count = 1};
        if (!merged_total_add(m, &m->totals[row], &more, e)) return false;
    }
    return true;
}

// ---- labels

struct set_key {
    const struct merged *m;
    labels ls;
};

static bool same_set(const void *ctx, uint32_t row)
{
    const struct set_key *k = ctx;
    return labels_eq(k->m->sets[row], k->ls);
}

bool block_set_seen(struct block_walk *w, labels set, err *e)
{
    if (!begin(w, e)) return false;
    struct set_key key = {w->m, set};
    uint64_t hash = labels_hash(set);
    if (map_find(&w->cells->sets, hash, same_set, &key) != MAP_NONE) return true;
    return merged_new_set(w->m, set, e) &&
           map_put(&w->cells->sets, hash, (uint32_t)(w->m->set_count - 1), e);
}

struct name_key {
    const struct merged *m;
    str name;
};

static bool same_name(const void *ctx, uint32_t row)
{
    const struct name_key *k = ctx;
    return str_eq(k->m->names[row], k->name);
}

bool block_name_seen(struct block_walk *w, str name, err *e)
{
    if (!begin(w, e)) return false;
    struct name_key key = {w->m, name};
    uint64_t hash = hash_table_str(name);
    if (map_find(&w->cells->names, hash, same_name, &key) != MAP_NONE) return true;
    return merged_new_name(w->m, name, e) &&
           map_put(&w->cells->names, hash, (uint32_t)(w->m->name_count - 1), e);
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
    w->m->stat_series++;
    return map_put(&c->series, hash, c->print_count++, e);
}
