// SPDX-License-Identifier: Apache-2.0
//
// mem.h - the three kinds of memory, and budgets.
//
// 1. Request memory: an arena (arena.h) with a cap, released as a whole.
// 2. Long-lived state whose size depends on input: mem_alloc() from a named budget; may fail with
//    resource_exhausted, which names the budget, its limit and the bytes in use.
// 3. Fixed-size bookkeeping and start-up: mem_must(), which ends the process with a message.
//
// Budgets form a tree: bytes of a child count against its parents as well, so that a limit for the
// whole process holds whichever part grows. A child may have to leave some room in its parents to
// others (`leaves`), so that a flood of one kind of work does not stop the rest; with a `share`
// only once it has more than that. Both are set after init, and may change at any time. Callers
// give sizes back (sized free), so that counting needs no header per allocation. Budgets are
// thread-safe. Relaxed atomics: a limit may be exceeded by the bytes that racing threads take at
// the same instant, never by more.
//
// In builds with fault points (FT_FAULTS) tests may make allocations fail: see mem_fault.
#pragma once

#include "base/err.h"

#include <stdatomic.h>

struct mem_budget {
    const char *name;           // such as "head"; in messages and metrics
    struct mem_budget *parent;  // or NULL
    _Atomic size_t limit;       // bytes; 0 = only the parents' limits
    _Atomic size_t leaves;      // bytes of its parents' limits that it may not take
    _Atomic size_t share;       // as long as it has no more than these, it need not leave any
    _Atomic size_t used;
    _Atomic size_t peak;
    _Atomic uint64_t refused;  // requests that did not fit
};

void mem_budget_init(struct mem_budget *b, const char *name, struct mem_budget *parent,
                     size_t limit);

// The limit that b meets first: b or a parent, the one with the least room; NULL: there is none.
const struct mem_budget *mem_tightest(const struct mem_budget *b);

// Bytes that b may take now, by all limits; SIZE_MAX: there is none.
size_t mem_room(const struct mem_budget *b);

// Fails with resource_exhausted: there was no room for more of `what`, which has `held` bytes.
bool mem_no_room(const struct mem_budget *b, const char *what, size_t held, err *e);

// Takes n bytes from b and its parents, all or nothing. b may be NULL: then everything fits.
bool mem_reserve(struct mem_budget *b, size_t n, err *e) MUST_CHECK;
void mem_unreserve(struct mem_budget *b, size_t n);

// Zeroed memory counted against b (NULL: not counted). NULL and *e set when it does not fit.
void *mem_alloc(struct mem_budget *b, size_t n, err *e) MUST_CHECK;

// Grows or shrinks p of old bytes to n; the new part is zeroed. On failure p stays valid.
void *mem_resize(struct mem_budget *b, void *p, size_t old, size_t n, err *e) MUST_CHECK;

// The same, but new bytes are not zeroed. For bytes that are written before they are read.
void *mem_resize_bare(struct mem_budget *b, void *p, size_t old, size_t n, err *e) MUST_CHECK;
void mem_free(struct mem_budget *b, void *p, size_t n);  // NULL is fine

// Zeroed memory for bookkeeping of fixed size; ends the process when there is none.
void *mem_must(size_t n);
void mem_must_free(void *p);

// Room for one more element in a growing array: *items has *cap elements of `size` bytes and
// becomes able to hold `need` (it doubles; a long one grows by half). False and *e set when that
// does not fit; the array stays valid.
bool mem_grow(struct mem_budget *b, void *items, size_t *cap, size_t need, size_t size,
              err *e) MUST_CHECK;

// The same, but new elements are not zeroed.
bool mem_grow_bare(struct mem_budget *b, void *items, size_t *cap, size_t need, size_t size,
                   err *e) MUST_CHECK;

// Writes a zero to each page of memory that is all zero. The kernel gives and clears a page when it
// is first written to: this is for memory that is filled under a lock, before that is taken.
void mem_touch(void *p, size_t n);

// Zeroed memory as from mem_alloc, for pieces that come and go with each request: each thread keeps
// the pieces that it gave back last (MEM_KEPT_MAX bytes, uncounted). A piece may be larger than
// asked for, less than twice as large; *n becomes its size. mem_give gets the number of bytes, from
// the beginning, that may not be zero (`dirty`).
#define MEM_KEPT_MAX ((size_t)384 << 10)
void *mem_take(struct mem_budget *b, size_t *n, err *e) MUST_CHECK;
void mem_give(struct mem_budget *b, void *p, size_t n, size_t dirty);

// Bytes of the pieces that the calling thread keeps. For tests: nothing else shows that a piece was
// kept or that the cap holds.
size_t mem_kept_bytes(void);

// Uncounted malloc behind the fault point; for arenas and tests.
void *mem_try(size_t n) MUST_CHECK;
void mem_try_free(void *p);

enum mem_kind {
    MEM_MAY_FAIL,
    MEM_MUST
};

#ifdef FT_FAULTS
// Tests set this to be asked before each allocation, on its thread: true makes it fail. mem_must
// asks as well, so that a test learns where it is called, but does not listen to the answer. NULL
// (the default): nothing fails.
typedef bool (*mem_fault_fn)(enum mem_kind kind);
extern _Atomic(mem_fault_fn) mem_fault;
#endif
