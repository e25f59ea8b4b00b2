// SPDX-License-Identifier: Apache-2.0
//
// base64.h - RFC 4648. Reading takes the standard and the URL alphabet, padded or not.
#pragma once

#include "base/buf.h"

void base64_put(struct buf *out, str bytes, bool padded);

// Decodes into `out`, the caller's, of base64_room(text.n) bytes; *n becomes the number written.
static inline size_t base64_room(size_t text)
{
    return text / 4 * 3 + 3;
}
bool base64_decode(str text, char *out, size_t *n, err *e) MUST_CHECK;
