// SPDX-License-Identifier: Apache-2.0
//
// verify.h - checks a whole block, by reading all of it.
//
// Parsing checks each section by itself (reader.h); this does the checks that take too long for a
// query:
//
//     sections     all can be read and parsed; they do not overlap, and nothing lies between them
//     vectors      well-formed, of stacks that the symbols have; each is named by a row
//     rows         in order of time, then id, within the block's hours; total = vector's x factor;
//                  spans well-formed and known to their bloom filter
//     nodes        total = vector's; times within the slot
//     sums         nodes of ALL = the rows, or the nodes of series or projections, that they sum;
//                  wider nodes = the narrower ones within; nodes = totals within
//     the footer   services, types, profiles, loose rows and times are those of the contents
//
// For `flametree block verify`, for the compactor's check of damaged sources, and for tests.
#pragma once

#include "block/source.h"

// Called once for each fault; the service is empty if the fault is one of the whole block.
typedef void block_report(void *arg, str service, const char *text);

struct block_verify_options {
    block_report *report;
    void *arg;
    struct mem_budget *memory;
    size_t cap;  // bytes for one service: its vectors of rows are held
};

struct block_verified {
    uint64_t faults;
    uint64_t sections;
    uint64_t bytes;  // of sections, as stored
    uint32_t services;
    uint64_t keys;
    uint64_t nodes;
    uint64_t totals;
    uint64_t rows;
    uint64_t vectors;  // of rows
    uint64_t spans;
};

// False and *e only if the check could not be made to the end (reads, memory, time). Faults are
// counted in *out and go to report.
bool block_verify(const struct block_source *src, const struct block_verify_options *o,
                  struct block_verified *out, err *e) MUST_CHECK;
