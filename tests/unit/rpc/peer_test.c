// SPDX-License-Identifier: Apache-2.0
//
// A node asks another over a Unix socket: client, server and router together.
#include "lib/dir.h"
#include "lib/echo.h"
#include "lib/listener.h"
#include "rpc/peer.h"
#include "sys/clock.h"

#include <stdio.h>
#include <stdlib.h>

struct pair {
    struct loop *loop;
    struct client *client;
    struct router *router;
    struct server *server;
    struct mem_budget memory;
    struct req req;
    char dir[DIR_MAX];
    char address[128];
};

static bool tell_head(void *self, struct http_exchange *x, str in, struct buf *out, err *e)
{
    (void)self;
    (void)in;
    (void)e;
    str timeout = http_headers_get(&x->headers, "connect-timeout-ms");
    buf_printf(out, "%.*s %.*s %.*s %d", STR(x->req.tenant), STR(str_of(x->req.request_id)),
               STR(http_headers_get(&x->headers, "content-type")), timeout.n > 0);
    return true;
}

static const struct rpc_method told[] = {
    {"/t.v1.Echo/Head", NULL, NULL, tell_head, ROUTE_INTERNAL, RANK_INGESTER, false, false, NULL},
};

static int setup(void **state)
{
    struct pair *p = calloc(1, sizeof *p);
    assert_non_null(p);
    dir_new(p->dir);
    snprintf(p->address, sizeof p->address, "unix:%s/s", p->dir);
    mem_budget_init(&p->memory, "test", NULL, (size_t)64 << 20);
    assert_ok((p->loop = loop_new("test", e)));
    assert_ok((p->client = client_new(p->loop, &p->memory, 4, e)));
    p->router = echo_router(true);
    static struct lane *const lanes[RANK_COUNT];
    router_add_rpc(p->router, told, COUNT(told), NULL, lanes);
    struct server_options o = listener_for("internal", p->address, &p->memory, RANK_INGESTER);
    assert_ok((p->server = server_open(&o, router_app(p->router), &p->loop, 1, e)));
    req_init(&p->req, RANK_PUBLIC, &p->memory, 1 << 20, 60 * (uint64_t)NS_PER_S);
    p->req.tenant = S("a-tenant");
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct pair *p = *state;
    server_drain(p->server, 0);
    server_close(p->server);
    client_free(p->client);
    loop_free(p->loop);
    router_free(p->router);
    req_release(&p->req);
    dir_remove(p->dir);
    free(p);
    return 0;
}

static bool ask(struct pair *p, const char *path, str message, struct peer_call *c, str *answer,
                err *e)
{
    peer_start(p->client, &p->req, c, str_of(p->address), path, message, RANK_INGESTER, 4096);
    err ignored = {0};
    (void)!call_wait(&p->req, &c->http.call, &ignored);
    return peer_answer(c, answer, e);
}

static void an_answer_is_the_messages_bytes(void **state)
{
    struct pair *p = *state;
    struct peer_call c;
    str answer = {0};
    assert_ok(ask(p, "/t.v1.Echo/Raw", S("\x01\x02\0\xff"), &c, &answer, e));
    assert_true(str_eq(answer, S("\x01\x02\0\xff")));
    peer_release(&c);
    peer_release(&c);
    assert_ok(ask(p, "/t.v1.Echo/Raw", (str){0}, &c, &answer, e));
    assert_int_equal(answer.n, 0);
    peer_release(&c);
}

static void tenant_request_and_deadline_travel(void **state)
{
    struct pair *p = *state;
    struct peer_call c;
    str answer = {0};
    char want[200];
    snprintf(want, sizeof want, "a-tenant %s application/proto 1", p->req.request_id);
    assert_ok(ask(p, "/t.v1.Echo/Head", (str){0}, &c, &answer, e));
    assert_true(str_is(answer, want));
    peer_release(&c);
    p->req.deadline_mono_ns = 0;
    p->req.tenant = (str){0};
    snprintf(want, sizeof want, " %s application/proto 0", p->req.request_id);
    assert_ok(ask(p, "/t.v1.Echo/Head", (str){0}, &c, &answer, e));
    assert_true(str_is(answer, want));
    peer_release(&c);
}

static void the_other_nodes_error_comes_back(void **state)
{
    struct pair *p = *state;
    for (int i = 2; i <= 33; i++) {
        int code = i / 2;
        bool final = i % 2;
        char message[64];
        struct buf b = {.p = message, .room = sizeof message, .cap = sizeof message};
        pb_put_bytes(&b, 1, str_of(err_name((enum err_code)code)));
        if (final) pb_put_bytes(&b, 1, S("final"));
        struct peer_call c;
        str answer = {0};
        err e = {0};
        assert_false(ask(p, "/t.v1.Echo/Fail", buf_view(&b), &c, &answer, &e));
        assert_int_equal(e.code, code);
        assert_string_equal(e.msg, "100% \"wrong\"\n\xc3\xa9");
        assert_int_equal(peer_is_final(&c), final);
        peer_release(&c);
        assert_false(peer_is_final(&c));
    }
}

