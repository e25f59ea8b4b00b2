// SPDX-License-Identifier: Apache-2.0
//
// heatmap.c - SelectHeatmap: the request (read_request), two questions, rows of cells by group
// (make_rows), the message.
#include "querier/request/heatmap.h"

#include "codec/pb.h"
#include "querier/request/exemplar_wire.h"
#include "querier/v1/querier.pb-c.h"

#include <inttypes.h>
#include <stdlib.h>

struct heat_row {
    labels group;  // in the order asked
    const struct cell *cells;
    size_t n;
    uint64_t count;
};

struct heat {
    const Querier__V1__SelectHeatmapRequest *m;
    struct query q;
    struct query_range range;
    struct query_step step;
    struct arena *arena;
};

// ---- the request

static bool check_kinds(struct heat *h, err *e)
{
    enum exemplar_kind asked = EXEMPLAR_NONE;
    switch ((int)h->m->query_type) {
    case QUERIER__V1__HEATMAP_QUERY_TYPE__HEATMAP_QUERY_TYPE_INDIVIDUAL:
        h->q.heat.kind = EXEMPLAR_PROFILE;
        break;
    case QUERIER__V1__HEATMAP_QUERY_TYPE__HEATMAP_QUERY_TYPE_SPAN:
        h->q.heat.kind = EXEMPLAR_SPAN;
        break;
    default:
        return err_set(e, ERR_INVALID_ARGUMENT, "valid heatmap query type must be specified");
    }
    if (!exemplar_wire_type((int)h->m->exemplar_type, &asked, e)) return false;
    h->q.heat.exemplars = asked != EXEMPLAR_NONE;
    if (!h->q.heat.exemplars || asked == h->q.heat.kind) return true;
    const char *kind = asked == EXEMPLAR_PROFILE ? "individual" : "span";
    return err_set(e, ERR_INVALID_ARGUMENT, "%s exemplars only available for %s query type", kind,
                   kind);
}

static bool check_range(struct answer *a, struct heat *h, err *e)
{
    const Querier__V1__SelectHeatmapRequest *m = h->m;
    if (m->limit < 0) {
        return err_set(e, ERR_INVALID_ARGUMENT, "limit must be >= 0, got %" PRId64, m->limit);
    }
    if (m->start != 0 && m->end != 0 && m->start >= m->end) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "start time must be before end time, got start=%" PRId64 " end=%" PRId64,
                       m->start, m->end);
    }
    return query_range(a->limits, a->now_wall_ns, m->start, m->end, &h->range, e) &&
           query_add_heat(&h->q, &h->range, &h->step, e);
}

static bool read_request(struct answer *a, struct heat *h, err *e)
{
    const Querier__V1__SelectHeatmapRequest *m = h->m;
    struct ptype type;
    h->q.selector.most = &a->selectors;
    h->step = (struct query_step){.seconds = m->step, .lead = a->limits->series_lead};
    return check_range(a, h, e) &&
           query_add_type(a->arena, &h->q, str_of(m->profile_typeid), &type, e) &&
           query_add_selector(a->arena, &h->q, str_of(m->label_selector), e) && check_kinds(h, e) &&
           query_names(a->arena, m->group_by, m->n_group_by, a->config->max_labels,
                       &h->q.heat.group_by, &h->q.heat.group_by_count, e);
}

// ---- rows of the answer

static int by_labels(const void *a, const void *b)
{
    const struct heat_row *x = a;
    const struct heat_row *y = b;
    return labels_cmp(x->group, y->group);
}

static int most_first(const void *a, const void *b)
{
    const struct heat_row *x = a;
    const struct heat_row *y = b;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    return labels_cmp(x->group, y->group);
}

