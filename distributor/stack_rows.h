// SPDX-License-Identifier: Apache-2.0
//
// stack_rows.h - from the samples of one profile to stack rows of one symbol table.
//
// A profile repeats the same callers in thousands of samples. So a function, a mapping and the
// frames of a location are asked for once, a stack once a sample, and of a stack only what differs
// from the one before it, counted from the root.
//
// A lexicon has nearly all functions and frames of a profile, but lies in memory that the processor
// has to wait for. They are found in it some at once before the first stack is asked for, each name
// leading to the function that it named last (symbols_hints), so that the waits overlap. Then some
// stacks at once (stack_rows_find). What is not found is added one by one (stack_rows_row).
#pragma once

#include "model/profile.h"
#include "model/symbols.h"

#define STACKS_TEXTS   256
#define STACKS_WALKERS 16u

// A string that was asked for, known by where it is: file names repeat from function to function.
struct stack_rows_text {
    const char *p;
    uint32_t n;
    uint32_t row;
};

struct stack_rows {
    const struct profile *p;
    struct symbols *to;
    struct symbols_hints *hints;  // of a table that has rows, or NULL
    uint32_t *rows;               // of samples; row + 1, 0 = not yet asked for
    uint32_t *functions;          // of the profile's functions, likewise
    uint32_t *mappings;
    uint32_t *frames;      // of locations, outermost first, likewise
    uint32_t *places;      // of locations: their first frame
    uint32_t *path;        // stack rows of the stack before, from the root
    const uint32_t *last;  // its locations
    uint32_t last_count;
    uint32_t *paths;  // of stack_rows_find: as `path`, one for each that walks; NULL: none does
    uint32_t deepest;
    struct stack_rows_text texts[STACKS_TEXTS];
};

// Memory is the arena's. Makes room for the profile's rows in a fresh table; in one with rows, for
// which there are hints, looks for them. Fails with resource_exhausted.
bool stack_rows_init(struct stack_rows *s, struct arena *a, const struct profile *p,
                     struct symbols *to, struct symbols_hints *hints, err *e) MUST_CHECK;

// Finds the rows of these samples that are there; adds none. For a table with hints.
void stack_rows_find(struct stack_rows *s, const uint32_t *samples, uint32_t n);

// The stack row of a sample; MAP_NONE and *e set on failure.
uint32_t stack_rows_row(struct stack_rows *s, uint32_t sample, err *e) MUST_CHECK;
