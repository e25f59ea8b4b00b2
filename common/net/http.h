// SPDX-License-Identifier: Apache-2.0
//
// http.h - one HTTP request and its answer, as server and client both see them.
#pragma once

#include "base/arena.h"
#include "base/buf.h"

struct http_header {
    str name;  // lower case
    str value;
};

struct http_headers {
    struct http_header *v;
    size_t n;
    size_t cap;
};

// Adds to the arena, which then borrows name and value; repeated names are allowed. An exhausted
// arena drops the header (its owner asks arena_ok).
void http_headers_add(struct http_headers *h, struct arena *a, str name, str value);

// First value of a name, which is given in lower case; empty if absent.
str http_headers_get(const struct http_headers *h, const char *name);
bool http_headers_has(const struct http_headers *h, const char *name);

// Is s a token (RFC 9110), as names and methods must be? May it be the value of a header?
bool http_is_token(str s);
bool http_is_value(str s);
void http_lower(char *p, size_t n);  // ASCII letters

// Is s "host", "host:port", "[v6]" or "[v6]:port" (RFC 3986 section 3.2), without a user? True for
// the empty string as well, because a Host header may be empty.
bool http_is_authority(str s);

// Do two authorities name the same place? Case and a default port do not matter.
bool http_same_authority(str a, str b);

// May an application's answer carry this header? Not one by which HTTP itself frames messages
// (content-length, connection, transfer-encoding, ...), nor one with a line end in it.
bool http_may_answer(const struct http_header *h);