static void other_statuses_are_given_a_code(void **state)
{
    struct pair *p = *state;
    struct peer_call c;
    str answer = {0};
    err e = {0};
    assert_false(ask(p, "/t.v1.Echo/Nope", (str){0}, &c, &answer, &e));
    assert_int_equal(e.code, ERR_UNIMPLEMENTED);
    assert_non_null(strstr(e.msg, "status 404"));
    peer_release(&c);

    static const struct {
        unsigned status;
        const char *body;
        enum err_code code;
    } cases[] = {
        {503, "<html>", ERR_UNAVAILABLE},
        {500, "{}", ERR_UNKNOWN},
        {429, "{\"code\":\"resource_exhausted\"}", ERR_RESOURCE_EXHAUSTED},
        {400, "{\"code\":\"no_such_code\",\"message\":\"m\"}", ERR_UNKNOWN},
        {400, "{\"code\":\"aborted\",\"details\":[{\"a\":1}],\"message\":\"m\"}", ERR_ABORTED},
        {400, "{\"code\":7}", ERR_INTERNAL},
        {401, "", ERR_UNAUTHENTICATED},
        {403, "{\"code\":\"aborted\"", ERR_PERMISSION_DENIED},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        c = (struct peer_call){.http.status = cases[i].status};
        c.http.call.done = true;
        c.http.call.ok = true;
        buf_init(&c.http.answer, NULL, 4096);
        buf_z(&c.http.answer, cases[i].body);
        e = (err){0};
        assert_false(peer_answer(&c, &answer, &e));
        if (e.code != cases[i].code) fail_msg("%u %s: %s", cases[i].status, cases[i].body, e.msg);
        buf_release(&c.http.answer);
    }
}

static void an_answer_that_was_damaged_on_the_way_is_none(void **state)
{
    struct pair *p = *state;
    struct peer_call c;
    str answer = {0};
    err fault = {0};
    assert_ok(ask(p, "/t.v1.Echo/Raw", S("abcd"), &c, &answer, e));
    assert_true(http_headers_has(&c.http.answer_headers, PEER_SUM));
    c.http.answer.p[2] ^= 8;
    assert_false(peer_answer(&c, &answer, &fault));
    assert_int_equal(fault.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(fault.msg, "the answer was damaged on the way"));
    peer_release(&c);
}

// Sends the sum of one request with another one.
static void a_request_that_was_damaged_on_the_way_is_refused(void **state)
{
    struct pair *p = *state;
    static const struct {
        const char *path;
        const char *tenants;
        const char *body;
        bool ok;
    } cases[] = {
        {"/t.v1.Echo/Raw", "a-tenant", "abcd", true},
        {"/t.v1.Echo/Raw", "a-tenant", "abcl", false},
        {"/t.v1.Echo/Raw", "i-tenant", "abcd", false},
        {"/t.v1.Echo/Head", "a-tenant", "abcd", false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena *a = &p->req.arena;
        struct peer_call c = {0};
        struct http_call *h = &c.http;
        str answer = {0};
        err e = {0};
        *h = (struct http_call){.method = "POST",
                                .address = str_of(p->address),
                                .path = str_of(cases[i].path),
                                .body = str_of(cases[i].body),
                                .answer_max = 4096};
        http_headers_add(&h->headers, a, S("content-type"), S("application/proto"));
        http_headers_add(&h->headers, a, S("x-scope-orgid"), str_of(cases[i].tenants));
        http_headers_add(&h->headers, a, S(PEER_SUM),
                         peer_sum(a, S("/t.v1.Echo/Raw"), S("a-tenant"), S("abcd")));
        http_start(p->client, &p->req, h, RANK_INGESTER);
        (void)!call_wait(&p->req, &h->call, &e);
        e = (err){0};
        bool ok = peer_answer(&c, &answer, &e);
        if (ok != cases[i].ok) fail_msg("case %zu: %s", i, e.msg);
        if (!ok) assert_int_equal(e.code, ERR_UNAVAILABLE);
        peer_release(&c);
    }
}

static void silence_and_exhaustion_are_errors(void **state)
{
    struct pair *p = *state;
    struct peer_call c;
    str answer = {0};
    err e = {0};
    p->address[strlen(p->address) - 1] = 'x';
    assert_false(ask(p, "/t.v1.Echo/Raw", (str){0}, &c, &answer, &e));
    assert_int_equal(e.code, ERR_UNAVAILABLE);
    peer_release(&c);

    // without memory for its headers a call would go out without its tenant
    assert_null(arena_new(&p->req.arena, 2 << 20));
    assert_false(ask(p, "/t.v1.Echo/Raw", (str){0}, &c, &answer, &e));
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    peer_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_answer_is_the_messages_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(tenant_request_and_deadline_travel, setup, teardown),
        cmocka_unit_test_setup_teardown(the_other_nodes_error_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(other_statuses_are_given_a_code, setup, teardown),
        cmocka_unit_test_setup_teardown(an_answer_that_was_damaged_on_the_way_is_none, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_request_that_was_damaged_on_the_way_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(silence_and_exhaustion_are_errors, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
