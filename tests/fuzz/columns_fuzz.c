// SPDX-License-Identifier: Apache-2.0
//
// Columns. Properties: checking, listing and adding agree; what is listed encodes, and that is
// listed the same and encodes to the same bytes; the other form of it becomes these bytes.
#include "model/columns.h"

#include <stdlib.h>

enum {
    STACKS = 1 << 16
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok) abort();
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
    must(columns_add(bytes, factor, sums, STACKS, &e) == fits);
    must(!fits || memcmp(sums, wanted, sizeof sums) == 0);
}

static void check_bytes(struct arena *a, const struct vector_entry *v, size_t n)
{
    struct buf out[3];
    struct vector_entry *w = NULL;
    size_t m = 0;
    err e = {0};
    for (size_t i = 0; i < COUNT(out); i++)
        buf_init(&out[i], NULL, SIZE_MAX);
    columns_encode(v, n, &out[0]);
    must(columns_entries(a, buf_view(&out[0]), n, &w, &m, &e) && m == n);
    for (size_t i = 0; i < n; i++)
        must(v[i].stack == w[i].stack && v[i].value == w[i].value);
    vector_encode(v, n, &out[1]);
    must(columns_from_vector(buf_view(&out[1]), NULL, a, &out[2], &e));
    must(str_eq(buf_view(&out[0]), buf_view(&out[2])));
    for (size_t i = 0; i < COUNT(out); i++)
        buf_release(&out[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    str bytes = str_make(data, size);
    struct arena a;
    struct vector_entry *v = NULL;
    size_t n = 0;
    err e = {0};
    arena_init(&a, NULL, SIZE_MAX);
    bool ok = columns_entries(&a, bytes, SIZE_MAX, &v, &n, &e);
    __int128 sum = 0;
    bool in_range = ok;
    for (size_t i = 0; ok && i < n; i++) {
        sum += v[i].value;
        in_range = in_range && v[i].stack < STACKS && sum >= INT64_MIN && sum <= INT64_MAX;
    }
    int64_t total = 0;
    must(columns_check(bytes, STACKS, &total, &e) == in_range);
    must(!in_range || total == (int64_t)sum);
    check_adding(bytes, v, n, ok, 1);
    check_adding(bytes, v, n, ok, -3);
    if (ok) check_bytes(&a, v, n);
    arena_release(&a);
    return 0;
}
