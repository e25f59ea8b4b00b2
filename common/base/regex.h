// SPDX-License-Identifier: Apache-2.0
//
// regex.h - regular expressions in time linear in the input (RE2 behind a C face).
//
// Selectors and relabelling rules match whole values: ^(?s:pattern)$, dot matches newline, as in
// Prometheus. A compiled regex is immutable and may be shared by threads.
//
// Patterns come from clients, so each has bounds, which are far above those of patterns in real
// use:
//
// - A list of plain values, a|b|c with or without brackets around it, becomes a sorted table:
//   dashboards send one for a variable with many values. It may be as long as memory allows, and a
//   look-up costs the logarithm of its length.
// - Any other pattern has at most REGEX_PATTERN_MAX bytes and REGEX_CLASSES_MAX Unicode classes
//   (\pL: hundreds of ranges in three bytes). Its program, with the memory that matching adds to
//   it, fits REGEX_PROGRAM_MAX bytes. Compiling it takes milliseconds at most.
//
// Memory for compiling is taken from the budget before it begins. The most that the program may
// grow to stays taken until regex_free.
#pragma once

#include "base/err.h"
#include "base/str.h"

#define REGEX_PATTERN_MAX ((size_t)32 << 10)
#define REGEX_CLASSES_MAX 64
#define REGEX_PROGRAM_MAX ((size_t)512 << 10)

struct regex;
struct mem_budget;

// memory: the budget that it counts against, or NULL. Fails with invalid_argument and RE2's reason,
// or with resource_exhausted. Returns owned.
struct regex *regex_new(str pattern, struct mem_budget *memory, err *e) MUST_CHECK;
void regex_free(struct regex *r);

enum regex_answer {
    REGEX_NO,
    REGEX_YES,
    REGEX_NO_MEMORY  // undecided: RE2 ran out of memory while matching
};

// Does the whole of s match?
enum regex_answer regex_match(const struct regex *r, str s);

// As regex_match, and the capture groups 1..n of the match; a group that took no part is empty.
enum regex_answer regex_groups(const struct regex *r, str s, str *groups, size_t n);

// The number of steps that one byte of a value takes at most.
size_t regex_steps(const struct regex *r);

// Number of capture groups, and the number of the group with a name (-1: none).
int regex_group_count(const struct regex *r);
int regex_group_number(const struct regex *r, str name);
