// SPDX-License-Identifier: Apache-2.0
#include "lib/dir.h"
#include "unit/net/caller.h"

static void start(struct caller *c, struct http_call *call)
{
    http_start(c->client, &c->req, call, RANK_PUBLIC);
}

static void asks_and_gets_the_answer(void **state)
{
    struct caller *c = *state;
    caller_open(c);
    for (int i = 0; i < 50; i++) {
        struct http_call call = caller_call(c, "POST", S("/echo?x=../y"), S("some bytes"));
        struct http_header extra[] = {{S("x-a"), S("b")}, {S("x-empty"), S("")}};
        call.headers = (struct http_headers){extra, 2, 2};
        start(c, &call);
        assert_ok(call_wait(&c->req, &call.call, e));
        assert_int_equal(call.status, 200);
        assert_true(str_is(buf_view(&call.answer), "some bytes"));
        assert_true(str_is(http_headers_get(&call.answer_headers, "content-type"), "text/plain"));
        http_call_release(&call);
    }
    static const struct {
        const char *method;
        str path;
        unsigned status;
        size_t bytes;
    } cases[] = {
        {"GET", S_INIT("/big"), 200, RIG_BIG}, {"HEAD", S_INIT("/big"), 200, 0},
        {"GET", S_INIT("/nowhere"), 404, 19},  {"PUT", S_INIT("/echo"), 200, 3},
        {"DELETE", S_INIT("/empty"), 204, 0},  {"GET", S_INIT("/none"), 500, 36},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        bool put = strcmp(cases[i].method, "PUT") == 0;
        struct http_call call =
            caller_call(c, cases[i].method, cases[i].path, put ? S("abc") : S(""));
        start(c, &call);
        assert_ok(call_wait(&c->req, &call.call, e));
        assert_int_equal(call.status, cases[i].status);
        assert_int_equal(call.answer.n, cases[i].bytes);
        http_call_release(&call);
    }
}

static void sends_large_bodies_and_keeps_its_connections(void **state)
{
    struct caller *c = *state;
    caller_open(c);
    char *body = malloc(RIG_BODY_MAX);
    assert_non_null(body);
    memset(body, 'b', RIG_BODY_MAX);
    struct http_call calls[40];
    struct call *waits[40];
    for (int round = 0; round < 5; round++) {
        str path = round ? S("/echo") : S("/wait");  // first all connections are busy at once
        for (size_t i = 0; i < COUNT(calls); i++) {
            calls[i] = caller_call(c, "POST", path, str_make(body, RIG_BODY_MAX));
            start(c, &calls[i]);
            waits[i] = &calls[i].call;
        }
        if (round == 0) {
            rig_await(c->rig, &c->rig->waiting, CONNECTIONS);
            rig_open_gate(c->rig);
        }
        assert_ok(call_gather(&c->req, waits, COUNT(calls), COUNT(calls), false, e));
        for (size_t i = 0; i < COUNT(calls); i++) {
            assert_int_equal(calls[i].status, 200);
            if (round) assert_int_equal(calls[i].answer.n, RIG_BODY_MAX);
            http_call_release(&calls[i]);
        }
    }
    free(body);
    struct buf text;
    buf_init(&text, NULL, 1 << 20);
    metric_print(&text);
    char open[80];
    snprintf(open, sizeof open, "flametree_net_connections{listener=\"public\"} %d\n", CONNECTIONS);
    if (!str_contains(buf_view(&text), str_of(open))) fail_msg("%.*s", STR(buf_view(&text)));
    buf_release(&text);
}

static void talks_over_a_unix_socket(void **state)
{
    struct caller *c = *state;
    char dir[DIR_MAX];
    dir_new(dir);
    snprintf(c->address, sizeof c->address, "unix:%s/s", dir);
    c->rig->options.listen = c->address;
    rig_open(c->rig);
    for (int i = 0; i < 3; i++) {
        struct http_call call = caller_call(c, "POST", S("/echo"), S("local"));
        start(c, &call);
        assert_ok(call_wait(&c->req, &call.call, e));
        assert_true(str_is(buf_view(&call.answer), "local"));
        http_call_release(&call);
    }
    server_close(c->rig->server);
    c->rig->server = NULL;
    assert_int_equal(rmdir(dir), 0);
}

static void says_unavailable_when_nobody_listens(void **state)
{
    struct caller *c = *state;
    caller_open(c);
    server_close(c->rig->server);
    c->rig->server = NULL;
    const char *const addresses[] = {c->address, "unix:/nowhere/at/all"};
    for (size_t i = 0; i < COUNT(addresses); i++) {
        struct http_call call = caller_call(c, "GET", S("/hello"), S(""));
        call.address = str_of(addresses[i]);
        start(c, &call);
        err e = {0};
        assert_false(call_wait(&c->req, &call.call, &e));
        assert_int_equal(e.code, ERR_UNAVAILABLE);
        assert_true(str_contains(str_of(e.msg), call.address));
        http_call_release(&call);
    }
}

