// SPDX-License-Identifier: Apache-2.0
//
// Totals over time. Parents have totals of slots, apart from vectors, so a series needs no stack:
// these are read as frames of totals. Under a call site the vectors of nodes are needed, but only
// of nodes in which no point ends. Leaves and segments give rows: their time and total, vectors for
// a call site, spans for exemplars.
#include "aggregate/site.h"
#include "querier/block/block_series.h"

#include <stdlib.h>

// Frames of totals are read so much at a time.
#define CHUNK_BYTES ((uint64_t)8 << 20)
#define CHUNK_GETS  256u

// Totals of a key within a piece.
struct take {
    struct block_unit *unit;
    uint32_t key;
    struct cells_series *series;
    int64_t from_ns;
    int64_t to_ns;
};

// A frame of totals, and which of them are added.
struct frame {
    struct block_unit *unit;
    uint32_t frame;
    const struct take *takes;  // of the unit
    size_t take_count;
};

struct totals_unit {
    struct site site;
    struct block_series series;
};

struct totals {
    struct block_walk *w;
    const struct totals_want *q;
    struct points points;
    struct arena scratch;
    struct block_scans scans;
    struct take *takes;
    size_t take_count;
    size_t take_cap;
    struct block_nodes nodes;  // of a call site
    struct block_unit *unit;   // that nodes are being chosen of
    uint32_t key;
    bool weighing;  // nothing is read or added
};

// ---- what to read

// Sampled series are in keys of class SERIES only, whichever class the others are read from.
static bool is_taken(const struct totals *t, const struct block_unit *u, uint32_t key,
                     const enum block_class *classes)
{
    const struct block_key_ref *k = &u->index->keys[key];
    if (!u->asked[k->type]) return false;
    if (k->sampled) {
        return t->q->include_sampled && block_is_meant(t->w, u, key, BLOCK_SERIES);
    }
    return block_is_meant(t->w, u, key, classes[k->type]);
}

static bool note_node(void *arg, const struct block_node_ref *node, err *e)
{
    struct totals *t = arg;
    return block_add_node(t->w, &t->nodes, (struct block_node_use){t->unit, node, t->key}, e);
}

// Does the whole node belong to one point? Compares the points of its first and its last ns.
static bool is_of_one_point(const void *arg, const struct block_node *n)
{
    const struct totals *t = arg;
    int64_t first = 0;
    int64_t last = 0;
    bool in = points_at(&t->points, slot_start(n->slot, n->width) + 1, &first);
    bool out = points_at(&t->points, slot_start(n->slot + 1, n->width) - 1, &last);
    return in == out && first == last;
}

static bool take_key(struct totals *t, struct block_unit *u, uint32_t key,
                     const struct level_piece *p, err *e)
{
    assert(key < u->index->key_count && u->of_want);
    const struct block_key_ref *k = &u->index->keys[key];
    struct block_walk *w = t->w;
    if (t->q->call_site_count > 0) {
        const struct block_choice c = {.from_ns = p->from_ns,
                                       .to_ns = p->to_ns,
                                       .may = is_of_one_point,
                                       .fn = note_node,
                                       .arg = t};
        t->unit = u;
        t->key = key;
        return block_nodes_within(u->index, k, &c, e);
    }
    struct totals_unit *own = u->of_want;
    struct take take = {.unit = u, .key = key, .from_ns = p->from_ns, .to_ns = p->to_ns};
    if (!t->weighing && !block_series_of(w, u, &own->series, key, &take.series, e)) return false;
    if (!arena_grow(&w->wave, &t->takes, &t->take_cap, t->take_count + 1, sizeof take)) {
        return block_no_room(w, e);
    }
    t->takes[t->take_count++] = take;
    return true;
}

static bool take_totals(struct totals *t, struct block_unit *u, const struct level_piece *p, err *e)
{
    const struct block_index *x = u->index;
    struct block_walk *w = t->w;
    enum block_class *classes = ARENA_ARRAY(&w->wave, enum block_class, x->type_count);
    if (!classes) return block_no_room(w, e);
    for (uint32_t i = 0; i < x->type_count; i++) {
        if (u->asked[i] && !block_class_for(w, u, i, &classes[i], e)) return false;
    }
    if (!block_select_keys(w, u, e)) return false;
    for (uint32_t i = 0; i < x->key_count; i++) {
        if (is_taken(t, u, i, classes) && !take_key(t, u, i, p, e)) return false;
    }
    return true;
}

