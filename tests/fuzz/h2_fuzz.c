// SPDX-License-Identifier: Apache-2.0
//
// The first byte says into how large pieces the rest is split, and whether time passes between
// them. The rest are frames, after the preface and a SETTINGS frame that are always right.
#include "fuzz/net_bench.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    if (size < 1 || size > 40000) return 0;
    size_t piece = data[0] & 0x40 ? (size_t)data[0] % 64 + 1 : size;
    bool slow = data[0] & 0x80;
    struct bench *b = bench_new();
    bench_feed(b, hello, sizeof hello - 1);
    for (size_t at = 1; at < size; at += piece) {
        bench_feed(b, data + at, MIN(piece, size - at));
        if (!slow) continue;
        b->shard.now_ns += 400;
        conn_sweep(b->conn);
        bench_run_on(b);
    }
    conn_drain(b->conn);
    bench_run_on(b);
    bench_free(b);
    return 0;
}
