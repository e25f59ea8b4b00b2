// SPDX-License-Identifier: Apache-2.0
#include "ingester/rows.h"

#include <stdlib.h>

#define LATE_BASE  64
#define LATE_SHARE 8

// ---- room

bool rows_promise(struct rows *r, struct mem_budget *b, size_t n, err *e)
{
    size_t promised = r->promised + n;
    if (!mem_grow(b, &r->late, &r->late_cap, r->late_n + promised, sizeof *r->late, e) ||
        !mem_grow(b, &r->v, &r->cap, r->n + r->late_n + promised, sizeof *r->v, e)) {
        return false;
    }
    r->promised = promised;
    return true;
}

void rows_forgive(struct rows *r, size_t n)
{
    assert(r->promised >= n);
    r->promised -= n;
}

// ---- putting

int rows_order(const void *a, const void *b)
{
    const struct row *x = a;
    const struct row *y = b;
    if (x->time_ns != y->time_ns) return x->time_ns < y->time_ns ? -1 : 1;
    return memcmp(x->id.b, y->id.b, sizeof x->id.b);
}

// From the back, so that v needs no second place.
static void settle(struct rows *r)
{
    assert(r->cap >= r->n + r->late_n);
    qsort(r->late, r->late_n, sizeof *r->late, rows_order);
    size_t to = r->n + r->late_n;
    size_t from = r->n;
    size_t late = r->late_n;
    r->n = to;
    r->late_n = 0;
    while (late > 0) {
        bool older = from == 0 || rows_order(&r->v[from - 1], &r->late[late - 1]) < 0;
        r->v[--to] = older ? r->late[--late] : r->v[--from];
    }
}

void rows_put(struct rows *r, struct row row)
{
    assert(r->promised > 0);
    r->promised--;
    if (r->n == 0 || r->v[r->n - 1].time_ns <= row.time_ns) {
        assert(r->n < r->cap);
        r->v[r->n++] = row;
        return;
    }
    assert(r->late_n < r->late_cap);
    r->late[r->late_n++] = row;
    if (!r->gap && r->late_n >= LATE_BASE + r->n / LATE_SHARE) settle(r);
}

// ---- finding

// In v[low .. high).
static size_t first_after(const struct rows *r, size_t low, size_t high, int64_t time_ns)
{
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (r->v[mid].time_ns > time_ns) {
            high = mid;
        } else {
            low = mid + 1;
        }
    }
    return low;
}

struct rows_cursor rows_within(const struct rows *r, int64_t after, int64_t until)
{
    struct rows_cursor c = {.rows = r, .after = after, .until = until};
    size_t front = r->gap ? r->gap->from : r->n;
    size_t back = r->gap ? r->gap->to : r->n;
    c.at = first_after(r, 0, front, after);
    c.behind = first_after(r, back, r->n, after);
    c.to = until > after ? first_after(r, c.at, front, until) : c.at;
    c.end = until > after ? first_after(r, c.behind, r->n, until) : c.behind;
    return c;
}

// ---- removing

static size_t spans_size(const struct row_spans *s)
{
    return sizeof *s + s->count * sizeof s->v[0] + s->n;
}

static size_t notes_size(const struct row_notes *s)
{
    return sizeof *s + s->count * sizeof s->v[0] + s->n;
}

static void payload_unref(struct mem_budget *b, struct payload *p)
{
    if (!p) return;
    assert(p->refs > 0);
    if (--p->refs == 0) mem_free(b, p, sizeof *p + p->room);
}

void row_release(struct mem_budget *b, struct row *row)
{
    payload_unref(b, row->vector);
    if (row->spans) mem_free(b, row->spans, spans_size(row->spans));
    if (row->notes) mem_free(b, row->notes, notes_size(row->notes));
}

static size_t keep_others(struct row *v, size_t n, struct mem_budget *b, row_test *goes,
                          const void *arg)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (goes(arg, &v[i])) {
            row_release(b, &v[i]);
        } else {
            v[kept++] = v[i];
        }
    }
    return kept;
}

// Gives back half of an array that is mostly empty; if there is no memory to do it in, it waits.
static void shrink(struct mem_budget *b, struct row **v, size_t *cap, size_t need)
{
    if (need > *cap / 4) return;
    err e = {0};
    size_t size = sizeof **v;
    struct row *p = need == 0 ? NULL : mem_resize(b, *v, *cap * size, *cap / 2 * size, &e);
    if (need == 0) mem_free(b, *v, *cap * size);
    if (need > 0 && !p) return;
    *v = p;
    *cap = need == 0 ? 0 : *cap / 2;
}

static void shrink_both(struct rows *r, struct mem_budget *b)
{
    shrink(b, &r->v, &r->cap, r->n + r->late_n + r->promised);
    shrink(b, &r->late, &r->late_cap, r->late_n + r->promised);
}

// Whoever made the gap looks at all rows once more.
static void close_gap(struct rows *r)
{
    struct rows_gap *g = r->gap;
    memmove(&r->v[g->from], &r->v[g->to], (r->n - g->to) * sizeof *r->v);
    r->n -= g->to - g->from;
    g->from = g->to = 0;
    g->late = SIZE_MAX;
}

