// SPDX-License-Identifier: Apache-2.0
//
// watch.h - when a leaf may expire: once no ingester holds a second copy of its rows any more.
//
// Two ingesters may have acknowledged the same row. The second copy is recognised by the leaf that
// has the first one. So a leaf stays until all rows are in listed segments that any ingester had
// acknowledged when a plan first wanted the leaf gone. No clock tells when that is, but the
// registered streams do (manifest/stream.h):
//
//     1. a plan wants leaves gone: they are noted, with the number of the round to come (wish)
//     2. a LIST begins that round: the streams that are registered (watch)
//     3. later LISTs: a stream that is gone has flushed all that was ever acknowledged in it
//     4. all are gone: the round is over, and a plan over a snapshot that is taken from now on may
//        let the leaves go
//
// Why this is exact: a row that was acknowledged before the LIST of step 2 began was acknowledged
// in a stream that was registered by then. If the LIST shows the stream, step 4 waits for it. If it
// does not, the registration was taken back before, and that is done only once the stream is closed
// and each row of it is in a segment or leaf. Rows that come later into streams of the round make
// the round longer, never wrong. Rounds end although pushes go on, because ingesters begin a new
// stream every ingester.stream_age (ingester/roll.h). A stream that a person gave up (`flametree
// stream forget`) counts as gone: its rows are lost.
//
// A row acknowledged only after a plan wanted its leaf gone is a repetition that comes later than
// raw_retention (and later than the time for which any leaf stays). Ids do not protect against
// that.
//
// A process has one watch, a tenant one wish: leaves that are wanted gone while another wish waits
// are noted when that one is over. A restart forgets both; leaves then stay longer.
#pragma once

#include "base/arena.h"
#include "base/ulid.h"

struct watch {
    struct arena arena;  // of streams
    id128 *streams;      // those of the round that were not gone yet
    size_t count;
    uint64_t begun;         // rounds that have begun
    uint64_t over;          // rounds that have ended; equal to begun: none is under way
    int64_t begun_wall_ns;  // when the one under way began
    bool listing;           // a LIST is under way
};

void watch_init(struct watch *w, struct mem_budget *memory);
void watch_release(struct watch *w);

// Takes the result of a LIST that began at wall_ns: streams in the order of their ids. If no round
// is under way, or this ends it, a new one begins. Fails with resource_exhausted; then none begins.
// The caller sets `listing` before the LIST and clears it after this call: leaves noted in between
// wait for a round that begins later.
bool watch_saw(struct watch *w, int64_t wall_ns, const id128 *v, size_t n, err *e) MUST_CHECK;

#define WISH_MAX 8192  // leaves

struct wish {
    uint64_t round;  // the round that they wait for; 0: none are noted
    id128 *v;        // in order
    size_t n;
    size_t cap;
};

void wish_release(struct wish *s, struct mem_budget *memory);

// May the leaf go, by a plan over a snapshot that was taken after round `over` had ended?
bool wish_grants(const struct wish *s, uint64_t over, id128 leaf);

// Notes the leaves that a plan had to hold back. `granted`: the plan found leaves that may go;
// until those are gone, others are not noted. Returns whether some wait for a round.
bool wish_note(struct wish *s, struct mem_budget *memory, const struct watch *w, bool granted,
               const id128 *v, size_t n);
