// SPDX-License-Identifier: Apache-2.0
#include "fuzz/net_bench.h"

#define BENCH_OUT_MAX ((size_t)64 << 20)

static enum head_verdict bench_head(void *self, struct http_exchange *x)
{
    (void)self;
    x->body_max = 1000;
    if (!str_starts(x->path, S("/no"))) return HEAD_READ_BODY;
    x->status = 404;
    return HEAD_ANSWERED;
}

// Says what it was asked, so that two readings of the same bytes can be compared.
static void bench_run(void *self, struct http_exchange *x)
{
    (void)self;
    x->status = str_is(x->path, "/204") ? 204 : 200;
    struct buf *b = &x->out;
    buf_str(b, x->method);
    buf_byte(b, '|');
    buf_str(b, x->path);
    buf_byte(b, '|');
    buf_str(b, x->query);
    buf_byte(b, '|');
    buf_str(b, x->authority);
    for (size_t i = 0; i < x->headers.n; i++) {
        buf_byte(b, '|');
        buf_str(b, x->headers.v[i].name);
        buf_byte(b, '=');
        buf_str(b, x->headers.v[i].value);
        http_headers_add(&x->answer_headers, &x->req.arena, x->headers.v[i].name,
                         x->headers.v[i].value);
    }
    buf_byte(b, '|');
    buf_str(b, buf_view(&x->body));
    if (x->version == 20) http_headers_add(&x->trailers, &x->req.arena, S("grpc-status"), S("0"));
    for (int i = 0; str_is(x->path, "/big") && i < 2000; i++)
        buf_z(b, "twenty characters...");
}

static void bench_refuse(void *self, struct http_exchange *x, const err *e)
{
    (void)self;
    buf_z(&x->out, e->msg);
}

struct bench *bench_new(void)
{
    struct bench *b = mem_must(sizeof *b);
    mem_budget_init(&b->memory, "bench", NULL, (size_t)1 << 20);
    b->server.options = (struct server_options){
        .name = "bench",
        .memory = &b->memory,
        .request_memory_max = 100000,
        .head_max = 2000,
        .headers_max = 20,
        .streams_max = 20,
        .connections_max = 1,
        .head_timeout_ns = 1000,
        .body_timeout_ns = 1000,
        .idle_timeout_ns = 1000,
        .write_timeout_ns = 1000,
        .rank = RANK_PUBLIC,
    };
    b->server.app = (struct server_app){.self = b,
                                        .head = bench_head,
                                        .run = bench_run,
                                        .refuse = bench_refuse};
    b->shard.server = &b->server;
    buf_init(&b->out, NULL, BENCH_OUT_MAX);
    atomic_store(&b->server.connections, 1);
    b->conn = conn_new(&b->shard, -1, "bench");
    if (!b->conn) abort();
    return b;
}

void bench_run_on(struct bench *b)
{
    struct conn *c = b->conn;
    for (;;) {
        size_t kept = c->in.n;
        conn_send_output(c);
        buf_put(&b->out, c->out.p, c->out.n);
        bool said = c->out.n > 0;
        buf_clear(&c->out);
        if (c->state == CONN_CLOSED || (!said && c->in.n == kept)) return;
    }
}

void bench_feed(struct bench *b, const uint8_t *p, size_t n)
{
    conn_feed(b->conn, (const char *)p, n);
    bench_run_on(b);
}

void bench_free(struct bench *b)
{
    conn_end(b->conn);
    if (atomic_load(&b->memory.used) || atomic_load(&b->server.exchanges)) abort();
    buf_release(&b->out);
    mem_must_free(b);
}
