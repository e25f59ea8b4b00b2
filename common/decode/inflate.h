// SPDX-License-Identifier: Apache-2.0
//
// inflate.h - the first step of decoders whose input may be gzipped.
#pragma once

#include "base/arena.h"

// *out = the bytes; if they are gzip, decompressed into memory that the arena's release frees.
// Their first two bytes decide, because names and headers are often wrong. `max` caps the size,
// also that of bytes that come uncompressed; 0 = no cap. Above it fails with resource_exhausted and
// sets *over_cap (may be NULL); damaged gzip is invalid_argument.
bool inflate_bytes(struct arena *a, str bytes, size_t max, str *out, bool *over_cap,
                   err *e) MUST_CHECK;
