// SPDX-License-Identifier: Apache-2.0
//
// Inflating never passes the cap and agrees with zlib, member by member; deflating and inflating
// gives the input back.
#include "codec/compress.h"

#include <stdlib.h>

#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CAP 65536

// The oracle: does zlib take all of it as gzip members of at most CAP bytes together?
static bool by_zlib(str in, struct buf *out)
{
    z_stream z = {0};
    static unsigned char bytes[CAP + 1];
    unsigned char *from = (unsigned char *)malloc(in.n ? in.n : 1);
    if (!from) abort();
    if (in.n) memcpy(from, in.p, in.n);
    z.next_in = from;
    z.avail_in = (unsigned)in.n;
    z.next_out = bytes;
    z.avail_out = sizeof bytes;
    bool ok = in.n > 0;
    while (ok && z.avail_in > 0) {
        if (inflateInit2(&z, 15 + 16) != Z_OK) abort();
        int r = inflate(&z, Z_FINISH);
        ok = r == Z_STREAM_END;
        inflateEnd(&z);
    }
    buf_put(out, bytes, sizeof bytes - z.avail_out);
    free(from);
    return ok && !out->failed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf out;
    struct buf want;
    struct buf packed;
    buf_init(&out, NULL, CAP);
    buf_init(&want, NULL, CAP);
    buf_init(&packed, NULL, SIZE_MAX);
    str in = str_make(data, size);
    err e = {0};
    bool ok = compress_gunzip(in, &out, &e);
    bool zlib_ok = by_zlib(in, &want);
    if (ok && !zlib_ok) abort();
    if (ok && !str_eq(buf_view(&out), buf_view(&want))) abort();
    if (!ok && zlib_ok) abort();
    buf_clear(&out);
    if (size <= CAP) {
        if (!compress_gzip(in, 1 + (int)(size % 9), &packed, &e)) abort();
        if (!compress_gunzip(buf_view(&packed), &out, &e)) abort();
        if (!str_eq(in, buf_view(&out))) abort();
    }
    buf_release(&out);
    buf_release(&want);
    buf_release(&packed);
    return 0;
}
