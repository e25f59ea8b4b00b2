// SPDX-License-Identifier: Apache-2.0
//
// watch.h - when a leaf may expire: once nobody holds a second copy of its rows any more.
//
// A row may have been acknowledged by two ingesters. The second copy is recognised by the leaf that
// has the first one, so that leaf stays until everything is in a listed segment that any ingester
// had acknowledged when the leaf was wanted gone first. No clock says when that is, but the
// sequence of objects that each data directory has in the store (manifest/holding.h):
//
//     a plan wants leaves gone            they are noted, with the round to come   (wish)
//     a look: that round begins           each directory with its highest number   (watch)
//     later looks                         a directory with two numbers more, a lower one or none
//                                         has flushed what it held when the round began
//     all have: the round is over         a plan of a snapshot that is taken now may let them go
//
// What is acknowledged only after a leaf was wanted gone is a repetition that comes later than
// raw_retention (and later than the leaf stays at least), and ids are not for that.
//
// A process has one watch, a tenant one wish: leaves that are wanted gone while another wish waits
// are noted when that is over. A restart forgets both, which only means that leaves stay longer.
#pragma once

#include "base/arena.h"
#include "base/ulid.h"
#include "manifest/holding.h"

struct watch {
    struct arena arena;       // of dirs
    struct holding_at *dirs;  // those of the round that have not flushed yet
    size_t count;
    uint64_t begun;         // rounds
    uint64_t over;          // of them; equal: none is under way
    int64_t begun_wall_ns;  // the one under way
    bool listing;           // a LIST is under way
};

void watch_init(struct watch *w, struct mem_budget *memory);
void watch_release(struct watch *w);

// What a LIST had that began at wall_ns: directories with their highest numbers, in any order. If
// no round is under way, or this ends it, one begins. Fails with resource_exhausted; then none
// begins. `listing` is for the caller to set before the LIST and to clear after this: what is noted
// meanwhile waits for a round that begins later.
bool watch_saw(struct watch *w, int64_t wall_ns, const struct holding_at *v, size_t n,
               err *e) MUST_CHECK;

#define WISH_MAX 8192  // leaves

struct wish {
    uint64_t round;  // that they wait for; 0: none are noted
    id128 *v;        // in order
    size_t n;
    size_t cap;
};

void wish_release(struct wish *s, struct mem_budget *memory);

// May it go, in a plan of a snapshot that is taken after round `over` ended?
bool wish_grants(const struct wish *s, uint64_t over, id128 leaf);

// A plan of a snapshot that is over had these held back. `granted`: it found leaves that may go;
// until those are gone others are not noted. True if some wait for a round.
bool wish_note(struct wish *s, struct mem_budget *memory, const struct watch *w, bool granted,
               const id128 *v, size_t n);
