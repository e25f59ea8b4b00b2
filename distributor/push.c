// SPDX-License-Identifier: Apache-2.0
//
// push.c - message PushRequest.
#include "distributor/push.h"

#include "codec/pb.h"
#include "distributor/loss_note.h"
#include "distributor/state.h"
#include "intake/push_series.h"

static bool take_series(struct request *q, str series, err *e)
{
    struct pipeline_item item = {0};
    if (!push_series_labels(&q->req->arena, series, &item, e)) return false;
    struct pb_reader r = pb_reader(series);
    while (pb_next(&r)) {
        if (r.field != 2 || r.type != PB_BYTES) continue;
        if (!push_series_sample(r.bytes, &item, e)) return false;
        pipeline_pprof(&q->in, &item);
        // Asked after each profile: a request that is too large or too late ends before all are
        // decoded.
        if (!pipeline_body_fits(&q->in, e) || !req_alive(q->req, e)) return false;
    }
    return pb_done(&r, e);
}

// Checked before anything is taken, so that a truncated message stores nothing.
static bool is_well_formed(str message, err *e)
{
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r)) {
        if (r.field != 1 || r.type != PB_BYTES) continue;
        struct pb_reader s = pb_reader(r.bytes);
        while (pb_next(&s)) {
        }
        if (!pb_done(&s, e)) return err_wrap(e, "unmarshal message");
    }
    return pb_done(&r, e) || err_wrap(e, "unmarshal message");
}

static bool run_push(struct request *q, str message, err *e)
{
    if (!is_well_formed(message, e)) return false;
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_BYTES && !take_series(q, r.bytes, e)) return false;
    }
    if (q->in.received == 0) return err_set(e, ERR_INVALID_ARGUMENT, "no profiles received");
    if (!request_send(q, e)) return false;
    // Valid profiles are stored, whatever the others are; only then is the first refusal the
    // answer.
    if (q->in.failed) pipeline_answer(&q->in, e);
    return !q->in.failed;
}

void push_refused(void *self, const struct http_exchange *x, const err *e)
{
    request_refused(self, x, "push", e);
}

bool push_run(void *self, struct http_exchange *x, str in, struct buf *out, err *e)
{
    (void)out;  // message PushResponse has no fields
    struct request q;
    assert(in.n == 0 || in.p);
    bool ok = request_begin(&q, self, &x->req, "push", e) && run_push(&q, in, e);
    if (ok) {
        loss_note_header(&q, x);
        request_delay(&q, x);
    }
    request_end(&q, ok ? NULL : e, false);
    return ok;
}
