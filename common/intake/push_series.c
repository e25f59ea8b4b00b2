// SPDX-License-Identifier: Apache-2.0
#include "intake/push_series.h"

#include "codec/pb.h"

// message LabelPair
static bool read_label(str bytes, label *l, err *e)
{
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.type != PB_BYTES) continue;
        if (r.field == 1) l->name = r.bytes;
        if (r.field == 2) l->value = r.bytes;
    }
    return pb_done(&r, e);
}

bool push_series_labels(struct arena *a, str series, struct pipeline_item *item, err *e)
{
    label *v = NULL;
    size_t cap = 0;
    size_t n = 0;
    struct pb_reader r = pb_reader(series);
    while (pb_next(&r)) {
        if (r.field != 1 || r.type != PB_BYTES) continue;
        if (!arena_grow(a, &v, &cap, n + 1, sizeof *v)) return arena_fail(a, e);
        v[n] = (label){0};
        if (!read_label(r.bytes, &v[n++], e)) return false;
    }
    item->labels = v;
    item->label_count = n;
    return pb_done(&r, e);
}

bool push_series_sample(str sample, struct pipeline_item *item, err *e)
{
    item->bytes = (str){0};
    item->client_id = (str){0};
    struct pb_reader r = pb_reader(sample);
    while (pb_next(&r)) {
        if (r.type != PB_BYTES) continue;
        if (r.field == 1) item->bytes = r.bytes;
        if (r.field == 2) item->client_id = r.bytes;
    }
    return pb_done(&r, e);
}
