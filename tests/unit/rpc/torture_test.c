// SPDX-License-Identifier: Apache-2.0
//
// Requests in every protocol, and calls of other nodes, whose allocations and calls fail.
#include "codec/compress.h"
#include "lib/dir.h"
#include "lib/echo.h"
#include "lib/exchange.h"
#include "lib/listener.h"
#include "lib/torture.h"
#include "rpc/peer.h"
#include "sys/clock.h"

#include <stdio.h>

// ---- requests

struct wish {
    struct server_app app;
    struct ask ask;
    str grpc_well;  // what the trailer or body of a good gRPC answer holds; empty: not gRPC
};

static str kept_body(const struct http_exchange *x)
{
    return exchange_reply(x);
}

// What the client is told: the body goes to `out`, an error to *e, with the code of its protocol.
static bool told(const struct http_exchange *x, const struct wish *w, struct buf *out, err *e)
{
    str body = kept_body(x);
    str status = http_headers_get(&x->trailers, "grpc-status");
    if (!status.n) status = http_headers_get(&x->answer_headers, "grpc-status");
    bool well = x->status == 200 && (!status.n || str_is(status, "0"));
    if (well && w->grpc_well.n) well = str_contains(body, w->grpc_well);
    if (well) {
        buf_str(out, body);
        return true;
    }
    assert_false(str_contains(body, S("arge")));  // "too large", "larger than": it is not
    bool exhausted = x->status == 429 || str_is(status, "8") ||
                     str_contains(body, S("resource_exhausted")) ||
                     str_contains(body, S("grpc-status: 8"));
    return err_set(e, exhausted ? ERR_RESOURCE_EXHAUSTED : ERR_INTERNAL, "%u %.*s: %.*s", x->status,
                   STR(status), STR(body));
}

static bool request(struct torture_bench *b, void *arg, err *e)
{
    const struct wish *w = arg;
    struct ask ask = w->ask;
    ask.budget = &b->budget;
    torture_spare(true);  // of the test itself
    struct http_exchange *x = exchange_ask(&ask);
    buf_reserve(&b->out, 4096);
    torture_spare(false);
    exchange_go(&w->app, x, ask.body);
    torture_spare(true);
    bool ok = told(x, w, &b->out, e);
    exchange_free(x);
    torture_spare(false);
    return ok;
}

#define CONNECT_PROTO "content-type: application/proto\n"
#define CONNECT_JSON  "content-type: application/json\n"
#define GRPC_HEAD     "content-type: application/grpc\n"
#define WEB_HEAD      "content-type: application/grpc-web+json\n"
#define TENANT_HEAD   "x-scope-orgid: b|a\n"

static void requests_are_answered_or_refused(void **state)
{
    (void)state;
    struct router *r = echo_router(true);
    struct server_app app = router_app(r);
    struct buf gzip;
    buf_init(&gzip, NULL, 1 << 16);
    assert_ok(compress_gzip(S("{\"matchers\":[\"\\n\",\"b\"]}"), 6, &gzip, e));
    struct wish wishes[] = {
        {.ask = {.path = "/t.v1.Echo/Names",
                 .headers = CONNECT_JSON TENANT_HEAD "accept-encoding: gzip\n"
                                                     "connect-timeout-ms: 60000\n",
                 .body = S("{\"matchers\":[\"\\n\",\"b\"]}")}},
        {.ask = {.path = "/t.v1.Echo/Names",
                 .headers = CONNECT_JSON TENANT_HEAD "content-encoding: gzip\n",
                 .body = buf_view(&gzip)}},
        {.ask = {.path = "/t.v1.Echo/Version",
                 .headers = CONNECT_PROTO "accept: */*; q=\"\\1\"\n"}},
        {.ask = {.path = "/t.v1.Echo/Names",
                 .headers = GRPC_HEAD TENANT_HEAD "grpc-timeout: 60S\ngrpc-accept-encoding: gzip\n",
                 .body = S("\0\0\0\0\3\x0a\1x"),
                 .version = 20}},
        {.ask = {.path = "/t.v1.Echo/Version", .headers = WEB_HEAD, .body = S("\0\0\0\0\2{}")},
         .grpc_well = S_INIT("grpc-status: 0")},
        {.ask = {.path = "/te%78t", .method = "GET", .headers = "accept-encoding: gzip\n"}},
        {.ask = {.path = "/upload",
                 .headers = "x-scope-orgid: b\ncontent-encoding: gzip\n",
                 .body = buf_view(&gzip)}},
    };
    static const char *const names[COUNT(wishes)] = {"rpc.connect_json",  "rpc.connect_gzip",
                                                     "rpc.connect_proto", "rpc.grpc",
                                                     "rpc.grpc_web",      "rpc.plain",
                                                     "rpc.upload"};
    for (size_t i = 0; i < COUNT(wishes); i++) {
        wishes[i].app = app;
        const struct torture_maker m = {.name = names[i], .make = request, .arg = &wishes[i]};
        torture_make_all(&m, 1);
    }
    buf_release(&gzip);
    router_free(r);
}

// ---- one node asks another

struct pair {
    struct mem_budget memory;
    struct client *client;
    char address[DIR_MAX + 16];
};

static bool ask_peer(void *arg, err *e)
{
    struct pair *p = arg;
    struct req req;
    struct peer_call c;
    str answer = {0};
    req_init(&req, RANK_DUTY, &p->memory, 1 << 20, 60 * NS_PER_S);
    req.tenant = S("one");
    peer_start(p->client, &req, &c, str_of(p->address), "/t.v1.Echo/Raw", S("bytes"), RANK_INGESTER,
               1000);
    bool ok = call_wait(&req, &c.http.call, e) && peer_answer(&c, &answer, e);
    if (ok) assert_true(str_is(answer, "bytes"));
    peer_release(&c);
    req_release(&req);
    return ok;
}

static void a_peer_answers_or_the_asker_is_told(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    struct pair p = {0};
    struct loop *loop = NULL;
    struct server *server = NULL;
    dir_new(dir);
    snprintf(p.address, sizeof p.address, "unix:%s/s", dir);
    mem_budget_init(&p.memory, "test", NULL, (size_t)64 << 20);
    assert_ok((loop = loop_new("test", e)));
    assert_ok((p.client = client_new(loop, &p.memory, 4, e)));
    struct router *r = echo_router(true);
    struct server_options o = listener_for("internal", p.address, &p.memory, RANK_INGESTER);
    assert_ok((server = server_open(&o, router_app(r), &loop, 1, e)));
    struct torture_count n = torture_work(
        &(struct torture_work){.name = "rpc.peer", .run = ask_peer, .arg = &p, .lives_on = true});
    assert_true(n.allocations > 10 && n.calls > 10);
    client_free(p.client);
    server_close(server);
    router_free(r);
    loop_free(loop);
    assert_int_equal(p.memory.used, 0);
    dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_answered_or_refused),
        cmocka_unit_test(a_peer_answers_or_the_asker_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
