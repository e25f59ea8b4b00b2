// SPDX-License-Identifier: Apache-2.0
//
// head_compact.c - when rows have gone, their symbols and series go as well.
//
// Tables of a service only grow while rows come. After a drop, a table that may be mostly dead is
// made anew from what the rows still name. New numbers are given in the order of the old ones, so
// the distance of two ids never grows, and vectors are rewritten where they are: everything that
// can fail for want of memory happens before the first row is touched. Readers are excluded by the
// drop, and a service with staged rows, which hold old numbers, is left for another time; so is one
// that a log is being read into.
#include "base/fault.h"
#include "codec/varint.h"
#include "ingester/head_stacks.h"
#include "model/vector.h"

#define STACKS_MIN 256
#define SERIES_MIN 64

// ---- every vector of a service, once

// Returns the new length.
typedef uint32_t vector_fn(void *arg, char *bytes, uint32_t n);

static void visit_row(struct service_head *s, struct row *row, vector_fn *fn, void *arg)
{
    struct payload *p = row->vector;
    if (p->pass != s->pass) {  // siblings share it
        p->pass = s->pass;
        p->n = fn(arg, p->bytes, p->n);
    }
    for (uint32_t i = 0; row->spans && i < row->spans->count; i++) {
        struct row_span *span = &row->spans->v[i];
        span->n = fn(arg, row_spans_bytes(row->spans) + span->at, span->n);
    }
}

static void visit_vectors(struct service_head *s, vector_fn *fn, void *arg)
{
    s->pass++;
    for (uint32_t i = 0; i < s->index.series_count; i++) {
        struct rows *rows = &s->rows[i];
        for (size_t k = 0; k < rows->n; k++)
            visit_row(s, &rows->v[k], fn, arg);
        for (size_t k = 0; k < rows->late_n; k++)
            visit_row(s, &rows->late[k], fn, arg);
    }
}

static uint32_t mark(void *arg, char *bytes, uint32_t n)
{
    bool *used = arg;
    struct vector_reader r;
    struct vector_entry v;
    err e = {0};
    bool ok = vector_open(&r, str_make(bytes, n), &e);
    while (ok && vector_next(&r, &v))
        used[v.stack] = true;
    assert(ok && vector_done(&r, &e));  // we wrote it
    return n;
}

static uint64_t next(const uint8_t **at, const uint8_t *end)
{
    uint64_t v = 0;
    bool ok = varint_get(at, end, &v);
    assert(ok);
    return v;
}

// ids[old] is new + 1 and not above old + 1, ascending; so what is written stays behind what is
// read.
static uint32_t renumber(void *arg, char *bytes, uint32_t n)
{
    const uint32_t *ids = arg;
    uint8_t *to = (uint8_t *)bytes;
    const uint8_t *from = to;
    const uint8_t *end = from + n;
    uint64_t old = 0;
    uint32_t last = 0;
    uint64_t left = next(&from, end);
    (void)next(&from, end);  // divisor
    to += from - to;
    for (; left > 0; left--) {
        old += next(&from, end);
        uint32_t id = ids[old] - 1;
        const uint8_t *value = from;
        (void)next(&from, end);
        to += varint_put(to, id - last);
        assert(to <= value);
        memmove(to, value, (size_t)(from - value));
        to += from - value;
        last = id;
    }
    return (uint32_t)(to - (uint8_t *)bytes);
}

// ---- symbols

static bool copy_symbols(struct service_head *s, struct arena *a, const bool *used,
                         struct symbols *fresh, struct symbols_remap *m)
{
    err e = {0};
    if (!symbols_init(fresh, &s->head->budget, &e)) return false;
    bool ok = symbols_remap_init(m, a, &s->symbols.t, fresh, &e);
    for (uint32_t i = 1; ok && i < s->symbols.t.stack_count; i++)
        ok = !used[i] || symbols_remap_stack(m, i, &e) != MAP_NONE;
    if (!ok) symbols_release(fresh);
    return ok;
}

