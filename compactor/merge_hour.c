// SPDX-License-Identifier: Apache-2.0
//
// merge_hour.c - rows of an hour's leaves in: hour nodes and minute totals out.
//
// One pass over the rows makes the nodes of series, which wait in a spool, and the sum of all.
// Nodes of projections are made of those of their series, from the spool. So vectors of rows are
// read once, in the order in which they lie.
#include "compactor/merge_int.h"

#include <stdlib.h>

#define MINUTES (size_t)(SLOT_HOUR / SLOT_MINUTE)

struct minutes {
    struct block_total v[MINUTES];
};

// A node in the spool: entries, then totals.
struct spooled {
    struct key_group group;
    labels projection;
    struct block_node node;
    uint64_t at;
    size_t entries;
    size_t totals;
};

struct hour {
    struct service_merge *service;
    int64_t hour;
    struct spool spool;
    struct merge_sums series;  // the series at hand, or the projection
    struct merge_sums all;
    struct minutes all_minutes;
    struct spooled *v;  // of the type at hand; the type's arena
    size_t n;
    int64_t period;  // likewise
    struct arena type;
};

// ---- minutes

static bool add_minute(struct minutes *m, int64_t first, const struct block_total *t, err *e)
{
    int64_t i = t->slot - first;
    if (i < 0 || i >= (int64_t)MINUTES)
        return err_set(e, ERR_DATA_LOSS, "a row is not of the hour that its leaf covers");
    struct block_total *to = &m->v[i];
    to->profiles += t->profiles;
    if (sum_add(&to->sum, t->sum)) return true;
    return err_set(e, ERR_OUT_OF_RANGE, "the sum of a minute does not fit 64 bits");
}

// Moves the minutes that have profiles to the front; returns how many there are.
static size_t close_minutes(struct minutes *m, int64_t first)
{
    size_t n = 0;  // n <= i, so no minute is written over before it is read
    for (size_t i = 0; i < MINUTES; i++) {
        if (m->v[i].profiles == 0) continue;
        struct block_total t = m->v[i];
        t.slot = first + (int64_t)i;
        m->v[n++] = t;
    }
    return n;
}

static int64_t first_minute(const struct hour *h)
{
    return h->hour * (int64_t)MINUTES;
}

static struct block_node node_of(const struct hour *h, const struct merge_sums *sums)
{
    return (struct block_node){.slot = h->hour,
                               .width = SLOT_HOUR,
                               .profiles = sums->profiles,
                               .total = sums->total,
                               .first_ns = sums->first_ns,
                               .last_ns = sums->last_ns};
}

// ---- series

static bool sum_rows(struct hour *h, const struct key_group *g, struct minutes *minutes, err *e)
{
    struct row_merge m;
    struct merged_row row;
    struct service_merge *s = h->service;
    bool more = true;
    bool ok = row_merge_begin(&m, s, g, e);
    while (ok && (ok = row_merge_next(&m, &row, &more, e)) && more) {
        struct vector_entry *v = NULL;
        size_t n = 0;
        const struct block_total t = {slot_of(row.time_ns, SLOT_MINUTE), row.total, 1};
        service_tidy(s);
        ok = input_row_vector(s, row.input, row.vector, &v, &n, e) &&
             merge_sums_add(&h->series, v, n, row.factor, e) &&
             merge_sums_note(&h->series, 1, row.total, row.time_ns, row.time_ns, e) &&
             add_minute(minutes, first_minute(h), &t, e);
        s->merge->row_entries += n;
    }
    s->merge->duplicates += m.duplicates;
    row_merge_end(&m);
    return ok;
}

