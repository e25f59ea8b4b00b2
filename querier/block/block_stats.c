// SPDX-License-Identifier: Apache-2.0
//
// Statistics: how many profiles and series there are and from when to when, counted as cheaply as
// blocks allow: by footers where a whole type is meant, else by nodes and the times of rows. Sizes
// are bytes in the store: frames of vectors by the share of rows that count, symbols and indexes of
// whole services. Samples are not counted, as that would take all vectors.
#include "base/hash.h"
#include "querier/block/block_int.h"

struct stats {
    struct block_stats *all;
    struct block_walk *w;
    struct block_scans scans;
};

// ---- series, each once, though many objects have rows of it

void block_stats_init(struct block_stats *s, struct block_walk *w)
{
    *s = (struct block_stats){0};
    map_init(&s->series, &w->m->memory);
}

void block_stats_release(struct block_stats *s)
{
    map_release(&s->series);
}

struct print_key {
    const struct block_stats *s;
    uint64_t print;
};

static bool same_print(const void *ctx, uint32_t row)
{
    const struct print_key *k = ctx;
    return k->s->prints[row] == k->print;
}

static bool count_series(struct stats *t, labels ls, err *e)
{
    struct block_stats *s = t->all;
    struct print_key key = {s, labels_fingerprint(ls)};
    uint64_t hash = hash_table_word(key.print);
    if (map_find(&s->series, hash, same_print, &key) != MAP_NONE) return true;
    if (!arena_grow(&t->w->arena, &s->prints, &s->cap, s->n + 1, sizeof *s->prints)) {
        return block_no_room(t->w, e);
    }
    s->prints[s->n] = key.print;
    t->w->m->there.series++;
    return map_put(&s->series, hash, s->n++, e);
}

// ---- counting

// Are all profiles of the type within the unit's pieces, or none?
static bool is_whole(const struct block_unit *u, const struct block_dataset *d)
{
    for (size_t k = 0; k < u->piece_count; k++) {
        const struct level_piece *p = u->pieces[k];
        bool first = block_within(p, d->first_ns);
        if (first != block_within(p, d->last_ns)) return false;
        if (!first && block_touches(p, d->first_ns, d->last_ns)) return false;
    }
    return true;
}

bool block_stats_by_footer(struct block_walk *w, const struct block_unit *u, bool *done, err *e)
{
    *done = true;
    for (uint32_t i = 0; i < u->service->dataset_count && *done; i++) {
        const struct block_dataset *d = &u->service->datasets[i];
        bool asked = false;
        if (!block_asks_type(w->ask.q, u->service->name, d->type, &asked, e)) return false;
        *done = !asked || is_whole(u, d);
    }
    for (uint32_t i = 0; i < u->service->dataset_count && *done; i++) {
        const struct block_dataset *d = &u->service->datasets[i];
        bool in = false;
        bool asked = false;
        for (size_t k = 0; k < u->piece_count; k++)
            in = in || block_within(u->pieces[k], d->first_ns);
        if (in && !block_asks_type(w->ask.q, u->service->name, d->type, &asked, e)) return false;
        // Footers do not count sampled profiles, but the type is listed, so there is at least one.
        if (asked) inventory_count(&w->m->there, MAX(d->profiles, 1), d->first_ns, d->last_ns);
    }
    return true;
}

static bool add_node(void *arg, const struct block_node_ref *n, err *e)
{
    struct stats *t = arg;
    (void)e;
    inventory_count(&t->w->m->there, n->node.profiles, n->node.first_ns, n->node.last_ns);
    return true;
}

static bool add_key(struct stats *t, struct block_unit *u, uint32_t key, err *e)
{
    const struct block_key_ref *k = &u->index->keys[key];
    struct merged *m = t->w->m;
    uint64_t before = m->there.profiles;
    bool scanned = false;
    for (size_t i = 0; i < u->piece_count; i++) {
        const struct level_piece *p = u->pieces[i];
        struct block_scan scan = {.unit = u, .key = key, .from_ns = p->from_ns, .to_ns = p->to_ns};
        const struct block_choice c = {.from_ns = p->from_ns,
                                       .to_ns = p->to_ns,
                                       .fn = add_node,
                                       .arg = t};
        if (!block_has_rows(u)) {
            if (!block_nodes_within(u->index, k, &c, e)) return false;
        } else if (k->row_count) {
            scanned = true;
            if (!block_add_scan(t->w, &t->scans, scan, e)) return false;
        }
    }
    if (scanned || m->there.profiles == before || !t->w->ask.q->stat_sizes) return true;
    return count_series(t, k->ls, e);
}

static void add_sizes(struct stats *t, const struct block_unit *u, uint64_t meant, uint64_t all)
{
    const struct block_index *x = u->index;
    const struct block_frames *at = block_has_rows(u) ? &x->vectors : &x->nodes_at;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < at->n; i++)
        bytes += at->v[i].extent.stored;
    if (meant == 0) return;
    t->w->m->there.profile_bytes += (uint64_t)((double)bytes * (double)meant / (double)all);
    t->w->m->there.symbol_bytes += u->service->symbols.stored;
    t->w->m->there.index_bytes += u->service->index.stored;
}

static bool add_unit(struct stats *t, struct block_unit *u, err *e)
{
    const struct block_index *x = u->index;
    uint32_t classes = u->object->footer->about.classes;
    enum block_class class = classes & 1u << BLOCK_SERIES ? BLOCK_SERIES : BLOCK_ALL;
    uint64_t meant = 0;
    uint64_t all = 0;
    err why = {0};
    if (class == BLOCK_ALL && !t->w->ask.only_all) {
        err_set(&why, ERR_FAILED_PRECONDITION, "it no longer has all labels of its series");
        return block_note(t->w, u->object, &why, e);
    }
    bool ok = block_select_keys(t->w, u, &why);
    for (uint32_t i = 0; ok && i < x->key_count; i++) {
        uint64_t n = block_has_rows(u) ? x->keys[i].row_count : x->keys[i].node_count;
        all += n;
        if (!block_is_meant(t->w, u, i, class)) continue;
        meant += n;
        ok = add_key(t, u, i, &why);
    }
    if (ok && t->w->ask.q->stat_sizes) add_sizes(t, u, meant, all);
    return ok || block_note(t->w, u->object, &why, e);
}

static bool add_row(void *arg, const struct block_hit *h, str columns, err *e)
{
    struct stats *t = arg;
    (void)columns;
    inventory_count(&t->w->m->there, 1, h->time_ns, h->time_ns);
    return !t->w->ask.q->stat_sizes || count_series(t, h->unit->index->keys[h->key].ls, e);
}

bool block_read_stats(struct block_stats *s, struct block_walk *w, struct block_unit *v, size_t n,
                      err *e)
{
    struct stats t = {.all = s, .w = w};
    struct block_rows rows = {.fn = add_row, .arg = &t};
    for (size_t i = 0; i < n; i++) {
        if (!req_alive(w->req, e)) return false;
        if (!v[i].object->faulty && !add_unit(&t, &v[i], e)) return false;
    }
    return block_scan_rows(w, t.scans.v, t.scans.n, &rows, e);
}
