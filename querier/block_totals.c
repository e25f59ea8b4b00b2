// SPDX-License-Identifier: Apache-2.0
#include "model/columns.h"
#include "querier/block_cells.h"

#include <stdlib.h>

#define CHUNK_BYTES ((uint64_t)8 << 20)
#define CHUNK_GETS  256u

// Totals of a key within a piece.
struct take {
    struct block_unit *unit;
    uint32_t key;
    uint32_t group;
    int64_t from_ns;
    int64_t to_ns;
};

// A frame of totals and what is taken of it.
struct frame {
    struct block_unit *unit;
    uint32_t frame;
    const struct take *takes;  // of the unit
    size_t take_count;
};

struct totals_unit {
    struct block_matched matched;
    uint32_t *groups;  // by key, 1 + number; 0: not looked for yet
};

struct totals {
    struct block_walk *w;
    const struct query_totals *q;
    struct block_site site;
    struct block_scans scans;
    struct take *takes;
    size_t take_count;
    size_t take_cap;
    struct block_nodes nodes;  // of a call site
    struct block_unit *unit;   // that nodes are being chosen of
    uint32_t group;
};

// The point whose slot (first + (k-1) * step, first + k * step] holds the time: the quotient
// rounded up. False if it is none of the asked ones.
static bool point_of(const struct query_totals *q, int64_t time_ns, int64_t *point)
{
    int64_t distance = 0;
    if (__builtin_sub_overflow(time_ns, q->first_ns, &distance)) return false;
    if (distance <= -q->step_ns) return false;
    *point = distance / q->step_ns + (distance % q->step_ns > 0);
    return *point < q->points;
}

static bool group_of(struct totals *t, struct block_unit *u, uint32_t key, uint32_t *group, err *e)
{
    struct totals_unit *own = u->of_want;
    if (own->groups[key] == 0) {
        if (!block_group(t->w, u, key, t->q->group_by, t->q->group_by_count, group, e)) {
            return false;
        }
        own->groups[key] = *group + 1;
    }
    *group = own->groups[key] - 1;
    return true;
}

// ---- what to read

// Sampled series are in keys of their own, whatever the class.
static bool is_taken(const struct totals *t, const struct block_unit *u, uint32_t key,
                     const enum block_class *classes)
{
    const struct block_key_ref *k = &u->index->keys[key];
    if (!block_asks_type(t->w->q, u->service->name, u->index->types[k->type])) return false;
    if (k->sampled) {
        return t->q->include_sampled && block_is_meant(t->w, u, key, BLOCK_SERIES);
    }
    return block_is_meant(t->w, u, key, classes[k->type]);
}

// Nodes within which no border of points lies.
static bool note_node(void *arg, const struct block_node_ref *node, err *e)
{
    struct totals *t = arg;
    return block_add_node(t->w, &t->nodes, (struct block_node_use){t->unit, node, t->group}, e);
}

static bool is_of_one_point(const void *arg, const struct block_node *n)
{
    const struct totals *t = arg;
    int64_t first = 0;
    int64_t last = 0;
    bool in = point_of(t->q, slot_start(n->slot, n->width) + 1, &first);
    bool out = point_of(t->q, slot_start(n->slot + 1, n->width) - 1, &last);
    return in == out && first == last;
}

static bool take_key(struct totals *t, struct block_unit *u, uint32_t key, uint32_t group,
                     const struct level_piece *p, err *e)
{
    const struct block_key_ref *k = &u->index->keys[key];
    struct block_walk *w = t->w;
    if (t->q->call_site_count > 0) {
        const struct block_choice c = {.from_ns = p->from_ns,
                                       .to_ns = p->to_ns,
                                       .may = is_of_one_point,
                                       .fn = note_node,
                                       .arg = t};
        t->unit = u;
        t->group = group;
        return block_nodes_within(u->index, k, &c, e);
    }
    struct take take = {
        .unit = u, .key = key, .group = group, .from_ns = p->from_ns, .to_ns = p->to_ns};
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
        if (block_asks_type(w->q, u->service->name, x->types[i]) &&
            !block_class_for(w, u, i, &classes[i], e)) {
            return false;
        }
    }
    if (!block_select_keys(w, u, e)) return false;
    for (uint32_t i = 0; i < x->key_count; i++) {
        uint32_t group = 0;
        if (!is_taken(t, u, i, classes)) continue;
        if (!group_of(t, u, i, &group, e) || !take_key(t, u, i, group, p, e)) return false;
    }
    return true;
}

