// SPDX-License-Identifier: Apache-2.0
//
// batch.h - records on their way from a distributor to an ingester.
//
// Wire form: messages Batch and Record of proto/flametree/v1/internal.proto, written and read by
// hand (codec/pb) because every pushed byte passes here. Logs of before format 4 have batches.
#pragma once

#include "base/ulid.h"
#include "model/label.h"
#include "model/symbols.h"

// The entries of a record that belong to one span. They are always the record's own, also if its
// vector is a sibling's: a constant factor of sums need not be one of single samples.
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
    uint32_t sibling;  // RECORD_NO_SIBLING, or an earlier record, itself with a vector of its own,
    int64_t factor;    // whose vector times factor (not 0) is this one's
    int64_t total;
    struct span_part *spans;
    uint32_t span_count;
    uint32_t attempt;
    label *annotations;
    uint32_t annotation_count;
    bool has_first_stream;  // a repeated attempt: where it was first sent
    id128 first_stream;
};

// A lexicon is the symbols that one distributor has met of one service and tells one ingester once:
// tables that only grow, under an id that no other tables ever have. A batch that names one has the
// rows that follow those which the ingester has already, and its vectors have the lexicon's stacks.
struct batch {
    str service;
    labels *series;
    uint64_t *fingerprints;  // of series; set by batch_decode, not read by batch_encode
    bool has_lexicon;
    id128 lexicon;
    struct symbol_counts had;  // rows of it before `symbols`, which continue them (symbols_rest)
    struct symbol_table symbols;
    struct record *records;
    uint32_t series_count;
    uint32_t record_count;
};

// Rows of the stacks that vectors may name, after batch_decode.
static inline uint32_t batch_stacks(const struct batch *b)
{
    uint32_t before = b->has_lexicon ? b->had.stacks - 1 : 0;
    return before + b->symbols.stack_count;
}

// Writes all symbols of the batch, row by row as they are: stacks in vectors keep their numbers.
// Fails with resource_exhausted only.
bool batch_encode(const struct batch *b, struct arena *scratch, struct buf *out, err *e) MUST_CHECK;

// Memory of the arena, byte fields borrow from `bytes`. Believes nothing: references, label sets
// (sorted, unique, not empty, UTF-8, fingerprints as stated), vectors (ids below stack_count,
// totals equal their sum), siblings earlier, ids of 16 bytes. Fails with invalid_argument.
bool batch_decode(struct arena *a, str bytes, struct batch *b, err *e) MUST_CHECK;
