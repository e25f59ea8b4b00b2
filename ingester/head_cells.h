// SPDX-License-Identifier: Apache-2.0
//
// head_cells.h - sums by (group, point, bucket), only where there is data; private to head*.c.
//
// Groups and cells are found by hash, so memory follows the answer and neither the rows nor points
// times series. Totals use bucket 0 only.
#pragma once

#include "ingester/head_values.h"

struct cell {
    uint32_t group;
    uint32_t bucket;
    int64_t point;
    int64_t sum;
    uint64_t count;
    uint32_t best;   // row of cells.best
    uint32_t notes;  // 1 + row of cells.notes, a list; 0 = none
};

struct cell_note {
    uint32_t cell;
    uint32_t next;  // 1 + row; 0 = the last
    label note;     // borrows from a row, which stays while the head is held
};

struct cells {
    struct arena *arena;
    const str *group_by;
    size_t group_by_count;
    bool with_best;
    struct label_room room;
    labels *groups;
    size_t group_cap;
    uint32_t group_count;
    struct map by_labels;
    struct cell *v;
    size_t cap;
    uint32_t n;
    struct map by_key;
    struct found *best;  // one a cell, if with_best
    size_t best_cap;
    struct cell_note *notes;
    size_t note_cap;
    uint32_t note_count;
    struct map by_note;
};

// Borrows the names until release.
void cells_init(struct cells *c, struct arena *a, struct mem_budget *memory, const str *group_by,
                size_t group_by_count, bool with_best);
void cells_release(struct cells *c);

// The group of a series: its labels of the names in group_by; without names all are one group.
bool cells_group(struct cells *c, const struct service_head *s, uint32_t series, uint32_t *group,
                 err *e) MUST_CHECK;

// The row of a cell, made if it is new; rows stay as they are until cells_sort.
bool cells_at(struct cells *c, uint32_t group, int64_t point, uint32_t bucket, uint32_t *row,
              err *e) MUST_CHECK;

// Keeps the better one.
void cells_offer(struct cells *c, uint32_t row, const struct found *f);

// Adds the annotations of a row, each once.
bool cells_note(struct cells *c, uint32_t row, const struct row_notes *notes, err *e) MUST_CHECK;

// Brings cells in the order of group, point, bucket.
void cells_sort(struct cells *c);

// A cell's annotations in order; the arena's.
bool cells_notes(const struct cells *c, const struct cell *cell, const label **out, size_t *n,
                 err *e) MUST_CHECK;
