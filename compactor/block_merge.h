// SPDX-License-Identifier: Apache-2.0
//
// block_merge.h - merges blocks into one block, as a stream, within a budget.
//
// Service by service in byte order:
//
//     1. the sources' symbols become one table, source by source; only the maps of stacks stay
//     2. keys are sorted by type, class and labels
//     3. rows, nodes and totals of equal keys are merged in the order of the new block; of each
//        source one frame of each kind is in memory
//
// If the budget does not allow all sources at once, they are merged in groups first, into files
// without names, and these files are merged.
//
//     MERGE_ROWS     rows, no nodes                              what such a file holds
//     MERGE_LEAF     rows, 5-minute nodes of ALL, what churns    a leaf of an hour or of a day
//     MERGE_HOUR     rows -> hour nodes, minute totals           of leaves
//     MERGE_PACK     hour nodes, minute totals                   of blocks of HOURS
//     MERGE_DAY      day nodes, hour totals                      of HOURS or DAYS, or of leaves
//     MERGE_WINDOW   the same and week nodes, the root, without SERIES      of DAYS
//
// HOUR and DAY, made of rows, get sums of series only if these take clearly fewer bytes than the
// rows, where the caller allows rows to answer instead (spare).
//
// A part of a service sums only its own series. A source that is cut otherwise contributes the sums
// of its series in place of those of ALL and of projections, which cannot be taken apart.
//
// Rows of one series with the same id are one row: the first by time, then by attempt. What
// deletions hide is left out of rows (merge_hidden.c).
#pragma once

#include "block/source.h"
#include "block/writer.h"
#include "compactor/plan.h"

enum merge_what {
    MERGE_ROWS,
    MERGE_LEAF,
    MERGE_HOUR,
    MERGE_PACK,
    MERGE_DAY,
    MERGE_WINDOW
};

struct block_merge_source {
    struct block_source block;
    const struct plan_span *spans;  // of parents: the parts that count
    size_t span_count;
    bool mask;  // its rows are not written, only recognised
};

// The service with a sum that does not fit 64 bits, if block_merge_run failed with out_of_range.
struct block_merge_overflow {
    uint32_t pack;
    char service[96];  // as much of its name as fits
};

struct block_merge {
    enum merge_what what;
    struct req *req;
    struct mem_budget *memory;
    const char *scratch;  // folder for files without names
    const struct block_merge_source *sources;
    size_t source_count;
    uint32_t pack_lo;  // the services whose packs are within
    uint32_t pack_hi;
    uint32_t part;       // of their series those whose block_part() of `parts` this is;
    uint32_t parts;      // parts 0 and 1: all series
    uint32_t classes;    // of parents: classes of keys, 1 << enum block_class; out: those it made
    bool spare;          // HOUR, DAY of leaves: leave out series if they do not save bytes, and all
                         // sums of hours of leaves of days
    bool spared;         // out: it has no sums at all
    int64_t until_hour;  // MERGE_WINDOW: only weeks and windows that end by then are made
    int64_t from_hour;   // only rows of these hours; set by block_merge_run
    uint32_t hours;

    // What deletions hide is left out, and symbols that nothing else has: of ROWS and LEAF rows; of
    // PACK and DAY series, in all hours of the sources, and the sums of ALL and of projections are
    // made of the other series.
    const struct hide *hides;
    size_t hide_count;

    struct block_merge_overflow *overflow;

    uint64_t duplicates;          // counted: rows that were there already
    uint64_t sampled_duplicates;  // of them those of series that sampling left without stacks
    uint64_t hidden;              // rows that deletions hide
    uint64_t sampled_hidden;      // of them those of sampled series
    bool miscounted;              // it failed because rows in are not rows out and copies
    size_t files;                 // counted: intermediate ones
    uint64_t row_entries;         // counted by HOUR: of the vectors of series' rows,
    uint64_t node_entries;        // and of the nodes that they became
};

// Where the block goes. If the memory did not do, it is abandoned, and begun again in smaller
// steps.
struct block_merge_target {
    bool (*begin)(void *arg, err *e);
    block_sink *sink;
    void (*abandon)(void *arg);
    void *arg;
    bool *too_large;  // set if the store takes no block of that size; may be NULL
};

// Makes the whole block. Fails with data_loss, naming the damaged object; with out_of_range and
// *overflow; with resource_exhausted, naming the service that does not fit the budget; and as
// target and store fail.
bool block_merge_run(struct block_merge *m, const struct block_about *about,
                     const struct block_merge_target *target, struct block_written *written,
                     err *e) MUST_CHECK;

// After the store refused a block: out_of_range is that of a sum here, so an object that is too
// large for the store is unavailable, and noted. Returns false.
bool merge_unwritten(const struct block_merge_target *t, err *e);
