// SPDX-License-Identifier: Apache-2.0
#include "codec/lz4.h"

#include <limits.h>
#include <lz4.h>

#define LEAST 256  // bytes; below that nothing is won

bool lz4_pack(str in, struct buf *out, bool *packed, err *e)
{
    *packed = false;
    if (in.n < LEAST || in.n > LZ4_MAX_INPUT_SIZE) return true;
    size_t room = in.n - in.n / 4;
    char *to = buf_reserve(out, room);
    if (!to) return buf_ok(out, e);
    int n = LZ4_compress_fast(in.p, to, (int)in.n, (int)room, 1);
    if (n <= 0) return true;
    out->n += (size_t)n;
    *packed = true;
    return true;
}

bool lz4_unpack(str block, size_t size, struct buf *out, err *e)
{
    if (block.n == 0 || block.n > INT_MAX || size > LZ4_MAX_INPUT_SIZE) {
        return err_set(e, ERR_INVALID_ARGUMENT, "a block of %zu bytes for %zu", block.n, size);
    }
    char *to = buf_reserve(out, size);
    if (!to && size > 0) return buf_ok(out, e);
    int n = size ? LZ4_decompress_safe(block.p, to, (int)block.n, (int)size) : -1;
    if (n < 0 || (size_t)n != size) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "a block of %zu bytes does not have the %zu bytes "
                       "that it should",
                       block.n, size);
    }
    out->n += size;
    return true;
}
