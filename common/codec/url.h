// SPDX-License-Identifier: Apache-2.0
//
// url.h - query strings and percent-encoding (RFC 3986; + is a space in queries, as forms send it).
#pragma once

#include "base/arena.h"
#include "base/buf.h"

// First value of a key, decoded into the arena; false if the key is absent. Bad escapes stay as
// they are.
bool url_query(struct arena *a, str query, const char *key, str *value);

str url_decode(struct arena *a, str s, bool plus_is_space);
void url_encode(struct buf *b, str s);  // everything but A-Z a-z 0-9 - . _ ~
