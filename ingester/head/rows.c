// SPDX-License-Identifier: Apache-2.0
#include "ingester/head/rows.h"

#include "base/search.h"

#include <stdlib.h>

// See rows.h: late rows are merged in once there are LATE_BASE + n / LATE_SHARE.
#define LATE_BASE  64
#define LATE_SHARE 8

// ---- room

bool rows_promise(struct rows *r, struct mem_budget *b, size_t n, err *e)
{
    // A row may turn out late, so each promise takes a place in both; and merging needs room in v
    // for all late rows.
    size_t promised = r->promised + n;
    if (!mem_grow(b, &r->late, &r->late_cap, r->late_n + promised, sizeof *r->late, e) ||
        !mem_grow(b, &r->v, &r->cap, r->n + r->late_n + promised, sizeof *r->v, e)) {
        return false;
    }
    r->promised = promised;
    return true;
}

bool rows_reserve(struct rows *r, struct mem_budget *b, size_t n, size_t late, err *e)
{
    return mem_grow(b, &r->late, &r->late_cap, r->late_n + late, sizeof *r->late, e) &&
           mem_grow(b, &r->v, &r->cap, r->n + r->late_n + n + late, sizeof *r->v, e);
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

// Merges the late rows into v from the back, so that v needs no second array.
static void merge_late(struct rows *r)
{
    assert(!r->gap && r->cap >= r->n + r->late_n);
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

void rows_add(struct rows *r, struct row row)
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
}

void rows_put(struct rows *r, struct row row)
{
    size_t late = r->late_n;
    rows_add(r, row);
    if (!r->gap && r->late_n > late && r->late_n >= LATE_BASE + r->n / LATE_SHARE) merge_late(r);
}

// ---- finding

// The first row in v[low .. high) that is later; high: none.
static size_t first_after(const struct rows *r, size_t low, size_t high, int64_t time_ns)
{
    return SEARCH(at, low, high, r->v[at].time_ns <= time_ns);
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

static size_t payload_size(const struct payload *p)
{
    return sizeof *p + p->n;
}

// True: that was the last reference.
static bool payload_unref(struct payload *p)
{
    assert(p->refs > 0);
    return --p->refs == 0;
}

void row_release(struct mem_budget *b, struct row *row)
{
    if (row->vector && payload_unref(row->vector))
        mem_free(b, row->vector, payload_size(row->vector));
    if (row->spans) mem_free(b, row->spans, spans_size(row->spans));
    if (row->notes) mem_free(b, row->notes, notes_size(row->notes));
}

static void throw(struct rows_run * run, void *p, size_t bytes)
{
    struct rows_waste *w = p;
    if (!w) return;
    assert(bytes >= sizeof *w);
    *w = (struct rows_waste){run->waste, bytes};
    run->waste = w;
}

void rows_waste_free(struct mem_budget *b, struct rows_waste *list)
{
    while (list) {
        struct rows_waste *next = list->next;
        mem_free(b, list, list->bytes);
        list = next;
    }
}

static void row_throw(struct rows_run *run, struct row *row)
{
    if (row->vector && payload_unref(row->vector))
        throw(run, row->vector, payload_size(row->vector));
    if (row->spans) throw(run, row->spans, spans_size(row->spans));
    if (row->notes) throw(run, row->notes, notes_size(row->notes));
    run->removed++;
}

// Late rows have no order: the last one takes the place of one that goes.
static void thin_late(struct rows *r, row_test *goes, const void *arg, struct rows_run *run)
{
    struct rows_gap *g = r->gap;
    g->late = MIN(g->late, r->late_n);
    for (; g->late > 0 && run->left > 0; run->left--) {
        struct row *row = &r->late[--g->late];
        if (!goes(arg, row)) continue;
        row_throw(run, row);
        *row = r->late[--r->late_n];
    }
}

// Gives memory of a mostly empty array back: all of it, or its end, a piece in each run, because a
// smaller piece may have to be copied to another place. Without memory for that it stays large
// until another removal. False: there is more.
static bool shrink(struct mem_budget *b, struct row **v, size_t *cap, size_t need,
                   struct rows_run *run)
{
    err e = {0};
    const size_t size = sizeof **v;
    if (need == 0) {
        throw(run, *v, *cap * size);
        *v = NULL;
        *cap = 0;
    }
    if (need >= *cap / 4) return true;
    if (run->left == 0) return false;
    size_t piece = MIN(*cap - 2 * need, (size_t)ROWS_SHRINK);
    struct row *p = mem_resize(b, *v, *cap * size, (*cap - piece) * size, &e);
    if (!p) return true;
    *v = p;
    *cap -= piece;
    run->left -= MIN(run->left, piece);
    return need >= *cap / 4;
}

bool rows_thin(struct rows *r, struct mem_budget *b, struct rows_gap *gap, row_test *goes,
               const void *arg, struct rows_run *run)
{
    assert(!r->gap || r->gap == gap);  // one removal at a time
    if (!r->gap) *gap = (struct rows_gap){.late = SIZE_MAX};
    r->gap = gap;
    assert(gap->from <= gap->to && gap->to <= r->n);
    for (; gap->to < r->n && run->left > 0; run->left--) {
        struct row *row = &r->v[gap->to++];
        if (goes(arg, row)) {
            row_throw(run, row);
        } else {
            if (gap->from + 1 < gap->to) r->v[gap->from] = *row;
            gap->from++;
        }
    }
    // A gap that reaches the end is cut off at once: rows_add compares with the last row.
    if (gap->to == r->n) r->n = gap->to = gap->from;
    thin_late(r, goes, arg, run);
    if (gap->to < r->n || gap->late > 0) return false;
    if (!shrink(b, &r->v, &r->cap, r->n + r->late_n + r->promised, run) ||
        !shrink(b, &r->late, &r->late_cap, r->late_n + r->promised, run)) {
        return false;
    }
    r->gap = NULL;
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

struct row_notes *row_notes_copy(struct mem_budget *b, const struct row_notes *s, err *e)
{
    struct row_notes *copy = mem_alloc(b, notes_size(s), e);
    if (copy) memcpy(copy, s, notes_size(s));
    return copy;
}

label row_note(const struct row_notes *s, uint32_t i)
{
    assert(i < s->count);
    const char *key = (const char *)&s->v[s->count] + s->v[i].at;
    return (label){str_make(key, s->v[i].key_n), str_make(key + s->v[i].key_n, s->v[i].value_n)};
}
