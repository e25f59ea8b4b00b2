// SPDX-License-Identifier: Apache-2.0
#include "ingester/head_int.h"
#include "model/vector.h"

#include <stdlib.h>

// Sums of one service by its own stack ids. Dense: an addition is one array access, and the mapping
// to the query's table is done once a stack instead of once an entry.
struct tree_read {
    const struct head_walk *walk;
    const struct head_query *query;
    struct head_tree_filter filter;  // each list sorted
    struct mem_budget *budget;
    int64_t *sums;
    size_t room;
    uint64_t profiles;
};

static int by_id(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(id128));
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static bool has_id(const id128 *sorted, size_t n, id128 id)
{
    return bsearch(&id, sorted, n, sizeof id, by_id) != NULL;
}

static bool sort_filter(struct arena *a, const struct head_tree_filter *in,
                        struct head_tree_filter *out, err *e)
{
    id128 *profiles = ARENA_ARRAY(a, id128, in->profile_id_count);
    uint64_t *spans = ARENA_ARRAY(a, uint64_t, in->span_id_count);
    id128 *traces = ARENA_ARRAY(a, id128, in->trace_id_count);
    if (!arena_ok(a, e)) return false;
    *out = *in;
    if (in->profile_id_count)
        memcpy(profiles, in->profile_ids, in->profile_id_count * sizeof(id128));
    if (in->span_id_count) memcpy(spans, in->span_ids, in->span_id_count * sizeof *spans);
    if (in->trace_id_count) memcpy(traces, in->trace_ids, in->trace_id_count * sizeof(id128));
    qsort(profiles, in->profile_id_count, sizeof(id128), by_id);
    qsort(spans, in->span_id_count, sizeof *spans, by_number);
    qsort(traces, in->trace_id_count, sizeof(id128), by_id);
    out->profile_ids = profiles;
    out->span_ids = spans;
    out->trace_ids = traces;
    return true;
}

// A span without id is none, whatever was asked for.
static bool wants_span(const struct head_tree_filter *f, const struct row_span *s)
{
    if (f->span_id_count > 0 &&
        (s->span_id == 0 ||
         !bsearch(&s->span_id, f->span_ids, f->span_id_count, sizeof s->span_id, by_number))) {
        return false;
    }
    if (f->trace_id_count == 0) return true;
    id128 trace;
    memcpy(trace.b, s->trace_id, sizeof trace.b);
    return s->has_trace && has_id(f->trace_ids, f->trace_id_count, trace);
}

static bool add_spans(struct tree_read *t, const struct row *row, uint32_t stacks, err *e)
{
    bool found = false;
    for (uint32_t i = 0; row->spans && i < row->spans->count; i++) {
        if (!wants_span(&t->filter, &row->spans->v[i])) continue;
        if (!vector_add(row_span_vector(row->spans, i), 1, t->sums, stacks, e)) return false;
        found = true;
    }
    t->profiles += found;
    return true;
}

struct tree_series {
    struct tree_read *t;
    const struct service_head *service;
    uint32_t series;
    uint32_t stacks;  // of the service
};

static bool add_row(const struct tree_series *s, const struct row *row, err *e)
{
    struct tree_read *t = s->t;
    const struct head_tree_filter *f = &t->filter;
    if (f->profile_id_count > 0 && !has_id(f->profile_ids, f->profile_id_count, row->id)) {
        return true;
    }
    if (!walk_counts(t->walk, s->service, s->series, row)) return true;
    if (f->span_id_count > 0 || f->trace_id_count > 0) return add_spans(t, row, s->stacks, e);
    t->profiles++;
    return vector_add(payload_view(row->vector), row->factor, t->sums, s->stacks, e);
}

static bool visit(void *arg, struct service_head *s, uint32_t series, err *e)
{
    struct tree_read *t = arg;
    struct tree_series one = {t, s, series, s->symbols.t.stack_count};
    // The table may have grown since the last series.
    if (!mem_grow(t->budget, &t->sums, &t->room, one.stacks, sizeof *t->sums, e)) return false;
    struct rows_cursor c = rows_within(&s->rows[series], t->query->from_ns, t->query->to_ns);
    for (const struct row *row; (row = rows_next(&c));) {
        if (!add_row(&one, row, e)) return false;
    }
    return true;
}

static bool add_service(struct tree_read *t, struct service_head *s, struct merge *m, err *e)
{
    pthread_rwlock_rdlock(&s->lock);
    bool ok =
        mem_grow(t->budget, &t->sums, &t->room, s->symbols.t.stack_count, sizeof *t->sums, e) &&
        merge_add_sums(m, &s->symbols.t, t->sums, e);
    pthread_rwlock_unlock(&s->lock);
    memset(t->sums, 0, t->room * sizeof *t->sums);
    return ok;
}

bool head_tree(struct head *h, struct req *r, const struct head_query *q,
               const struct head_tree_filter *f, struct merge *m, uint64_t *profiles, err *e)
{
    struct head_walk w;
    struct tree_read t = {.walk = &w, .query = q, .budget = m->symbols.budget};
    bool ok = sort_filter(&r->arena, f, &t.filter, e) && walk_begin(&w, h, r, q, e);
    for (size_t i = 0; ok && i < w.service_count; i++) {
        uint64_t before = t.profiles;
        ok = walk_series(&w, w.services[i], false, visit, &t, e);
        if (ok && t.profiles > before) ok = add_service(&t, w.services[i], m, e);
    }
    mem_free(t.budget, t.sums, t.room * sizeof *t.sums);
    *profiles += t.profiles;
    return ok;
}
