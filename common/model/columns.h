// SPDX-License-Identifier: Apache-2.0
//
// columns.h - the form of vectors in blocks.
//
// The same numbers as in vector.h in another order: n, divisor, then all id deltas, then all values
// (zigzag, divided), LEB128. Neighbouring rows mostly have the same stacks, so their deltas are
// equal bytes, which zstd finds; and a run of small numbers is read faster than a mix.
// docs/formats/vector.md has both forms.
#pragma once

#include "model/vector.h"

// Append to *out: normalised entries; the non-zero ones of n dense sums; a vector in the form of
// vector.h. The last one replaces each stack by map[stack] if map is not NULL, and sorts the
// entries, as a map need not keep their order; *scratch is for that.
void columns_encode(const struct vector_entry *v, size_t n, struct buf *out);
void columns_encode_sums(const int64_t *sums, size_t n, struct buf *out);
bool columns_from_vector(str vector, const uint32_t *map, struct arena *scratch, struct buf *out,
                         err *e) MUST_CHECK;

// Checks that the bytes are well-formed and ids below stack_count; *total is the sum of the values.
bool columns_check(str columns, uint32_t stack_count, int64_t *total, err *e) MUST_CHECK;

// sums[id] += value * factor, as vector_add does; at least as fast.
bool columns_add(str columns, int64_t factor, int64_t *sums, size_t n, err *e) MUST_CHECK;

// The same for sums that may exceed int64; slower.
bool columns_add_wide(str columns, int64_t factor, struct wide *sums, size_t n, err *e) MUST_CHECK;

// The entries in ascending order; the arena's. Fails if there are more than `most`.
bool columns_entries(struct arena *a, str columns, size_t most, struct vector_entry **v, size_t *n,
                     err *e) MUST_CHECK;
