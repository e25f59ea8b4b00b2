// SPDX-License-Identifier: Apache-2.0
//
// lz4.c - the library with checked sizes: it counts in int.
#include "codec/lz4.h"

#include <limits.h>
#include <lz4.h>

bool lz4_unpack_against(str base, str block, size_t size, struct buf *out, err *e)
{
    if (block.n == 0 || block.n > INT_MAX || size > LZ4_MAX_INPUT_SIZE || base.n > LZ4_BASE_MAX) {
        return err_set(e, ERR_INVALID_ARGUMENT, "a block of %zu bytes for %zu", block.n, size);
    }
    char *to = buf_reserve(out, size);
    if (!to && size > 0) return buf_ok(out, e);
    // "Safe": the decoder checks all its reads and writes against these sizes.
    assert(!size || (size_t)size <= out->room - out->n);
    int n = size ? LZ4_decompress_safe_usingDict(block.p, to, (int)block.n, (int)size, base.p,
                                                 (int)base.n)
                 : -1;
    if (n < 0 || (size_t)n != size) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "a block of %zu bytes does not have the %zu bytes that it should", block.n,
                       size);
    }
    out->n += size;
    return true;
}

bool lz4_unpack(str block, size_t size, struct buf *out, err *e)
{
    return lz4_unpack_against((str){0}, block, size, out, e);
}

bool lz4_unpack_to(str block, void *out, size_t n, err *e)
{
    struct buf to = {.p = out, .room = n, .cap = n};  // has its room, and takes no more
    return lz4_unpack(block, n, &to, e);
}

bool lz4_pack(str bytes, struct buf *out, err *e)
{
    if (bytes.n > LZ4_MAX_INPUT_SIZE) {
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "a block of %zu bytes, limit %d", bytes.n,
                       LZ4_MAX_INPUT_SIZE);
    }
    size_t room = MIN((size_t)LZ4_compressBound((int)bytes.n), out->cap - out->n);
    char *at = buf_reserve(out, room);
    if (!at) return buf_ok(out, e);
    int n = LZ4_compress_default(bytes.n ? bytes.p : "", at, (int)bytes.n, (int)room);
    out->n += (size_t)n;
    // It fits the bound always, so the cap was smaller.
    assert(n >= 0);
    if (n == 0) out->failed = true;
    return buf_ok(out, e);
}
