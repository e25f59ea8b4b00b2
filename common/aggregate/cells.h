// SPDX-License-Identifier: Apache-2.0
//
// cells.h - sums by (group, point, bucket), for totals and heat maps. A cell exists only where
// there is data.
//
// Rows are added series by series, from a head or from blocks; cells of another answer are added
// with their sums. A cell is found by hash, so memory grows with the answer, not with the rows that
// were read. The group of a series is its labels with names in group_by; without names all series
// are one group.
//
//     cells_init ... { cells_at, cells_add, cells_offer, cells_annotate } ... cells_finish
//
// cells_finish sorts groups by their labels, and cells by group, point and bucket. From then on
// cells are only read.
//
// A sum that does not fit int64 is kept with its carry: it is a matter of its own cell, and may
// come back into range. cells_clip makes the last sums of all cells int64, and says which do not
// fit.
//
// Arrays are the arena's, indexes count against the budget; both belong to the caller, as do the
// names of group_by. One thread. Every failure is a limit of memory, named in the message.
#pragma once

#include "aggregate/exemplar.h"
#include "base/map.h"
#include "model/wide.h"

struct cell {
    uint32_t group;   // row of cells.groups
    uint32_t bucket;  // of totals 0
    int64_t point;
    int64_t sum;  // with carry, if that is not 0: sum + carry * 2^64 (model/wide.h)
    int64_t carry;
    uint64_t count;
    uint32_t best;   // 1 + row of cells.best; 0: none
    uint32_t notes;  // 1 + row of cells.notes, the first of a list; 0: none
};

struct cell_note {
    uint32_t cell;
    uint32_t next;  // 1 + row; 0: the last
    label note;
};

struct cells {
    struct arena *arena;
    const str *group_by;
    size_t group_by_count;
    bool finished;
    label *room;  // of labels that are being picked
    size_t room_cap;
    labels *groups;
    size_t group_cap;
    uint32_t group_count;
    struct map by_labels;
    struct cell *v;
    size_t cap;
    uint32_t n;
    struct map by_place;
    struct exemplar *best;
    size_t best_cap;
    uint32_t best_count;
    struct cell_note *notes;
    size_t note_cap;
    uint32_t note_count;
    struct map by_note;
};

void cells_init(struct cells *c, struct arena *a, struct mem_budget *budget, const str *group_by,
                size_t group_by_count);
void cells_release(struct cells *c);  // the indexes; idempotent

// A series while its rows are added, with what was found out about it so far. The labels are
// borrowed until its last row is added.
struct cells_series {
    labels ls;
    bool lasting;  // the strings of its labels outlive the cells; else strings that stay are copied
    bool has_group;
    bool has_shown;
    uint32_t group;
    uint32_t cell;  // 1 + row of the cell that was found last; 0: none
    labels shown;   // for exemplars: its labels without those of the group
};

// The row of a cell, which is made if it is new. Its number stays until cells_finish; its address
// may change with each new cell.
bool cells_find(struct cells *c, struct cells_series *s, int64_t point, uint32_t bucket,
                uint32_t *row, err *e) MUST_CHECK;

// The same; quick where rows of a series come in order of time and hit one cell many times.
static inline MUST_CHECK bool cells_at(struct cells *c, struct cells_series *s, int64_t point,
                                       uint32_t bucket, uint32_t *row, err *e)
{
    if (s->cell) {
        const struct cell *last = &c->v[s->cell - 1];
        *row = s->cell - 1;
        if (last->point == point && last->bucket == bucket) return true;
    }
    return cells_find(c, s, point, bucket, row, e);
}

static inline void cells_add(struct cells *c, uint32_t row, int64_t sum, uint64_t count)
{
    struct cell *cell = &c->v[row];
    cell->count += count;
    wide_add_to(&cell->sum, &cell->carry, sum);
}

static inline void cells_add_wide(struct cells *c, uint32_t row, struct wide sum, uint64_t count)
{
    struct cell *cell = &c->v[row];
    wide_add_to(&cell->sum, &sum.carry, sum.low);
    cell->carry = (int64_t)((uint64_t)cell->carry + (uint64_t)sum.carry);
    cell->count += count;
}

// Makes x the cell's exemplar if it comes before the one that the cell has. Its labels are taken
// from the series, not from x->ls.
bool cells_offer(struct cells *c, struct cells_series *s, uint32_t row, const struct exemplar *x,
                 err *e) MUST_CHECK;

// The same with the labels x->ls, which outlive the cells.
bool cells_offer_known(struct cells *c, uint32_t row, const struct exemplar *x, err *e) MUST_CHECK;

// Adds an annotation to a cell, unless it has an equal one. Strings that do not outlive the cells
// (lasting false) are copied.
bool cells_annotate(struct cells *c, uint32_t row, label note, bool lasting, err *e) MUST_CHECK;

// Sorts. To be called once, after the last row was added.
bool cells_finish(struct cells *c, err *e) MUST_CHECK;

// Replaces each sum that does not fit int64 by the nearest that does, and calls fn, once for a
// group in their order, with the number of its cells that are such. After cells_finish.
typedef bool cell_clipped_fn(void *arg, labels group, size_t cells, err *e);
bool cells_clip(struct cells *c, cell_clipped_fn *fn, void *arg, err *e) MUST_CHECK;

// ---- reading
static inline const struct exemplar *cells_best(const struct cells *c, const struct cell *cell)
{
    return cell->best ? &c->best[cell->best - 1] : NULL;
}

// A cell's annotations in order of key and value; the array is the arena's.
bool cells_notes(const struct cells *c, const struct cell *cell, labels *out, err *e) MUST_CHECK;

// ---- the wire: a message of a group's labels (field 1) and its cells (field 2), in `field`
typedef bool cell_encode_fn(const struct cells *c, const struct cell *cell, struct buf *out,
                            err *e);
bool cells_encode(const struct cells *c, cell_encode_fn *encode, struct buf *out, uint32_t field,
                  err *e) MUST_CHECK;

// Calls `merge` for each cell of such a message, with a series that has its group. Strings borrow
// from the bytes.
typedef bool cell_merge_fn(struct cells *c, struct cells_series *s, str bytes, err *e);
bool cells_merge_bytes(struct cells *c, str bytes, cell_merge_fn *merge, err *e) MUST_CHECK;
