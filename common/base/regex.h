// SPDX-License-Identifier: Apache-2.0
//
// regex.h - regular expressions in time linear in the input (RE2 behind a C face).
//
// Selectors and relabelling rules match whole values: ^(?s:pattern)$, dot matches newline, as in
// Prometheus. A compiled regex is immutable and may be shared by threads.
#pragma once

#include "base/err.h"
#include "base/str.h"

struct regex;

// Fails with invalid_argument and RE2's reason. Returns owned.
struct regex *regex_new(str pattern, err *e) MUST_CHECK;
void regex_free(struct regex *r);

// Does the whole of s match?
bool regex_match(const struct regex *r, str s);

// As regex_match, and the capture groups 1..n of the match; a group that took no part is empty.
bool regex_groups(const struct regex *r, str s, str *groups, size_t n);

// Number of capture groups, and the number of the group with a name (-1: none).
int regex_group_count(const struct regex *r);
int regex_group_number(const struct regex *r, str name);
