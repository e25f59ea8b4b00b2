// SPDX-License-Identifier: Apache-2.0
//
// regex_int.h - RE2 for regex.c only. Budgets and bounds are in regex.c; here are the calls that
// only C++ can make. No exception leaves: where memory is missing, the answer says so.
#pragma once

#include "base/regex.h"

struct program;

// A program of at most `size` bytes, with what it keeps while it matches; *too_large says that the
// pattern needs more. Fails with invalid_argument and RE2's reason, or resource_exhausted. Returns
// owned.
struct program *program_new(str pattern, size_t size, bool *too_large, err *e) MUST_CHECK;
void program_free(struct program *p);

// n groups from 1 on; n = 0 costs least.
enum regex_answer program_match(const struct program *p, str s, str *groups, size_t n);

size_t program_size(const struct program *p);  // instructions
int program_group_count(const struct program *p);

// -1: none, or no memory to look for it.
int program_group_number(const struct program *p, str name);
