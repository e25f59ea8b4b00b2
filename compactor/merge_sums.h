// SPDX-License-Identifier: Apache-2.0
//
// merge_sums.h - adds up vectors: a dense array of sums, and bits that mark the rows that have one,
// so that taking the result costs time by the rows that were added, not by all rows.
#pragma once

#include "model/columns.h"

struct merge_sums {
    struct mem_budget *budget;
    int64_t *sums;
    uint64_t *marks;  // a bit for each row
    uint64_t *tops;   // a bit for each word of marks
    uint32_t n;
    uint64_t profiles;
    int64_t total;
    int64_t first_ns;
    int64_t last_ns;
};

// For n rows; release is idempotent.
bool merge_sums_init(struct merge_sums *s, struct mem_budget *budget, uint32_t n,
                     err *e) MUST_CHECK;
void merge_sums_release(struct merge_sums *s);

// Adds entries; stacks must be below n. Fails with out_of_range if a sum does not fit 64 bits; then
// the sums are undefined.
bool merge_sums_add(struct merge_sums *s, const struct vector_entry *v, size_t n, int64_t factor,
                    err *e) MUST_CHECK;

// Adds to the number of profiles, their total and their range of times.
bool merge_sums_note(struct merge_sums *s, uint64_t profiles, int64_t total, int64_t first_ns,
                     int64_t last_ns, err *e) MUST_CHECK;

// The entries, ascending, without zeros; the arena's. Afterwards all sums and notes are zero again.
bool merge_sums_take(struct merge_sums *s, struct arena *a, struct vector_entry **v, size_t *n,
                     err *e) MUST_CHECK;
