// SPDX-License-Identifier: Apache-2.0
//
// flush_int.h - the inside of flush*.c.
#pragma once

#include "ingester/flush/flush.h"
#include "ingester/ingester_int.h"
#include "manifest/manifest.h"

#define FLUSH_WIDTH_MAX 16

enum piece_state {
    PIECE_WAITS,
    PIECE_COVERED,
    PIECE_GONE
};

struct piece {
    struct head_piece is;  // rows: those that the head has
    enum piece_state state;
    bool busy;            // somebody works on it
    bool inspect;         // there may be parts that this process does not know of
    bool inspected;       // there were reasons to look: what is created is looked at once more
    uint32_t first_part;  // the rows are in no part below it
    // Wall clock from which on the store may have parts that this process has not looked up, or has
    // covered it with; 0: it has none.
    int64_t since_ns;
};

struct closed_cut {
    struct cut *cut;
    id128 stream;
    uint64_t number;
    uint64_t bytes;
    int64_t opened_wall_ns;
    int64_t newest_boot_ns;
    uint64_t ticket;  // in order of arrival here
    bool found;       // of an earlier process
    bool ready;       // the head has all its rows
    bool listing;     // somebody finds out its pieces
    bool listed;
    bool covered;
    bool dropping;
    bool dropped;    // from the head
    uint32_t users;  // requests that work on it; it is not dropped meanwhile
    unsigned failures;
    uint64_t try_at;  // monotonic
    unsigned polite;  // how often its drop gave way to readers
    struct arena arena;
    struct piece *pieces;  // in order of tenant, hour
    size_t n;
    uint64_t rows;  // of all, when they were found out
};

struct flush {
    struct ingester *in;
    struct store *store;
    struct manifests *manifests;
    char *recent_ids_dir;
    bool recent_ids_fails;
    struct mem_budget budget;
    pthread_t thread;
    bool started;
    struct req whole;  // of all work of the thread: canceled at the end of a drain
    struct lock lock;  // of what follows
    struct cond wake;  // of the thread
    struct cond change;
    struct closed_cut **cuts;  // oldest first
    size_t n;
    size_t cap;
    uint64_t tickets;
    unsigned demands;  // requests that wait: no politeness, no back-off
    bool draining;
    bool ended;
    unsigned failures;       // of the store, in a row
    uint64_t try_at;         // monotonic; not before it
    uint64_t tries;          // since the start; the last one may be under way
    uint64_t failed_try;     // the last one that failed
    uint64_t failed;         // how many
    uint64_t failing_since;  // monotonic; 0: all is well
    err fault;               // of the last failure
    struct flush_totals totals;
};

// Pages name the sources of a leaf for 7 days, this is what remains of them for clocks that differ.
#define PAGES_NAME_NS (INT64_C(6) * 24 * 3600 * NS_PER_S)

// ---- flush.c

// Makes the table of cuts agree with the log's. With the lock. Without memory some are missing.
bool flush_adopt(struct flush *f, err *e);

// ---- flush_cut.c

// Finds out the cut's pieces, once.
bool closed_list(struct flush *f, struct req *r, struct closed_cut *c, err *e) MUST_CHECK;

// One try to have all pieces covered.
bool closed_cover(struct flush *f, struct closed_cut *c, err *e) MUST_CHECK;

// Waits until nobody works on the piece, then it is the caller's.
bool piece_take(struct flush *f, struct req *r, struct piece *p, err *e) MUST_CHECK;
void piece_give(struct flush *f, struct piece *p);

// ---- flush_inspect.c: what of a piece is in the store

// A snapshot of a tenant, for several looks. Zero value is none.
struct inspection {
    struct arena arena;
    bool ready;  // arena
    bool taken;
    str tenant;
    struct snapshot snapshot;
};
void inspection_release(struct inspection *l);

// The tenant's snapshot, taken anew unless one is there already.
bool inspection_take(struct flush *f, struct req *r, struct inspection *l, str tenant,
                     err *e) MUST_CHECK;
void inspection_forget(struct inspection *l);  // the next one is taken anew

// Compares the piece's rows with the parts of the snapshot. All there: COVERED. Some: they leave
// the head and first_part grows. The piece is the caller's.
bool piece_inspect(struct flush *f, struct req *r, struct inspection *l, struct closed_cut *c,
                   struct piece *p, err *e) MUST_CHECK;

// Takes the rows of a covered piece out of the head: GONE.
void piece_remove(struct flush *f, struct closed_cut *c, struct piece *p);

// Whether the snapshot's leaves name this part as a source.
bool inspection_absorbed(const struct inspection *l, const struct closed_cut *c,
                         const struct piece *p, uint32_t part);
