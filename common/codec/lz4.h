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
