// SPDX-License-Identifier: Apache-2.0
//
// columns.h - vectors as blocks keep them.
//
// The same numbers as vector.h in another order: n, divisor, then all id deltas, then all values
// (zigzag, divided), LEB128. Neighbouring rows mostly have the same stacks, so their deltas are the
// same bytes, which zstd then finds; and a run of small numbers is read faster than a mix.
// docs/formats/vector.md has both forms.
#pragma once

#include "model/vector.h"

// Normalised entries -> bytes; non-zero ones of n dense sums -> bytes; vector.h's form -> bytes,
// with each stack replaced by map[stack] if map is not NULL (a permutation need not keep order:
// entries are sorted; *scratch is theirs). All append to *out.
void columns_encode(const struct vector_entry *v, size_t n, struct buf *out);
void columns_encode_sums(const int64_t *sums, size_t n, struct buf *out);
bool columns_from_vector(str vector, const uint32_t *map, struct arena *scratch, struct buf *out,
                         err *e) MUST_CHECK;

// Well-formed, ids below stack_count, sum of values in *total. Trusts nothing.
bool columns_check(str columns, uint32_t stack_count, int64_t *total, err *e) MUST_CHECK;

// sums[id] += value * factor, as vector_add does; at least as fast.
bool columns_add(str columns, int64_t factor, int64_t *sums, size_t n, err *e) MUST_CHECK;

// The entries, ascending; the arena's. Their number at most `most`.
bool columns_entries(struct arena *a, str columns, size_t most, struct vector_entry **v, size_t *n,
                     err *e) MUST_CHECK;
