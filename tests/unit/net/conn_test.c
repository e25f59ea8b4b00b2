// SPDX-License-Identifier: Apache-2.0
//
// Connections without sockets, whose allocations fail one after the other.
#include "fuzz/net_bench.h"
#include "lib/test.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_refuses_or_closes_when_memory_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
