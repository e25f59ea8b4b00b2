// SPDX-License-Identifier: Apache-2.0
//
// label_wire.c - labels as protobuf messages.
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

bool label_decode(str bytes, label *out, err *e)
{
    *out = (label){0};
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_BYTES) out->name = r.bytes;
        if (r.field == 2 && r.type == PB_BYTES) out->value = r.bytes;
    }
    return pb_done(&r, e);
}

bool labels_decode_set(struct arena *arena, str bytes, labels *out, err *e)
{
    label *v = NULL;
    size_t n = 0;
    size_t cap = 0;
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field != 1 || r.type != PB_BYTES) continue;
        if (!arena_grow(arena, &v, &cap, n + 1, sizeof *v)) return arena_fail(arena, e);
        if (!label_decode(r.bytes, &v[n++], e)) return false;
    }
    labels_sort(v, n);
    *out = (labels){v, n};
    return pb_done(&r, e);
}
