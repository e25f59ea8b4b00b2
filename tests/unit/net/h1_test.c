// SPDX-License-Identifier: Apache-2.0
#include "lib/dir.h"
#include "unit/net/rig.h"

// What a connection itself may count for while nothing is asked.
#define CONN_ROOM 4096

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

static void expect(int fd, struct buf *b, unsigned status, const char *body)
{
    struct rig_answer a;
    assert_true(rig_take_answer(fd, b, &a, false));
    if (a.status != status) fail_msg("status %u: %.*s", a.status, STR(buf_view(&a.head)));
    if (body) assert_true(str_is(buf_view(&a.body), body));
    rig_answer_release(&a);
}

static int setup(void **state)
{
    *state = rig_new();
    return 0;
}

static int teardown(void **state)
{
    rig_free(*state);
    return 0;
}

static void keeps_a_connection_for_many_requests(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    int fd = rig_connect(r);
    struct buf b;
    buf_init(&b, NULL, 1 << 24);
    for (int i = 0; i < 20; i++) {
        rig_send(fd, S(GET("/hello")));
        expect(fd, &b, 200, "hello\n");
        rig_send(fd, S(GET("/here")));
        expect(fd, &b, 200, "hello\n");
        rig_send(fd, S(GET("/nowhere")));
        expect(fd, &b, 404, "404 page not found\n");
        rig_send(fd, S("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345"));
        expect(fd, &b, 200, "12345");
        rig_send(fd, S("POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345"));
        expect(fd, &b, 404, NULL);
    }
    (void)close(fd);
    buf_release(&b);
}

static void answers_a_pipeline_in_order(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    int fd = rig_connect(r);
    struct buf all;
    buf_init(&all, NULL, 1 << 24);
    for (int i = 0; i < 300; i++) {
        buf_printf(&all, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n",
                   i % 3 ? "/echo" : "/here");
        buf_printf(&all, "%03d", i);
    }
    rig_send(fd, buf_view(&all));
    struct buf b;
    buf_init(&b, NULL, 1 << 24);
    for (int i = 0; i < 300; i++) {
        char body[8];
        snprintf(body, sizeof body, "%03d", i);
        expect(fd, &b, 200, i % 3 ? body : "hello\n");
    }
    (void)close(fd);
    buf_release(&b);
    buf_release(&all);
}

static uint64_t woken(const struct rig *r)
{
    uint64_t n = 0;
    for (int i = 0; i < RIG_LOOPS; i++)
        n += loop_woken(r->loops[i]);
    return n;
}

// An answer that is large, or an error, wakes the loop that sends it; a small one does not.
static void workers_send_small_answers_themselves(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    int fd = rig_connect(r);
    struct buf b;
    buf_init(&b, NULL, 1 << 24);
    rig_send(fd, S(GET("/hello")));
    expect(fd, &b, 200, "hello\n");
    uint64_t before = woken(r);
    for (int i = 0; i < 50; i++) {
        rig_send(fd, S("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345"));
        expect(fd, &b, 200, "12345");
        rig_send(fd, S(GET("/inject")));
        expect(fd, &b, 200, "hello\n");
    }
    assert_int_equal(woken(r), before);
    AWAIT(atomic_load(&r->memory.used) <= CONN_ROOM);
    assert_int_equal(woken(r), before);
    rig_send(fd, S(GET("/big")));
    expect(fd, &b, 200, NULL);
    rig_send(fd, S(GET("/none")));
    expect(fd, &b, 500, NULL);
    rig_send(fd, S("GET /hello HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n"));
    expect(fd, &b, 200, "hello\n");
    assert_int_equal(woken(r), before + 3);
    rig_send(fd, S(GET("/hello")));
    expect(fd, &b, 200, "hello\n");
    assert_int_equal(woken(r), before + 3);
    (void)close(fd);
    buf_release(&b);
}

// A client that is ahead: its next request, or part of it, comes while one is answered, or just
// then. Whoever sends, answers come whole and in order.
struct ahead {
    const struct rig *rig;
    unsigned seed;
    unsigned wrong;
};

#define AHEAD_REQUESTS 400

