// SPDX-License-Identifier: Apache-2.0
//
// batch.h - records on their way from a distributor to an ingester, and in an ingester's log.
//
// Wire form: messages Batch and Record of proto/flametree/v1/internal.proto, written and read by
// hand (codec/pb) because every pushed byte passes here. The log keeps the very bytes of a Batch.
#pragma once

#include "base/ulid.h"
#include "model/label.h"
#include "model/symbols.h"

struct span_part {
    uint64_t span_id;
    uint8_t trace_id[16];
    bool has_trace;
    str vector;
};

#define RECORD_NO_SIBLING UINT32_MAX

struct record {
    uint32_t series;  // row of batch.series
    int64_t time_ns;
    id128 id;
    int64_t duration_ns;
    int64_t period;
    str vector;        // bytes of model/vector.h; empty if it has a sibling
    uint32_t sibling;  // earlier record whose vector times factor is this one's
    int64_t factor;
    int64_t total;
    struct span_part *spans;
    uint32_t span_count;
    uint32_t attempt;
    label *annotations;
    uint32_t annotation_count;
};

struct batch {
    str service;
    labels *series;
    struct symbol_table symbols;
    struct record *records;
    uint32_t series_count;
    uint32_t record_count;
};

// Writes all symbols of the batch; call symbols_encode's pruning first if some are unused.
bool batch_encode(const struct batch *b, struct arena *scratch, struct buf *out, err *e) MUST_CHECK;

// Memory of the arena, byte fields borrow from `bytes`. Believes nothing: references, label sets
// (sorted, unique, not empty), vectors (ids below stack_count, totals equal their sum), siblings
// earlier. Fails with invalid_argument.
bool batch_decode(struct arena *a, str bytes, struct batch *b, err *e) MUST_CHECK;
