// SPDX-License-Identifier: Apache-2.0
//
// series.c - SelectSeries: reads the request, asks for totals by group and bucket, turns these into
// rows of points (make_rows, make_points), and writes the message.
#include "querier/request/series.h"

#include "codec/pb.h"
#include "querier/request/exemplar_wire.h"
#include "querier/v1/querier.pb-c.h"

#include <stdlib.h>

struct point {
    int64_t time_ms;
    double value;
    const struct exemplar *exemplar;  // or NULL
    labels annotations;
};

struct row {
    labels group;  // in the order asked
    const struct point *points;
    size_t point_count;
    double sum;  // of the points
};

struct options {
    int64_t start_ms;
    int64_t step_ms;
    const str *group_by;
    size_t group_by_count;
    bool average;
    int64_t limit;  // rows kept; 0 or less: all
};

// The pairs of a group in the order in which they were asked for.
static bool order_group(struct arena *a, labels group, const struct options *o, labels *out, err *e)
{
    label *v = ARENA_ARRAY(a, label, o->group_by_count);
    if (!v) return arena_fail(a, e);
    size_t n = 0;
    for (size_t i = 0; i < o->group_by_count; i++) {
        if (!labels_has(group, o->group_by[i])) continue;
        v[n++] = (label){o->group_by[i], labels_get(group, o->group_by[i])};
    }
    *out = (labels){v, n};
    return true;
}

// Points of one group's totals [from, to).
static bool make_points(struct arena *a, const struct cells *c, const struct cell *from,
                        const struct cell *to, const struct options *o, struct row *row, err *e)
{
    struct point *points = ARENA_ARRAY(a, struct point, (size_t)(to - from));
    if (!points) return arena_fail(a, e);
    size_t n = 0;
    assert(o->step_ms > 0 && from < to);
    for (const struct cell *t = from; t < to; t++) {
        assert(t == from || t[-1].point < t->point);
        struct total sum;
        if (!totals_show(c, t, &sum, e)) return false;
        double value = (double)sum.sum;
        if (o->average && sum.profiles) value /= (double)sum.profiles;
        points[n++] = (struct point){.time_ms = o->start_ms + t->point * o->step_ms,
                                     .value = value,
                                     .exemplar = sum.exemplar,
                                     .annotations = sum.annotations};
        row->sum += value;
    }
    assert(n <= (size_t)(to - from));
    row->points = points;
    row->point_count = n;
    return true;
}

static int largest_first(const void *a, const void *b)
{
    const struct row *x = a;
    const struct row *y = b;
    if (x->sum != y->sum) return x->sum > y->sum ? -1 : 1;
    return labels_cmp(x->group, y->group);
}

// From finished totals over the points of query_add_totals to rows in the order of the answer.
// Memory of the arena. Fails with resource_exhausted.
static bool make_rows(struct arena *a, const struct cells *c, const struct options *o,
                      struct row **rows, size_t *count, err *e)
{
    struct row *v = ARENA_ARRAY(a, struct row, c->group_count);
    if (!v) return arena_fail(a, e);
    size_t n = 0;
    for (size_t i = 0, end = 0; i < c->n; i = end) {
        uint32_t group = c->v[i].group;
        while (end < c->n && c->v[end].group == group)
            end++;
        assert(group < c->group_count && n < c->group_count);
        struct row *row = &v[n++];
        if (!order_group(a, c->groups[group], o, &row->group, e) ||
            !make_points(a, c, c->v + i, c->v + end, o, row, e)) {
            return false;
        }
    }
    if (n) qsort(v, n, sizeof *v, largest_first);
    *rows = v;
    *count = o->limit > 0 && (uint64_t)o->limit < n ? (size_t)o->limit : n;
    return true;
}

static void put_point(struct buf *out, const struct point *p)
{
    size_t mark = pb_begin(out, 2);
    pb_put_double_opt(out, 1, p->value);
    pb_put_i64_opt(out, 2, p->time_ms);
    labels_put(p->annotations, out, 3);
    if (p->exemplar) exemplar_wire_put(out, 4, p->exemplar);
    pb_end(out, mark);
}

static void put_row(struct buf *out, const struct row *row)
{
    size_t mark = pb_begin(out, 1);
    labels_put(row->group, out, 1);
    for (size_t i = 0; i < row->point_count; i++)
        put_point(out, &row->points[i]);
    pb_end(out, mark);
}

// Other parts of the selector mean nothing to a series.
static bool call_site(struct answer *a, const Types__V1__StackTraceSelector *s,
                      struct totals_want *t, err *e)
{
    if (!s || s->n_call_site == 0) return true;
    str *names = ARENA_ARRAY(a->arena, str, s->n_call_site);
    if (!names) return arena_fail(a->arena, e);
    for (size_t i = 0; i < s->n_call_site; i++)
        names[i] = str_of(s->call_site[i]->name);
    t->call_site = names;
    t->call_site_count = s->n_call_site;
    return true;
}

bool series_select(struct answer *a, str in, struct buf *out, err *e)
{
    const Querier__V1__SelectSeriesRequest *m =
        ANSWER_UNPACK(a, Querier__V1__SelectSeriesRequest, querier__v1__select_series_request, in,
                      e);
    if (!m) return false;
    struct query q = {.selector.most = &a->selectors};
    struct query_range range;
    struct ptype type;
    struct options o = {
        .average = m->aggregation ==
                   TYPES__V1__TIME_SERIES_AGGREGATION_TYPE__TIME_SERIES_AGGREGATION_TYPE_AVERAGE,
        .limit = m->limit,
    };
    bool spread = m->spread || answer_asks_spread(a);
    struct query_step step = {.seconds = m->step, .lead = a->limits->series_lead && !spread};
    if (!query_range(a->limits, a->now_wall_ns, m->start, m->end, &range, e) ||
        !query_add_totals(&q, &range, &step, e) ||
        !query_add_type(a->arena, &q, str_of(m->profile_typeid), &type, e) ||
        !query_add_selector(a->arena, &q, str_of(m->label_selector), e) ||
        !query_names(a->arena, m->group_by, m->n_group_by, a->config->max_labels,
                     &q.totals.group_by, &q.totals.group_by_count, e) ||
        !exemplar_wire_type((int)m->exemplar_type, &q.totals.exemplars, e) ||
        !call_site(a, m->stack_trace_selector, &q.totals, e)) {
        return false;
    }
    q.totals.include_sampled = a->limits->include_stripped_profiles;
    // A mean is over whole profiles.
    q.totals.spread = spread && !o.average;
    a->counts_profiles = true;
    a->over_time = true;
    a->spread = q.totals.spread;
    if (range.empty) return true;
    struct merged *merged;
    if (!answer_read(a, &q, &merged, e)) return false;
    o.start_ms = range.start_ms;
    o.step_ms = step.ms;
    o.group_by = q.totals.group_by;
    o.group_by_count = q.totals.group_by_count;
    struct row *rows;
    size_t n = 0;
    if (!make_rows(&merged->arena, &merged->totals, &o, &rows, &n, e)) return false;
    for (size_t i = 0; i < n; i++)
        put_row(out, &rows[i]);
    // Other clients need not know this field.
    if (m->spread) pb_put_bytes(out, 100, answer_spread_text(a));
    return true;
}
