// SPDX-License-Identifier: Apache-2.0
//
// head_stats.c - how many rows and series match a query, and how large they are.
#include "ingester/head/head_int.h"
#include "model/vector.h"

struct stat_read {
    const struct head_walk *walk;
    const struct head_query *query;
    bool with_sizes;
    struct inventory *out;
};

static bool measure(struct stat_read *t, const struct row *row, err *e)
{
    struct vector_reader r;
    str bytes = payload_view(row->vector);
    if (!t->with_sizes) return true;
    if (!vector_open(&r, bytes, e)) return false;
    t->out->samples += r.left;
    t->out->profile_bytes += sizeof *row + bytes.n;
    for (uint32_t i = 0; row->spans && i < row->spans->count; i++)
        t->out->profile_bytes += sizeof row->spans->v[i] + row->spans->v[i].n;
    return true;
}

static bool visit(void *arg, struct service_head *s, uint32_t series, err *e)
{
    struct stat_read *t = arg;
    struct rows_cursor c = rows_within(&s->rows[series], t->query->from_ns, t->query->to_ns);
    uint64_t before = t->out->profiles;
    // Rows are looked at one by one only if one may not count (loose, dropped or concealed) or its
    // size is asked for. Else the number of rows in order is known without that.
    bool loose = s->has_loose || s->mixed || (t->query->identified && s->placing);
    bool one_by_one = t->with_sizes || loose || t->query->listed || t->query->hide_count ||
                      atomic_load_explicit(&s->head->dropping, memory_order_acquire);
    if (!one_by_one && c.at < c.to) {
        inventory_count(t->out, c.to - c.at, c.rows->v[c.at].time_ns, c.rows->v[c.to - 1].time_ns);
        c.at = c.to;
    }
    for (const struct row *row; (row = rows_next(&c));) {
        if (one_by_one && !walk_counts(t->walk, s, series, row)) continue;
        inventory_count(t->out, 1, row->time_ns, row->time_ns);
        if (!measure(t, row, e)) return false;
    }
    bool some = t->out->profiles > before;
    t->out->series += some;
    // They are not mixed, so all have this one.
    if (some && !one_by_one && t->query->placings)
        placings_add(t->query->placings, head_placing(s->head, s->placing));
    return true;
}

static uint64_t symbol_bytes(const struct symbol_table *t)
{
    uint64_t n = t->string_count * sizeof *t->strings + t->function_count * sizeof *t->functions +
                 t->mapping_count * sizeof *t->mappings + t->frame_count * sizeof *t->frames +
                 t->stack_count * sizeof *t->stacks;
    for (uint32_t i = 0; i < t->string_count; i++)
        n += t->strings[i].n;
    return n;
}

static uint64_t index_bytes(const struct index *x)
{
    uint64_t n = x->series_count * sizeof *x->series;
    for (uint32_t i = 0; i < x->series_count; i++)
        n += x->series[i].n * sizeof *x->series[i].pairs;
    for (uint32_t i = 0; i < x->name_count; i++) {
        const struct index_name *name = &x->names[i];
        n += sizeof *name + name->text.n;
        for (uint32_t k = 0; k < name->n; k++) {
            const struct index_value *v = &name->values[k];
            n += sizeof *v + v->text.n + v->n * sizeof *v->series;
        }
    }
    return n;
}

bool head_stat(struct head *h, struct req *r, const struct head_query *q, bool with_sizes,
               struct inventory *out, err *e)
{
    struct head_walk w;
    struct stat_read t = {.walk = &w, .query = q, .with_sizes = with_sizes, .out = out};
    *out = (struct inventory){0};
    if (!walk_begin(&w, h, r, q, e)) return false;
    for (size_t i = 0; i < w.service_count; i++) {
        struct service_head *s = w.services[i];
        uint64_t before = out->profiles;
        if (!walk_series(&w, s, true, visit, &t, e)) return false;
        if (!with_sizes || out->profiles == before) continue;
        pthread_rwlock_rdlock(&s->lock);
        out->symbol_bytes += symbol_bytes(&s->symbols.t);
        out->index_bytes += index_bytes(&s->index);
        pthread_rwlock_unlock(&s->lock);
    }
    return true;
}
