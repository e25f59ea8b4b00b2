// SPDX-License-Identifier: Apache-2.0
//
// str.h - bytes somewhere else: a pointer and a length.
//
// A str always borrows; the owner of the bytes decides how long they live. No NUL is expected or
// promised. An empty str may have p == NULL. Printed as printf("%.*s", STR(s)).
#pragma once

#include "base/base.h"

#include <string.h>

typedef struct {
    const char *p;
    size_t n;
} str;

#define S(literal) ((str){("" literal), sizeof(literal) - 1})
#define S_INIT(literal)                   \
    {                                     \
        ("" literal), sizeof(literal) - 1 \
    }  // for initialisers of static tables
#define STR(s) (int)(s).n, (s).p

static inline str str_of(const char *z)
{
    return (str){z, z ? strlen(z) : 0};
}

static inline str str_make(const void *p, size_t n)
{
    return (str){(const char *)p, n};
}

static inline bool str_eq(str a, str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool str_is(str a, const char *z)
{
    return str_eq(a, str_of(z));
}

// Byte-wise order; a prefix comes before the longer string.
int str_cmp(str a, str b);

bool str_starts(str s, str prefix);
bool str_ends(str s, str suffix);
bool str_contains(str s, str part);
bool str_ieq(str a, str b);  // ASCII letters without case
bool str_among(str s, const str *v, size_t n);

// How many edits (insert, delete, replace, swap neighbours) lead from a to b; only the first 64
// bytes of each are looked at. For "did you mean".
unsigned str_distance(str a, str b);

// Position of the first or last byte c; s.n if there is none.
size_t str_find(str s, char c);
size_t str_rfind(str s, char c);

// Position of the first `part`, which is not empty; s.n if there is none.
size_t str_find_part(str s, str part);

// [from, to) of s, both clamped to its length.
str str_slice(str s, size_t from, size_t to);

// Without spaces, tabs and line ends at both ends.
str str_trim(str s);

// The part before the first c; *rest becomes the part behind it (empty with p == NULL at the end).
str str_split(str s, char c, str *rest);

// The whole of s as a decimal number; false for anything else, also for overflow.
bool str_u64(str s, uint64_t *v) MUST_CHECK;
bool str_i64(str s, int64_t *v) MUST_CHECK;

// The same of hexadecimal digits, without "0x".
bool str_hex(str s, uint64_t *v) MUST_CHECK;

// Is s valid UTF-8 (no surrogates, no overlong forms, at most U+10FFFF)?
bool str_utf8(str s);
