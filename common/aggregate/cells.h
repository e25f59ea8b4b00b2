// SPDX-License-Identifier: Apache-2.0
//
// cells.h - sums by (group, point, bucket), only where there is data: what totals and heat maps are
// added up in.
//
// Rows are added series by series, from a head or from blocks; cells of another answer are added
// with their sums. All come to the same cells, found by hash, so memory follows the answer and not
// what was read. A group is the labels of a series whose names are in group_by; without names all
// series are one group.
//
//     cells_init ... { cells_at, cells_add, cells_offer, cells_annotate } ... cells_finish
//
// cells_finish brings groups in the order of their labels and cells in that of group, point and
// bucket; from then on cells are only read, and added up in views (totals.h).
//
// Arrays are the arena's, indexes count against the budget; both are the caller's, as are the
// names of group_by. One thread. What fails says which limit was met.
#pragma once

#include "aggregate/exemplar.h"
#include "base/map.h"

struct cell {
    uint32_t group;   // row of cells.groups
    uint32_t bucket;  // of totals 0
    int64_t point;
    int64_t sum;
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

// A series while its rows are added, and what is known of it by then. The labels are borrowed for
// that time.
struct cells_series {
    labels ls;
    bool lasting;  // strings of its labels outlive the cells; else those that stay are copied
    bool has_group;
    bool has_shown;
    uint32_t group;
    uint32_t cell;  // 1 + row of the cell that was found last; 0: none
    labels shown;   // behind exemplars: its labels without those of the group
};

// The row of a cell, made if it is new. Rows stay as they are until cells_finish, their array
// moves.
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

bool cells_no_sum(const struct cell *cell, err *e);  // fails with out_of_range

static inline MUST_CHECK bool cells_add(struct cells *c, uint32_t row, int64_t sum, uint64_t count,
                                        err *e)
{
    struct cell *cell = &c->v[row];
    cell->count += count;
    return !__builtin_add_overflow(cell->sum, sum, &cell->sum) || cells_no_sum(cell, e);
}

// Shows the exemplar for the cell if it comes before the one that is. Its labels are those of the
// series; x->ls is not looked at.
bool cells_offer(struct cells *c, struct cells_series *s, uint32_t row, const struct exemplar *x,
                 err *e) MUST_CHECK;

// The same with x->ls as it is; it outlives the cells.
bool cells_offer_known(struct cells *c, uint32_t row, const struct exemplar *x, err *e) MUST_CHECK;

// Notes an annotation of a row, each once a cell. If its strings do not outlive the cells they are
// copied.
bool cells_annotate(struct cells *c, uint32_t row, label note, bool lasting, err *e) MUST_CHECK;

// Once, after what was added last.
bool cells_finish(struct cells *c, err *e) MUST_CHECK;

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
