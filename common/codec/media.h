// SPDX-License-Identifier: Apache-2.0
//
// media.h - media types with parameters, as Content-Type, Accept and Content-Disposition carry them
// (RFC 9110 section 8.3.1): type ["/" subtype] *( ";" name "=" ( token / quoted-string ) ).
//
//     if (!media_type(text, &type, &rest, e)) ...
//     while ((step = media_next(a, &rest, &name, &value, e)) == MEDIA_PARAM) ...
#pragma once

#include "base/arena.h"

// Splits "type/subtype; parameters" into its type, as written, and the rest. Fails with
// invalid_argument; *e is the sentence that Go's mime package has for it, because Pyroscope's
// clients see it.
bool media_type(str text, str *type, str *rest, err *e) MUST_CHECK;

enum media_step {
    MEDIA_PARAM,  // *name and *value are set
    MEDIA_END,
    MEDIA_FAULT  // *e is set
};

// The next parameter of *rest, which shrinks. Names keep their case; a quoted value without
// backslashes borrows, otherwise it is the arena's (exhausted: a fault, resource_exhausted).
enum media_step media_next(struct arena *a, str *rest, str *name, str *value, err *e);
