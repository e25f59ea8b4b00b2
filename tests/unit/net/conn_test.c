// SPDX-License-Identifier: Apache-2.0
//
// Connections without sockets, whose allocations fail one after the other.
#include "fuzz/net_bench.h"
#include "lib/test.h"
#include "sys/clock.h"

#include <stdio.h>

static const char h1_bytes[] =
    "POST /e?q HTTP/1.1\r\nHost: a\r\nX-Y: z\r\nContent-Length: 5\r\n\r\nhello"
    "POST /e HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    "3\r\nabc\r\n0\r\n\r\n"
    "GET /big HTTP/1.1\r\nHost: a\r\n\r\n"
    "GET /no HTTP/1.1\r\nHost: a\r\n\r\n"
    "GET /204 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

static const char h2_bytes[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                               "\0\0\0\x04\0\0\0\0\0"
                               "\0\0\x0d\x01\x04\0\0\0\x01\x83\x86\x04\x06/e?q=1\x01\x01"
                               "a"
                               "\0\0\x05\0\x01\0\0\0\x01hello"
                               "\0\0\x0b\x01\x05\0\0\0\x03\x82\x86\x04\x04/big\x01\x01"
                               "a";

// Feeds bytes while the n-th allocation fails (0: none); false when there were not so many.
// Whatever fails, the connection answers, refuses or closes, and gives everything back (bench_free
// looks).
static bool talk(str bytes, size_t piece, int n, struct buf *said)
{
    struct bench *b = bench_new();
    assert_non_null(buf_reserve(&b->out, 1 << 20));
    mem_fail_at(n);
    for (size_t at = 0; at < bytes.n; at += piece)
        bench_feed(b, (const uint8_t *)bytes.p + at, MIN(piece, bytes.n - at));
    bool fired = mem_fault_fired();
    mem_fail_at(0);
    buf_clear(said);
    buf_str(said, buf_view(&b->out));
    bench_free(b);
    return fired;
}

static void answers_refuses_or_closes_when_memory_fails(void **state)
{
    (void)state;
    static const struct {
        str bytes;
        str begins;  // of all that is said, if anything
    } cases[] = {
        {{h1_bytes, sizeof h1_bytes - 1}, S_INIT("HTTP/1.1 ")},
        {{h2_bytes, sizeof h2_bytes - 1}, S_INIT("\0\0\x18\x04\0")},
    };
    struct buf said;
    buf_init(&said, NULL, 1 << 20);
    for (size_t i = 0; i < COUNT(cases); i++) {
        for (size_t piece = 1; piece < 1000; piece *= 31) {
            assert_false(talk(cases[i].bytes, piece, 0, &said));
            assert_true(said.n > 40000);  // it had the large answer
            int n = 1;
            while (talk(cases[i].bytes, piece, n, &said)) {
                if (said.n) assert_true(str_starts(buf_view(&said), cases[i].begins));
                n++;
            }
            assert_true(n > 5);
        }
    }
    buf_release(&said);
}

// Time in which the loop did not run counts for no limit: neither of connections nor of requests.
static void time_in_which_the_loop_stood_is_no_clients(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t mono;  // how much each clock goes on
        uint64_t real;
        uint64_t seen;  // how much the shard says
    } cases[] = {
        {"a turn", 1000, 1000, 1000},
        {"a whole period", NS_PER_S, NS_PER_S, NS_PER_S},
        {"a busy machine", 2 * (uint64_t)NS_PER_S - 1, 2 * NS_PER_S - 1, 2 * NS_PER_S - 1},
        {"stood for a minute", 61 * (uint64_t)NS_PER_S, 61 * NS_PER_S, NS_PER_S},
        {"stood for a day", 86401 * (uint64_t)NS_PER_S, 86401 * NS_PER_S, NS_PER_S},
        {"a test's clock", 1000 * (uint64_t)NS_PER_S, 1000, 1000 * NS_PER_S},
    };
    struct bench *b = bench_new();
    struct shard *s = &b->shard;
    s->sweep_ns = NS_PER_S;
    uint64_t mono = NS_PER_S;
    uint64_t real = 5 * (uint64_t)NS_PER_S;
    shard_pass(s, mono, real);
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t before = s->now_ns;
        mono += cases[i].mono;
        real += cases[i].real;
        shard_pass(s, mono, real);
        if (s->now_ns - before != cases[i].seen) fail_msg("%s", cases[i].name);
    }
    bench_free(b);
}

// Somebody who has sent half a head when the process is stopped has his time after it goes on.
static void nobody_is_cut_off_for_our_standing_still(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    struct shard *s = &b->shard;
    s->sweep_ns = NS_PER_S;
    b->server.options.head_timeout_ns = 10 * (uint64_t)NS_PER_S;
    uint64_t at = 100 * (uint64_t)NS_PER_S;
    shard_pass(s, at, at);
    bench_feed(b, (const uint8_t *)"GET /e HT", 9);
    at += 600 * (uint64_t)NS_PER_S;
    shard_pass(s, at, at);
    conn_sweep(b->conn);
    assert_int_equal(b->conn->state, CONN_OPEN);
    static const char rest[] = "TP/1.1\r\nHost: a\r\n\r\n";
    bench_feed(b, (const uint8_t *)rest, sizeof rest - 1);
    assert_true(str_starts(buf_view(&b->out), S("HTTP/1.1 200")));
    for (int i = 0; i < 12; i++) {  // but so long he has not
        bench_feed(b, (const uint8_t *)"G", i == 0);
        at += NS_PER_S;
        shard_pass(s, at, at);
        conn_sweep(b->conn);
    }
    bench_run_on(b);
    assert_true(str_contains(buf_view(&b->out), S("HTTP/1.1 408")));
    bench_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_refuses_or_closes_when_memory_fails),
        cmocka_unit_test(time_in_which_the_loop_stood_is_no_clients),
        cmocka_unit_test(nobody_is_cut_off_for_our_standing_still),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
