// SPDX-License-Identifier: Apache-2.0
//
// plain.h - the first step of decoders of text and JSON: text in UTF-8. Private to this room, but
// decode_plain, which is in decode.h.
#pragma once

#include "base/arena.h"
#include "model/losses.h"

// A line without the byte order mark of UTF-8, which lines within a text have where files were
// joined.
str plain_line(str line);

// JSON in UTF-8: without a byte order mark, out of UTF-16, and with U+FFFD for bytes that are no
// UTF-8, which the reader of JSON would refuse. Strings with such bytes are counted.
bool plain_json(struct arena *a, str bytes, struct losses *l, str *out, err *e) MUST_CHECK;
