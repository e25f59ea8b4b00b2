// SPDX-License-Identifier: Apache-2.0
//
// The first line is the content type, the rest the body. Parts lie inside the body, in order; a
// body composed of the parts' bytes under a fresh boundary splits into the same parts.
#include "base/buf.h"
#include "codec/multipart.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char fresh[] = "0123456789fresh-boundary";

static void again(struct arena *a, const struct multipart_part *parts, size_t n)
{
    struct buf b;
    buf_init(&b, NULL, 16 << 20);
    for (size_t i = 0; i < n; i++) {
        if (str_contains(parts[i].bytes, str_of(fresh))) n = i;
    }
    if (n == 0) return;
    for (size_t i = 0; i < n; i++) {
        buf_printf(&b, "--%s\r\nX: y\r\n\r\n", fresh);
        buf_str(&b, parts[i].bytes);
        buf_z(&b, "\r\n");
    }
    buf_printf(&b, "--%s--", fresh);
    struct multipart_part *back = NULL;
    size_t back_n = 0;
    err e = {0};
    str type = arena_printf(a, "multipart/form-data; boundary=%s", fresh);
    if (!multipart_parse(a, type, buf_view(&b), &back, &back_n, &e)) abort();
    if (back_n != n) abort();
    for (size_t i = 0; i < n; i++) {
        if (!str_eq(parts[i].bytes, back[i].bytes)) abort();
    }
    buf_release(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    arena_init(&a, NULL, 16 << 20);
    str body = {0};
    str type = str_split(str_make(data, size), '\n', &body);
    struct multipart_part *parts = NULL;
    size_t n = 0;
    err e = {0};
    if (multipart_parse(&a, type, body, &parts, &n, &e)) {
        const char *at = body.p;
        for (size_t i = 0; i < n; i++) {
            if (parts[i].bytes.p < at) abort();
            at = parts[i].bytes.p + parts[i].bytes.n;
        }
        if (at > body.p + body.n || n > MULTIPART_PARTS_MAX) abort();
        again(&a, parts, n);
    }
    arena_release(&a);
    return 0;
}