static bool begin_unit(struct totals *t, struct block_unit *u, err *e)
{
    struct totals_unit *own = ARENA_NEW(&t->w->wave, struct totals_unit);
    if (!own) return block_no_room(t->w, e);
    u->of_want = own;
    if (t->weighing) return true;
    if (!block_series_init(t->w, u, &own->series, e)) return block_no_room(t->w, e);
    assert(u->index && (t->q->call_site_count == 0 || u->symbols));
    own->site = (struct site){.names = t->q->call_site, .n = t->q->call_site_count};
    if (own->site.n == 0) {
        own->site.stacks = u->index->stack_count;
        return true;
    }
    uint32_t *matched = ARENA_ARRAY(&t->w->wave, uint32_t, u->symbols->stack_count);
    if (!matched) return block_no_room(t->w, e);
    site_match(&own->site, u->symbols, matched);
    return true;
}

static bool add_unit(struct totals *t, struct block_unit *u, err *e)
{
    err why = {0};
    bool ok = begin_unit(t, u, &why);
    for (size_t i = 0; ok && i < u->piece_count; i++) {
        const struct level_piece *p = u->pieces[i];
        ok = block_has_rows(u) ? block_scan_unit(t->w, u, p, t->q->include_sampled, &t->scans, &why)
                               : take_totals(t, u, p, &why);
    }
    return ok || block_note(t->w, u->object, &why, e);
}

// ---- totals

// The point that a slot counts in: that of its last ns but one, so that a border a nanosecond
// before the slot's end (border_of in block_read.c) counts as its end. Where rows are gone, the
// last slot may reach beyond the last point, and counts there.
static bool point_of_slot(const struct points *p, int64_t slot, int64_t width, int64_t *point)
{
    int64_t start = slot_start(slot, width);
    int64_t end = slot_start(slot + 1, width);
    // Slots come from blocks: one of no time at all belongs to no point, and has no ns before it.
    if (start == INT64_MIN || end == INT64_MAX) return false;
    if (points_at(p, end - 1, point)) return true;
    if (!points_at(p, start + 1, point)) return false;
    *point = p->count - 1;
    return true;
}

static bool add_sum(struct totals *t, struct cells_series *s, int64_t point, struct wide sum,
                    uint64_t profiles, err *e)
{
    struct cells *c = &t->w->m->totals;
    uint32_t cell = 0;
    if (!cells_at(c, s, point, 0, &cell, e)) return false;
    cells_add_wide(c, cell, sum, profiles);
    return true;
}

static bool add_node(void *arg, const struct block_node_use *use, str columns, err *e)
{
    struct totals *t = arg;
    const struct block_node *n = &use->node->node;
    struct totals_unit *own = use->unit->of_want;
    struct cells_series *s = NULL;
    int64_t point = 0;
    struct wide sum = {0};
    bool any = false;
    if (!point_of_slot(&t->points, n->slot, n->width, &point)) return true;
    return block_series_of(t->w, use->unit, &own->series, use->tag, &s, e) &&
           site_sum_columns(&own->site, &t->scratch, columns, use->node->factor, &sum, &any, e) &&
           add_sum(t, s, point, sum, n->profiles, e);
}

static bool add_take(struct totals *t, const struct take *take, const struct block_frame *f,
                     const struct block_total *v, err *e)
{
    const struct block_unit *u = take->unit;
    const struct block_key_ref *k = &u->index->keys[take->key];
    int64_t width = block_kind_of(u) == BLOCK_DAYS ? SLOT_HOUR : SLOT_MINUTE;
    uint64_t lo = MAX(k->first_total, f->first);
    uint64_t hi = MIN(k->first_total + k->total_count, f->first + f->count);
    for (uint64_t i = lo; i < hi; i++) {
        const struct block_total *total = &v[i - f->first];
        int64_t start = slot_start(total->slot, width);
        int64_t end = slot_start(total->slot + 1, width);
        int64_t point = 0;
        if (start < take->from_ns || end > take->to_ns) continue;
        if (point_of_slot(&t->points, total->slot, width, &point) &&
            !add_sum(t, take->series, point, (struct wide){.low = total->sum}, total->profiles,
                     e)) {
            return false;
        }
    }
    return true;
}

static bool use_frame(struct totals *t, const struct frame *f, const struct block_get *got, err *e)
{
    const struct block_frame *at = &f->unit->index->totals.v[f->frame];
    struct block_total *v = NULL;
    struct arena a;
    str bytes;
    err why = {0};
    if (f->unit->object->faulty) return true;
    arena_init(&a, &t->w->m->memory, SIZE_MAX);
    bool ok = block_contents(t->w, &a, &at->extent, got, "totals", &bytes, &why) &&
              block_totals_parse(&a, bytes, at->count, &v, &why);
    for (size_t i = 0; ok && i < f->take_count; i++)
        ok = add_take(t, &f->takes[i], at, v, &why);
    arena_release(&a);
    return ok || block_note(t->w, f->unit->object, &why, e);
}

