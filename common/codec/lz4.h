// SPDX-License-Identifier: Apache-2.0
//
// lz4.h - LZ4 blocks (https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md), in logs that
// earlier programs wrote and in small sections of segments, which zstd would compress better but in
// four times the time. A block does not contain the size of its uncompressed bytes: the caller
// stores it.
#pragma once

#include "base/buf.h"

// A base is a run of bytes that the reader has as well and to which the block may refer: at most so
// many.
#define LZ4_BASE_MAX ((size_t)56 << 10)

// Appends the `size` bytes of a block. Fails with invalid_argument if the block has another size.
bool lz4_unpack(str block, size_t size, struct buf *out, err *e) MUST_CHECK;
bool lz4_unpack_against(str base, str block, size_t size, struct buf *out, err *e) MUST_CHECK;

// The same into n bytes, which it must fill.
bool lz4_unpack_to(str block, void *out, size_t n, err *e) MUST_CHECK;

// Appends the block of some bytes, which may be larger than they are. Fails with resource_exhausted
// only. The same bytes give the same block.
bool lz4_pack(str bytes, struct buf *out, err *e) MUST_CHECK;