size_t rows_remove(struct rows *r, struct mem_budget *b, row_test *goes, const void *arg)
{
    if (r->gap) close_gap(r);
    size_t before = rows_count(r);
    r->n = keep_others(r->v, r->n, b, goes, arg);
    r->late_n = keep_others(r->late, r->late_n, b, goes, arg);
    if (rows_count(r) == before) return 0;
    shrink_both(r, b);
    return before - rows_count(r);
}

// Late rows have no order: the last one takes the place of one that goes.
static size_t thin_late(struct rows *r, struct mem_budget *b, row_test *goes, const void *arg,
                        size_t *run)
{
    struct rows_gap *g = r->gap;
    size_t removed = 0;
    g->late = MIN(g->late, r->late_n);
    for (; g->late > 0 && *run > 0; --*run) {
        struct row *row = &r->late[--g->late];
        if (!goes(arg, row)) continue;
        row_release(b, row);
        *row = r->late[--r->late_n];
        removed++;
    }
    return removed;
}

bool rows_thin(struct rows *r, struct mem_budget *b, struct rows_gap *gap, row_test *goes,
               const void *arg, size_t *run, size_t *removed)
{
    if (!r->gap) *gap = (struct rows_gap){.late = SIZE_MAX};
    r->gap = gap;
    for (; gap->to<r->n && * run> 0; --*run) {
        struct row *row = &r->v[gap->to++];
        if (goes(arg, row)) {
            row_release(b, row);
            ++*removed;
        } else {
            if (gap->from + 1 < gap->to) r->v[gap->from] = *row;
            gap->from++;
        }
    }
    // A gap that reaches the end is none: who puts a row looks at the last one.
    if (gap->to == r->n) r->n = gap->to = gap->from;
    *removed += thin_late(r, b, goes, arg, run);
    if (gap->to < r->n || gap->late > 0) return false;
    r->gap = NULL;
    shrink_both(r, b);
    return true;
}

void rows_release(struct rows *r, struct mem_budget *b)
{
    assert(!r->gap);
    for (size_t i = 0; i < r->n; i++)
        row_release(b, &r->v[i]);
    for (size_t i = 0; i < r->late_n; i++)
        row_release(b, &r->late[i]);
    mem_free(b, r->v, r->cap * sizeof *r->v);
    mem_free(b, r->late, r->late_cap * sizeof *r->late);
    *r = (struct rows){0};
}

// ---- what rows own

struct payload *payload_new(struct mem_budget *b, str bytes, err *e)
{
    assert(bytes.n <= UINT32_MAX);
    struct payload *p = mem_alloc(b, sizeof *p + bytes.n, e);
    if (!p) return NULL;
    p->refs = 1;
    p->n = (uint32_t)bytes.n;
    p->room = p->n;
    memcpy(p->bytes, bytes.p, bytes.n);
    return p;
}

str payload_view(const struct payload *p)
{
    return str_make(p->bytes, p->n);
}

struct row_spans *row_spans_new(struct mem_budget *b, uint32_t count, uint32_t bytes, err *e)
{
    struct row_spans shape = {.count = count, .n = bytes};
    struct row_spans *s = mem_alloc(b, spans_size(&shape), e);
    if (s) *s = shape;
    return s;
}

char *row_spans_bytes(struct row_spans *s)
{
    return (char *)&s->v[s->count];
}

str row_span_vector(const struct row_spans *s, uint32_t i)
{
    const char *bytes = (const char *)&s->v[s->count];
    assert(i < s->count);
    return str_make(bytes + s->v[i].at, s->v[i].n);
}

struct row_notes *row_notes_new(struct mem_budget *b, const label *annotations, uint32_t count,
                                err *e)
{
    struct row_notes shape = {.count = count};
    for (uint32_t i = 0; i < count; i++) {
        size_t n = annotations[i].name.n + annotations[i].value.n;
        if (n > UINT32_MAX - shape.n) {
            err_set(e, ERR_RESOURCE_EXHAUSTED, "annotations of a profile have 4 GiB or more");
            return NULL;
        }
        shape.n += (uint32_t)n;
    }
    struct row_notes *s = mem_alloc(b, notes_size(&shape), e);
    if (!s) return NULL;
    *s = shape;
    char *to = (char *)&s->v[count];
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        str key = annotations[i].name;
        str value = annotations[i].value;
        s->v[i] = (struct row_note){at, (uint32_t)key.n, (uint32_t)value.n};
        if (key.n) memcpy(to + at, key.p, key.n);
        at += (uint32_t)key.n;
        if (value.n) memcpy(to + at, value.p, value.n);
        at += (uint32_t)value.n;
    }
    return s;
}

label row_note(const struct row_notes *s, uint32_t i)
{
    assert(i < s->count);
    const char *key = (const char *)&s->v[s->count] + s->v[i].at;
    return (label){str_make(key, s->v[i].key_n), str_make(key + s->v[i].key_n, s->v[i].value_n)};
}