static void stops_at_the_deadline(void **state)
{
    struct caller *c = *state;
    caller_open(c);
    // Who waits looks at the time. The other side, which has begun by then, is told.
    struct http_call call = caller_call(c, "GET", S("/wait"), S(""));
    start(c, &call);
    rig_await(c->rig, &c->rig->waiting, 1);
    c->req.deadline_mono_ns = clock_mono_ns() + 20 * NS_PER_MS;
    err e = {0};
    assert_false(call_wait(&c->req, &call.call, &e));
    assert_int_equal(e.code, ERR_DEADLINE_EXCEEDED);
    http_call_release(&call);
    rig_await(c->rig, &c->rig->canceled, 1);

    // So does the client by itself.
    struct req soon;
    req_init(&soon, RANK_DUTY, &c->memory, 1 << 20, 20 * NS_PER_MS);
    c->req.deadline_mono_ns = 0;
    call = caller_call(c, "GET", S("/wait"), S(""));
    http_start(c->client, &soon, &call, RANK_PUBLIC);
    assert_false(call_wait(&c->req, &call.call, &e));
    assert_int_equal(e.code, ERR_DEADLINE_EXCEEDED);
    http_call_release(&call);
    req_release(&soon);
}

static void stops_when_the_asker_is_gone(void **state)
{
    struct caller *c = *state;
    caller_open(c);
    // More than may run at once, so that some are stopped while they wait for a connection.
    struct http_call calls[CONNECTIONS + 3];
    struct call *waits[COUNT(calls)];
    for (size_t i = 0; i < COUNT(calls); i++) {
        calls[i] = caller_call(c, "GET", S("/wait"), S(""));
        start(c, &calls[i]);
        waits[i] = &calls[i].call;
    }
    rig_await(c->rig, &c->rig->waiting, CONNECTIONS);
    atomic_store(&c->req.canceled, true);
    err e = {0};
    assert_false(call_gather(&c->req, waits, COUNT(calls), COUNT(calls), false, &e));
    assert_int_equal(e.code, ERR_CANCELED);
    for (size_t i = 0; i < COUNT(calls); i++)
        http_call_release(&calls[i]);
    rig_await(c->rig, &c->rig->canceled, CONNECTIONS);
}

static void takes_the_first_answers_and_stops_the_rest(void **state)
{
    struct caller *c = *state;
    caller_open(c);
    struct http_call calls[] = {caller_call(c, "GET", S("/wait"), S("")),
                                caller_call(c, "GET", S("/hello"), S(""))};
    struct call *waits[] = {&calls[0].call, &calls[1].call};
    start(c, &calls[0]);
    start(c, &calls[1]);
    assert_ok(call_gather(&c->req, waits, 2, 1, true, e));
    assert_true(calls[1].call.ok);
    assert_false(calls[0].call.ok);
    assert_int_equal(calls[0].call.fault.code, ERR_CANCELED);
    http_call_release(&calls[0]);
    http_call_release(&calls[1]);
}

static void refuses_answers_over_the_limit(void **state)
{
    struct caller *c = *state;
    caller_open(c);
    struct http_call call = caller_call(c, "GET", S("/big"), S(""));
    call.answer_max = RIG_BIG - 1;
    start(c, &call);
    err e = {0};
    assert_false(call_wait(&c->req, &call.call, &e));
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    assert_true(str_contains(str_of(e.msg), S("too large")));
    http_call_release(&call);

    atomic_store(&c->memory.limit, 100000);
    call = caller_call(c, "GET", S("/big"), S(""));
    start(c, &call);
    assert_false(call_wait(&c->req, &call.call, &e));
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    http_call_release(&call);
}

static void refuses_headers_that_would_end_the_line(void **state)
{
    struct caller *c = *state;
    caller_open(c);
    struct http_header bad[] = {{S("x-a"), S("b\r\nx-c: d")}};
    struct http_call call = caller_call(c, "GET", S("/hello"), S(""));
    call.headers = (struct http_headers){bad, 1, 1};
    start(c, &call);
    err e = {0};
    assert_false(call_wait(&c->req, &call.call, &e));
    assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
    http_call_release(&call);
}

static void asks_again_when_a_kept_connection_was_closed(void **state)
{
    struct caller *c = *state;
    c->rig->options.idle_timeout_ns = 20 * NS_PER_MS;
    caller_open(c);
    for (int i = 0; i < 5; i++) {
        struct http_call call = caller_call(c, "POST", S("/echo"), S("again"));
        start(c, &call);
        assert_ok(call_wait(&c->req, &call.call, e));
        http_call_release(&call);
        // Wait until the server has closed it: the metric is what a peer can see of that.
        for (;;) {
            struct buf text;
            buf_init(&text, NULL, 1 << 20);
            metric_print(&text);
            bool none = str_contains(buf_view(&text),
                                     S("flametree_net_connections{listener=\"public\"} 0\n"));
            buf_release(&text);
            if (none) break;
            poll(NULL, 0, 5);
        }
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, caller_new, caller_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(asks_and_gets_the_answer),
        TEST(sends_large_bodies_and_keeps_its_connections),
        TEST(talks_over_a_unix_socket),
        TEST(says_unavailable_when_nobody_listens),
        TEST(stops_at_the_deadline),
        TEST(stops_when_the_asker_is_gone),
        TEST(takes_the_first_answers_and_stops_the_rest),
        TEST(refuses_answers_over_the_limit),
        TEST(refuses_headers_that_would_end_the_line),
        TEST(asks_again_when_a_kept_connection_was_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
