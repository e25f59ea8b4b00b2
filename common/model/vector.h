// SPDX-License-Identifier: Apache-2.0
//
// vector.h - sparse vectors (stack id -> value), the unit of merging everywhere.
//
// Bytes: n, divisor, then n times (id delta, zigzag(value / divisor)), all LEB128. Ids ascend
// strictly (the first delta is the id itself), values are not zero, the divisor is the greatest
// common divisor of the values (1 if n = 0, 2^62 if all are -2^63), so equal vectors have equal
// bytes. A reader takes any divisor that int64 holds. Stack 0, the empty stack, may occur: it
// counts in totals, and trees show it as [unknown]. docs/formats/vector.md has examples.
//
// Sums are checked: a sum outside int64 is out_of_range, never wrapped.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "model/wide.h"

struct vector_entry {
    uint32_t stack;
    int64_t value;
};

// Sorts by stack, adds equal stacks, drops zeros; in place. Fails with out_of_range.
bool vector_normalise(struct vector_entry *v, size_t *n, err *e) MUST_CHECK;

// Appends normalised entries to `out`.
void vector_encode(const struct vector_entry *v, size_t n, struct buf *out);

// Appends values[i * stride] of stacks[i], which ascend, for each i below n whose value is not 0.
// Returns the number of entries.
size_t vector_encode_column(const uint32_t *stacks, const int64_t *values, size_t stride, size_t n,
                            struct buf *out);

// Appends the non-zero ones of n dense sums. stack_ids, if not NULL, has the id to write for each
// row, as symbols_encode makes them; ids of non-zero rows ascend.
void vector_encode_sums(const int64_t *sums, size_t n, const uint32_t *stack_ids, struct buf *out);

// ---- reading, entry by entry, with every check
struct vector_reader {
    const uint8_t *at;
    const uint8_t *end;
    uint64_t left;
    int64_t divisor;
    uint32_t stack;
    bool first;
    const char *fault;
};
bool vector_open(struct vector_reader *r, str bytes, err *e) MUST_CHECK;
bool vector_next(struct vector_reader *r, struct vector_entry *v);  // false at the end or a fault
bool vector_done(const struct vector_reader *r, err *e) MUST_CHECK;

// Checks bytes from outside: well-formed, ids below stack_count. *total is the sum of the values
// (out_of_range if it does not fit).
bool vector_check(str bytes, uint32_t stack_count, int64_t *total, err *e) MUST_CHECK;

// sums[id] += value * factor for each entry; every id must be below n. Fails with invalid_argument
// (malformed) or out_of_range; what was added before the fault stays added.
bool vector_add(str bytes, int64_t factor, int64_t *sums, size_t n, err *e) MUST_CHECK;

// The same for sums that may exceed int64; slower.
bool vector_add_wide(str bytes, int64_t factor, struct wide *sums, size_t n, err *e) MUST_CHECK;

// a += b, checked: false and *a wrapped if the result does not fit.
static inline MUST_CHECK bool sum_add(int64_t *a, int64_t b)
{
    return !__builtin_add_overflow(*a, b, a);
}
