// SPDX-License-Identifier: Apache-2.0
//
// head_tree.c - the sums of all rows that match a query, by stack.
#include "ingester/head/head_exemplar.h"
#include "ingester/head/head_int.h"
#include "model/period.h"
#include "model/vector.h"

// The sums of one service by its own stack ids, in a dense array: adding an entry is one array
// access, and a stack is mapped to the query's table once, not once for each entry.
struct tree_read {
    const struct head_walk *walk;
    const struct head_query *query;
    struct span_filter filter;  // each list sorted
    struct mem_budget *budget;
    int64_t *sums;
    size_t room;
    struct wide *wide;  // in place of sums: they need not fit int64
    size_t wide_room;
    bool is_wide;
    uint64_t profiles;
    int64_t period;
};

static void count(struct tree_read *t, const struct row *row)
{
    t->profiles++;
    period_merge(&t->period, MAX(row->period, 0));
}

// Adds to the sums of the service that is at hand, which has so many stacks.
static bool add_vector(struct tree_read *t, str vector, int64_t factor, uint32_t stacks, err *e)
{
    return t->is_wide ? vector_add_wide(vector, factor, t->wide, stacks, e)
                      : vector_add(vector, factor, t->sums, stacks, e);
}

// Room for a table that may have grown.
static bool cover_stacks(struct tree_read *t, uint32_t stacks, err *e)
{
    return t->is_wide ? mem_grow(t->budget, &t->wide, &t->wide_room, stacks, sizeof *t->wide, e)
                      : mem_grow(t->budget, &t->sums, &t->room, stacks, sizeof *t->sums, e);
}

static bool add_spans(struct tree_read *t, const struct row *row, uint32_t stacks, err *e)
{
    bool found = false;
    for (uint32_t i = 0; row->spans && i < row->spans->count; i++) {
        struct exemplar x = {0};
        exemplar_of_span(row, i, &x);
        if (!span_filter_has_span(&t->filter, x.span_id, x.has_trace, x.trace)) continue;
        if (!add_vector(t, row_span_vector(row->spans, i), 1, stacks, e)) return false;
        found = true;
    }
    if (found) count(t, row);
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
    if (!span_filter_has_profile(&t->filter, row->id)) return true;
    if (!walk_counts(t->walk, s->service, s->series, row)) return true;
    if (span_filter_is_of_spans(&t->filter)) return add_spans(t, row, s->stacks, e);
    count(t, row);
    return add_vector(t, payload_view(row->vector), row->factor, s->stacks, e);
}

static bool visit(void *arg, struct service_head *s, uint32_t series, err *e)
{
    struct tree_read *t = arg;
    struct tree_series one = {t, s, series, s->symbols.t.stack_count};
    // The table may have grown since the last series.
    if (!cover_stacks(t, one.stacks, e)) return false;
    struct rows_cursor c = rows_within(&s->rows[series], t->query->from_ns, t->query->to_ns);
    for (const struct row *row; (row = rows_next(&c));) {
        if (!add_row(&one, row, e)) return false;
    }
    return true;
}

static bool add_service(struct tree_read *t, struct service_head *s, struct merge *m, err *e)
{
    pthread_rwlock_rdlock(&s->lock);
    bool ok = cover_stacks(t, s->symbols.t.stack_count, e) &&
              (t->is_wide ? merge_add_wide(m, &s->symbols.t, t->wide, e)
                          : merge_add_sums(m, &s->symbols.t, t->sums, e));
    pthread_rwlock_unlock(&s->lock);
    if (t->sums) memset(t->sums, 0, t->room * sizeof *t->sums);
    if (t->wide) memset(t->wide, 0, t->wide_room * sizeof *t->wide);
    return ok;
}

bool head_tree(struct head *h, struct req *r, const struct head_query *q,
               const struct span_filter *f, struct merge *m, uint64_t *profiles, err *e)
{
    struct head_walk w;
    struct tree_read t = {.walk = &w, .query = q, .budget = m->symbols.budget};
    bool ok = span_filter_sort(&r->arena, f, &t.filter, e) && walk_begin(&w, h, r, q, e);
    for (size_t i = 0; ok && i < w.service_count; i++) {
        uint64_t before = t.profiles;
        ok = walk_series(&w, w.services[i], false, visit, &t, e);
        if (ok && t.profiles > before) ok = add_service(&t, w.services[i], m, e);
    }
    mem_free(t.budget, t.sums, t.room * sizeof *t.sums);
    *profiles += t.profiles;
    period_merge(&m->period, t.period);
    return ok;
}

static bool tell_service(struct tree_read *t, struct service_head *s, uint64_t profiles,
                         const struct head_services *to, err *e)
{
    struct merge m;
    struct head_sums sums = {.service = s->service, .stacks = &m, .profiles = profiles};
    if (!merge_init(&m, t->budget, to->names_only, e)) return false;
    m.wide = true;
    m.period = t->period;
    bool ok = add_service(t, s, &m, e) && to->fn(to->arg, &sums, e);
    merge_release(&m);
    return ok;
}

bool head_tree_services(struct head *h, struct req *r, const struct head_query *q,
                        const struct span_filter *f, const struct head_services *to, err *e)
{
    struct head_walk w;
    struct tree_read t = {.walk = &w, .query = q, .budget = to->budget, .is_wide = true};
    bool ok = span_filter_sort(&r->arena, f, &t.filter, e) && walk_begin(&w, h, r, q, e);
    for (size_t i = 0; ok && i < w.service_count; i++) {
        uint64_t before = t.profiles;
        t.period = 0;
        ok = walk_series(&w, w.services[i], false, visit, &t, e);
        if (ok && t.profiles > before)
            ok = tell_service(&t, w.services[i], t.profiles - before, to, e);
    }
    mem_free(t.budget, t.wide, t.wide_room * sizeof *t.wide);
    return ok;
}
