// SPDX-License-Identifier: Apache-2.0
//
// lz4.h - LZ4 blocks (https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md): of logs that
// earlier programs wrote, and of small sections of segments, which zstd would pack better and in
// four times the time. A block does not say how large its bytes are: whoever keeps it keeps that as
// well.
#pragma once

#include "base/buf.h"

// Of a base, bytes that the reader has as well and that stand before the block's, so many count.
#define LZ4_BASE_MAX ((size_t)56 << 10)

// Appends the `size` bytes of a block. Fails with invalid_argument if it does not have just so
// many.
bool lz4_unpack(str block, size_t size, struct buf *out, err *e) MUST_CHECK;
bool lz4_unpack_against(str base, str block, size_t size, struct buf *out, err *e) MUST_CHECK;

// The same into n bytes, which it must fill.
bool lz4_unpack_to(str block, void *out, size_t n, err *e) MUST_CHECK;

// Appends the block of some bytes, which may be larger than they are. Fails with resource_exhausted
// only. The same bytes give the same block.
bool lz4_pack(str bytes, struct buf *out, err *e) MUST_CHECK;
