// SPDX-License-Identifier: Apache-2.0
//
// multipart.h - multipart/form-data bodies (RFC 7578), whole, zero-copy.
#pragma once

#include "base/arena.h"

struct multipart_part {
    str name;      // form field
    str filename;  // empty if the part is no file
    bool is_file;  // a filename parameter is present, though it may be empty
    str content_type;
    str bytes;  // borrows from the body
};

#define MULTIPART_PARTS_MAX 64

// Splits a body. content_type is the request's header with its boundary parameter. Parts live in
// the arena. Fails with invalid_argument: no boundary, no closing delimiter, too many parts, bad
// heads.
bool multipart_parse(struct arena *a, str content_type, str body, struct multipart_part **parts,
                     size_t *count, err *e) MUST_CHECK;