static void *run_ahead(void *arg)
{
    struct ahead *a = arg;
    int fd = rig_connect(a->rig);
    struct buf all;
    struct buf b;
    size_t ends[AHEAD_REQUESTS];
    buf_init(&all, NULL, 1 << 24);
    buf_init(&b, NULL, 1 << 24);
    for (int i = 0; i < AHEAD_REQUESTS; i++) {
        buf_printf(&all, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n%04d", i);
        ends[i] = all.n;
    }
    size_t at = 0;
    for (int i = 0; i < AHEAD_REQUESTS; i++) {
        struct rig_answer answer;
        char body[8];
        size_t more = rand_r(&a->seed) % 4 == 0 ? rand_r(&a->seed) % 160u : 0;
        size_t to = MAX(at, MIN(ends[i] + more, all.n));
        rig_send(fd, str_slice(buf_view(&all), at, to));
        at = to;
        snprintf(body, sizeof body, "%04d", i);
        a->wrong += !rig_take_answer(fd, &b, &answer, false) || answer.status != 200 ||
                    !str_is(buf_view(&answer.body), body);
        rig_answer_release(&answer);
    }
    (void)close(fd);
    buf_release(&all);
    buf_release(&b);
    return NULL;
}

static void answers_come_in_order_whoever_sends_them(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    pthread_t threads[4];
    struct ahead v[COUNT(threads)];
    for (unsigned i = 0; i < COUNT(threads); i++) {
        v[i] = (struct ahead){.rig = r, .seed = i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, run_ahead, &v[i]), 0);
    }
    for (unsigned i = 0; i < COUNT(threads); i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(v[i].wrong, 0);
    }
}

static void reads_a_request_byte_by_byte(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    static const struct {
        const char *name;
        str text;
        const char *body;
    } cases[] = {
        {"length", S_INIT("POST /echo?q HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabcd"),
         "abcd"},
        {"chunked",
         S_INIT("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                "3\r\nabc\r\n00A;x=\"y\"\r\n0123456789\r\n0\r\nX: y\r\n\r\n"),
         "abc0123456789"},
        {"empty lines first", S_INIT("\r\n\r\nGET /hello HTTP/1.1\r\nhost: a\r\n\r\n"), "hello\n"},
        {"absolute target", S_INIT("GET http://x:1/hello?a HTTP/1.1\r\nHost: x:1\r\n\r\n"),
         "hello\n"},
    };
    int fd = rig_connect(r);
    struct buf b;
    buf_init(&b, NULL, 1 << 24);
    for (size_t i = 0; i < COUNT(cases); i++) {
        for (size_t k = 0; k < cases[i].text.n; k++)
            rig_send(fd, str_slice(cases[i].text, k, k + 1));
        expect(fd, &b, 200, cases[i].body);
    }
    (void)close(fd);
    buf_release(&b);
}

static void answers_without_body_where_there_is_none(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    int fd = rig_connect(r);
    struct buf b;
    buf_init(&b, NULL, 1 << 24);
    struct rig_answer a;
    rig_send(fd, S("HEAD /big HTTP/1.1\r\nHost: a\r\n\r\n" GET("/empty") GET("/hello")));
    assert_true(rig_take_answer(fd, &b, &a, true));
    assert_true(str_contains(buf_view(&a.head), S("content-length: 1048576\r\n")));
    rig_answer_release(&a);
    assert_true(rig_take_answer(fd, &b, &a, true));
    assert_int_equal(a.status, 204);
    assert_false(str_contains(buf_view(&a.head), S("content-length")));
    rig_answer_release(&a);
    expect(fd, &b, 200, "hello\n");
    (void)close(fd);
    buf_release(&b);
}

static void writes_large_answers_to_a_slow_reader(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    int fd = rig_connect(r);
    struct buf b;
    buf_init(&b, NULL, 1 << 24);
    for (int i = 0; i < 10; i++)  // more than sockets buffer
        rig_send(fd, S(GET("/big")));
    rig_send(fd, S(GET("/hello")));
    for (int i = 0; i < 10; i++) {
        struct rig_answer a;
        assert_true(rig_take_answer(fd, &b, &a, false));
        assert_int_equal(a.body.n, RIG_BIG);
        rig_answer_release(&a);
    }
    expect(fd, &b, 200, "hello\n");
    (void)close(fd);
    buf_release(&b);
}

