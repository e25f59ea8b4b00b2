// SPDX-License-Identifier: Apache-2.0
//
// arena.h - memory of one request: many allocations, one release, one cap.
//
// Every allocation whose size comes from input is made in an arena that was given a cap and, in a
// server, a budget that its chunks count against. At the cap, at the budget's limit, or when malloc
// fails, arena_new returns NULL and the arena stays exhausted; a builder may go on and ask once at
// the end with arena_ok(). Under ASan each allocation is a malloc of its own, so that overruns and
// use after release are seen.
//
// Other things that must end with the request (a file, a reference) are hooked in with arena_defer.
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
    const char *setting;  // where the cap comes from, for messages; NULL: nowhere
    bool exhausted;
    bool starved;  // exhausted for want of memory, not at its cap
};

void arena_init(struct arena *a, struct mem_budget *budget, size_t cap);
void arena_release(struct arena *a);

// Puts n bytes aside for what must not fail later, such as the answer to something that cannot be
// undone; arena_use_spare makes them available and forgets what did not fit until then. False and
// exhausted if they are not to be had. Once in an arena's life.
bool arena_spare(struct arena *a, size_t n);
void arena_use_spare(struct arena *a);

// Counts against another budget from here on, with what it holds. If that does not fit there the
// arena stays where it is, and is exhausted.
void arena_move(struct arena *a, struct mem_budget *to);

// Zeroed, aligned for any type. NULL at the cap.
void *arena_new(struct arena *a, size_t size);

// n objects of a type; the product is checked.
#define ARENA_NEW(a, type)      ((type *)arena_new((a), sizeof(type)))
#define ARENA_ARRAY(a, type, n) ((type *)arena_array((a), sizeof(type), (n)))
void *arena_array(struct arena *a, size_t size, size_t n);

// A growing array in the arena: like mem_grow, the old place is left behind until release.
bool arena_grow(struct arena *a, void *items, size_t *cap, size_t need, size_t size);

// A copy of s that lives as long as the arena, with a NUL after it; empty if exhausted.
str arena_str(struct arena *a, str s);
str arena_printf(struct arena *a, const char *fmt, ...) PRINTF(2, 3);

// Calls fn(arg) at release, last in first out. False (and nothing hooked) if exhausted.
bool arena_defer(struct arena *a, void (*fn)(void *arg), void *arg);

// True if nothing was refused so far; otherwise fails with resource_exhausted, cap and use.
bool arena_ok(const struct arena *a, err *e) MUST_CHECK;

// Fails for a caller that got no memory: as arena_ok does, or, where the arena itself refused
// nothing, because what the caller wanted came from elsewhere. False.
bool arena_fail(const struct arena *a, err *e);
