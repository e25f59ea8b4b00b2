// SPDX-License-Identifier: Apache-2.0
//
// url.h - query strings and percent-encoding (RFC 3986; + is a space in queries, as forms send it).
//
// Decoded text borrows from the input when nothing had to be decoded; otherwise it is the arena's
// (empty if that is exhausted).
#pragma once

#include "base/arena.h"
#include "base/buf.h"

// First value of a key, decoded into the arena; false if the key is absent. Bad escapes stay as
// they are.
bool url_query(struct arena *a, str query, const char *key, str *value);

// The pairs of a query one by one, for keys that may be repeated; *query shrinks.
bool url_query_next(struct arena *a, str *query, str *key, str *value);

str url_decode(struct arena *a, str s, bool plus_is_space);
void url_encode(struct buf *b, str s);  // everything but A-Z a-z 0-9 - . _ ~
