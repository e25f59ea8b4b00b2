// SPDX-License-Identifier: Apache-2.0
//
// Decompressing never passes the cap; what comes out, compressed, comes out again.
#include "codec/compress.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CAP 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf out;
    struct buf back;
    struct buf packed;
    buf_init(&out, NULL, CAP);
    buf_init(&back, NULL, CAP);
    buf_init(&packed, NULL, SIZE_MAX);
    err e = {0};
    str plain = str_make(data, size);
    if (compress_unzstd(plain, &out, &e)) plain = buf_view(&out);
    if (plain.n <= CAP) {
        if (!compress_zstd(plain, 1 + (int)(size % 5), &packed, &e)) abort();
        if (!compress_unzstd(buf_view(&packed), &back, &e)) abort();
        if (!str_eq(plain, buf_view(&back))) abort();
    }
    buf_release(&out);
    buf_release(&back);
    buf_release(&packed);
    return 0;
}
