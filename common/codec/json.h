// SPDX-License-Identifier: Apache-2.0
//
// json.h - a pull reader and a writer for JSON (RFC 8259), strict: UTF-8, no trailing commas, one
// value.
//
// The reader neither recurses nor builds a tree: it returns tokens and keeps the nesting in a bit
// set of JSON_DEPTH levels, so no input can exhaust the stack. Strings with escapes are unescaped
// into the arena; others borrow from the text.
#pragma once

#include "base/arena.h"
#include "base/buf.h"

#define JSON_DEPTH 1024

enum json_token {
    JSON_OBJECT,      // {
    JSON_OBJECT_END,  // }
    JSON_ARRAY,       // [
    JSON_ARRAY_END,   // ]
    JSON_KEY,         // text = the key; its value is the next token
    JSON_STRING,      // text
    JSON_NUMBER,      // text = as written
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL,
    JSON_END,    // the text is complete
    JSON_FAULT,  // `fault` has the reason
};

struct json_reader {
    struct arena *arena;
    str all;
    size_t at;
    unsigned depth;
    uint8_t is_object[JSON_DEPTH / 8];
    uint8_t expect;  // private: the tokens that may come next
    str text;        // of the last KEY, STRING or NUMBER
    err fault;
};

void json_reader_init(struct json_reader *r, struct arena *a, str text);
enum json_token json_next(struct json_reader *r);
bool json_skip(struct json_reader *r);  // skips the value whose first token comes next

// ---- writing: escapes as little as JSON asks for; text must be UTF-8 (bad bytes become U+FFFD)
void json_put_string(struct buf *b, str s);
void json_put_double(struct buf *b, double v);  // shortest form that reads back equal; NaN as text

// Length of the number at the start of s, 0 if there is none.
size_t json_number_size(str s);
