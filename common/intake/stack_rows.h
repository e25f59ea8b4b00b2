// SPDX-License-Identifier: Apache-2.0
//
// stack_rows.h - maps the samples of one profile to stack rows of one symbol table.
//
// A profile repeats the same callers in thousands of samples. So a function, a mapping and the
// frames of a location are looked up once. A stack is looked up once for each sample, and of it
// only the part that differs from the stack before, counted from the root.
//
// A lexicon has nearly all functions and frames of a profile, but its tables are too large for the
// processor's cache, and each look-up waits for memory. So several are looked up at once, for their
// waits to overlap: first all functions and frames, where a name leads to the function that it
// named last (symbols_hints), then the stacks (stack_rows_find). Rows that are not found are added
// one by one (stack_rows_row).
#pragma once

#include "model/profile.h"
#include "model/symbols.h"

#define STACKS_TEXTS   256
#define STACKS_WALKERS 16u

// A string that was looked up, remembered by its address: file names repeat from function to
// function.
struct stack_rows_text {
    const char *p;
    uint32_t n;
    uint32_t row;
};

struct stack_rows {
    const struct profile *p;
    struct symbols *to;
    struct symbols_hints *hints;  // of a table that has rows, or NULL
    uint32_t *rows;               // by sample: row + 1; 0: not looked up yet
    uint32_t *functions;          // by function of the profile, likewise
    uint32_t *mappings;
    uint32_t *frames;      // of all locations, outermost first, likewise
    uint32_t *places;      // by location: its first place in frames
    uint32_t *path;        // stack rows of the stack before, from the root
    const uint32_t *last;  // the locations of that stack
    uint32_t last_count;
    uint32_t *paths;  // for stack_rows_find: a `path` for each walker; NULL: stacks are too deep
    uint32_t deepest;
    struct stack_rows_text texts[STACKS_TEXTS];
};

// Memory is the arena's. In a new table makes room for the profile's rows; in a table with rows and
// hints looks for them. Fails with resource_exhausted.
bool stack_rows_init(struct stack_rows *s, struct arena *a, const struct profile *p,
                     struct symbols *to, struct symbols_hints *hints, err *e) MUST_CHECK;

// Finds the stacks of these samples that the table has; adds none. For a table with hints.
void stack_rows_find(struct stack_rows *s, const uint32_t *samples, uint32_t n);

// The stack row of a sample; MAP_NONE and *e set on failure.
uint32_t stack_rows_row(struct stack_rows *s, uint32_t sample, err *e) MUST_CHECK;
