// SPDX-License-Identifier: Apache-2.0
#include "codec/pb.h"
#include "model/label.h"

static size_t text_bytes(str s)
{
    return s.n ? 1 + varint_size(s.n) + s.n : 0;
}

void labels_put(labels ls, struct buf *out, uint32_t field)
{
    assert(field < 16);
    for (size_t i = 0; i < ls.n; i++) {
        label one = ls.v[i];
        size_t pair = text_bytes(one.name) + text_bytes(one.value);
        size_t all = 1 + varint_size(pair) + pair;
        uint8_t *at = (uint8_t *)buf_reserve(out, all);
        if (!at) return;
        at = pb_raw_head(at, field, pair);
        at = pb_raw_bytes_opt(at, 1, one.name);
        (void)pb_raw_bytes_opt(at, 2, one.value);
        out->n += all;
    }
}

void labels_put_set(labels ls, struct buf *out, uint32_t field)
{
    size_t mark = pb_begin(out, field);
    labels_put(ls, out, 1);
    pb_end(out, mark);
}
