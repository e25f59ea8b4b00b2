// SPDX-License-Identifier: Apache-2.0
#include "codec/pb.h"
#include "model/label.h"

void labels_put(labels ls, struct buf *out, uint32_t field)
{
    for (size_t i = 0; i < ls.n; i++) {
        size_t pair = pb_begin(out, field);
        pb_put_bytes_opt(out, 1, ls.v[i].name);
        pb_put_bytes_opt(out, 2, ls.v[i].value);
        pb_end(out, pair);
    }
}

void labels_put_set(labels ls, struct buf *out, uint32_t field)
{
    size_t mark = pb_begin(out, field);
    labels_put(ls, out, 1);
    pb_end(out, mark);
}
