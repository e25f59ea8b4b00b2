// SPDX-License-Identifier: Apache-2.0
//
// rows.h - the profile rows of one series, found by time.
//
// Profiles arrive almost in the order of their times. A row that is not older than the last one of
// `v` is appended there, so v is sorted; an older row goes to `late`, which is not. Once late has
// 64 + 1/8 of v's rows it is sorted and merged into v. So a row costs a constant on average in any
// order of arrival; a reader searches v and looks through all of late.
//
//     v     |10|10|20|35|35|60|71|      sorted by time
//     late  |34|12|                     any order, fewer than 64 + n/8
//
// Rows come in two steps, so that nothing can fail after a batch is in the log: rows_promise makes
// room, rows_put uses it or rows_forgive gives it back. The owner's lock covers all of it.
//
// The rows of a cut are removed in runs, and the owner's lock may be given up between two runs
// (rows_thin). The rows that a run has visited and kept are moved together. Between them and the
// rest of v lies a gap that no reader enters:
//
//     v     |10|20|35|  gap  |60|61|71|
//
// The last run closes it. Memory of removed rows is not freed under the owner's lock, because the
// allocator may give a large stretch back to the system just then, which takes long. It goes to a
// list (struct rows_waste), which is freed after the lock was given up.
#pragma once

#include "base/mem.h"
#include "base/ulid.h"
#include "ingester/log/cut.h"
#include "model/label.h"

// A vector's bytes (ids of the service's symbols), shared by the records of a batch that are
// multiples of each other.
struct payload {
    uint32_t refs;
    uint32_t n;
    uint32_t pass;   // of the compaction that copied it last,
    uint32_t place;  // and its number there (head_compact.c)
    char bytes[];
};

// The parts of a row that belong to spans; the bytes of their vectors follow the table.
struct row_span {
    uint64_t span_id;
    uint8_t trace_id[16];
    bool has_trace;
    uint32_t at;  // of its vector in `bytes` of row_spans
    uint32_t n;
};
struct row_spans {
    uint32_t count;
    uint32_t n;  // bytes behind the table
    struct row_span v[];
};

// Things that only few rows have: where a repeated attempt was first sent, and the distributor's
// annotations, whose bytes follow the table.
struct row_note {
    uint32_t at;  // of its key in the bytes; the value follows
    uint32_t key_n;
    uint32_t value_n;
};
struct row_notes {
    id128 first_stream;
    bool has_first_stream;
    uint32_t count;
    uint32_t n;  // bytes behind the table
    struct row_note v[];
};

struct row {
    int64_t time_ns;
    id128 id;
    int64_t total;
    int64_t factor;  // of the vector
    int64_t duration_ns;
    int64_t period;
    struct payload *vector;
    struct row_spans *spans;  // or NULL
    struct row_notes *notes;  // or NULL
    struct cut *cut;
    uint16_t attempt;
    uint16_t placing;  // number among the head's (head_placing); 0: the client gave no id
    uint32_t turn;     // of the publication that brought it, as counted by the service
};

// Memory to be freed, linked through itself.
struct rows_waste {
    struct rows_waste *next;
    size_t bytes;
};
void rows_waste_free(struct mem_budget *b, struct rows_waste *list);

// A removal in runs: where it is. Its owner's, until rows_thin says that it is done.
struct rows_gap {
    size_t from;  // v[from .. to) is the gap
    size_t to;    // v[to ..) was not looked at
    size_t late;  // nor were the first so many late ones
};

struct rows {
    struct row *v;
    struct row *late;
    struct rows_gap *gap;  // NULL: none
    size_t n;              // the gap included
    size_t cap;
    size_t late_n;
    size_t late_cap;
    size_t promised;
};

// Room for n more rows. On failure nothing has changed.
bool rows_promise(struct rows *r, struct mem_budget *b, size_t n, err *e) MUST_CHECK;
void rows_forgive(struct rows *r, size_t n);

