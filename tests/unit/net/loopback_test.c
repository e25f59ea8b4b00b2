// SPDX-License-Identifier: Apache-2.0
//
// Calls to a server of the same process: the same answers as over a socket, without one.
#include "loop/lane.h"
#include "unit/net/caller.h"

static uint64_t connections(void)
{
    struct buf text;
    uint64_t n = 0;
    buf_init(&text, NULL, 1 << 20);
    metric_print(&text);
    buf_byte(&text, 0);
    const char *at = strstr(text.p, "flametree_net_accepted_total{listener=\"public\"} ");
    if (at) n = strtoull(strchr(at, ' '), NULL, 10);
    buf_release(&text);
    return n;
}

static void a_call_inside_is_answered_as_by_a_socket(void **state)
{
    struct caller *c = *state;
    static const struct {
        const char *method;
        str path;
        size_t body;
    } cases[] = {
        {"POST", S_INIT("/echo?x=../y"), 10},
        {"PUT", S_INIT("/echo"), RIG_BODY_MAX},
        {"POST", S_INIT("/echo"), RIG_BODY_MAX + 1},
        {"GET", S_INIT("/hello"), 0},
        {"GET", S_INIT("/big"), 0},
        {"HEAD", S_INIT("/big"), 0},
        {"GET", S_INIT("/here"), 0},
        {"GET", S_INIT("/nowhere"), 0},
        {"DELETE", S_INIT("/empty"), 0},
        {"GET", S_INIT("/none"), 0},
        {"GET", S_INIT("/greedy"), 0},
    };
    char *body = malloc(RIG_BODY_MAX + 1);
    assert_non_null(body);
    memset(body, 'b', RIG_BODY_MAX + 1);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct http_call calls[2];
        for (size_t k = 0; k < 2; k++) {
            struct http_call *call = &calls[k];
            *call = caller_call(c, cases[i].method, cases[i].path, str_make(body, cases[i].body));
            uint64_t before = connections();
            http_start(k ? c->loopback : c->client, &c->req, call, RANK_PUBLIC);
            assert_ok(call_wait(&c->req, &call->call, e));
            if (k) assert_int_equal(connections(), before);
        }
        assert_int_equal(calls[1].status, calls[0].status);
        // How much memory was in use when it ended is no part of the comparison.
        str by_socket = buf_view(&calls[0].answer);
        str inside = buf_view(&calls[1].answer);
        assert_true(str_eq(str_slice(inside, 0, str_find(inside, '(')),
                           str_slice(by_socket, 0, str_find(by_socket, '('))));
        static const char *const names[] = {"content-type", "retry-after"};
        for (size_t k = 0; k < COUNT(names); k++)
            assert_true(str_eq(http_headers_get(&calls[1].answer_headers, names[k]),
                               http_headers_get(&calls[0].answer_headers, names[k])));
        http_call_release(&calls[0]);
        http_call_release(&calls[1]);
        http_call_release(&calls[1]);
    }
    free(body);
}

// A body from a socket is copied into memory of the server; one inside the process stays where it
// is.
static void a_body_inside_the_process_is_not_copied(void **state)
{
    struct caller *c = *state;
    char *body = malloc(RIG_BODY_MAX);
    assert_non_null(body);
    memset(body, 'b', RIG_BODY_MAX);
    for (int inside = 0; inside < 2; inside++) {
        struct mem_budget *memory = &c->rig->memory;
        atomic_store(&memory->peak, 0);
        struct http_call call = caller_call(c, "POST", S("/echo"), str_make(body, RIG_BODY_MAX));
        http_start(inside ? c->loopback : c->client, &c->req, &call, RANK_PUBLIC);
        assert_ok(call_wait(&c->req, &call.call, e));
        assert_int_equal(call.answer.n, RIG_BODY_MAX);
        http_call_release(&call);
        assert_true(inside == (atomic_load(&memory->peak) < RIG_BODY_MAX));
    }
    free(body);
}

static void another_address_is_asked_by_a_socket(void **state)
{
    struct caller *c = *state;
    uint64_t before = connections();
    client_loopback(c->loopback, S("127.0.0.1:1"), c->rig->server);
    struct http_call call = caller_call(c, "GET", S("/hello"), S(""));
    http_start(c->loopback, &c->req, &call, RANK_PUBLIC);
    assert_ok(call_wait(&c->req, &call.call, e));
    assert_int_equal(call.status, 200);
    http_call_release(&call);
    assert_int_equal(connections(), before + 1);
}

static void limits_of_answers_hold(void **state)
{
    struct caller *c = *state;
    struct http_call call = caller_call(c, "GET", S("/big"), S(""));
    call.answer_max = RIG_BIG - 1;
    http_start(c->loopback, &c->req, &call, RANK_PUBLIC);
    err e = {0};
    assert_false(call_wait(&c->req, &call.call, &e));
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    assert_true(str_contains(str_of(e.msg), S("too large")));
    http_call_release(&call);

    atomic_store(&c->memory.limit, 100000);
    call = caller_call(c, "GET", S("/big"), S(""));
    http_start(c->loopback, &c->req, &call, RANK_PUBLIC);
    assert_false(call_wait(&c->req, &call.call, &e));
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    http_call_release(&call);
}

