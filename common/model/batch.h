// SPDX-License-Identifier: Apache-2.0
//
// batch.h - the records that a distributor sends to an ingester in one message.
//
// Wire form: messages Batch and Record of proto/flametree/v1/internal.proto, written and read by
// hand (codec/pb) because every pushed byte passes here. Logs of formats 1 to 3 have batches too.
#pragma once

#include "base/ulid.h"
#include "model/label.h"
#include "model/symbols.h"

// The entries of a record that belong to one span. A record always has its own, even if its vector
// is a multiple of a sibling's: the factor holds for sums, not for single samples.
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
    uint32_t sibling;  // RECORD_NO_SIBLING, or an earlier record that has a vector
    int64_t factor;    // not 0: this record's vector is the sibling's times this
    int64_t total;
    struct span_part *spans;
    uint32_t span_count;
    uint32_t attempt;
    label *annotations;
    uint32_t annotation_count;
    bool identified;        // the client gave an id, so it may send the record again
    bool has_first_stream;  // of a repeated attempt: the stream that it was sent to first
    id128 first_stream;
};

// A lexicon is the symbols of one service that a distributor sends to an ingester once: tables that
// only grow, under an id that no other tables ever have. A batch that names a lexicon has only the
// rows behind those that the ingester has already, and its vectors have the lexicon's stacks.
struct batch {
    str service;
    labels *series;
    uint64_t *fingerprints;  // of series; set by batch_decode, not read by batch_encode
    bool has_lexicon;
    id128 lexicon;
    struct symbol_counts had;  // its rows before `symbols`, which continue them (symbols_rest)
    struct symbol_table symbols;
    struct record *records;
    uint32_t series_count;
    uint32_t record_count;
    // By which the records with a client's id got their homes (model/placings.h); 0: the log of an
    // older version. Not part of the bytes: AppendRequest has it.
    uint64_t placing;
};

// Vectors may name stacks below this; after batch_decode.
static inline uint32_t batch_stacks(const struct batch *b)
{
    uint32_t before = b->has_lexicon ? b->had.stacks - 1 : 0;
    return before + b->symbols.stack_count;
}

// Writes all symbols of the batch under their own numbers, so that vectors stay as they are. Fails
// with resource_exhausted only.
bool batch_encode(const struct batch *b, struct arena *scratch, struct buf *out, err *e) MUST_CHECK;

// Memory is the arena's, byte fields borrow from `bytes`. Checks everything: references; label sets
// (sorted, unique, not empty, UTF-8, with the stated fingerprints); vectors (ids below
// batch_stacks, totals equal to their sums); siblings that come earlier; ids of 16 bytes. Fails
// with invalid_argument.
bool batch_decode(struct arena *a, str bytes, struct batch *b, err *e) MUST_CHECK;
