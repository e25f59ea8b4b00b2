// SPDX-License-Identifier: Apache-2.0
//
// base64.h - RFC 4648. Reading takes the standard and the URL alphabet, padded or not.
#pragma once

#include "base/buf.h"

void base64_put(struct buf *out, str bytes, bool padded);
bool base64_get(str text, struct buf *out, err *e) MUST_CHECK;
