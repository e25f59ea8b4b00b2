// SPDX-License-Identifier: Apache-2.0
//
// json_lists.h - lists of numbers and of strings, which formats with columns have. Private to this
// room. Faults name the place; memory is the arena's.
#pragma once

#include "decode/json_values.h"

#define JSON_NOTHING INT64_MIN  // null in a list of whole numbers

struct json_ints {
    int64_t *v;
    size_t n;
    size_t cap;
};

struct json_doubles {
    double *v;
    size_t n;
    size_t cap;
};

struct json_strings {
    str *v;
    size_t n;
    size_t cap;
};

// A number, exact if it is written as a whole one, else rounded. False if it is none or does not
// fit.
bool json_int(str text, int64_t *out) MUST_CHECK;

// The next value.
bool json_want_int(struct json_reader *r, const char *what, int64_t *out, err *e) MUST_CHECK;

// A string or a number as it is written; empty for any other value, which is skipped.
bool json_want_text(struct json_reader *r, str *out, err *e) MUST_CHECK;

// The next value is a list, or null, which is an empty one. Of ints and doubles items may be null;
// a double is 0 then. `what` names an item in faults.
bool json_read_ints(struct json_reader *r, const char *what, struct json_ints *out,
                    err *e) MUST_CHECK;
bool json_read_doubles(struct json_reader *r, const char *what, struct json_doubles *out,
                       err *e) MUST_CHECK;
bool json_read_strings(struct json_reader *r, const char *what, struct json_strings *out,
                       err *e) MUST_CHECK;

// Writes a token's number, or what stands for null if it is none, behind the last item; the caller
// counts it.
bool json_item_int(struct json_reader *r, enum json_token t, const char *what, struct json_ints *to,
                   err *e) MUST_CHECK;
bool json_item_double(struct json_reader *r, enum json_token t, const char *what,
                      struct json_doubles *to, err *e) MUST_CHECK;

// Goes into the object or list that is the next value; another value is skipped, and *in is false.
bool json_enter(struct json_reader *r, enum json_token kind, bool *in, err *e) MUST_CHECK;