// Room for n more rows in order and `late` others, promised to nobody.
bool rows_reserve(struct rows *r, struct mem_budget *b, size_t n, size_t late, err *e) MUST_CHECK;

// Uses one promise; takes the row's references. rows_add leaves the rows that are there where they
// are: the new one comes behind all of v, or of late.
void rows_put(struct rows *r, struct row row);
void rows_add(struct rows *r, struct row row);

// Whether its time is in (after, until].
static inline bool row_within(const struct row *row, int64_t after, int64_t until)
{
    return row->time_ns > after && row->time_ns <= until;
}

// All rows with their time in (after, until]: those in order, then the late ones.
//     struct rows_cursor c = rows_within(rows, after, until);
//     while ((row = rows_next(&c)))
struct rows_cursor {
    const struct rows *rows;
    int64_t after;
    int64_t until;
    size_t at;  // v[at .. to) are left of v, and then,
    size_t to;
    size_t behind;  // behind a gap, v[behind .. end)
    size_t end;
    size_t late;
};
struct rows_cursor rows_within(const struct rows *r, int64_t after, int64_t until);

// NULL at the end.
static inline const struct row *rows_next(struct rows_cursor *c)
{
    if (c->at < c->to) return &c->rows->v[c->at++];
    if (c->behind < c->end) return &c->rows->v[c->behind++];
    while (c->late < c->rows->late_n) {
        const struct row *row = &c->rows->late[c->late++];
        if (row_within(row, c->after, c->until)) return row;
    }
    return NULL;
}

// Whether a row was there when the service had counted `turn` publications. The count wraps around.
// A row is mistaken only if 2^31 publications of a service come while the row is held.
static inline bool row_by(const struct row *row, uint32_t turn)
{
    return turn - row->turn < UINT32_C(1) << 31;
}

// Removes the rows for which `goes` is true, in runs. A run visits run->left rows at most and
// lowers run->left by those that it visited; an array that becomes mostly empty shrinks by
// ROWS_SHRINK rows a run. False while there is more to do; the caller comes again with the same
// gap, at first a zero value. Rows that are added meanwhile must not be ones that go.
typedef bool row_test(const void *arg, const struct row *row);
struct rows_run {
    size_t left;
    size_t removed;            // counts
    struct rows_waste *waste;  // grows; the caller's to free
};
bool rows_thin(struct rows *r, struct mem_budget *b, struct rows_gap *gap, row_test *goes,
               const void *arg, struct rows_run *run) MUST_CHECK;
#define ROWS_SHRINK 1024

// For qsort: by time, then id, which makes the order of rows the same in every run.
int rows_order(const void *a, const void *b);

void rows_release(struct rows *r, struct mem_budget *b);
static inline size_t rows_count(const struct rows *r)
{
    size_t gap = r->gap ? r->gap->to - r->gap->from : 0;
    return r->n - gap + r->late_n;
}

// Whether it has rows, or room is promised for some.
static inline bool rows_is_active(const struct rows *r)
{
    return rows_count(r) > 0 || r->promised > 0;
}

// ---- what rows own
struct payload *payload_new(struct mem_budget *b, str bytes, err *e) MUST_CHECK;  // one reference
str payload_view(const struct payload *p);

struct row_spans *row_spans_new(struct mem_budget *b, uint32_t count, uint32_t bytes,
                                err *e) MUST_CHECK;
char *row_spans_bytes(struct row_spans *s);
str row_span_vector(const struct row_spans *s, uint32_t i);

// The annotations are copied. NULL with *e set on failure.
struct row_notes *row_notes_new(struct mem_budget *b, const label *annotations, uint32_t count,
                                err *e) MUST_CHECK;
label row_note(const struct row_notes *s, uint32_t i);

struct row_notes *row_notes_copy(struct mem_budget *b, const struct row_notes *s,
                                 err *e) MUST_CHECK;

// What a row owns: vector, spans, notes.
void row_release(struct mem_budget *b, struct row *row);
