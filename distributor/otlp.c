// SPDX-License-Identifier: Apache-2.0
//
// otlp.c - requests of OTLP: their encodings, the pipeline for each profile, and the answers.
#include "distributor/otlp.h"

#include "codec/compress.h"
#include "codec/json.h"
#include "codec/pb.h"
#include "decode/otlp.h"
#include "distributor/loss_note.h"
#include "distributor/state.h"
#include "intake/text.h"

#define PROTOCOL         "otlp"
#define STATUS_TOO_LARGE 413
#define MIB              ((double)(1 << 20))

struct outcome {
    size_t rejected;  // profiles; the first reason is in the pipeline
    bool unread;      // the message itself is at fault
    err bad;          // what is wrong with the first sample that was left out
};

// ---- profiles

static bool open_request(struct request *q, str bytes, bool json, struct otlp **d, err *e)
{
    struct arena *a = &q->req->arena;
    struct decode_options o = {.name_of_type = !q->limits->refuses_faulty,
                               .refuse_dangling = q->limits->refuses_faulty,
                               .symbol_max =
                                   (uint32_t)MIN(q->limits->max_profile_symbol_value_length,
                                                 INT32_MAX)};
    if (json ? otlp_open_json(a, bytes, &o, d, e) : otlp_open(a, bytes, &o, d, e)) return true;
    pipeline_refuse_unread(&q->in, DISCARD_MALFORMED_PROFILE, bytes.n, e);
    return false;
}

static void take_profile(struct request *q, struct arena *scratch, struct otlp_profile *p)
{
    // Of the request's body only the profile's own bytes, as they are hashed for each profile.
    struct pipeline_item item = {.bytes = p->message,
                                 .labels = p->labels.v,
                                 .label_count = p->labels.n};
    assert(p->profile.sample_count > 0);
    pipeline_profile(&q->in, scratch, &p->profile, true, &item);
}

static void refuse_profile(struct request *q, const struct otlp_profile *p, const err *why)
{
    pipeline_refuse_unread(&q->in, DISCARD_MALFORMED_PROFILE, p->message.n, why);
}

static bool take_all(struct request *q, struct otlp *d, struct outcome *out, err *e)
{
    struct pipeline *in = &q->in;
    struct arena scratch;
    struct otlp_profile p = {0};
    err why = {0};
    enum otlp_step step = OTLP_PROFILE;
    size_t rejected = SIZE_MAX;  // the number of the last one
    bool alive = true;
    // Within what the request's arena has left; freed after each profile.
    arena_init(&scratch, in->a->budget, in->a->cap - in->a->used);
    scratch.setting = in->a->setting;
    while (alive && step != OTLP_END) {
        uint32_t refused = in->refused;
        scratch.cap = in->a->cap - in->a->used;
        step = otlp_next(d, &scratch, &p, &why);
        if (step == OTLP_PROFILE) take_profile(q, &scratch, &p);
        if (step == OTLP_PROFILE && p.bad.code && !out->bad.code) out->bad = p.bad;
        if (step == OTLP_REFUSED) refuse_profile(q, &p, &why);
        // A message is rejected once, however many parts of it are.
        if (in->refused > refused && rejected != p.number) {
            out->rejected++;
            rejected = p.number;
        }
        arena_release(&scratch);
        alive = req_alive(q->req, e);
        // For want of memory the request is to come again as a whole: nothing is stored yet.
        if (step == OTLP_REFUSED && why.code == ERR_RESOURCE_EXHAUSTED) {
            *e = why;
            alive = false;
        }
    }
    return alive;
}

static bool take(struct request *q, str bytes, bool json, struct outcome *out, err *e)
{
    struct otlp *d = NULL;
    out->unread = !open_request(q, bytes, json, &d, e);
    if (out->unread || !take_all(q, d, out, e)) return false;
    if (!request_send(q, e)) return false;
    bool none = q->in.failed && q->in.stored == 0;
    if (none) *e = q->in.first;
    return !none;
}

// ---- answers

// What was refused, and what was left out or mended of the rest. A message with 0 rejected profiles
// is a warning: senders log it and do not send again.
static str otlp_told(const struct request *q, const struct outcome *o)
{
    str losses = loss_note_text(q);
    if (losses.n && o->bad.code) {
        str named = arena_printf(&q->req->arena, "%.*s: %s", STR(losses), o->bad.msg);
        if (named.n) losses = named;
    }
    if (o->rejected == 0) return losses;
    str first = str_of(q->in.first.msg);
    str both =
        losses.n ? arena_printf(&q->req->arena, "%.*s; %.*s", STR(first), STR(losses)) : first;
    return both.n ? both : first;
}

// ExportProfilesServiceResponse; empty if all is well.
static void put_answer(const struct request *q, const struct outcome *o, struct buf *out)
{
    str what = otlp_told(q, o);
    if (what.n == 0) return;
    size_t mark = pb_begin(out, 1);
    pb_put_u64_opt(out, 1, o->rejected);
    pb_put_bytes(out, 2, what);
    pb_end(out, mark);
}

static void put_json_answer(const struct request *q, const struct outcome *o, struct buf *out)
{
    str what = otlp_told(q, o);
    buf_z(out, "{");
    if (what.n) {
        buf_printf(out, "\"partialSuccess\":{\"rejectedProfiles\":\"%zu\",\"errorMessage\":",
                   o->rejected);
        json_put_string(out, what);
        buf_z(out, "}");
    }
    buf_z(out, "}");
}

