// SPDX-License-Identifier: Apache-2.0
//
// exchange.h - a request to a server's application without a server: it does to an exchange what
// net does, in the same order.
//
//     struct ask ask = {.path = "/ready", .headers = "accept: */*\n"};
//     struct http_exchange *x = exchange_run(&app, &ask);  ...  exchange_free(x);
#pragma once

#include "net/server.h"

#include <stdlib.h>
#include <string.h>

struct ask {
    const char *method;  // NULL: POST
    const char *path;
    const char *query;    // NULL: none
    const char *headers;  // "name: value\n" each, names in lower case
    str body;
    unsigned version;  // 0: 11
    size_t memory;     // cap of the request's arena; 0: 64 MB
    struct mem_budget *budget;
};

static inline void exchange_headers(struct http_exchange *x, str text)
{
    while (text.n > 0) {
        str value = {0};
        str line = str_split(text, '\n', &text);
        str name = str_split(line, ':', &value);
        http_headers_add(&x->headers, &x->req.arena, name, str_trim(value));
    }
}

struct exchange_box {
    struct http_exchange x;
    struct arena kept;  // put aside by a refusal
};

static inline struct http_exchange *exchange_new(const struct ask *ask)
{
    struct exchange_box *box = calloc(1, sizeof *box);
    if (!box) abort();
    struct http_exchange *x = &box->x;
    req_init(&x->req, RANK_PUBLIC, ask->budget, ask->memory ? ask->memory : 64 << 20, 0);
    x->method = str_of(ask->method ? ask->method : "POST");
    x->path = str_of(ask->path);
    x->query = str_of(ask->query ? ask->query : "");
    x->version = ask->version ? ask->version : 11;
    exchange_headers(x, str_of(ask->headers ? ask->headers : ""));
    buf_init(&x->out, ask->budget, 64 << 20);
    return x;
}

static inline void exchange_refused(const struct server_app *app, struct http_exchange *x,
                                    unsigned status, const err *e)
{
    struct exchange_box *box = CONTAINER_OF(x, struct exchange_box, x);
    box->kept = x->req.arena;
    arena_init(&x->req.arena, NULL, 16384);
    buf_release(&x->out);
    buf_init(&x->out, NULL, 16384);
    x->fixed = (str){0};
    x->answer_headers = (struct http_headers){0};
    x->trailers = (struct http_headers){0};
    x->status = status;
    app->refuse(app->self, x, e);
    if (!x->out.failed && !x->req.arena.exhausted && x->status) return;
    buf_release(&x->out);  // there is no memory at all
    x->answer_headers = (struct http_headers){0};
    x->trailers = (struct http_headers){0};
    x->req.arena.exhausted = false;
    x->status = status;
    x->fixed = str_of(err_name(e->code));
}

// The head, the body and the answer, each with what net checks in between.
static inline void exchange_go(const struct server_app *app, struct http_exchange *x, str body)
{
    err e = {0};
    if (app->head(app->self, x) == HEAD_ANSWERED) return;
    if (body.n > x->body_max) {
        err_set(&e, ERR_RESOURCE_EXHAUSTED, "body is %zu bytes, limit %zu", body.n, x->body_max);
        return exchange_refused(app, x, 413, &e);
    }
    if (!arena_ok(&x->req.arena, &e)) return exchange_refused(app, x, 429, &e);
    buf_init(&x->body, x->req.arena.budget, x->body_max);
    buf_str(&x->body, body);
    if (!buf_ok(&x->body, &e)) return exchange_refused(app, x, 429, &e);
    app->run(app->self, x);
    if (!buf_ok(&x->out, &e)) exchange_refused(app, x, 429, &e);
}

static inline struct http_exchange *exchange_run(const struct server_app *app,
                                                 const struct ask *ask)
{
    struct http_exchange *x = exchange_new(ask);
    exchange_go(app, x, ask->body);
    return x;
}

static inline str exchange_body(const struct http_exchange *x)
{
    return x->fixed.n ? x->fixed : buf_view(&x->out);
}

static inline void exchange_free(struct http_exchange *x)
{
    struct exchange_box *box = CONTAINER_OF(x, struct exchange_box, x);
    req_release(&x->req);
    arena_release(&box->kept);
    buf_release(&x->body);
    buf_release(&x->out);
    free(box);
}
