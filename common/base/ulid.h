// SPDX-License-Identifier: Apache-2.0
//
// ulid.h - 128-bit names: ULIDs of streams and objects, UUIDs of profiles.
//
// A ULID (https://github.com/ulid/spec) is 48 bits of Unix milliseconds and 80 random bits, printed
// as 26 characters of Crockford's base 32, so that names sort by time. A profile id is a UUIDv8
// (RFC 9562 section 5.8): 48 bits of profile time in ms, then 74 bits of hash around version and
// variant.
#pragma once

#include "base/err.h"
#include "base/str.h"

typedef struct {
    uint8_t b[16];
} id128;

#define ULID_TEXT 27  // 26 characters and NUL
#define UUID_TEXT 37  // 36 characters and NUL

id128 ulid_make(uint64_t unix_ms, const uint8_t random[10]);
void ulid_print(id128 id, char text[ULID_TEXT]);
bool ulid_parse(str text, id128 *id, err *e) MUST_CHECK;

// The UUIDv8 of a profile; of h1 all 64 bits are used, of h2 the upper 10.
id128 uuid_profile(uint64_t unix_ms, uint64_t h1, uint64_t h2);
uint64_t uuid_ms(id128 id);  // the 48 bits of time
void uuid_print(id128 id, char text[UUID_TEXT]);

// Accepts upper and lower case and the form without hyphens.
bool uuid_parse(str text, id128 *id, err *e) MUST_CHECK;

static inline bool id128_eq(id128 a, id128 b)
{
    return memcmp(a.b, b.b, sizeof a.b) == 0;
}

// Is an id one of n?
static inline bool id128_among(id128 id, const id128 *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (id128_eq(v[i], id)) return true;
    return false;
}

// Lower-case hex of n bytes, and back; `hex` has room for 2n characters and a NUL.
void hex_print(const uint8_t *bytes, size_t n, char *hex);
bool hex_parse(str hex, uint8_t *bytes, size_t n) MUST_CHECK;  // false unless exactly 2n digits
