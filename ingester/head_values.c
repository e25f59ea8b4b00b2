// SPDX-License-Identifier: Apache-2.0
#include "ingester/head_values.h"

#include "model/tree.h"
#include "model/vector.h"

// ---- call sites

void site_forget(struct site *s)
{
    s->known = 0;
}

bool site_know(struct site *s, const struct symbol_table *t, err *e)
{
    if (s->n == 0 || s->known == t->stack_count) return true;
    if (!mem_grow(s->budget, &s->matched, &s->room, t->stack_count, sizeof *s->matched, e)) {
        return false;
    }
    if (s->known == 0) s->matched[s->known++] = 0;
    for (; s->known < t->stack_count; s->known++) {
        const struct symbol_stack *stack = &t->stacks[s->known];
        s->matched[s->known] =
            tree_match(t, stack->frame, s->matched[stack->parent], s->names, s->n);
    }
    return true;
}

void site_release(struct site *s)
{
    mem_free(s->budget, s->matched, s->room * sizeof *s->matched);
}

bool site_sum(const struct site *s, str vector, int64_t factor, int64_t *sum, bool *any, err *e)
{
    struct vector_reader r;
    struct vector_entry v;
    *sum = 0;
    *any = false;
    bool fits = true;
    if (!vector_open(&r, vector, e)) return false;
    while (vector_next(&r, &v)) {
        if (s->n && (v.stack >= s->known || s->matched[v.stack] != s->n)) continue;
        *any = true;
        fits = sum_add(sum, v.value) && fits;
    }
    if (!vector_done(&r, e)) return false;
    if (fits && !__builtin_mul_overflow(*sum, factor, sum)) return true;
    return err_set(e, ERR_OUT_OF_RANGE, "the value of a profile does not fit 64 bits");
}

// ---- exemplars

struct found found_row(const struct row *row, int64_t value, struct service_head *s,
                       uint32_t series)
{
    return (struct found){.any = true,
                          .value = value,
                          .time_ns = row->time_ns,
                          .id = row->id,
                          .service = s,
                          .series = series};
}

struct found found_span(const struct row *row, uint32_t i, int64_t value, struct service_head *s,
                        uint32_t series)
{
    struct found f = found_row(row, value, s, series);
    const struct row_span *span = &row->spans->v[i];
    f.span_id = span->span_id;
    f.has_trace = span->has_trace;
    if (f.has_trace) memcpy(f.trace.b, span->trace_id, sizeof f.trace.b);
    return f;
}

bool found_before(const struct found *a, const struct found *b)
{
    if (!b->any || !a->any) return a->any;
    if (a->value != b->value) return a->value > b->value;
    if (a->time_ns != b->time_ns) return a->time_ns < b->time_ns;
    int ids = memcmp(a->id.b, b->id.b, sizeof a->id.b);
    if (ids) return ids < 0;
    if (a->span_id != b->span_id) return a->span_id < b->span_id;
    return memcmp(a->trace.b, b->trace.b, sizeof a->trace.b) < 0;
}

bool found_show(const struct found *f, struct arena *a, const str *without, size_t n,
                struct head_exemplar *out, err *e)
{
    struct service_head *s = f->service;
    *out = (struct head_exemplar){.profile = f->id,
                                  .time_ns = f->time_ns,
                                  .value = f->value,
                                  .span_id = f->span_id,
                                  .has_trace = f->has_trace,
                                  .trace = f->trace};
    pthread_rwlock_rdlock(&s->lock);
    const struct index_series *x = &s->index.series[f->series];
    label *v = ARENA_ARRAY(a, label, x->n);
    size_t kept = 0;
    if (v) {
        labels all = index_labels(&s->index, f->series, v);
        for (size_t i = 0; i < all.n; i++) {
            if (!str_among(v[i].name, without, n)) v[kept++] = v[i];
        }
    }
    pthread_rwlock_unlock(&s->lock);
    // Strings of the index do not move, and the head is held until the answer is written.
    out->ls = (labels){v, kept};
    return arena_ok(a, e);
}