static void compact_stacks(struct service_head *s)
{
    struct arena a;
    struct symbols fresh;
    struct symbols_remap m;
    uint32_t live = 0;
    uint32_t count = s->symbols.t.stack_count;
    arena_init(&a, &s->head->budget, SIZE_MAX);
    bool *used = ARENA_ARRAY(&a, bool, count);
    if (used) {
        visit_vectors(s, mark, used);
        symbols_mark_ancestors(&s->symbols.t, used);
        for (uint32_t i = 1; i < count; i++)
            live += used[i];
        s->live_stacks = live;  // whatever comes of it: not again before it doubled
        s->live_rows = s->row_count;
    }
    if (used && live <= count / 2 && copy_symbols(s, &a, used, &fresh, &m)) {
        FAULT("head.compact.stacks");
        m.stacks[0] = 1;
        visit_vectors(s, renumber, m.stacks);
        symbols_release(&s->symbols);
        s->symbols = fresh;
        s->age = translations_age(&s->head->translations);
        symbols_hints_release(&s->hints);
        stack_hours_release(s);
        service_renumbered(s);
    }
    arena_release(&a);
}

// ---- series

struct new_series {
    struct index index;
    struct rows *rows;
    size_t cap;
};

static bool copy_series(struct service_head *s, struct arena *a, uint32_t live,
                        struct new_series *out)
{
    err e = {0};
    struct label_room room = {.arena = a};
    index_init(&out->index, &s->head->budget);
    out->cap = MAX(live, 1);
    out->rows = mem_alloc(&s->head->budget, out->cap * sizeof *out->rows, &e);
    bool ok = out->rows != NULL;
    for (uint32_t i = 0; ok && i < s->index.series_count; i++) {
        labels ls;
        if (rows_count(&s->rows[i]) == 0) continue;
        ok = walk_labels(&room, s, i, NULL, 0, &ls, &e) &&
             index_series(&out->index, ls, s->index.series[i].fingerprint, &e) != MAP_NONE;
    }
    if (ok) return true;
    index_release(&out->index);
    mem_free(&s->head->budget, out->rows, out->cap * sizeof *out->rows);
    return false;
}

// Series have other numbers.
static void renew_ids(struct service_head *s)
{
    ids_clear(&s->ids);
    for (uint32_t i = 0; i < s->index.series_count; i++) {
        const struct rows *r = &s->rows[i];
        for (size_t k = 0; k < r->n; k++)
            ids_put_again(&s->ids, i, r->v[k].id);
        for (size_t k = 0; k < r->late_n; k++)
            ids_put_again(&s->ids, i, r->late[k].id);
    }
}

static void compact_series(struct service_head *s, uint32_t live)
{
    struct arena a;
    struct new_series fresh;
    arena_init(&a, &s->head->budget, SIZE_MAX);
    if (copy_series(s, &a, live, &fresh)) {
        FAULT("head.compact.series");
        uint32_t kept = 0;
        for (uint32_t i = 0; i < s->index.series_count; i++) {
            if (rows_count(&s->rows[i])) {
                fresh.rows[kept++] = s->rows[i];
            } else {
                rows_release(&s->rows[i], &s->head->budget);
            }
        }
        assert(kept == live && fresh.index.series_count == live);
        atomic_fetch_sub_explicit(&s->head->series, s->index.series_count - live,
                                  memory_order_relaxed);
        mem_free(&s->head->budget, s->rows, s->rows_cap * sizeof *s->rows);
        index_release(&s->index);
        s->index = fresh.index;
        s->rows = fresh.rows;
        s->rows_cap = fresh.cap;
        service_renumbered(s);
        renew_ids(s);
    }
    arena_release(&a);
}

static uint32_t live_series(const struct service_head *s)
{
    uint32_t live = 0;
    for (uint32_t i = 0; i < s->index.series_count; i++)
        live += rows_count(&s->rows[i]) > 0;
    return live;
}

// They may be mostly dead when they are twice as many as were live, or when most of the rows that
// were there then have gone: after a burst the table would stay as large as it was.
static bool wants_stacks(const struct service_head *s)
{
    uint32_t count = s->symbols.t.stack_count;
    if (count > 2 * (uint64_t)s->live_stacks + STACKS_MIN) return true;
    return count > STACKS_MIN && s->row_count < s->live_rows / 4;
}

static bool wants_series(const struct service_head *s, uint32_t live)
{
    return s->index.series_count > 2 * (uint64_t)live + SERIES_MIN;
}

bool service_wants_compaction(const struct service_head *s)
{
    if (s->ids.promised > 0 || s->thinning || s->readers > 0) return false;
    return wants_stacks(s) || wants_series(s, live_series(s));
}

void service_compact(struct service_head *s)
{
    if (s->ids.promised > 0 || s->thinning || s->readers > 0) return;
    uint32_t live = live_series(s);
    if (wants_stacks(s)) compact_stacks(s);
    if (wants_series(s, live)) compact_series(s, live);
}
