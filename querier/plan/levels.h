// SPDX-License-Identifier: Apache-2.0
//
// levels.h - the planner: which parts of which objects add up to a range. Pure.
//
// In: the segments and live blocks of a snapshot, the range (from, to], the services (packs), and
// how fine the answer has to be. Out: pieces, such that every row of the snapshot within the range
// is in exactly one of them:
//
//     whole windows of a parent            the parent's nodes            DAYS, then HOURS
//     live leaves that it does not name    the leaves, beside the parent
//     windows without a usable parent      the leaves                    RAW
//     rows that no leaf absorbed           the segments
//     edges of the range                   rows of leaves and segments. Where retention removed
//                                          them, the range is rounded outward to sums, and
//                                          the plan says so
//
// A parent is used for a child window only if every leaf that its cover names there is live or
// expired. Parents that are parts of a service (by the hashes of its series) are used together or
// not at all. Of several parents of a window the coarsest is used; of equally coarse ones the one
// that serves most windows. Rows of an expired leaf are only in parents that name it, so in its
// window only those may be used.
//
// levels_window.c finds what there is (which windows of parents are whole, which leaves expired,
// which packs), levels.c lays the range over it, levels_print.c shows the result.
#pragma once

#include "base/buf.h"
#include "manifest/manifest.h"

// An object to read: a segment or a block. Borrows from the snapshot.
struct level_object {
    enum block_kind kind;
    const struct manifest_block *block;  // NULL: a segment
    const struct snapshot_segment *segment;
    str name;  // of the object in the store
    uint64_t bytes;
};

enum level_use {
    LEVEL_NODES,   // whole slots of the object's nodes: sums over time
    LEVEL_TOTALS,  // whole fine slots of its totals (HOURS: minutes, DAYS: hours)
    LEVEL_ROWS     // rows whose times are in the range
};

// (from_ns, to_ns] of an object, for services whose pack is within [pack_lo, pack_hi]. For
// LEVEL_NODES the range is whole slots of the kind's narrowest node (RAW five minutes, SEGMENT and
// HOURS hours, DAYS days): the reader adds, key by key, the widest nodes that fit; a wide node that
// was not written has its children in the same object (RAW: the rows; leaves of days may have nodes
// of hours instead). For LEVEL_TOTALS a slot counts in the step in which it ends, in the last one
// if it ends later.
struct level_piece {
    const struct level_object *object;
    enum level_use use;
    int64_t from_ns;
    int64_t to_ns;
    uint32_t pack_lo;
    uint32_t pack_hi;
};

struct level_ask {
    int64_t from_ns;  // exclusive
    int64_t to_ns;    // inclusive
    uint32_t pack_lo;
    uint32_t pack_hi;
    enum level_use use;  // the coarsest use that answers the question
    uint32_t classes;    // a parent is used only if it has all of these (1 << enum block_class)
    int64_t step_ns;     // borders first_ns + k * step_ns must not lie within a slot; 0: no borders
    int64_t first_ns;
    int64_t early_ns;  // rows so soon behind first_ns are of the step that ends there: a slot that
                       // begins there holds some that are not of its step
    bool durations;    // rows are better than sums, which have no durations, if steps are short
    const str *without;  // names of objects that cannot be read
    size_t without_count;
    const str *row_by_row;  // names of leaves and segments whose nodes must not be used, nor those
                            // of parents of these leaves
    size_t row_by_row_count;
};

struct level_plan {
    struct level_piece *pieces;  // in order of object kind, coarsest first, then time
    size_t n;
    bool rounded;  // the answered range differs from the one asked for. The answered range is:
    int64_t from_ns;
    int64_t to_ns;
    int64_t slot_ns;  // LEVEL_TOTALS: the widest slot within which borders of steps lie, or 0

    // Objects of ask.without that are needed: nothing else has their rows.
    const struct level_object **missing;
    size_t missing_count;

    bool gone;  // retention removed rows somewhere in this range, and no node can serve instead
    int64_t gone_from_ns;
    int64_t gone_to_ns;
};

// The arena's. Fails with resource_exhausted only.
bool level_plan(struct arena *a, const struct snapshot *s, const struct level_ask *ask,
                struct level_plan *out, err *e) MUST_CHECK;

// The same without a manifest: for tests, and for plans over chosen blocks (reconcile.c).
enum level_leaf {
    LEVEL_DEAD,  // replaced or deleted, or never heard of
    LEVEL_LIVE,
    LEVEL_EXPIRED  // removed by retention
};
struct level_given {
    str tenant;
    const struct manifest_block *blocks;  // live ones
    size_t block_count;
    const struct snapshot_segment *segments;
    size_t segment_count;
    enum level_leaf (*leaf)(const void *arg, id128 id);
    const void *arg;
};
struct level_given level_given_of(const struct snapshot *s);
bool level_plan_given(struct arena *a, const struct level_given *g, const struct level_ask *ask,
                      struct level_plan *out, err *e) MUST_CHECK;

// How far the answered range is from the one asked for, in ns; 0: it is exact.
int64_t level_rounding(const struct level_plan *p, const struct level_ask *ask);

// One piece as a line for people, without line end.
void level_print_piece(const struct level_piece *piece, struct buf *out);
