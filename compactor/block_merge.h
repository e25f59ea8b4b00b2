// SPDX-License-Identifier: Apache-2.0
//
// block_merge.h - blocks into one block, as a stream, within a budget.
//
// Service by service in byte order: the sources' symbols become one table, source by source, of
// which only the maps of stacks stay; then keys are sorted, and rows, nodes and totals of equal
// keys are merged in the order of the new block. Of each source one frame of each kind is held.
// What is too much for the budget all at once is merged in groups first, into files that have no
// name.
//
//     MERGE_ROWS     rows, no nodes                              what such a file holds
//     MERGE_LEAF     rows, 5-minute nodes of ALL, what churns    a leaf of an hour or of a day
//     MERGE_HOUR     rows -> hour nodes, minute totals           of leaves
//     MERGE_PACK     hour nodes, minute totals                   of blocks of HOURS
//     MERGE_DAY      day nodes, hour totals                      of HOURS or DAYS, or of leaves
//     MERGE_WINDOW   the same and week nodes, the root, without SERIES      of DAYS
//
// What HOUR and DAY make of rows has sums of series only if these are clearly fewer bytes than the
// rows, where the caller says that rows serve as well (spare).
//
// A part of a service sums only what is its own: sources that are cut otherwise give sums of
// series for those of ALL and projections.
//
// Rows of one series with the same id are one row: the first by time, then by attempt.
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
    const struct plan_span *spans;  // of parents: what of it counts
    size_t span_count;
    bool mask;  // its rows are not written, only recognised
};

// Which service has a sum that does not fit 64 bits, if block_merge_run failed with out_of_range.
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
    uint32_t pack_lo;  // which services
    uint32_t pack_hi;
    uint32_t part;   // and of their series those whose block_part() of `parts` this is; parts 0 and
    uint32_t parts;  // 1: all
    uint32_t classes;    // of parents: which keys, 1 << enum block_class; out: which it made
    bool spare;          // HOUR, DAY of leaves: without series if they do not save bytes, and
                         // hours of leaves of days without anything
    bool spared;         // out: it is without anything
    int64_t until_hour;  // MERGE_WINDOW: weeks that end until then, and the window if it does
    int64_t from_hour;   // rows of these hours only; set by block_merge_run
    uint32_t hours;

    struct block_merge_overflow *overflow;

    uint64_t duplicates;          // counted: rows that were there already
    uint64_t sampled_duplicates;  // of them those of series that sampling left without stacks
    bool miscounted;              // it failed because rows in are not rows out and copies
    size_t files;                 // counted: intermediate ones
    uint64_t row_entries;         // counted by HOUR: of the vectors of series' rows,
    uint64_t node_entries;        // and of the nodes that they became
};

// Where the block goes: begun anew if it has to be made in smaller steps.
struct block_merge_target {
    bool (*begin)(void *arg, err *e);
    block_sink *sink;
    void (*abandon)(void *arg);
    void *arg;
};

// The whole block. Fails with data_loss naming the object that is damaged; with resource_exhausted
// naming the service that does not fit the budget; with what target and store fail with.
bool block_merge_run(struct block_merge *m, const struct block_about *about,
                     const struct block_merge_target *target, struct block_written *written,
                     err *e) MUST_CHECK;
