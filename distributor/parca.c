// SPDX-License-Identifier: Apache-2.0
#include "distributor/parca.h"

#include "codec/pb.h"
#include "distributor/loss_note.h"
#include "distributor/state.h"

// The bytes of a field, the last if there are several; empty if there is none.
static str field_of(str message, uint32_t field)
{
    str found = {0};
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r))
        if (r.field == field && r.type == PB_BYTES) found = r.bytes;
    return found;
}

static bool add_label(struct arena *a, label **v, size_t *n, size_t *cap, label l, err *e)
{
    if (!arena_grow(a, v, cap, *n + 1, sizeof **v)) return arena_fail(a, e);
    (*v)[(*n)++] = l;
    return true;
}

static bool read_labels(struct arena *a, str set, struct pipeline_item *item, err *e)
{
    label *v = NULL;
    size_t cap = 0;
    size_t n = 0;
    struct pb_reader r = pb_reader(set);
    while (pb_next(&r)) {
        if (r.field != 1 || r.type != PB_BYTES) continue;
        label l = {field_of(r.bytes, 1), field_of(r.bytes, 2)};
        if (!add_label(a, &v, &n, &cap, l, e)) return false;
    }
    labels all = {v, n};
    str service = labels_get(all, S("job"));
    if (service.n == 0) service = labels_get(all, S("comm"));
    if (labels_get(all, S(LABEL_SERVICE)).n == 0 && service.n &&
        !add_label(a, &v, &n, &cap, (label){S(LABEL_SERVICE), service}, e))
        return false;
    item->labels = v;
    item->label_count = n;
    return true;
}

static bool take_series(struct request *q, str series, err *e)
{
    struct pipeline_item item = {0};
    if (!read_labels(&q->req->arena, field_of(series, 1), &item, e)) return false;
    struct pb_reader r = pb_reader(series);
    while (pb_next(&r)) {
        if (r.field != 2 || r.type != PB_BYTES) continue;
        item.bytes = field_of(r.bytes, 1);
        pipeline_pprof(&q->in, &item);
        if (!pipeline_body_fits(&q->in, e) || !req_alive(q->req, e)) return false;
    }
    return true;
}

// The message was checked against its descriptor before: it is well-formed.
static bool run_write(struct request *q, str message, err *e)
{
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r)) {
        if (r.field == 2 && r.type == PB_BYTES && !take_series(q, r.bytes, e)) return false;
    }
    if (q->in.received == 0) return err_set(e, ERR_INVALID_ARGUMENT, "no profiles received");
    if (!request_send(q, e)) return false;
    if (q->in.failed) pipeline_answer(&q->in, e);
    return !q->in.failed;
}

void parca_refused(void *self, const struct http_exchange *x, const err *e)
{
    request_refused(self, x, "parca", e);
}

bool parca_write_run(void *self, struct http_exchange *x, str in, struct buf *out, err *e)
{
    (void)out;  // message WriteRawResponse has no fields
    struct request q;
    bool ok = request_begin(&q, self, &x->req, "parca", e) && run_write(&q, in, e);
    if (ok) {
        loss_note_header(&q, x);
        request_delay(&q, x);
    }
    request_end(&q, ok ? NULL : e, false);
    return ok;
}

bool parca_upload_run(void *self, struct http_exchange *x, str in, struct buf *out, err *e)
{
    (void)self;
    (void)x;
    (void)in;
    pb_put_bytes(out, 2, S("symbols are not stored here; send profiles with names"));
    return buf_ok(out, e);
}
