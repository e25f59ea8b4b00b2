// SPDX-License-Identifier: Apache-2.0
//
// plan.h - the jobs that are to be done for a tenant, worked out from its segments, its live blocks
// and the time. Pure.
//
//     LEAF     the segments of an hour -> its first leaf, leaf_delay after the hour's end. Segments
//              that are listed later -> a delta leaf, without the rows that the hour has already
//     FOLD     all leaves of an hour -> one leaf, once in fold_interval. Small leaves of a complete
//              day -> one leaf of the day; from then on that day is folded as a whole, and parents
//              that sum only the replaced leaves are removed with them
//              A leaf that has profiles which a deletion hides is folded at once, even alone
//     HOUR     leaves of a day that no valid parent names -> hour nodes, once one of the leaves has
//              waited for hour_delay
//     PACK     all hour nodes of a day so far -> one block, once in pack_interval
//     DAY      the hour nodes of a complete day -> its day nodes; again once in fold_interval
//     WINDOW   the day nodes of a window of 28 days -> one block, once in window_interval
//     RETIRE   removes blocks whose time is over
//
// A parent is valid for a child window (an hour of HOURS, a day of DAYS) if all leaves that its
// cover names there count. Several valid parents of a window add up if no leaf is named by two of
// them. A job reads its sources that way, span by span, so it does no harm if two processes made
// parents of the same leaves.
//
// Much at once does not wait for an interval: a level that got many bytes or sources since it was
// merged last (much_bytes, much_sources; a window: two days) waits only for jobs that are due below
// it. In a run that somebody waits for, nothing waits for an interval or a delay. Only segments of
// hours that are not over stay (open_segments): a leaf of an hour under way would be one of many.
//
// Jobs come oldest first; of the same hour the lower level first, then the smaller one. There is no
// other order between them: if another job replaced a job's inputs, the manifest refuses its
// commit, and it is planned again.
#pragma once

#include "manifest/manifest.h"

enum job_kind {
    JOB_LEAF,
    JOB_FOLD,
    JOB_HOUR,
    JOB_PACK,
    JOB_DAY,
    JOB_WINDOW,
    JOB_RETIRE,
    JOB_KINDS
};
const char *job_kind_name(enum job_kind k);

// Ages and intervals; 0 of a delay or an interval: at once; 0 of a retention: for ever.
struct plan_settings {
    int64_t leaf_delay;  // between the end of an hour and its first leaf, and between two leaves
    int64_t hour_delay;  // between a leaf and its hour nodes, those of its day that wait with it
    int64_t day_delay;   // between the end of a day and its day nodes
    int64_t pack_interval;
    int64_t fold_interval;
    int64_t window_interval;
    uint64_t day_leaf_bytes;  // leaves of a day that have less become one; 0: they do not
    uint64_t much_bytes;      // so many bytes, or
    size_t much_sources;      // so many blocks or segments do not wait for an interval; 0: they do
    bool asked;               // a run waits for it: jobs do not wait for intervals
    int64_t leaf_stay;        // a leaf stays so long at least, however old its profiles are
    int64_t deletion_stay;    // a deletion hides for so long at least
    int64_t raw_retention;
    int64_t hours_retention;  // those of a day together, and not before its rows
    int64_t days_retention;
};

struct plan_state {
    const struct snapshot_segment *segments;  // in order
    const bool *damaged;                      // of each segment: leave it out; NULL: none is
    size_t segment_count;
    const struct manifest_block *blocks;  // live, in order of kind, from_hour
    const bool *damaged_blocks;           // of each block: it cannot be read; NULL: none
    size_t block_count;
    bool (*counts)(void *arg, id128 leaf);  // live, or expired by retention
    void *arg;
    // May this leaf (or deletion) go, whose time is over? Only once everything is listed that
    // ingesters held when a plan first wanted it gone (watch.h). NULL: always.
    bool (*may_go)(void *arg, id128 leaf);
    void *go_arg;
    const struct manifest_tombstone *tombstones;  // leaves that have what one hides are made anew
    size_t tombstone_count;
    int64_t now_ns;
};

// A part of a parent that a job reads: child windows within hours, services within packs.
struct plan_span {
    int64_t from_hour;
    uint32_t hours;
    uint32_t pack_lo;
    uint32_t pack_hi;
};

struct job_source {
    const struct snapshot_segment *segment;  // or
    const struct manifest_block *block;
    const struct plan_span
        *spans;  // of parents: the parts that count. Leaves have none: all counts
    size_t span_count;
    bool mask;  // its rows are not merged: they only tell which rows the hour has already
};

struct task {
    enum job_kind kind;
    int64_t from_hour;  // its result covers these hours
    uint32_t hours;
    int64_t until_hour;  // WINDOW: weeks that end until then are complete
    bool erase;          // PACK, DAY: of one block, without what deletions hide; with its packs
    bool whole;          // HOUR: with sums of series, whether they save bytes or not
    int64_t due_ns;
    uint64_t bytes;  // of its sources
    const struct job_source *sources;
    size_t source_count;
    const struct manifest_cover *covers;
    size_t cover_count;
    const id128 *needs;
    size_t need_count;
    const id128 *remove;
    size_t remove_count;
    const id128 *expire;
    size_t expire_count;
};

struct plan {
    struct task *jobs;  // due ones, in the order in which to do them
    size_t n;
    int64_t next_due_ns;      // of the first that is not due yet; INT64_MAX: there is none
    size_t later[JOB_KINDS];  // jobs that could be done, and wait for their interval
    size_t open_segments;     // segments of hours that are not over: no job takes them yet
    int64_t open_until_ns;    // when the first of these hours ends
    id128 *held;              // leaves and deletions that only wait for may_go
    size_t held_count;
    id128 *done;  // deletions: nothing has what they hide
    size_t done_count;
};

// How many blocks, windows, leaves and jobs plans of this thread have looked at, counted each time
// anew: tests bound it in place of time. Only in builds with fault points.
#ifdef FT_FAULTS
extern _Thread_local uint64_t plan_inspected;
static inline void plan_stepped(size_t n)
{
    plan_inspected += n;
}
#else
static inline void plan_stepped(size_t n)
{
    (void)n;
}
#endif

// The arena's; borrows from *s. Fails with resource_exhausted only.
bool plan_make(struct arena *a, const struct plan_state *s, const struct plan_settings *settings,
               struct plan *out, err *e) MUST_CHECK;
