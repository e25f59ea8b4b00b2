// SPDX-License-Identifier: Apache-2.0
//
// A vector. Properties: the entry-by-entry reader, the check and the quick way of adding agree;
// what decodes encodes, and that decodes to the same entries and encodes to the same bytes.
#include "model/vector.h"

#include <stdlib.h>

enum {
    STACKS = 1 << 16
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// All entries; the number that the head tells is believed only after they were read.
static bool read_all(str bytes, struct vector_entry *v, size_t *n)
{
    struct vector_reader r;
    err e = {0};
    *n = 0;
    if (!vector_open(&r, bytes, &e)) return false;
    while (vector_next(&r, &v[*n]))
        ++*n;
    return vector_done(&r, &e);
}

static void check_adding(str bytes, const struct vector_entry *v, size_t n, bool ok, int64_t factor)
{
    static int64_t sums[STACKS];
    static int64_t wanted[STACKS];
    err e = {0};
    memset(sums, 0, sizeof sums);
    memset(wanted, 0, sizeof wanted);
    bool fits = ok;
    for (size_t i = 0; i < n && fits; i++) {
        fits =
            v[i].stack < STACKS && !__builtin_mul_overflow(v[i].value, factor, &wanted[v[i].stack]);
    }
    if (vector_add(bytes, factor, sums, STACKS, &e) != fits) abort();
    if (fits && memcmp(sums, wanted, sizeof sums) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    str bytes = str_make(data, size);
    struct vector_entry *v = malloc((size / 2 + 1) * sizeof *v);
    struct vector_entry *w = malloc((size / 2 + 1) * sizeof *w);
    if (!v || !w) abort();
    size_t n = 0;
    size_t m = 0;
    bool ok = read_all(bytes, v, &n);
    __int128 sum = 0;
    bool in_range = ok;
    for (size_t i = 0; i < n; i++) {
        sum += v[i].value;
        in_range = in_range && v[i].stack < STACKS && sum >= INT64_MIN && sum <= INT64_MAX;
    }
    int64_t total = 0;
    err e = {0};
    if (vector_check(bytes, STACKS, &total, &e) != in_range) abort();
    if (in_range && total != (int64_t)sum) abort();
    check_adding(bytes, v, n, ok, 1);
    check_adding(bytes, v, n, ok, -3);
    if (ok) {
        struct buf one;
        struct buf two;
        buf_init(&one, NULL, SIZE_MAX);
        buf_init(&two, NULL, SIZE_MAX);
        vector_encode(v, n, &one);
        if (one.n > 2 * size + 20) abort();  // quotients never need more bytes than values
        struct vector_entry *grown = realloc(w, (one.n / 2 + 1) * sizeof *w);
        if (!grown) abort();
        w = grown;
        if (!read_all(buf_view(&one), w, &m) || m != n) abort();
        for (size_t i = 0; i < n; i++) {
            if (v[i].stack != w[i].stack || v[i].value != w[i].value) abort();
        }
        vector_encode(w, m, &two);
        if (!str_eq(buf_view(&one), buf_view(&two))) abort();
        if (!vector_normalise(w, &m, &e) || m != n) abort();
        buf_release(&one);
        buf_release(&two);
    }
    free(v);
    free(w);
    return 0;
}