// All places of the lane are taken by clients that wait at the gate.
static void fill_lane(struct caller *c, int fds[4])
{
    for (int i = 0; i < 4; i++) {
        fds[i] = rig_connect(c->rig);
        rig_send(fds[i], S("GET /wait HTTP/1.1\r\nHost: h\r\n\r\n"));
    }
    rig_await(c->rig, &c->rig->waiting, 4);
}

static void a_busy_lane_is_waited_for(void **state)
{
    struct caller *c = *state;
    int fds[4];
    fill_lane(c, fds);
    struct http_call calls[3];
    struct call *waits[COUNT(calls)];
    for (size_t i = 0; i < COUNT(calls); i++) {
        calls[i] = caller_call(c, "POST", S("/echo"), S("patience"));
        http_start(c->loopback, &c->req, &calls[i], RANK_PUBLIC);
        waits[i] = &calls[i].call;
        assert_false(call_is_over(waits[i]));
    }
    rig_open_gate(c->rig);
    assert_ok(call_gather(&c->req, waits, COUNT(calls), COUNT(calls), false, e));
    for (size_t i = 0; i < COUNT(calls); i++) {
        assert_true(str_is(buf_view(&calls[i].answer), "patience"));
        http_call_release(&calls[i]);
    }
    for (int i = 0; i < 4; i++)
        close(fds[i]);
}

static void waiting_ends_at_the_deadline_and_with_the_asker(void **state)
{
    struct caller *c = *state;
    int fds[4];
    fill_lane(c, fds);
    struct req soon;
    req_init(&soon, RANK_DUTY, &c->memory, 1 << 20, 20 * NS_PER_MS);
    struct http_call call = caller_call(c, "GET", S("/hello"), S(""));
    http_start(c->loopback, &soon, &call, RANK_PUBLIC);
    err e = {0};
    assert_false(call_wait(&soon, &call.call, &e));
    assert_int_equal(e.code, ERR_DEADLINE_EXCEEDED);
    http_call_release(&call);
    req_release(&soon);

    call = caller_call(c, "GET", S("/hello"), S(""));
    http_start(c->loopback, &c->req, &call, RANK_PUBLIC);
    atomic_store(&c->req.canceled, true);
    assert_false(call_wait(&c->req, &call.call, &e));
    assert_int_equal(e.code, ERR_CANCELED);
    http_call_release(&call);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
}

static void *cancel_at_the_gate(void *arg)
{
    struct caller *c = arg;
    rig_await(c->rig, &c->rig->waiting, 1);
    atomic_store(&c->req.canceled, true);
    rig_open_gate(c->rig);
    return NULL;
}

static enum err_code alive_code;

static void alive_run(void *self, struct http_exchange *x)
{
    err e = {0};
    rig_run(self, x);
    if (!req_alive(&x->req, &e)) alive_code = e.code;
}

static void a_handler_sees_that_the_asker_is_gone(void **state)
{
    struct caller *c = *state;
    pthread_t thread;
    struct server_app app = {.self = c->rig,
                             .head = rig_head,
                             .run = alive_run,
                             .refuse = rig_refuse};
    server_close(c->rig->server);
    assert_ok((c->rig->server = server_open(&c->rig->options, app, c->rig->loops, 1, e)));
    client_loopback(c->loopback, str_of(c->address), c->rig->server);
    assert_int_equal(pthread_create(&thread, NULL, cancel_at_the_gate, c), 0);
    struct http_call call = caller_call(c, "GET", S("/wait"), S(""));
    http_start(c->loopback, &c->req, &call, RANK_PUBLIC);
    err e = {0};
    (void)!call_wait(&c->req, &call.call, &e);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(alive_code, ERR_CANCELED);
    http_call_release(&call);
}

static void a_draining_server_is_unavailable(void **state)
{
    struct caller *c = *state;
    server_drain(c->rig->server, 0);
    struct http_call call = caller_call(c, "GET", S("/hello"), S(""));
    http_start(c->loopback, &c->req, &call, RANK_PUBLIC);
    err e = {0};
    assert_false(call_wait(&c->req, &call.call, &e));
    assert_int_equal(e.code, ERR_UNAVAILABLE);
    assert_true(str_contains(str_of(e.msg), S("shutting down")));
    http_call_release(&call);
}

static void *call_often(void *arg)
{
    struct caller *c = arg;
    struct req req;
    req_init(&req, RANK_DUTY, &c->memory, 1 << 20, 60 * NS_PER_S);
    for (int i = 0; i < 300; i++) {
        struct http_call call = caller_call(c, "POST", S("/echo"), S("one of many"));
        http_start(c->loopback, &req, &call, RANK_PUBLIC);
        err e = {0};
        bool ok = call_wait(&req, &call.call, &e);
        assert_true(ok && str_is(buf_view(&call.answer), "one of many"));
        http_call_release(&call);
    }
    req_release(&req);
    return NULL;
}

static void many_threads_share_the_lane(void **state)
{
    struct caller *c = *state;
    pthread_t threads[8];
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, c), 0);
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, caller_loopback, caller_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_call_inside_is_answered_as_by_a_socket),
        TEST(a_body_inside_the_process_is_not_copied),
        TEST(another_address_is_asked_by_a_socket),
        TEST(limits_of_answers_hold),
        TEST(a_busy_lane_is_waited_for),
        TEST(waiting_ends_at_the_deadline_and_with_the_asker),
        TEST(a_handler_sees_that_the_asker_is_gone),
        TEST(a_draining_server_is_unavailable),
        TEST(many_threads_share_the_lane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
