// SPDX-License-Identifier: Apache-2.0
//
// memstore.h - a store in memory, which fails as a test wants it to.
//
// Objects are bytes in a sorted array behind struct store_kind. Several stores may be open over the
// same objects (memstore_again), as processes share a bucket; each has faults, hooks and counts of
// its own, and the objects live as long as the last of them. From any thread, many at once.
//
// An operation is one creation (at store_commit; beginning and writing count nothing), one piece
// read, the size of one object, one page of a list, one deletion. For each:
//
//     hook, before    may wait, do other things to the store, and order a fault for this operation
//     the operation   at once and whole, unless there is a fault
//     hook, after     is told how it ended
//
// Hooks run on the caller's thread with no lock held. Lists see what is there page by page, so
// that what happens between two pages is seen by half. Memory is plain malloc: tests that make
// allocations fail do not meet it.
#pragma once

#include "store/store.h"

enum memstore_op {
    MEMSTORE_CREATE,
    MEMSTORE_READ,  // also the size
    MEMSTORE_LIST,
    MEMSTORE_DELETE,
    MEMSTORE_OPS
};

enum memstore_fault {
    MEMSTORE_FINE,
    MEMSTORE_FAILS,    // nothing happens: unavailable
    MEMSTORE_LANDS,    // it happens, and unavailable ("timed out") is reported all the same
    MEMSTORE_SHORT,    // reads: half of the bytes arrive, then out_of_range; others: as FAILS
    MEMSTORE_FLIPS,    // reads: a bit of what arrives is wrong; others: as FINE
    MEMSTORE_ABORTS,   // as LANDS, but aborted is reported: the store's word for a conflict
    MEMSTORE_EXPIRES,  // as LANDS, but deadline_exceeded is reported
    MEMSTORE_STARVES,  // as LANDS, but resource_exhausted is reported: no memory for the answer
    // What lies between a client and its store says something that is not so:
    MEMSTORE_FORGETS,    // reads: not_found, though it is there; others: as FAILS
    MEMSTORE_TOO_LARGE,  // creations: nothing happens, out_of_range; others: as FAILS
    MEMSTORE_PRETENDS,   // creations, deletions: nothing happens, and success is told; others: FINE
    MEMSTORE_SWAPS,      // reads: other bytes arrive; others: as FINE
    MEMSTORE_ENDS,       // lists: half of the page, and nothing follows; others: as FINE
    MEMSTORE_OLD,        // lists: what there was at memstore_remember; others: as FINE
};

struct memstore_event {
    struct store *store;
    struct req *req;
    enum memstore_op op;
    str name;        // of the object; of a list: its prefix
    uint64_t bytes;  // created or read; objects of a page
    bool done;       // after: it happened
    bool ok;         // after: what the caller is told
};

// Before: the fault to meet, FINE leaves it to what memstore_fail ordered. After: of no meaning.
typedef enum memstore_fault memstore_hook(void *arg, const struct memstore_event *ev);

struct store *memstore_open(void);              // owned; store_close
struct store *memstore_again(struct store *s);  // another over the same objects; owned

// ---- faults

// The nth operation of a kind from now on (1: the next) meets `what`, and so do those after it,
// `count` in all (UINT64_MAX: until told otherwise). Replaces what was ordered for that kind.
void memstore_fail(struct store *s, enum memstore_op op, enum memstore_fault what, uint64_t nth,
                   uint64_t count);
void memstore_heal(struct store *s);  // nothing that was ordered holds any more

// Set while nobody is inside; NULL: none.
void memstore_set_hooks(struct store *s, memstore_hook *before, memstore_hook *after, void *arg);

// Of what is asked for in one call (store_read_many, store_delete_many) so many go on at once, as
// connections of a bucket do; 16 at first. Each operation, or so many together, is a turn; a slow
// store takes `turn_ns` for it, by the clock. Set while nobody is inside.
void memstore_set_turns(struct store *s, size_t width, uint64_t turn_ns);

// How many names a page of a list has; 1000 at first.
void memstore_set_page(struct store *s, size_t names);

// What lists show that meet MEMSTORE_OLD: what is there now. Once; before, they show nothing.
void memstore_remember(struct store *s);

// The clock of the store, which all over the same objects share, stands still but for this.
void memstore_pass(struct store *s, int64_t ns);

// ---- what is there, past faults and hooks. Names are those of objects that are there.
bool memstore_has(struct store *s, const char *name);
void memstore_flip(struct store *s, const char *name, uint64_t at, unsigned bit);
void memstore_cut(struct store *s, const char *name, uint64_t size);  // shorter, as if truncated
void memstore_drop(struct store *s, const char *name);
void memstore_set(struct store *s, const char *name, str bytes);  // made or replaced
str memstore_bytes(struct store *s, const char *name);  // borrowed while nobody deletes or replaces

// Objects whose names begin with prefix ("": all), and their bytes.
size_t memstore_count(struct store *s, const char *prefix);
uint64_t memstore_size(struct store *s, const char *prefix);

// Their names in order, each followed by a line end; free() it.
char *memstore_names(struct store *s, const char *prefix);

// ---- what was asked through this store
struct memstore_totals {
    uint64_t ops[MEMSTORE_OPS];
    uint64_t failed[MEMSTORE_OPS];  // of them
    uint64_t turns;                 // one after the other, if nobody else asked meanwhile
    uint64_t created_bytes;         // of what was created, not of what existed
    uint64_t read_bytes;
};
struct memstore_totals memstore_totals(struct store *s);
void memstore_reset_totals(struct store *s);
size_t memstore_uploads(struct store *s);  // begun and neither committed nor abandoned
