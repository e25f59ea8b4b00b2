// SPDX-License-Identifier: Apache-2.0
//
// arena.h - memory of one request: many allocations, one release, one cap.
//
// Every allocation whose size comes from input is made in an arena that was given a cap and, in a
// server, a budget that its chunks count against. At the cap, at the budget's limit, or when malloc
// fails, arena_new returns NULL and the arena stays exhausted; a builder may go on and ask once at
// the end with arena_ok(). Under ASan each allocation is a separate malloc, so that ASan finds
// overruns and use after release.
//
// Other resources that must end with the request (a file, a reference) are hooked in with
// arena_defer.
//
// Not thread-safe: an arena belongs to the job that uses it. The zero value is not usable:
// arena_init first; arena_release is idempotent and leaves the arena ready for use.
#pragma once

#include "base/mem.h"
#include "base/str.h"

struct arena {
    struct arena_chunk *chunks;
    struct arena_chunk *spare;
    struct arena_hook *hooks;
    struct mem_budget *budget;
    size_t used;          // bytes handed out, rounding included
    size_t reserved;      // bytes of chunks
    size_t cap;           // `used` never exceeds this
    const char *setting;  // the setting that the cap comes from, for messages; or NULL
    bool exhausted;
    bool starved;  // exhausted because memory was short, not because of the cap
};

void arena_init(struct arena *a, struct mem_budget *budget, size_t cap);
void arena_release(struct arena *a);

// Puts n bytes aside for allocations that must not fail later, such as those for the answer to an
// operation that cannot be undone. arena_use_spare makes them available and clears `exhausted`.
// False, and the arena is exhausted, if there is no memory for them. Once in an arena's life.
bool arena_spare(struct arena *a, size_t n);
void arena_use_spare(struct arena *a);

// Moves the arena, with all bytes that it holds, to another budget. If they do not fit there, the
// arena stays in its old budget, and is exhausted.
void arena_move(struct arena *a, struct mem_budget *to);

// Zeroed, aligned for any type. NULL at the cap.
void *arena_new(struct arena *a, size_t size);

// n objects of a type; the product is checked.
#define ARENA_NEW(a, type)      ((type *)arena_new((a), sizeof(type)))
#define ARENA_ARRAY(a, type, n) ((type *)arena_array((a), sizeof(type), (n)))
void *arena_array(struct arena *a, size_t size, size_t n);

// A growing array in the arena, like mem_grow; the memory of the smaller one stays until release.
bool arena_grow(struct arena *a, void *items, size_t *cap, size_t need, size_t size);

// A copy of s that lives as long as the arena, with a NUL after it; empty if exhausted.
str arena_str(struct arena *a, str s);
str arena_printf(struct arena *a, const char *fmt, ...) PRINTF(2, 3);

// Calls fn(arg) at release, last in first out. False (and nothing hooked) if exhausted.
bool arena_defer(struct arena *a, void (*fn)(void *arg), void *arg);

// True if no allocation has failed so far; otherwise fails with resource_exhausted, cap and use.
bool arena_ok(const struct arena *a, err *e) MUST_CHECK;

// Fails for a caller that got no memory, and returns false. As arena_ok; but it fails even if the
// arena is not exhausted, because the memory that was missing came from another source.
bool arena_fail(const struct arena *a, err *e);
