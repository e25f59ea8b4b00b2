// SPDX-License-Identifier: Apache-2.0
//
// lz4.h - bytes made smaller quickly, for what this process writes and reads itself: LZ4 blocks
// (https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md). A block does not say how large its
// bytes are: whoever keeps it keeps that as well.
#pragma once

#include "base/buf.h"

// Appends the block of `in` if it is at least a quarter smaller. *packed says whether; if not,
// nothing was added. Fails with resource_exhausted only.
bool lz4_pack(str in, struct buf *out, bool *packed, err *e) MUST_CHECK;

// Appends the `size` bytes of a block. Fails with invalid_argument if it does not have just so
// many.
bool lz4_unpack(str block, size_t size, struct buf *out, err *e) MUST_CHECK;

// ---- against bytes that the reader has as well, its base: what is in there is written as a place

#define LZ4_BASE_MAX ((size_t)56 << 10)  // places reach back 64 KB, less what may come in between

// Made ready once, used for many blocks at a time by any threads. Borrows the bytes, at most
// LZ4_BASE_MAX. NULL and *e set: resource_exhausted.
struct lz4_base;
struct lz4_base *lz4_base_new(struct mem_budget *b, str bytes, err *e) MUST_CHECK;
void lz4_base_free(struct mem_budget *b, struct lz4_base *base);  // NULL is fine

bool lz4_pack_against(const struct lz4_base *base, str in, struct buf *out, bool *packed,
                      err *e) MUST_CHECK;
bool lz4_unpack_against(str base, str block, size_t size, struct buf *out, err *e) MUST_CHECK;