static bool spool_series(struct hour *h, const struct key_group *g,
                         const struct block_dropped_labels *dropped, err *e)
{
    struct minutes minutes = {0};
    struct service_merge *s = h->service;
    struct spooled *to = &h->v[h->n];
    struct vector_entry *v = NULL;
    assert(h->series.profiles == 0);  // the series before was taken
    if (!sum_rows(h, g, &minutes, e)) return false;
    if (h->series.profiles == 0) return true;
    size_t totals = close_minutes(&minutes, first_minute(h));
    *to = (struct spooled){.group = *g,
                           .node = node_of(h, &h->series),
                           .at = h->spool.n,
                           .totals = totals};
    h->n++;
    service_tidy(s);
    if (!labels_without(s, g->v[0].ls, dropped, &to->projection, e) ||
        !merge_sums_take(&h->series, &s->scratch, &v, &to->entries, e)) {
        return false;
    }
    s->merge->node_entries += to->entries;
    // Series that sampling left without stacks are not in ALL: its sums are those of all profiles.
    if (!g->v[0].key->sampled) {
        if (!merge_sums_add(&h->all, v, to->entries, 1, e) ||
            !merge_sums_note(&h->all, to->node.profiles, to->node.total, to->node.first_ns,
                             to->node.last_ns, e)) {
            return false;
        }
        for (size_t i = 0; i < totals; i++) {
            if (!add_minute(&h->all_minutes, first_minute(h), &minutes.v[i], e)) return false;
        }
    }
    return spool_put(&h->spool, str_make(v, to->entries * sizeof *v), e) &&
           spool_put(&h->spool, str_make(minutes.v, totals * sizeof *minutes.v), e);
}

static bool unspool(struct hour *h, const struct spooled *x, struct vector_entry **v,
                    struct block_total **totals, err *e)
{
    struct arena *a = &h->service->scratch;
    service_tidy(h->service);
    *v = ARENA_ARRAY(a, struct vector_entry, x->entries + 1);
    *totals = ARENA_ARRAY(a, struct block_total, x->totals + 1);
    if (!*v || !*totals) return arena_fail(a, e);
    size_t n = x->entries * sizeof **v;
    return spool_get(&h->spool, x->at, n, (char *)*v, e) &&
           spool_get(&h->spool, x->at + n, x->totals * sizeof **totals, (char *)*totals, e);
}

// ---- out

struct key_sums {
    enum block_class class;
    labels ls;
    struct block_node node;
    const struct vector_entry *v;
    size_t n;
    const struct block_total *totals;
    size_t total_count;
};

static bool write(struct hour *h, str type, const struct key_sums *k, err *e)
{
    struct service_merge *s = h->service;
    str columns = {0};
    if (!service_columns(s, k->v, k->n, &columns, e) ||
        !block_key(s->writer, k->class, type, k->ls, e) ||
        !block_node(s->writer, &k->node, columns, e)) {
        return false;
    }
    block_period(s->writer, h->period);
    for (size_t i = 0; i < k->total_count; i++) {
        if (!block_total(s->writer, &k->totals[i], e)) return false;
    }
    return true;
}

static bool write_sums(struct hour *h, str type, struct key_sums *k, struct merge_sums *sums,
                       struct minutes *minutes, err *e)
{
    struct vector_entry *v = NULL;
    k->node = node_of(h, sums);
    k->total_count = close_minutes(minutes, first_minute(h));
    k->totals = minutes->v;
    service_tidy(h->service);
    if (!merge_sums_take(sums, &h->service->scratch, &v, &k->n, e)) return false;
    k->v = v;
    return write(h, type, k, e);
}

static int order_projections(const void *a, const void *b)
{
    const struct spooled *x = *(struct spooled *const *)a;
    const struct spooled *y = *(struct spooled *const *)b;
    int c = labels_cmp(x->projection, y->projection);
    return c ? c : x < y ? -1 : x > y;
}

static bool write_projection(struct hour *h, str type, struct spooled *const *v, size_t n, err *e)
{
    struct minutes minutes = {0};
    assert(n > 0 && h->series.profiles == 0);
    struct key_sums k = {.class = BLOCK_PROJECTION, .ls = v[0]->projection};
    for (size_t i = 0; i < n; i++) {
        const struct block_node *node = &v[i]->node;
        struct vector_entry *entries = NULL;
        struct block_total *totals = NULL;
        if (!unspool(h, v[i], &entries, &totals, e) ||
            !merge_sums_add(&h->series, entries, v[i]->entries, 1, e) ||
            !merge_sums_note(&h->series, node->profiles, node->total, node->first_ns, node->last_ns,
                             e)) {
            return false;
        }
        for (size_t t = 0; t < v[i]->totals; t++) {
            if (!add_minute(&minutes, first_minute(h), &totals[t], e)) return false;
        }
    }
    return write_sums(h, type, &k, &h->series, &minutes, e);
}

