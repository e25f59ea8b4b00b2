// SPDX-License-Identifier: Apache-2.0
#include "lib/exchange.h"

static void exchange_headers(struct http_exchange *x, str text)
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

struct http_exchange *exchange_ask(const struct ask *ask)
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

void exchange_refused(const struct server_app *app, struct http_exchange *x, unsigned status,
                      const err *e)
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

void exchange_go(const struct server_app *app, struct http_exchange *x, str body)
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

struct http_exchange *exchange_run(const struct server_app *app, const struct ask *ask)
{
    struct http_exchange *x = exchange_ask(ask);
    exchange_go(app, x, ask->body);
    return x;
}

str exchange_reply(const struct http_exchange *x)
{
    return x->fixed.n ? x->fixed : buf_view(&x->out);
}

void exchange_free(struct http_exchange *x)
{
    struct exchange_box *box = CONTAINER_OF(x, struct exchange_box, x);
    req_release(&x->req);
    arena_release(&box->kept);
    buf_release(&x->body);
    buf_release(&x->out);
    free(box);
}