static bool use_frames(struct totals *t, const struct frame *v, size_t n, err *e)
{
    struct block_get gets[CHUNK_GETS];
    struct block_io io = {0};
    assert(n <= CHUNK_GETS);
    for (size_t i = 0; i < n; i++) {
        const struct block_extent *x = &v[i].unit->index->totals.v[v[i].frame].extent;
        gets[i] =
            (struct block_get){.object = v[i].unit->object->object, .at = x->at, .n = x->stored};
    }
    bool ok = block_fetch(t->w, &io, gets, n, e);
    for (size_t i = 0; ok && i < n; i++)
        ok = req_alive(t->w->req, e) && use_frame(t, &v[i], &gets[i], e);
    block_io_release(t->w, &io);
    return ok;
}

// Has the frame totals of any of these keys?
static bool overlaps(const struct block_frame *f, const struct take *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct block_key_ref *k = &v[i].unit->index->keys[v[i].key];
        if (k->first_total < f->first + f->count && f->first < k->first_total + k->total_count) {
            return true;
        }
    }
    return false;
}

static bool read_totals(struct totals *t, err *e)
{
    struct frame frames[CHUNK_GETS];
    size_t n = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < t->take_count;) {
        struct block_unit *u = t->takes[i].unit;
        size_t to = i + 1;
        while (to < t->take_count && t->takes[to].unit == u)
            to++;
        for (uint32_t f = 0; f < u->index->totals.n; f++) {
            const struct block_frame *at = &u->index->totals.v[f];
            if (!overlaps(at, &t->takes[i], to - i)) continue;
            if (n == CHUNK_GETS || (n && bytes + at->extent.raw > CHUNK_BYTES)) {
                if (!use_frames(t, frames, n, e)) return false;
                n = 0;
                bytes = 0;
            }
            assert(n < CHUNK_GETS);
            frames[n++] = (struct frame){u, f, &t->takes[i], to - i};
            bytes += at->extent.raw;
        }
        i = to;
    }
    return use_frames(t, frames, n, e);
}

// ---- rows

static bool add_row(void *arg, const struct block_hit *h, str columns, err *e)
{
    struct totals *t = arg;
    struct totals_unit *own = h->unit->of_want;
    const struct source_row r = block_source_row(h, columns, &own->site, &t->scratch);
    struct cells_series *s = NULL;
    return block_series_of(t->w, h->unit, &own->series, h->key, &s, e) &&
           totals_add_row(&t->w->m->totals, t->q, s, &r, e);
}

static bool choose(struct totals *t, struct block_unit *v, size_t n, err *e)
{
    bool ok = totals_check(t->q, e);
    for (size_t i = 0; ok && i < n; i++)
        ok = v[i].object->faulty || (req_alive(t->w->req, e) && add_unit(t, &v[i], e));
    return ok;
}

static struct block_rows rows_of(const struct totals_want *q)
{
    return (struct block_rows){.details = true,
                               .vectors = q->call_site_count > 0,
                               .spans = q->exemplars == EXEMPLAR_SPAN};
}

// Frames of totals have those of several keys, so each counts once for a unit.
static uint64_t weigh_frames(const struct totals *t)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < t->take_count;) {
        const struct block_frames *frames = &t->takes[i].unit->index->totals;
        size_t to = i + 1;
        while (to < t->take_count && t->takes[to].unit == t->takes[i].unit)
            to++;
        for (uint32_t f = 0; f < frames->n; f++) {
            const struct block_extent *x = &frames->v[f].extent;
            if (overlaps(&frames->v[f], &t->takes[i], to - i)) bytes += x->stored + x->raw;
        }
        i = to;
    }
    return bytes;
}

bool block_totals_weigh(struct block_walk *w, struct block_unit *v, size_t n, uint64_t *bytes,
                        err *e)
{
    const struct totals_want *q = &w->ask.q->totals;
    struct totals t = {.w = w, .q = q, .points = totals_points(q), .weighing = true};
    const struct block_rows rows = rows_of(q);
    if (!choose(&t, v, n, e)) return false;
    *bytes += weigh_frames(&t) + block_weigh_nodes(&t.nodes) +
              block_weigh_rows(t.scans.v, t.scans.n, &rows);
    return true;
}

bool block_read_totals(struct block_walk *w, struct block_unit *v, size_t n, err *e)
{
    struct totals t = {.w = w, .q = &w->ask.q->totals, .points = totals_points(&w->ask.q->totals)};
    struct block_rows rows = rows_of(t.q);
    rows.fn = add_row;
    rows.arg = &t;
    arena_init(&t.scratch, &w->m->memory, SIZE_MAX);
    bool ok = choose(&t, v, n, e);
    ok = ok && read_totals(&t, e) && block_read_nodes(w, &t.nodes, add_node, &t, e) &&
         block_scan_rows(w, t.scans.v, t.scans.n, &rows, e);
    arena_release(&t.scratch);
    return ok;
}