// A refusal that the answer of a success tells is logged like any other.
static void end(struct request *q, bool ok, const struct outcome *o, const err *e, bool answered)
{
    const err *fault = ok ? NULL : e;
    if (ok && o->rejected) fault = &q->in.first;
    request_end(q, fault, answered);
}

// ---- gRPC

bool otlp_grpc_run(void *self, struct http_exchange *x, str in, struct buf *out, err *e)
{
    struct request q;
    struct outcome o = {0};
    bool ok = request_begin(&q, self, &x->req, PROTOCOL, e) && take(&q, in, false, &o, e);
    if (ok) {
        request_delay(&q, x);
        put_answer(&q, &o, out);
    }
    end(&q, ok, &o, e, false);
    return ok;
}

// ---- HTTP

struct upload {
    struct request q;
    struct http_exchange *x;
    struct outcome outcome;
    bool json;
    bool answered;  // with an error that says more than its code
};

// google.rpc.Status in the request's encoding.
static void answer_error(struct upload *c, unsigned status, const err *e)
{
    struct http_exchange *x = c->x;
    route_text(x, status, (str){0});
    route_header(x, "content-type", c->json ? S("application/json") : S("application/x-protobuf"));
    if (c->json) {
        buf_printf(&x->out, "{\"code\":%d,\"message\":", (int)e->code);
        json_put_string(&x->out, str_of(e->msg));
        buf_z(&x->out, "}");
    } else {
        pb_put_u64(&x->out, 1, (uint64_t)e->code);
        pb_put_bytes(&x->out, 2, str_of(e->msg));
    }
    c->answered = true;
}

static bool fail(struct upload *c, unsigned status, enum discard_reason why, const err *e)
{
    pipeline_refuse_unread(&c->q.in, why, c->x->body.n, e);
    answer_error(c, status, e);
    return false;
}

static bool read_type(struct upload *c, err *e)
{
    static const str binary[] = {S_INIT("application/x-protobuf"), S_INIT("application/protobuf")};
    str type = http_headers_get(&c->x->headers, "content-type");
    c->json = str_is(type, "application/json");
    if (c->json || str_among(type, binary, COUNT(binary))) return true;
    err_set(e, ERR_INVALID_ARGUMENT, "Unsupported Content-Type: %.*s",
            (int)MIN(type.n, (size_t)TEXT_SHOWN), type.p);
    pipeline_refuse_unread(&c->q.in, DISCARD_MALFORMED_PROFILE, c->x->body.n, e);
    // In neither encoding, as the client takes none of them.
    route_text(c->x, 415, str_of(e->msg));
    c->answered = true;
    return false;
}

static bool inflate(struct upload *c, err *e)
{
    struct http_exchange *x = c->x;
    char text[TEXT_MAX];
    str how = http_headers_get(&x->headers, "content-encoding");
    str body = buf_view(&x->body);
    if (str_ieq(how, S("gzip")) && !compress_is_gzip(body)) {
        err_set(e, ERR_INVALID_ARGUMENT, "Failed to read request body: it is not gzip");
        return fail(c, 400, DISCARD_MALFORMED_PROFILE, e);
    }
    if (route_body(x, x->body_max, e)) return true;
    if (e->code == ERR_OUT_OF_RANGE) {
        err_set(e, ERR_INVALID_ARGUMENT, "uncompressed profile payload size exceeds limit of %s",
                text_bytes(text, x->body_max));
        return fail(c, STATUS_TOO_LARGE, DISCARD_BODY_SIZE_LIMIT, e);
    }
    err_wrap(e, "failed to read %.*s-compressed request body", STR(how));
    return fail(c, err_http_status(e->code), DISCARD_MALFORMED_PROFILE, e);
}

static void answer(struct upload *c)
{
    struct http_exchange *x = c->x;
    x->status = 200;
    route_header(x, "content-type", c->json ? S("application/json") : S("application/x-protobuf"));
    if (c->json) {
        put_json_answer(&c->q, &c->outcome, &x->out);
    } else {
        put_answer(&c->q, &c->outcome, &x->out);
    }
    request_delay(&c->q, x);
}

static bool run(struct upload *c, err *e)
{
    if (!read_type(c, e) || !inflate(c, e)) return false;
    str body = buf_view(&c->x->body);
    if (take(&c->q, body, c->json, &c->outcome, e)) {
        answer(c);
        return true;
    }
    if (c->outcome.unread) err_wrap(e, "Failed to parse %s request", c->json ? "JSON" : "protobuf");
    unsigned status = c->q.too_large ? STATUS_TOO_LARGE : err_http_status(e->code);
    if (status < 500) answer_error(c, status, e);
    return false;
}

bool otlp_http_run(void *self, struct http_exchange *x, err *e)
{
    struct upload c = {.x = x};
    bool ok = request_begin(&c.q, self, &x->req, PROTOCOL, e) && run(&c, e);
    end(&c.q, ok, &c.outcome, e, c.answered);
    return ok || c.answered;
}

const char *otlp_too_large(void *self, struct http_exchange *x)
{
    char text[TEXT_MAX];
    (void)self;
    return arena_printf(&x->req.arena, "profile payload size exceeds limit of %s",
                        text_bytes(text, x->body_max))
        .p;
}

void otlp_refused(void *self, const struct http_exchange *x, const err *e)
{
    request_refused(self, x, PROTOCOL, e);
}
