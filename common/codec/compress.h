// SPDX-License-Identifier: Apache-2.0
//
// compress.h - gzip (RFC 1952) and zstd (RFC 8878), whole buffers, with a cap on the output.
//
// Output grows by doubling up to the cap of `out`; the size that the input states is a first guess,
// and only while it is modest. Reaching the cap or the budget is resource_exhausted, damage and
// cuts are invalid_argument; then the bytes added to `out` must not be used. Lack of memory leaves
// `out` failed, reaching the cap does not. Several gzip members or zstd frames are one stream;
// other bytes after the last are an error.
#pragma once

#include "base/buf.h"

bool compress_is_gzip(str s);  // begins with 1f 8b
bool compress_is_zstd(str s);

bool compress_gunzip(str in, struct buf *out, err *e) MUST_CHECK;
// level 1 to 12 for gzip, 1 to 19 for zstd
bool compress_gzip(str in, int level, struct buf *out, err *e) MUST_CHECK;
bool compress_unzstd(str in, struct buf *out, err *e) MUST_CHECK;
// The same into n bytes, which it must fill.
bool compress_unzstd_to(str in, void *out, size_t n, err *e) MUST_CHECK;
bool compress_zstd(str in, int level, struct buf *out, err *e) MUST_CHECK;

// A zstd compressor for many small pieces, kept from call to call: making a new one for each piece
// takes longer than compressing the piece. Its output does not depend on earlier pieces. The zero
// value is ready for use. After a large piece it frees memory beyond COMPRESSOR_KEPT. Uncounted, as
// all memory of zstd. One thread.
#define COMPRESSOR_KEPT ((size_t)1 << 20)
struct compressor {
    void *context;
    size_t made;  // contexts so far
};
bool compressor_zstd(struct compressor *z, str in, int level, struct buf *out, err *e) MUST_CHECK;
void compressor_release(struct compressor *z);
