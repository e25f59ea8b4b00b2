// SPDX-License-Identifier: Apache-2.0
//
// utf8.h - one character of UTF-8 and its code point. Whole texts: str_utf8.
#pragma once

#include "base/arena.h"

// Bytes of the character at the start of s; 0 if s is empty or does not begin with one. *c is its
// code point.
size_t utf8_get(str s, uint32_t *c);

// Writes 1 to 4 bytes and returns their number; c is at most U+10FFFF and no surrogate.
size_t utf8_put(char out[4], uint32_t c);

// UTF-8 without a zero byte, which is a character, but no string of an answer can hold it.
bool utf8_is_text(str s);

// The beginning of s, of at most so many bytes, that does not end within a character.
str utf8_head(str s, size_t most);

// s itself if it is such a text; otherwise a copy with U+FFFD for each zero and each byte that is
// part of no character, empty if the arena is full (arena_ok).
str utf8_mended(struct arena *a, str s);