static bool write_projections(struct hour *h, str type, err *e)
{
    struct spooled **order = ARENA_ARRAY(&h->type, struct spooled *, h->n + 1);
    if (!order) return arena_fail(&h->type, e);
    for (size_t i = 0; i < h->n; i++)
        order[i] = &h->v[i];
    qsort(order, h->n, sizeof(struct spooled *), order_projections);
    for (size_t i = 0; i < h->n;) {
        size_t end = i + 1;
        while (end < h->n && labels_eq(order[end]->projection, order[i]->projection))
            end++;
        if (!write_projection(h, type, order + i, end - i, e)) return false;
        i = end;
    }
    return true;
}

static bool write_series(struct hour *h, str type, err *e)
{
    bool wanted = h->service->merge->classes >> BLOCK_SERIES & 1;
    for (size_t i = 0; wanted && i < h->n; i++) {
        const struct spooled *x = &h->v[i];
        struct vector_entry *v = NULL;
        struct block_total *totals = NULL;
        if (!unspool(h, x, &v, &totals, e)) return false;
        const struct key_sums k = {.class = BLOCK_SERIES,
                                   .ls = x->group.v[0].ls,
                                   .node = x->node,
                                   .v = v,
                                   .n = x->entries,
                                   .totals = totals,
                                   .total_count = x->totals};
        if (!write(h, type, &k, e)) return false;
    }
    return true;
}

static bool hour_type(struct hour *h, size_t from, size_t to, err *e)
{
    struct service_merge *s = h->service;
    struct block_dropped_labels dropped;
    assert(from < to && to <= s->key_count && h->all.profiles == 0);
    str type = key_type(&s->keys[from]);
    spool_clear(&h->spool);
    arena_release(&h->type);
    h->n = 0;
    h->period = service_period(s, type);
    h->all_minutes = (struct minutes){0};
    h->v = ARENA_ARRAY(&h->type, struct spooled, to - from);
    if (!h->v) return arena_fail(&h->type, e);
    if (!dropped_of(s, type, &dropped, e)) return false;
    for (size_t at = from; at < to;) {
        struct key_group g = service_group(s, &at);
        if (!spool_series(h, &g, &dropped, e)) return false;
    }
    // In the order of classes: a writer takes keys in order only.
    static_assert(BLOCK_ALL < BLOCK_PROJECTION && BLOCK_PROJECTION < BLOCK_SERIES, "order of keys");
    struct key_sums all = {.class = BLOCK_ALL};
    return (h->all.profiles == 0 || write_sums(h, type, &all, &h->all, &h->all_minutes, e)) &&
           block_dropped(s->writer, type, dropped.v, dropped.n, e) &&
           write_projections(h, type, e) && write_series(h, type, e);
}

bool merge_hour(struct service_merge *s, err *e)
{
    struct mem_budget *memory = s->merge->memory;
    assert(s->merge->what == MERGE_HOUR && s->merge->hours == 1);
    struct hour h = {.service = s, .hour = s->merge->from_hour};
    spool_init(&h.spool, s->merge->scratch, memory);
    arena_init(&h.type, memory, SIZE_MAX);
    bool ok = service_keys(s, series_labels, NULL, e) &&
              merge_sums_init(&h.series, memory, s->stack_count, e) &&
              merge_sums_init(&h.all, memory, s->stack_count, e);
    for (size_t from = 0; ok && from < s->key_count;) {
        size_t to = service_type_end(s, from);
        ok = hour_type(&h, from, to, e);
        from = to;
    }
    merge_sums_release(&h.series);
    merge_sums_release(&h.all);
    spool_release(&h.spool);
    arena_release(&h.type);
    return ok;
}
