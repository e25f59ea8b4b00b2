// SPDX-License-Identifier: Apache-2.0
//
// The first byte says into how large pieces the rest is split. A connection that gets the rest
// whole and one that gets it in pieces must say the same.
#include "fuzz/net_bench.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char h2_preface[] = "PRI * HTTP/2";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 40000) return 0;
    size_t piece = (size_t)data[0] % 64 + 1;
    data++;
    size--;
    // Whether it is HTTP/2 is decided by the same bytes, but its frames may be answered in another
    // order (h2_fuzz.c is for them).
    if (size >= sizeof h2_preface - 1 && memcmp(data, h2_preface, sizeof h2_preface - 1) == 0)
        return 0;
    struct bench *whole = bench_new();
    bench_feed(whole, data, size);
    struct bench *split = bench_new();
    for (size_t at = 0; at < size; at += piece)
        bench_feed(split, data + at, MIN(piece, size - at));
    if (whole->conn->state != split->conn->state) abort();
    if (!str_eq(buf_view(&whole->out), buf_view(&split->out))) abort();
    bench_free(whole);
    bench_free(split);
    return 0;
}
