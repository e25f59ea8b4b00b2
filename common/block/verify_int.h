// SPDX-License-Identifier: Apache-2.0
//
// verify_int.h - the state of a check; for verify.c, which reads sections, and verify_sums.c, which
// compares sums.
#pragma once

#include "block/verify.h"

struct verify {
    const struct block_source *src;
    const struct block_verify_options *o;
    struct block_verified *out;
    struct block_extent *extents;  // of all sections, the footer included
    size_t extent_count;
    size_t extent_cap;
    struct arena whole;  // of the block: extents
    struct arena arena;  // of the service
    const struct block_service_ref *service;
    struct symbol_table symbols;
    struct block_index index;

    // By node and by number of a vector; empty where a section could not be read.
    str *node_vectors;  // without the node's factor
    bool nodes_whole;   // all sections of them were good
    str *vectors;
    int64_t *vector_totals;
    bool *vector_used;
    uint64_t vector_count;
    bool vectors_whole;

    struct block_total *totals;
    uint64_t total_count;
    bool totals_whole;

    // By row.
    int64_t *times;
    int64_t *row_totals;
    uint32_t *attempts;
    int64_t *factors;
    uint64_t *row_vectors;
    id128 *ids;
    uint64_t row_count;
    bool rows_whole;
};

// Reports a fault of the current service.
void verify_fault(struct verify *v, const char *fmt, ...) PRINTF(2, 3);

// "2026-11-21T10:05:00Z + 5m" of a slot, for faults.
#define VERIFY_SLOT_TEXT 64
const char *verify_slot(char text[VERIFY_SLOT_TEXT], int64_t slot, int64_t width);

// Compares the sums of the current service with their parts. False and *e: no memory, or the time
// is over.
bool verify_sums(struct verify *v, err *e) MUST_CHECK;
