// SPDX-License-Identifier: Apache-2.0
//
// Finds the rows of blocks that may be elsewhere as well (model/loose.h): those with attempt > 0,
// of which footers say whether a service has any, and copies of rows that heads named.
#include "querier/block/block_int.h"

struct loose_read {
    struct block_walk *w;
    const struct block_loose *want;
    struct block_scans scans;
};

// Are rows with a placing loose in this object?
static bool goes_by_ids(const struct block_loose *want, const struct block_unit *u)
{
    return want->identified && u->object->footer->about.kind == BLOCK_SEGMENT;
}

static bool tell(void *arg, const struct block_hit *h, str columns, err *e)
{
    const struct block_loose *want = ((struct loose_read *)arg)->want;
    struct loose_key key = {labels_fingerprint(h->unit->index->keys[h->key].ls), h->id};
    (void)columns;
    bool loose = h->attempt > 0 || (h->identified && goes_by_ids(want, h->unit));
    if (!loose && !(want->wanted && loose_find(want->wanted, key))) return true;
    return want->fn(want->arg, h->unit->object->object, key, e);
}

static bool has_loose(const struct block_walk *w, const struct block_loose *want,
                      const struct block_unit *u, bool *has, err *e)
{
    bool by_ids = goes_by_ids(want, u);
    *has = false;
    for (uint32_t i = 0; i < u->service->dataset_count && !*has; i++) {
        const struct block_dataset *d = &u->service->datasets[i];
        if (d->loose == 0 && !(by_ids && d->placed > 0)) continue;
        if (!block_asks_type(w->ask.q, u->service->name, d->type, has, e)) return false;
    }
    return true;
}

// Of the objects that have something of the question. True: they differ.
static bool add_placings(const struct block_walk *w, const struct block_loose *want)
{
    if (!want->placings) return false;
    for (size_t i = 0; i < w->unit_count; i++)
        placings_join(want->placings, &w->units[i].object->footer->about.placings);
    return placings_differ(want->placings);
}

// Keeps the units that may have such rows.
static bool keep_suspects(struct block_walk *w, const struct block_loose *want, err *e)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->unit_count; i++) {
        struct block_unit *u = &w->units[i];
        bool suspect = u->object->may_skip;
        if (!block_has_rows(u)) continue;
        if (!suspect && !has_loose(w, want, u, &suspect, e)) return false;
        if (suspect) w->units[kept++] = *u;
    }
    w->unit_count = kept;
    return true;
}

static bool read_wave(void *arg, struct block_walk *w, struct block_unit *v, size_t n, err *e)
{
    const struct block_loose *want = arg;
    struct loose_read t = {.w = w, .want = want};
    const struct block_rows rows = {.details = true, .fn = tell, .arg = &t};
    for (size_t i = 0; i < n; i++) {
        err why = {0};
        bool ok = true;
        size_t from = t.scans.n;
        for (size_t k = 0; ok && k < v[i].piece_count; k++)
            ok = block_scan_unit(w, &v[i], v[i].pieces[k], true, &t.scans, &why);
        for (size_t k = from; k < t.scans.n; k++) {
            t.scans.v[k].loose_only = !v[i].object->may_skip;
            t.scans.v[k].identified = goes_by_ids(want, &v[i]);
        }
        if (!ok && !block_note(w, v[i].object, &why, e)) return false;
    }
    // `skip` gave the rows that are sought to block_walk_begin (may_skip). From here on it would
    // hide them.
    w->ask.skip = NULL;
    return block_scan_rows(w, t.scans.v, t.scans.n, &rows, e);
}

bool block_read_loose(struct blocks *b, struct req *r, const struct query *q,
                      const struct level_plan *p, const struct block_loose *want,
                      struct block_reads *out, err *e)
{
    struct merged m = {0};  // for its budget
    mem_budget_init(&m.memory, "querier.query_memory", r->arena.budget, 0);
    struct block_loose looked_for = *want;
    struct block_walk w = {
        .blocks = b, .req = r, .m = &m, .out = out, .ask = {.q = q, .skip = want->wanted}};
    bool ok = block_walk_begin(&w, p, e);
    bool differ = ok && add_placings(&w, want);
    if (ok && (!differ || want->identified || want->anyway))
        ok = keep_suspects(&w, want, e) && block_walk_waves(&w, read_wave, &looked_for, e);
    block_walk_end(&w);
    return ok;
}
