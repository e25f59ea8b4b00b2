// SPDX-License-Identifier: Apache-2.0
//
// Labels: of each key that has a profile in the range. The cheapest proof serves: footers (first
// and last profile of a type), then times of nodes, then rows.
#include "querier/block/block_series.h"

struct labels_read {
    struct block_walk *w;
    const struct query_labels *q;
    struct block_scans scans;
};

// ---- showing labels

static bool show(struct block_walk *w, labels ls, err *e)
{
    const struct query_labels *q = &w->ask.q->labels;
    if (q->names_only) {
        for (size_t i = 0; i < ls.n; i++) {
            if (!label_sets_add_name(&w->m->names, ls.v[i].name, e)) return false;
        }
        return true;
    }
    if (q->name_count == 0) return label_sets_add(&w->m->sets, ls, e);
    label *v = ARENA_ARRAY(&w->wave, label, MIN(ls.n, q->name_count));
    size_t kept = 0;
    if (!v) return block_no_room(w, e);
    for (size_t i = 0; i < ls.n && kept < q->name_count; i++) {
        if (str_among(ls.v[i].name, q->names, q->name_count)) v[kept++] = ls.v[i];
    }
    return label_sets_add(&w->m->sets, (labels){v, kept}, e);
}

static bool show_type(struct block_walk *w, const struct block_unit *u, str type, err *e)
{
    const label of_all[] = {{S(LABEL_PROFILE_TYPE), type}, {S(LABEL_SERVICE), u->service->name}};
    return show(w, (labels){of_all, COUNT(of_all)}, e);
}

// ---- by footers: their first and last times of a type are times of profiles, so if a piece has
// one of them, it has a profile. A piece between the two may have none

enum found {
    NOTHING,
    THERE,
    PERHAPS
};

static enum found find_in_footer(const struct block_unit *u, const struct block_dataset *d)
{
    enum found found = NOTHING;
    for (size_t i = 0; i < u->piece_count; i++) {
        const struct level_piece *p = u->pieces[i];
        if (block_within(p, d->first_ns) || block_within(p, d->last_ns)) return THERE;
        if (block_touches(p, d->first_ns, d->last_ns)) found = PERHAPS;
    }
    return found;
}

bool block_labels_by_footer(struct block_walk *w, const struct block_unit *u, bool *done, err *e)
{
    *done = true;
    for (uint32_t i = 0; i < u->service->dataset_count; i++) {
        const struct block_dataset *d = &u->service->datasets[i];
        bool asked = false;
        if (!block_asks_type(w->ask.q, u->service->name, d->type, &asked, e)) return false;
        if (!asked) continue;
        enum found found = find_in_footer(u, d);
        if (found == PERHAPS) *done = false;
        if (found == THERE && !show_type(w, u, d->type, e)) return false;
    }
    return true;
}

// ---- by keys

// Parents have rows no more, so a node stands for its profiles: its first and last time are some.
static bool has_node(const struct block_index *x, const struct block_key_ref *k,
                     const struct level_piece *p)
{
    for (uint32_t i = k->node_count; i-- > 0;) {
        const struct block_node *n = &x->nodes[k->first_node + i].node;
        if (block_within(p, n->first_ns) || block_within(p, n->last_ns)) return true;
    }
    return false;
}

// Are all profiles of the type within the piece? Then every key of it has one there.
static bool holds_type(const struct level_piece *p, const struct block_unit *u, str type)
{
    for (uint32_t i = 0; i < u->service->dataset_count; i++) {
        const struct block_dataset *d = &u->service->datasets[i];
        if (str_eq(d->type, type)) {
            return block_within(p, d->first_ns) && block_within(p, d->last_ns);
        }
    }
    return false;
}

// Shows the key if it surely has a profile in the piece; if that is not sure, its rows are scanned.
static bool add_key(struct labels_read *t, struct block_unit *u, uint32_t key,
                    const struct level_piece *p, err *e)
{
    const struct block_index *x = u->index;
    const struct block_key_ref *k = &x->keys[key];
    if (!block_has_rows(u)) return !has_node(x, k, p) || show(t->w, k->ls, e);
    if (k->row_count == 0) return true;
    if (holds_type(p, u, x->types[k->type])) return show(t->w, k->ls, e);
    struct block_scan scan = {.unit = u, .key = key, .from_ns = p->from_ns, .to_ns = p->to_ns};
    return block_add_scan(t->w, &t->scans, scan, e);
}

static bool add_keys(struct labels_read *t, struct block_unit *u, enum block_class class, err *e)
{
    if (!block_select_keys(t->w, u, e)) return false;
    for (uint32_t i = 0; i < u->index->key_count; i++) {
        if (!block_is_meant(t->w, u, i, class)) continue;
        for (size_t k = 0; k < u->piece_count; k++) {
            if (!add_key(t, u, i, u->pieces[k], e)) return false;
        }
    }
    return true;
}

static bool add_unit(struct labels_read *t, struct block_unit *u, err *e)
{
    err why = {0};
    uint32_t classes = u->object->footer->about.classes;
    bool ok = classes & 1u << BLOCK_SERIES
                  ? add_keys(t, u, BLOCK_SERIES, &why)
                  : err_set(&why, ERR_FAILED_PRECONDITION, "it no longer has its series");
    return ok || block_note(t->w, u->object, &why, e);
}

static bool show_row(void *arg, const struct block_hit *h, str columns, err *e)
{
    struct labels_read *t = arg;
    (void)columns;
    return show(t->w, h->unit->index->keys[h->key].ls, e);
}

bool block_read_labels(struct block_walk *w, struct block_unit *v, size_t n, err *e)
{
    struct labels_read t = {.w = w, .q = &w->ask.q->labels};
    struct block_rows rows = {.fn = show_row, .arg = &t};
    for (size_t i = 0; i < n; i++) {
        if (!req_alive(w->req, e)) return false;
        if (!v[i].object->faulty && !add_unit(&t, &v[i], e)) return false;
    }
    return block_scan_rows(w, t.scans.v, t.scans.n, &rows, e);
}
