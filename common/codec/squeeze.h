// SPDX-License-Identifier: Apache-2.0
//
// squeeze.h - gzip (RFC 1952) and zstd (RFC 8878), whole buffers, with a cap on what comes out.
//
// Nothing the input says about its own size is believed: output grows by doubling up to the cap of
// `out`; when the cap is reached, squeeze_* fails with resource_exhausted and squeeze_over_cap()
// tells that from damage (invalid_argument). Several gzip members are one stream; bytes after the
// last member are an error.
#pragma once

#include "base/buf.h"

bool squeeze_is_gzip(str s);  // begins with 1f 8b
bool squeeze_is_zstd(str s);

bool squeeze_gunzip(str in, struct buf *out, err *e) MUST_CHECK;
bool squeeze_gzip(str in, int level, struct buf *out, err *e) MUST_CHECK;
bool squeeze_unzstd(str in, struct buf *out, err *e) MUST_CHECK;
bool squeeze_zstd(str in, int level, struct buf *out, err *e) MUST_CHECK;
