// SPDX-License-Identifier: Apache-2.0
#include "codec/lz4.h"

#include <limits.h>
#include <lz4.h>

#define LEAST 256  // bytes; below that nothing is won

struct lz4_base {
    LZ4_stream_t stream;  // having read the base; whoever packs works on a copy
};

struct lz4_base *lz4_base_new(struct mem_budget *b, str bytes, err *e)
{
    assert(bytes.n <= LZ4_BASE_MAX);
    struct lz4_base *base = mem_alloc(b, sizeof *base, e);
    if (!base) return NULL;
    LZ4_resetStream(&base->stream);
    (void)LZ4_loadDict(&base->stream, bytes.p, (int)bytes.n);
    return base;
}

void lz4_base_free(struct mem_budget *b, struct lz4_base *base)
{
    mem_free(b, base, sizeof *base);
}

// base NULL: without one.
static bool pack(const struct lz4_base *base, str in, struct buf *out, bool *packed, err *e)
{
    *packed = false;
    if (in.n < LEAST || in.n > LZ4_MAX_INPUT_SIZE) return true;
    size_t room = in.n - in.n / 4;
    char *to = buf_reserve(out, room);
    if (!to) return buf_ok(out, e);
    int n = 0;
    if (base) {
        LZ4_stream_t stream = base->stream;
        n = LZ4_compress_fast_continue(&stream, in.p, to, (int)in.n, (int)room, 1);
    } else {
        n = LZ4_compress_fast(in.p, to, (int)in.n, (int)room, 1);
    }
    if (n <= 0) return true;
    out->n += (size_t)n;
    *packed = true;
    return true;
}

bool lz4_pack(str in, struct buf *out, bool *packed, err *e)
{
    return pack(NULL, in, out, packed, e);
}

bool lz4_pack_against(const struct lz4_base *base, str in, struct buf *out, bool *packed, err *e)
{
    return pack(base, in, out, packed, e);
}

bool lz4_unpack_against(str base, str block, size_t size, struct buf *out, err *e)
{
    if (block.n == 0 || block.n > INT_MAX || size > LZ4_MAX_INPUT_SIZE || base.n > LZ4_BASE_MAX) {
        return err_set(e, ERR_INVALID_ARGUMENT, "a block of %zu bytes for %zu", block.n, size);
    }
    char *to = buf_reserve(out, size);
    if (!to && size > 0) return buf_ok(out, e);
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
