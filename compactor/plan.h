// SPDX-License-Identifier: Apache-2.0
//
// plan.h - what there is to do for a tenant: from its segments and live blocks and the time to
// jobs. Pure.
//
//     LEAF     the segments of an hour -> its first leaf, an hour's end + leaf_delay later; what is
//              listed after that -> a delta leaf without the rows that the hour has already
//     FOLD     all leaves of an hour -> one                              once in fold_interval
//              all leaves of a complete day that are small -> one leaf of the day; from then on
//              that day is folded as a whole. Parents that are of none but these leaves go with it
//     HOUR     leaves of a day that no valid parent names -> hour nodes, once one of them has
//              waited for hour_delay
//     PACK     all hour nodes of a day so far -> one block               once in pack_interval
//     DAY      the hour nodes of a complete day -> its day nodes         again once in
//     fold_interval WINDOW   the day nodes of a window of 28 days -> one block         once in
//     window_interval RETIRE   blocks whose time is over
//
// A parent is valid for a child window (an hour of HOURS, a day of DAYS) if all leaves that its
// cover names there count. Of the valid ones several may add up, if no leaf is named by two of
// them: that is how a job reads them, span by span, so that it never matters who made what twice.
//
// By amount: what got much since it was merged last (much_bytes, much_sources; a window: two days)
// does not wait for its interval, only for what is due below it. In a run that somebody asked for
// nothing waits for an interval but the first leaf of an hour.
//
// Due jobs come oldest first, of the same hour the lower level first, then small first. Nothing
// else holds between them: a job whose inputs another one replaced is refused by the manifest and
// planned again.
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
    bool asked;               // somebody waits for it: nothing waits for an interval
    int64_t leaf_stay;        // a leaf stays so long at least, however old its profiles are
    int64_t raw_retention;
    int64_t hours_retention;  // those of a day together, and not before its rows
    int64_t days_retention;
};

struct plan_state {
    const struct snapshot_segment *segments;  // in order
    const bool *damaged;                      // of each segment: leave it out; NULL: none is
    size_t segment_count;
    const struct manifest_block *blocks;  // live, in order of kind, from_hour
    const bool *damaged_blocks;  // of each: cannot be read. Parents are made anew; NULL: none
    size_t block_count;
    bool (*counts)(void *arg, id128 leaf);  // live, or expired by retention
    void *arg;
    // May this leaf go that has expired? Only once all is listed that ingesters held when it was
    // wanted gone first (watch.h). NULL: nobody holds anything.
    bool (*may_go)(void *arg, id128 leaf);
    void *go_arg;
    int64_t now_ns;
};

// A part of a parent that counts: child windows within hours, services within packs.
struct plan_span {
    int64_t from_hour;
    uint32_t hours;
    uint32_t pack_lo;
    uint32_t pack_hi;
};

struct job_source {
    const struct snapshot_segment *segment;  // or
    const struct manifest_block *block;
    const struct plan_span *spans;  // of parents: what counts; of leaves none: all
    size_t span_count;
    bool mask;  // only to recognise rows that are there already
};

struct task {
    enum job_kind kind;
    int64_t from_hour;  // what it makes covers
    uint32_t hours;
    int64_t until_hour;  // WINDOW: weeks that end until then are complete
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
    id128 *held;              // leaves that only wait for may_go
    size_t held_count;
};

// Blocks, windows, leaves and jobs that plans of this thread have looked at, each time anew: what
// tests count instead of time. Only in builds with fault points.
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
