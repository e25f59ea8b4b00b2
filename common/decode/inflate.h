// SPDX-License-Identifier: Apache-2.0
//
// inflate.h - the first step of decoders whose input may be gzipped.
#pragma once

#include "base/arena.h"

// *out = the bytes, decompressed into memory that the arena's release frees if they are gzip (by
// their first two bytes; names and headers lie). `max` caps the size, also of bytes that come
// uncompressed; 0 = no cap. Fails with resource_exhausted and *over_cap (may be NULL) true above
// the cap, invalid_argument if damaged.
bool inflate_bytes(struct arena *a, str bytes, size_t max, str *out, bool *over_cap,
                   err *e) MUST_CHECK;
