// SPDX-License-Identifier: Apache-2.0
//
// json_values.h - values of JSON formats that a decoder asks for one by one, with faults that name
// the place; and their numbers, which are doubles by nature. Private to this room.
#pragma once

#include "codec/json.h"

// Fails with the reader's fault, or with what was expected. Always false.
bool json_broken(const struct json_reader *r, const char *what, err *e);

// The next value; fails with invalid_argument if it is of another kind.
bool json_want_string(struct json_reader *r, const char *what, str *out, err *e) MUST_CHECK;
bool json_want_number(struct json_reader *r, const char *what, double *out, err *e) MUST_CHECK;
bool json_pass(struct json_reader *r, err *e) MUST_CHECK;  // any value, which is skipped

// A number as json_next returns it; false if it is not finite or longer than any double is.
bool json_double(str text, double *v) MUST_CHECK;

// Rounded; false if it does not fit.
bool json_whole(double v, int64_t *out) MUST_CHECK;
