// SPDX-License-Identifier: Apache-2.0
//
// compress.h - gzip (RFC 1952) and zstd (RFC 8878), whole buffers, with a cap on what comes out.
//
// Output grows by doubling up to the cap of `out`; what the input says about its own size is a
// first guess, and only while it is modest. Reaching the cap or the budget is resource_exhausted,
// damage and cuts are invalid_argument; then what was added to `out` is not to be used. Want of
// memory leaves `out` failed, reaching the cap does not. Several gzip members or zstd frames are
// one stream; other bytes after the last are an error.
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

// A zstd compressor that is kept from call to call: who packs thousands of small pieces would
// otherwise spend more on making one for each than on packing. What it gives does not depend on
// what it packed before. The zero value is ready for use; what a large piece made it grow beyond
// COMPRESSOR_KEPT it gives back after that piece. Uncounted, as all memory of zstd. One thread.
#define COMPRESSOR_KEPT ((size_t)1 << 20)
struct compressor {
    void *context;
    size_t made;  // contexts so far
};
bool compressor_zstd(struct compressor *z, str in, int level, struct buf *out, err *e) MUST_CHECK;
void compressor_release(struct compressor *z);
