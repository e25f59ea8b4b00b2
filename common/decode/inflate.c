// SPDX-License-Identifier: Apache-2.0
//
// inflate.c - tells gzip by its first bytes; other bytes stay where they are.
#include "decode/inflate.h"

#include "codec/compress.h"

static void release_buf(void *arg)
{
    buf_release(arg);
}

static bool too_large(size_t max, bool *over_cap, err *e)
{
    if (over_cap) *over_cap = true;
    return err_set(e, ERR_RESOURCE_EXHAUSTED, "decompressed data is larger than %zu bytes", max);
}

bool inflate_bytes(struct arena *a, str bytes, size_t max, str *out, bool *over_cap, err *e)
{
    if (over_cap) *over_cap = false;
    if (!compress_is_gzip(bytes)) {
        if (max && bytes.n > max) return too_large(max, over_cap, e);
        *out = bytes;
        return true;
    }
    struct buf *b = ARENA_NEW(a, struct buf);
    if (!b || !arena_defer(a, release_buf, b)) return arena_fail(a, e);
    buf_init(b, a->budget, max ? max : SIZE_MAX / 2);
    if (!compress_gunzip(bytes, b, e)) {
        // A buffer that is full at our own cap is the sender's fault; one that is refused memory by
        // the budget is not.
        bool full = e->code == ERR_RESOURCE_EXHAUSTED && !b->failed && max && b->room >= max;
        return full ? too_large(max, over_cap, e) : false;
    }
    // The arena's hook frees the buffer, so the bytes live as long as the request.
    assert(!max || b->n <= max);
    *out = buf_view(b);
    return true;
}
