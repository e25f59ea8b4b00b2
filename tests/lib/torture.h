// SPDX-License-Identifier: Apache-2.0
//
// torture.h - the n-th allocation and the n-th file call fail, for every n.
//
// A piece of work is done once undisturbed, which counts its allocations (mem_alloc, mem_resize,
// arenas, buffers) and its calls (the table torture_calls.def: files, sockets, threads, libraries).
// Then it is done again for each n: with the n-th failing alone, and with all from the n-th on.
// Each time:
//
//     begin(arg)        a fresh state, undisturbed                            (may be NULL)
//     run(arg, e)       the work, disturbed: true, or false with *e
//     check(arg, done)  done: the right result stands; else: as before run    (may be NULL)
//     run, check        once more, undisturbed, if the first run failed: must succeed
//     end(arg)          releases everything; asserts that budgets are at 0    (may be NULL)
//
// What is demanded besides: nothing crashes, hangs, leaks memory (LeakSanitizer) or descriptors; a
// failed run has a code of resource_exhausted or unavailable (or of `codes`) and a message; and
// mem_must is not called, because it would end the process, unless the work is a start.
//
// Failures meet all threads, since what a server does is done on many. Positions: all of them up to
// a few hundred, then a dense prefix and a seeded spread. FLAMETREE_TORTURE=n takes at most n of
// each kind, FLAMETREE_TORTURE=all takes every one, and FLAMETREE_TORTURE_SEED=n another spread. A
// run that dies says at which position; FLAMETREE_TORTURE_AT="work:allocation:17:once" does just
// that one.
//
// Only builds with fault points (FT_FAULTS: debug and sanitizers) can do this; others skip.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "lib/test.h"

struct torture_work {
    const char *name;
    void (*begin)(void *arg);
    bool (*run)(void *arg, err *e);
    void (*check)(void *arg, bool done);
    void (*end)(void *arg);
    void *arg;
    uint32_t codes;    // further codes that may be the answer: bits 1u << ERR_...
    bool is_start;     // may call mem_must: a start, or work that no request reaches
    bool no_repeat;    // the state is used up by a failure
    bool lives_on;     // what it opens may be closed later: the test compares torture_descriptors
    bool no_calls;     // torture allocations only
    bool no_allocs;    // torture calls only
    unsigned most;     // positions of each kind at most; 0: 400
    bool hurries;      // disturbed runs have so little time that a busy machine may end them
    unsigned limit_s;  // a run that takes longer hangs; 0: 300
};

// What was met in the undisturbed run.
struct torture_count {
    unsigned allocations;
    unsigned calls;
    unsigned failed;  // disturbed runs that failed
};

struct torture_count torture_work(const struct torture_work *w);

// While it is on, nothing that the calling thread does is disturbed or counted: for parts of `run`
// that belong to the test, such as the client of a server. It ends with `run` at the latest.
void torture_spare(bool on);

// The disturbance is over for the rest of this run, for all threads: now the work must get well.
void torture_end(void);

// May something be made to fail now? Not in the first, undisturbed run, nor when a run is repeated.
bool torture_disturbs(void);

// How many allocations and calls were made to fail in this run.
uint64_t torture_failures(void);

// Was this call made to fail in this run?
bool torture_failed_call(const char *name);

// How many descriptors are open.
unsigned torture_descriptors(void);

// ---- work without state: bytes made of an input, on a bench that is new for each run
struct torture_bench {
    struct mem_budget budget;
    struct arena arena;  // counts against the budget
    struct buf out;      // likewise: what `make` puts here must always be the same
};

struct torture_maker {
    const char *name;
    bool (*make)(struct torture_bench *b, void *arg, err *e);
    void *arg;
    uint32_t codes;
    bool is_start;
    unsigned most;
};

// As torture_work: a run that succeeds must have made what the first one made, and afterwards the
// budget must be at 0.
struct torture_count torture_make(const struct torture_maker *m);

// All of a table; asserts that each maker met an allocation or a call.
void torture_make_all(const struct torture_maker *v, size_t n);
