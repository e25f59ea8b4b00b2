// SPDX-License-Identifier: Apache-2.0
//
// loopback.c - an exchange made by the asking job, and the way of its answer back to the call.
#include "net/loopback.h"

#include "net/exchange.h"
#include "net/metrics.h"
#include "sys/clock.h"

static void finish(struct http_call *c, const err *fault)
{
    assert(!call_is_over(&c->call));
    metric_add_to(&net_calls, fault ? str_of(err_name(fault->code)) : S("ok"), 1);
    metric_observe_ns(&net_call_seconds, clock_mono_ns() - c->loopback_started_ns);
    call_finish(&c->call, fault);
}

static void fail(struct http_call *c, enum err_code code, const char *why)
{
    err e = {0};
    err_set(&e, code, "%s %.*s%.*s: %s", c->method, STR(c->address), STR(c->path), why);
    finish(c, &e);
}

// Called by the asking job or by a worker. The exchange lives until loopback_release, so the call's
// answer may borrow headers from it, and takes the body over if it is in x->out.
static void on_answer(struct exchange *ex)
{
    struct http_call *c = ex->call;
    struct http_exchange *x = &ex->x;
    assert(c && c->loopback == ex);
    bool bare = str_is(x->method, "HEAD") || x->status == 204 || x->status == 304;
    str body = bare ? (str){0} : exchange_answer(ex);
    c->status = x->status;
    c->answer_headers = x->answer_headers;
    if (body.n > c->answer_max) {
        fail(c, ERR_RESOURCE_EXHAUSTED, "the answer is too large");
        return;
    }
    // `fixed` is static text, or belongs to the handler: that has to be copied.
    if (body.n && body.p == x->out.p) {
        c->answer = buf_take(&x->out);
    } else {
        buf_str(&c->answer, body);
    }
    if (c->answer.failed) {
        fail(c, ERR_RESOURCE_EXHAUSTED, "no memory for the answer");
        return;
    }
    finish(c, NULL);
}

// Called only for calls that wait or run in a lane: a call that the job ran itself is over when
// http_start returns. A running one is only told that it is canceled.
static void stop(struct call *call)
{
    struct http_call *c = CONTAINER_OF(call, struct http_call, call);
    if (exchange_withdraw(c->loopback)) fail(c, ERR_CANCELED, "stopped");
}

void loopback_start(struct server *s, struct mem_budget *memory, struct req *r, struct http_call *c,
                    enum rank rank)
{
    assert(!loop_is_any_here());
    assert((int)rank > lane_rank_here());  // as in call_gather: this may run the job of that lane
    c->loopback_started_ns = clock_mono_ns();
    c->status = 0;
    c->answer_headers = (struct http_headers){0};
    buf_init(&c->answer, memory, c->answer_max);
    call_begin(&c->call, rank, stop);
    err e = {0};
    struct exchange *ex = exchange_inside(s, r, on_answer, c, &e);
    c->loopback = ex;
    if (!ex) {
        fail(c, e.code, e.msg);
        return;
    }
    struct http_exchange *x = &ex->x;
    // The earlier of both deadlines, as a server on another machine would see it.
    if (r->deadline_mono_ns && r->deadline_mono_ns < x->req.deadline_mono_ns)
        x->req.deadline_mono_ns = r->deadline_mono_ns;
    x->method = str_of(c->method);
    x->path = str_split(c->path, '?', &x->query);
    x->authority = c->address;
    x->peer = S("process");
    x->headers = c->headers;
    if (!exchange_head(ex, c->body.n)) return;
    if (!exchange_body_lent(ex, c->body)) return;
    exchange_body_end(ex);
}

void loopback_release(struct http_call *c)
{
    assert(call_is_over(&c->call));
    exchange_end(c->loopback);
    c->loopback = NULL;
    buf_release(&c->answer);
    c->answer_headers = (struct http_headers){0};
}
