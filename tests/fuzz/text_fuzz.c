// SPDX-License-Identifier: Apache-2.0
//
// base64 and percent-encoding: any bytes come back, and what decodes encodes to what decodes equal.
#include "codec/base64.h"
#include "codec/url.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool decode(str text, struct buf *out)
{
    err e = {0};
    size_t n = 0;
    char *at = buf_reserve(out, base64_room(text.n));
    if (!at) abort();
    if (!base64_decode(text, at, &n, &e)) return false;
    out->n += n;
    return true;
}

static void base64_there_and_back(str in, bool padded)
{
    struct buf text;
    struct buf back;
    buf_init(&text, NULL, SIZE_MAX);
    buf_init(&back, NULL, SIZE_MAX);
    base64_put(&text, in, padded);
    if (!decode(buf_view(&text), &back)) abort();
    if (!str_eq(in, buf_view(&back))) abort();
    buf_release(&text);
    buf_release(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    str in = str_make(data, size);
    base64_there_and_back(in, true);
    base64_there_and_back(in, false);
    struct buf b;
    buf_init(&b, NULL, SIZE_MAX);
    if (decode(in, &b)) base64_there_and_back(buf_view(&b), true);
    buf_release(&b);

    struct arena a;
    arena_init(&a, NULL, 16 << 20);
    buf_init(&b, NULL, SIZE_MAX);
    url_encode(&b, in);
    if (!str_eq(url_decode(&a, buf_view(&b), true), in)) abort();
    str query = in;
    str key = {0};
    str value = {0};
    while (url_query_next(&a, &query, &key, &value)) {
        str found = {0};
        if (memchr(key.p, 0, key.n)) continue;
        str z = arena_str(&a, key);
        if (!a.exhausted && !url_query(&a, in, z.p, &found)) abort();
    }
    buf_release(&b);
    arena_release(&a);
    return 0;
}