static bool begin_unit(struct totals *t, struct block_unit *u, err *e)
{
    struct totals_unit *own = ARENA_NEW(&t->w->wave, struct totals_unit);
    if (!own) return block_no_room(t->w, e);
    own->groups = ARENA_ARRAY(&t->w->wave, uint32_t, u->index->key_count);
    if (!own->groups) return block_no_room(t->w, e);
    u->of_want = own;
    return block_site_know(&t->site, t->w, u, &own->matched, e);
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

// Where rows are gone the last border may lie within a slot; and where a border is a nanosecond
// before a slot's end, the slot is taken as ending there.
static bool point_of_slot(const struct query_totals *q, int64_t slot, int64_t width, int64_t *point)
{
    if (point_of(q, slot_start(slot + 1, width) - 1, point)) return true;
    if (!point_of(q, slot_start(slot, width) + 1, point)) return false;
    *point = q->points - 1;
    return true;
}

static bool add_sum(struct totals *t, uint32_t row, int64_t sum, uint64_t profiles, err *e)
{
    struct merged_total *to = &t->w->m->totals[row];
    to->profiles += profiles;
    if (sum_add(&to->sum, sum)) return true;
    return err_set(e, ERR_OUT_OF_RANGE, "the sum of point %lld does not fit 64 bits",
                   (long long)to->point);
}

static bool add_total(struct totals *t, const struct take *take, const struct block_total *v,
                      int64_t width, err *e)
{
    int64_t point = 0;
    uint32_t row = 0;
    if (!point_of_slot(t->q, v->slot, width, &point)) return true;
    return block_total_at(t->w, take->group, point, &row, e) &&
           add_sum(t, row, v->sum, v->profiles, e);
}

static bool add_node(void *arg, const struct block_node_use *use, str columns, err *e)
{
    struct totals *t = arg;
    const struct block_node *n = &use->node->node;
    const struct totals_unit *own = use->unit->of_want;
    int64_t point = 0;
    int64_t sum = 0;
    bool any = false;
    uint32_t row = 0;
    if (!point_of_slot(t->q, n->slot, n->width, &point)) return true;
    return block_site_sum(&t->site, &own->matched, columns, &sum, &any, e) &&
           (!__builtin_mul_overflow(sum, use->node->factor, &sum) || block_no_value(e)) &&
           block_total_at(t->w, use->tag, point, &row, e) && add_sum(t, row, sum, n->profiles, e);
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
        if (start < take->from_ns || end > take->to_ns) continue;
        if (!add_total(t, take, total, width, e)) return false;
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
    bool ok = block_contents(&a, &at->extent, got, "totals", &bytes, &why) &&
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
            frames[n++] = (struct frame){u, f, &t->takes[i], to - i};
            bytes += at->extent.raw;
        }
        i = to;
    }
    return use_frames(t, frames, n, e);
}

// ---- rows

static bool offer(struct totals *t, const struct block_hit *h, uint32_t row, int64_t value, err *e)
{
    const struct totals_unit *own = h->unit->of_want;
    struct block_walk *w = t->w;
    const struct merged_exemplar *best = w->m->totals[row].exemplar;
    struct block_offered o = {h, NULL, value, t->q->group_by, t->q->group_by_count};
    bool ok = true;
    if (t->q->exemplars == QUERY_PROFILES) ok = block_offer(w, &o, &best, e);
    bool of_spans = t->q->exemplars == QUERY_SPANS && h->spans;
    for (uint32_t i = 0; ok && of_spans && i < h->spans->n; i++) {
        bool any = false;
        o.span = &h->spans->v[i];
        if (o.span->span_id == 0) continue;
        ok = block_site_sum(&t->site, &own->matched, o.span->vector, &o.value, &any, e) &&
             (!any || block_offer(w, &o, &best, e));
    }
    w->m->totals[row].exemplar = best;
    return ok;
}

// What of a row lies under the call site.
static bool value_of(struct totals *t, const struct block_hit *h, str columns, int64_t *value,
                     bool *any, err *e)
{
    const struct totals_unit *own = h->unit->of_want;
    *value = h->total;
    *any = true;
    if (t->site.n == 0) return true;
    return block_site_sum(&t->site, &own->matched, columns, value, any, e) &&
           (!__builtin_mul_overflow(*value, h->factor, value) || block_no_value(e));
}

static bool add_row(void *arg, const struct block_hit *h, str columns, err *e)
{
    struct totals *t = arg;
    struct block_walk *w = t->w;
    int64_t point = 0;
    int64_t value = 0;
    bool any = false;
    uint32_t group = 0;
    uint32_t row = 0;
    if (!point_of(t->q, h->time_ns, &point)) return true;
    if (!group_of(t, h->unit, h->key, &group, e) || !block_total_at(w, group, point, &row, e)) {
        return false;
    }
    if (!value_of(t, h, columns, &value, &any, e)) return false;
    if (!add_sum(t, row, value, 1, e)) return false;
    if (t->q->exemplars && any && !offer(t, h, row, value, e)) return false;
    return h->annotations.n == 0 || block_annotate(w, row, h->annotations, e);
}

bool block_read_totals(struct block_walk *w, struct block_unit *v, size_t n, err *e)
{
    struct totals t = {.w = w, .q = &w->q->totals};
    struct block_rows rows = {.details = true,
                              .vectors = t.q->call_site_count > 0,
                              .spans = t.q->exemplars == QUERY_SPANS,
                              .fn = add_row,
                              .arg = &t};
    block_site_init(&t.site, w, t.q->call_site, t.q->call_site_count);
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++)
        ok = v[i].object->faulty || (req_alive(w->req, e) && add_unit(&t, &v[i], e));
    ok = ok && read_totals(&t, e) && block_read_nodes(w, &t.nodes, add_node, &t, e) &&
         block_scan_rows(w, t.scans.v, t.scans.n, &rows, e);
    block_site_release(&t.site);
    return ok;
}
