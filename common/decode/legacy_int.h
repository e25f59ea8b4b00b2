// SPDX-License-Identifier: Apache-2.0
//
// legacy_int.h - shared by legacy*.c: lines, numbers within them, and the profile being made.
#pragma once

#include "base/map.h"
#include "decode/legacy.h"

struct legacy_lines {
    str rest;
    str line;  // the current one, without its end
    size_t number;
};

// Moves to the next line; false at the end.
bool legacy_next(struct legacy_lines *r);
bool legacy_blank(str line);  // nothing, or a comment
// Fails with the line's number and text.
bool legacy_bad(const struct legacy_lines *r, const char *what, err *e);

// Each takes what it reads from the front of *s, spaces before it included; false leaves *s.
bool legacy_take(str *s, const char *literal);
bool legacy_take_i64(str *s, int64_t *v);
bool legacy_take_hex(str *s, uint64_t *v);  // "0x" may be there

struct legacy {
    struct arena *a;
    uint32_t symbol_max;
    struct profile *p;
    struct legacy_lines r;
    struct map addresses;  // locations by address
    struct map functions;
    uint32_t *stack;  // of the sample being read, leaf first
    size_t depth;
    size_t stack_cap;
    size_t location_cap;
    size_t function_cap;
    size_t line_cap;
    size_t sample_cap;
    size_t value_cap;
    size_t frame_cap;
    size_t label_cap;
    size_t mapping_cap;
    uint32_t named;  // row + 1 of the location whose lines are being read, 0 for none
    bool go;         // it has lines of Go
    bool java;       // named locations lose their addresses, which are numbers of no meaning
};

void legacy_types(struct legacy *l, const struct profile_type *types, uint32_t n);

// Adds a frame to the current stack.
bool legacy_push(struct legacy *l, uint64_t address, err *e) MUST_CHECK;
bool legacy_push_named(struct legacy *l, str name, str file, int64_t line, err *e) MUST_CHECK;
// Addresses up to the end of the text, each after "0x"; return addresses from the frame
// `calls_from` on.
bool legacy_push_all(struct legacy *l, str text, size_t calls_from, err *e) MUST_CHECK;

// The current stack and its values become a sample, and the next stack is empty.
bool legacy_add_sample(struct legacy *l, const int64_t *values, err *e) MUST_CHECK;
// A label of the sample last added.
bool legacy_add_label(struct legacy *l, struct profile_label label, err *e) MUST_CHECK;

// The location of an address, MAP_NONE if no stack has it.
uint32_t legacy_find(const struct legacy *l, uint64_t address);
// Adds a line to a location: its first one, or the last location's next one.
bool legacy_add_line(struct legacy *l, uint32_t location, str name, str file, int64_t line,
                     err *e) MUST_CHECK;

// Product that fails with the line or byte that `where` names.
bool legacy_times(int64_t a, int64_t b, const char *what, int64_t *out, err *e) MUST_CHECK;

// A comment behind a row: Go writes frames and labels there.
bool legacy_go_comment(struct legacy *l, err *e) MUST_CHECK;
void legacy_drop_hidden(struct legacy *l);
// Lines "0x1 name (file:line)" to the end.
bool legacy_java_names(struct legacy *l, err *e) MUST_CHECK;
// The rest, up to a map of memory and the map.
bool legacy_read_map(struct legacy *l, err *e) MUST_CHECK;

bool legacy_cpu_is(str bytes);
bool legacy_read_cpu(struct legacy *l, str bytes, err *e) MUST_CHECK;
bool legacy_read_heap(struct legacy *l, err *e) MUST_CHECK;
bool legacy_read_jemalloc(struct legacy *l, err *e) MUST_CHECK;
bool legacy_read_contention(struct legacy *l, err *e) MUST_CHECK;
bool legacy_read_java_heap(struct legacy *l, err *e) MUST_CHECK;
bool legacy_read_counts(struct legacy *l, err *e) MUST_CHECK;
bool legacy_read_goroutines(struct legacy *l, err *e) MUST_CHECK;
bool legacy_read_threads(struct legacy *l, err *e) MUST_CHECK;