static bool make_rows(const struct heat *h, const struct cells *c, struct heat_row **rows,
                      size_t *count, err *e)
{
    struct heat_row *v = ARENA_ARRAY(h->arena, struct heat_row, c->group_count);
    if (!v) return arena_fail(h->arena, e);
    size_t n = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const struct cell *cell = &c->v[i];
        assert(cell->group < c->group_count);
        if (i == 0 || cell->group != cell[-1].group) {
            v[n++] = (struct heat_row){.group = c->groups[cell->group], .cells = cell};
        }
        v[n - 1].n++;
        v[n - 1].count += cell->count;
    }
    assert(n <= c->group_count);  // cells of a group lie together
    // A limit keeps the groups with the most profiles; without one the order is that of labels.
    int64_t limit = h->m->limit;
    if (n) qsort(v, n, sizeof *v, limit > 0 ? most_first : by_labels);
    *rows = v;
    *count = limit > 0 && (uint64_t)limit < n ? (size_t)limit : n;
    return true;
}

// ---- the message

static void put_double(struct buf *out, double v)
{
    uint8_t bytes[8];
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof bits);
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(bits >> (8 * i));
    buf_put(out, bytes, sizeof bytes);
}

// Cells [from, to) are of one slot.
static void put_slot(const struct heat *h, const struct cells *cells, const struct cell *from,
                     const struct cell *to, struct buf *out)
{
    uint64_t counts[HEAT_BUCKETS] = {0};
    assert(from < to && h->step.ms > 0 && h->q.heat.bound_count == HEAT_BUCKETS);
    for (const struct cell *c = from; c < to; c++) {
        // A partial answer of another node may name any bucket.
        if (c->bucket < HEAT_BUCKETS) counts[c->bucket] = MIN(c->count, INT32_MAX);
    }
    size_t mark = pb_begin(out, 2);
    pb_put_i64_opt(out, 1, h->range.start_ms + from->point * h->step.ms);
    size_t packed = pb_begin(out, 2);
    for (int i = 0; i < HEAT_BUCKETS; i++)
        put_double(out, (double)h->q.heat.bounds[i]);
    pb_end(out, packed);
    packed = pb_begin(out, 3);
    for (int i = 0; i < HEAT_BUCKETS; i++)
        pb_put_varint(out, counts[i]);
    pb_end(out, packed);
    for (const struct cell *c = from; c < to; c++) {
        const struct exemplar *best = cells_best(cells, c);
        if (best) exemplar_wire_put(out, 4, best);
    }
    pb_end(out, mark);
}

static void put_row(const struct heat *h, const struct cells *cells, const struct heat_row *row,
                    struct buf *out)
{
    size_t mark = pb_begin(out, 1);
    const struct cell *end = row->cells + row->n;
    assert(row->n > 0);
    for (size_t i = 0; i < h->q.heat.group_by_count; i++) {
        str name = h->q.heat.group_by[i];
        label pair = {name, labels_get(row->group, name)};
        if (labels_has(row->group, name)) labels_put((labels){&pair, 1}, out, 1);
    }
    for (const struct cell *from = row->cells; from < end;) {
        const struct cell *to = from;
        while (to < end && to->point == from->point)
            to++;
        put_slot(h, cells, from, to, out);
        from = to;
    }
    pb_end(out, mark);
}

bool heatmap_select(struct answer *a, str in, struct buf *out, err *e)
{
    struct heat h = {0};
    h.m = ANSWER_UNPACK(a, Querier__V1__SelectHeatmapRequest, querier__v1__select_heatmap_request,
                        in, e);
    if (!h.m || !read_request(a, &h, e)) return false;
    a->counts_profiles = h.q.heat.kind == EXEMPLAR_PROFILE;
    if (h.range.empty) return true;
    // Two questions: the axis follows from the least and largest value of all, and heads and blocks
    // need its bounds to count. A profile that comes between them counts if it lies on the axis.
    struct merged *extent;
    struct merged *found;
    if (!answer_read(a, &h.q, &extent, e)) return false;
    if (extent->extent.count == 0) return true;
    query_set_axis(&h.q.heat, extent->extent.least, extent->extent.largest);
    if (!answer_read(a, &h.q, &found, e)) return false;
    assert(h.q.heat.bound_count == HEAT_BUCKETS);
    a->profiles += found->extent.count;
    h.arena = &found->arena;
    struct heat_row *rows;
    size_t n = 0;
    if (!make_rows(&h, &found->heat, &rows, &n, e)) return false;
    for (size_t i = 0; i < n && !out->failed; i++)
        put_row(&h, &found->heat, &rows[i], out);
    return true;
}