static void closes_when_told(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    static const struct {
        const char *name;
        str text;
        bool half_close;
    } cases[] = {
        {"close", S_INIT("GET /hello HTTP/1.1\r\nHost: a\r\nConnection: foo, Close\r\n\r\n"),
         false},
        {"1.0", S_INIT("GET /hello HTTP/1.0\r\n\r\n"), false},
        {"half-closed after two", S_INIT(GET("/here") GET("/here")), true},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf b = rig_exchange(r, cases[i].text, cases[i].half_close);
        if (!str_starts(buf_view(&b), S("HTTP/1.1 200 OK\r\n")) ||
            !str_ends(buf_view(&b), S("\r\n\r\nhello\n")))
            fail_msg("%s: %.*s", cases[i].name, STR(buf_view(&b)));
        buf_release(&b);
    }
    int fd = rig_connect(r);
    struct buf b;
    buf_init(&b, NULL, 1 << 24);
    for (int i = 0; i < 3; i++) {
        rig_send(fd, S("GET /hello HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
        expect(fd, &b, 200, "hello\n");
    }
    (void)close(fd);
    buf_release(&b);
}

#define POST "POST /echo HTTP/1.1\r\nHost: a\r\n"

static void refuses_what_two_readers_could_read_differently(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    static const struct {
        const char *name;
        str text;
        unsigned status;
    } cases[] = {
        {"space before colon", S_INIT("GET / HTTP/1.1\r\nHost : a\r\n\r\n"), 400},
        {"space in name", S_INIT("GET / HTTP/1.1\r\nHost: a\r\nx y: a\r\n\r\n"), 400},
        {"bare LF", S_INIT("GET / HTTP/1.1\nHost: a\n\n"), 400},
        {"bare LF in headers", S_INIT("GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n"), 400},
        {"bare CR", S_INIT("GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n"), 400},
        {"folded line", S_INIT("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n"), 400},
        {"both lengths",
         S_INIT(POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400},
        {"both lengths, other order",
         S_INIT(POST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"), 400},
        {"length twice", S_INIT(POST "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc"), 400},
        {"same length twice", S_INIT(POST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"),
         400},
        {"length list", S_INIT(POST "Content-Length: 3, 3\r\n\r\nabc"), 400},
        {"signed length", S_INIT(POST "Content-Length: +3\r\n\r\nabc"), 400},
        {"negative length", S_INIT(POST "Content-Length: -3\r\n\r\nabc"), 400},
        {"hex length", S_INIT(POST "Content-Length: 0x3\r\n\r\nabc"), 400},
        {"huge length", S_INIT(POST "Content-Length: 99999999999999999999\r\n\r\nabc"), 400},
        {"empty length", S_INIT(POST "Content-Length:\r\n\r\nabc"), 400},
        {"other coding", S_INIT(POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), 501},
        {"x coding", S_INIT(POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"), 501},
        {"identity", S_INIT(POST "Transfer-Encoding: identity\r\n\r\n"), 501},
        {"coding twice",
         S_INIT(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
         400},
        {"chunked in 1.0",
         S_INIT("POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400},
        {"no host", S_INIT("GET / HTTP/1.1\r\n\r\n"), 400},
        {"two hosts", S_INIT("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400},
        {"control byte in value", S_INIT("GET / HTTP/1.1\r\nHost: a\r\nX: a\001b\r\n\r\n"), 400},
        {"NUL in value", S_INIT("GET / HTTP/1.1\r\nHost: a\r\nX: a\000b\r\n\r\n"), 400},
        {"tab in target", S_INIT("GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
        {"space in target", S_INIT("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
        {"no version", S_INIT("GET /\r\n\r\n"), 400},
        {"two spaces", S_INIT("GET  / HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
        {"space after version", S_INIT("GET / HTTP/1.1 \r\nHost: a\r\n\r\n"), 400},
        {"other protocol", S_INIT("SOURCE / ICE/1.0\r\nHost: a\r\n\r\n"), 400},
        {"fragment", S_INIT("GET /#a HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
        {"host with path", S_INIT("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"), 400},
        {"other host in target", S_INIT("GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
        {"version 2", S_INIT("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505},
        {"unknown method", S_INIT("FROB / HTTP/1.1\r\nHost: a\r\n\r\n"), 501},
        {"CONNECT", S_INIT("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"), 405},
        {"garbage", S_INIT("\026\003\001\002\r\n\r\n"), 400},
        {"chunk size with LF", S_INIT(POST "Transfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n"),
         400},
        {"chunk ends wrongly",
         S_INIT(POST "Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n0\r\n\r\n"), 400},
        {"chunk extension with LF",
         S_INIT(POST "Transfer-Encoding: chunked\r\n\r\n1;a\nb\r\nx\r\n0\r\n\r\n"), 400},
        {"chunk size empty", S_INIT(POST "Transfer-Encoding: chunked\r\n\r\n\r\nx\r\n"), 400},
        {"chunk size huge",
         S_INIT(POST "Transfer-Encoding: chunked\r\n\r\n10000000000000001\r\nx\r\n"), 400},
        {"chunk size signed", S_INIT(POST "Transfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n"), 400},
        {"chunk size with space",
         S_INIT(POST "Transfer-Encoding: chunked\r\n\r\n1 1\r\nx\r\n0\r\n\r\n"), 400},
        {"trailer that frames",
         S_INIT(POST "Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 1\r\n\r\n"), 400},
        {"chunk over the limit", S_INIT(POST "Transfer-Encoding: chunked\r\n\r\nfffffff\r\n"), 413},
        {"expectation", S_INIT(POST "Expect: tea\r\nContent-Length: 1\r\n\r\nx"), 417},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf b = rig_exchange(r, cases[i].text, false);
        char want[32];
        snprintf(want, sizeof want, "HTTP/1.1 %u ", cases[i].status);
        str got = buf_view(&b);
        if (!str_starts(got, str_of(want)))
            fail_msg("%s: want %s got %.*s", cases[i].name, want, STR(got));
        // One answer and no second one: nothing after it was taken for a request.
        if (str_contains(str_slice(got, 5, got.n), S("\nHTTP/1.")))
            fail_msg("%s: more than one answer: %.*s", cases[i].name, STR(got));
        if (!str_contains(got, S("onnection: close\r\n")))
            fail_msg("%s: the connection is kept: %.*s", cases[i].name, STR(got));
        buf_release(&b);
    }
}

static void refuses_heads_that_are_too_large(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    buf_z(&b, "GET /hello HTTP/1.1\r\nHost: a\r\nX: ");
    while (b.n < 9000)
        buf_byte(&b, 'x');
    struct buf got = rig_exchange(r, buf_view(&b), false);
    assert_true(str_starts(buf_view(&got), S("HTTP/1.1 431 ")));
    buf_release(&got);
    buf_clear(&b);
    buf_z(&b, "GET /hello HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < 50; i++)
        buf_printf(&b, "X: %d\r\n", i);
    buf_z(&b, "\r\n");
    got = rig_exchange(r, buf_view(&b), false);
    assert_true(str_starts(buf_view(&got), S("HTTP/1.1 431 ")));
    buf_release(&got);
    buf_release(&b);
}

static void refuses_bodies_over_the_limit(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    static const struct {
        const char *name;
        const char *head;
        bool send_body;
        bool closes;
    } cases[] = {
        {"by length, before it is read", POST "Content-Length: 100001\r\n\r\n", false, true},
        {"by length, sent anyway", POST "Content-Length: 100001\r\n\r\n", true, true},
        {"by length, with expectation",
         POST "Expect: 100-continue\r\nContent-Length: 100001\r\n\r\n", false, true},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        buf_clear(&b);
        buf_z(&b, cases[i].head);
        for (int k = 0; cases[i].send_body && k < 100001; k++)
            buf_byte(&b, 'x');
        struct buf got = rig_exchange(r, buf_view(&b), false);
        if (!str_starts(buf_view(&got), S("HTTP/1.1 413 ")))
            fail_msg("%s: %.*s", cases[i].name, STR(buf_view(&got)));
        assert_true(str_contains(buf_view(&got), S("resource_exhausted: body is 100001 bytes")));
        buf_release(&got);
    }
    buf_clear(&b);
    buf_z(&b, POST "Transfer-Encoding: chunked\r\n\r\n");
    for (int k = 0; k < 101; k++) {
        buf_z(&b, "3e8\r\n");
        for (int j = 0; j < 1000; j++)
            buf_byte(&b, 'y');
        buf_z(&b, "\r\n");
    }
    struct buf got = rig_exchange(r, buf_view(&b), false);
    assert_true(str_starts(buf_view(&got), S("HTTP/1.1 413 ")));
    buf_release(&got);
    assert_int_equal(atomic_load(&r->refused), 4);
    buf_release(&b);
}

static void says_continue_to_those_who_wait_for_it(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    int fd = rig_connect(r);
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    for (int i = 0; i < 2; i++) {
        rig_send(fd, S(POST "Expect: 100-Continue\r\nContent-Length: 3\r\n\r\n"));
        assert_true(rig_recv(fd, &b, S("HTTP/1.1 100 Continue\r\n\r\n")));
        buf_clear(&b);
        rig_send(fd, S("abc"));
        expect(fd, &b, 200, "abc");
    }
    (void)close(fd);
    buf_release(&b);
}

static void refuses_with_429_when_memory_is_used_up(void **state)
{
    struct rig *r = *state;
    mem_budget_init(&r->memory, "requests", NULL, 50000);
    rig_open(r);
    int fd = rig_connect(r);
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    buf_z(&b, POST "Content-Length: 60000\r\n\r\n");
    for (int k = 0; k < 60000; k++)
        buf_byte(&b, 'x');
    rig_send(fd, buf_view(&b));
    buf_clear(&b);
    struct rig_answer a;
    assert_true(rig_take_answer(fd, &b, &a, false));
    assert_int_equal(a.status, 429);
    assert_true(str_contains(buf_view(&a.head), S("retry-after: 1\r\n")));
    rig_answer_release(&a);
    (void)close(fd);

    fd = rig_connect(r);
    rig_send(fd, S(GET("/greedy")));
    expect(fd, &b, 429, NULL);
    (void)close(fd);

    // Nothing at all is left, whenever the others give back what they had: even the head finds no
    // room, and it is answered.
    atomic_store(&r->memory.limit, 1);
    fd = rig_connect(r);
    buf_clear(&b);
    rig_send(fd, S(GET("/hello")));
    expect(fd, &b, 429, NULL);
    (void)close(fd);
    buf_release(&b);
}

static void refuses_when_the_lane_is_full(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    int fds[13];
    for (size_t i = 0; i < COUNT(fds); i++) {  // width 4, queue 8
        fds[i] = rig_connect(r);
        rig_send(fds[i], S(GET("/wait")));
        if (i < 4) rig_await(r, &r->waiting, (unsigned)i + 1);
    }
    // Exactly one of them is refused at once; which one is up to the order of arrival.
    struct pollfd p[COUNT(fds)];
    for (size_t i = 0; i < COUNT(fds); i++)
        p[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    assert_int_equal(poll(p, COUNT(fds), 60000), 1);
    rig_open_gate(r);
    unsigned refused = 0;
    for (size_t i = 0; i < COUNT(fds); i++) {
        struct buf b;
        buf_init(&b, NULL, 1 << 20);
        struct rig_answer a;
        assert_true(rig_take_answer(fds[i], &b, &a, false));
        refused += a.status == 429;
        assert_true(a.status == 200 || a.status == 429);
        rig_answer_release(&a);
        buf_release(&b);
        (void)close(fds[i]);
    }
    assert_int_equal(refused, 1);
}

static void tells_a_running_handler_that_the_client_is_gone(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    int fd = rig_connect(r);
    rig_send(fd, S(GET("/wait")));
    rig_await(r, &r->waiting, 1);
    (void)close(fd);
    rig_await(r, &r->canceled, 1);

    // Also when more requests than are read ahead were piped behind it.
    fd = rig_connect(r);
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    buf_z(&b, GET("/wait"));
    for (int i = 0; i < 5000; i++)
        buf_z(&b, GET("/hello"));
    rig_send(fd, buf_view(&b));
    rig_await(r, &r->waiting, 1);
    shutdown(fd, SHUT_WR);
    rig_await(r, &r->canceled, 2);
    buf_release(&b);
    (void)close(fd);
}

static void survives_clients_that_leave_in_the_middle(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    static const str texts[] = {
        S_INIT(""),
        S_INIT("G"),
        S_INIT("PRI * HTTP/2.0\r\n"),
        S_INIT(POST "Content-Length: 30\r\n\r\nabc"),
        S_INIT(POST "Transfer-Encoding: chunked\r\n\r\n5\r\na"),
        S_INIT(GET("/big") GET("/big") GET("/big")),
    };
    for (int reset = 0; reset < 2; reset++) {
        for (size_t i = 0; i < COUNT(texts); i++) {
            int fd = rig_connect(r);
            struct linger hard = {.l_onoff = 1};
            if (reset) setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
            rig_send(fd, texts[i]);
            (void)close(fd);
        }
    }
    struct buf got = rig_exchange(r, S("GET /hello HTTP/1.0\r\n\r\n"), false);
    assert_true(str_ends(buf_view(&got), S("hello\n")));
    buf_release(&got);
}

// Servers with ever more time, from 30 ms on.
static void open_impatient(struct rig *r, unsigned attempt)
{
    if (attempt == 12) fail_msg("two minutes are too little for the test to say something");
    if (r->server) server_close(r->server);
    const uint64_t limit = 30 * (uint64_t)NS_PER_MS << attempt;
    r->options.head_timeout_ns = limit;
    r->options.body_timeout_ns = limit;
    r->options.idle_timeout_ns = limit;
    r->options.write_timeout_ns = limit;
    rig_open(r);
}

static void cuts_off_the_slow(void **state)
{
    struct rig *r = *state;
    unsigned attempts = 0;
    open_impatient(r, attempts++);
    static const struct {
        const char *name;
        str text;
        const char *answer;  // what its end is like
    } cases[] = {
        {"nothing", S_INIT(""), ""},
        {"half a head", S_INIT("GET / HT"), "HTTP/1.1 408 "},
        {"half a body", S_INIT(POST "Content-Length: 3\r\n\r\nab"), "HTTP/1.1 408 "},
        {"half a chunk", S_INIT(POST "Transfer-Encoding: chunked\r\n\r\n3\r\na"), "HTTP/1.1 408 "},
        {"idle", S_INIT(GET("/hello")), "HTTP/1.1 200 "},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf got = rig_exchange(r, cases[i].text, false);
        // Where the test is slow itself, it is cut off before it has said anything.
        while (got.n == 0 && cases[i].answer[0]) {
            buf_release(&got);
            open_impatient(r, attempts++);
            got = rig_exchange(r, cases[i].text, false);
        }
        if (!str_starts(buf_view(&got), str_of(cases[i].answer)))
            fail_msg("%s: %.*s", cases[i].name, STR(buf_view(&got)));
        buf_release(&got);
    }
    // A client that does not read: the server gives up, and it sees an end of what it can read.
    int fd = rig_connect(r);
    int small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    struct buf b;
    buf_init(&b, NULL, 1 << 28);
    for (int i = 0; i < 50; i++)
        rig_send(fd, S(GET("/big")));
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    assert_int_equal(poll(&p, 1, 300000), 1);
    (void)close(fd);
    buf_release(&b);
}

static void says_no_to_one_connection_too_many(void **state)
{
    struct rig *r = *state;
    r->options.connections_max = 2;
    rig_open(r);
    int first = rig_connect(r);
    int second = rig_connect(r);
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    rig_send(first, S(GET("/hello")));
    expect(first, &b, 200, "hello\n");
    rig_send(second, S(GET("/hello")));
    expect(second, &b, 200, "hello\n");
    int third = rig_connect(r);
    rig_recv(third, &b, (str){0});
    assert_true(str_starts(buf_view(&b), S("HTTP/1.1 503 ")));
    (void)close(first);
    (void)close(second);
    (void)close(third);
    buf_release(&b);
}

static void never_writes_a_second_head_from_a_value(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    struct buf got = rig_exchange(r, S("GET /inject HTTP/1.0\r\n\r\n"), false);
    assert_false(str_contains(buf_view(&got), S("x-b")));
    buf_release(&got);
    got = rig_exchange(r, S("GET /none HTTP/1.0\r\n\r\n"), false);
    assert_true(str_starts(buf_view(&got), S("HTTP/1.1 500 ")));
    buf_release(&got);
}

struct drainer {
    struct rig *r;
    pthread_t thread;
};

static void *drain(void *arg)
{
    server_drain(((struct drainer *)arg)->r->server, 60 * NS_PER_S);
    return NULL;
}

static void drains_after_the_running_requests(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    int idle = rig_connect(r);
    int busy = rig_connect(r);
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    rig_send(idle, S(GET("/hello")));
    expect(idle, &b, 200, "hello\n");
    rig_send(busy, S(GET("/wait")));
    rig_await(r, &r->waiting, 1);

    struct drainer d = {.r = r};
    pthread_create(&d.thread, NULL, drain, &d);
    assert_false(rig_recv(idle, &b, S("x")));  // is closed at once
    (void)close(idle);
    rig_open_gate(r);
    struct rig_answer a;
    assert_true(rig_take_answer(busy, &b, &a, false));
    assert_int_equal(a.status, 200);
    assert_true(a.closes);
    rig_answer_release(&a);
    (void)close(busy);
    pthread_join(d.thread, NULL);
    buf_release(&b);
    assert_int_equal(r->canceled, 0);
}

static void cuts_what_does_not_end(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    int fd = rig_connect(r);
    rig_send(fd, S(GET("/wait")));
    rig_await(r, &r->waiting, 1);
    server_drain(r->server, 1);
    rig_await(r, &r->canceled, 1);
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    assert_false(rig_recv(fd, &b, S("x")));
    assert_int_equal(b.n, 0);
    (void)close(fd);
    buf_release(&b);
}

static void listens_on_a_unix_socket(void **state)
{
    struct rig *r = *state;
    char dir[DIR_MAX];
    dir_new(dir);
    char listen[64];
    snprintf(listen, sizeof listen, "unix:%s/s", dir);
    r->options.listen = listen;
    for (int i = 0; i < 2; i++) {  // the second time a stale file is in the way
        rig_open(r);
        assert_int_equal(server_port(r->server), 0);
        struct buf got = rig_exchange(r, S("GET /hello HTTP/1.0\r\n\r\n"), false);
        assert_true(str_ends(buf_view(&got), S("hello\n")));
        buf_release(&got);
        if (i == 1) break;
        server_close(r->server);
        int stale = socket(AF_UNIX, SOCK_STREAM, 0);
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        snprintf(un.sun_path, sizeof un.sun_path, "%s", listen + 5);
        assert_int_equal(bind(stale, (struct sockaddr *)&un, sizeof un), 0);
        (void)close(stale);
    }
    server_close(r->server);
    r->server = NULL;
    assert_int_equal(rmdir(dir), 0);
}

static void names_the_address_it_cannot_have(void **state)
{
    struct rig *r = *state;
    rig_open(r);
    char taken[32];
    snprintf(taken, sizeof taken, "127.0.0.1:%u", server_port(r->server));
    struct server_app app = {.self = r, .head = rig_head, .run = rig_run, .refuse = rig_refuse};
    const char *const bad[] = {taken, "nonsense", "127.0.0.1:notaport", "unix:/nowhere/at/all"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct server_options o = r->options;
        o.listen = bad[i];
        err e = {0};
        assert_null(server_open(&o, app, r->loops, RIG_LOOPS, &e));
        assert_int_equal(e.code, ERR_UNAVAILABLE);
        assert_true(str_contains(str_of(e.msg), str_of(bad[i][0] == 'u' ? bad[i] + 5 : bad[i])));
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(keeps_a_connection_for_many_requests),
        TEST(answers_a_pipeline_in_order),
        TEST(workers_send_small_answers_themselves),
        TEST(answers_come_in_order_whoever_sends_them),
        TEST(reads_a_request_byte_by_byte),
        TEST(answers_without_body_where_there_is_none),
        TEST(writes_large_answers_to_a_slow_reader),
        TEST(closes_when_told),
        TEST(refuses_what_two_readers_could_read_differently),
        TEST(refuses_heads_that_are_too_large),
        TEST(refuses_bodies_over_the_limit),
        TEST(says_continue_to_those_who_wait_for_it),
        TEST(refuses_with_429_when_memory_is_used_up),
        TEST(refuses_when_the_lane_is_full),
        TEST(tells_a_running_handler_that_the_client_is_gone),
        TEST(survives_clients_that_leave_in_the_middle),
        TEST(cuts_off_the_slow),
        TEST(says_no_to_one_connection_too_many),
        TEST(never_writes_a_second_head_from_a_value),
        TEST(drains_after_the_running_requests),
        TEST(cuts_what_does_not_end),
        TEST(listens_on_a_unix_socket),
        TEST(names_the_address_it_cannot_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
