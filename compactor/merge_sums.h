// SPDX-License-Identifier: Apache-2.0
//
// merge_sums.h - a vector that others are added to: dense sums, and marks of which rows have one,
// so that taking the result costs what was added and not what could have been.
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

// Entries whose stacks are rows of it. Fails with out_of_range if a sum does not fit.
bool merge_sums_add(struct merge_sums *s, const struct vector_entry *v, size_t n, int64_t factor,
                    err *e) MUST_CHECK;

// What is said of them besides.
bool merge_sums_note(struct merge_sums *s, uint64_t profiles, int64_t total, int64_t first_ns,
                     int64_t last_ns, err *e) MUST_CHECK;

// The entries, ascending, without zeros; the arena's. Then it is empty, and so are its notes.
bool merge_sums_take(struct merge_sums *s, struct arena *a, struct vector_entry **v, size_t *n,
                     err *e) MUST_CHECK;
