// SPDX-License-Identifier: Apache-2.0
//
// runs.h - sets of segments, as runs of cuts.
//
// A stream numbers its cuts one after the other, and a busy tenant has a segment of each. So the
// segments that a leaf absorbed are a few runs (hour, stream, part, first cut, number of cuts),
// where there would be thousands of names: a day of 17,000 segments has some 3,000 runs.
//
// A set is in order of hour, stream, part, cut; its runs are apart and as long as they can be, so
// that a set is written in one way only.
#pragma once

#include "base/buf.h"
#include "manifest/names.h"

struct segment_run {
    int64_t hour;
    id128 stream;
    uint64_t cut;  // the first of them
    uint32_t cuts;
    uint32_t part;
};

static inline struct segment_run segment_run_of(const struct segment_name *n)
{
    return (struct segment_run){n->hour, n->stream, n->cut, 1, n->part};
}

// The i-th of its segments, from 0.
static inline struct segment_name segment_run_at(const struct segment_run *r, uint32_t i)
{
    assert(i < r->cuts);
    return (struct segment_name){r->hour, r->stream, r->cut + i, r->part};
}

static inline uint64_t segment_run_last(const struct segment_run *r)
{
    return r->cut + r->cuts - 1;
}

// Compares hour, stream and part; 0: both are of one numbering of cuts.
int segment_run_lane_cmp(const struct segment_run *a, const struct segment_run *b);
int segment_run_cmp(const struct segment_run *a, const struct segment_run *b);  // then by first cut
bool segment_runs_meet(const struct segment_run *a, const struct segment_run *b);

// Does it hold at least one segment and end within 64 bits?
bool segment_run_ok(const struct segment_run *r);
// May b come right after a in a set?
bool segment_run_follows(const struct segment_run *a, const struct segment_run *b);

// Makes a set of runs in any order, in place; returns how many remain.
size_t segment_runs_join(struct segment_run *v, size_t n);
uint64_t segment_runs_count(const struct segment_run *v, size_t n);  // segments

// Do two sets have a segment in common? *which is the first one.
bool segment_runs_share(const struct segment_run *a, size_t an, const struct segment_run *b,
                        size_t bn, struct segment_name *which);
// The segments of a that b does not have; the arena's, NULL without memory.
struct segment_run *segment_runs_minus(struct arena *arena, const struct segment_run *a, size_t an,
                                       const struct segment_run *b, size_t bn, size_t *n);

// Writes a set (docs/formats/manifest.md). A stream is written as its row in `streams`, which must
// have all of them, ascending; hours count from `hour`, which is not after the first run's.
void segment_runs_put(struct buf *out, const struct segment_run *v, size_t n, int64_t hour,
                      const id128 *streams, size_t stream_count);
size_t segment_runs_most(str bytes);  // how many runs there are at most
// Reads runs into `out`, which has room for segment_runs_most; *n becomes how many there are. False
// with data_loss. Whether the runs are a set is not checked: manifest_wire.c does that.
bool segment_runs_get(str bytes, int64_t hour, const id128 *streams, size_t stream_count,
                      struct segment_run *out, size_t *n, err *e) MUST_CHECK;
