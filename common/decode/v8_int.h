// SPDX-License-Identifier: Apache-2.0
//
// v8_int.h - one profile of V8 while its nodes and samples are collected. They come from one object
// (v8.c) or from the pieces of a trace (v8_trace.c):
//
//     struct v8 v = {.a = a};                   zero otherwise
//     json_reader_init(&v.json, a, text)        for each piece
//     v8_begin_piece
//     v8_field or v8_fields                     as often as there are any
//     v8_finish                                 once
//
// All memory is the arena's; names borrow from the text. Private to v8*.c.
#pragma once

#include "codec/json.h"
#include "decode/decode.h"

struct v8_node {
    str name;
    str url;
    int64_t line;    // from 1; 0: unknown
    int64_t weight;  // hits or bytes
    size_t parent;   // row, or NO_PARENT
};

struct v8_child {
    size_t parent;  // row
    uint64_t id;
};

struct v8 {
    struct json_reader json;
    struct arena *a;
    struct v8_node *nodes;
    size_t node_count;
    size_t node_cap;
    uint64_t *ids;  // of nodes
    size_t id_cap;
    uint64_t *parents;  // id + 1 that a node names as its parent; 0: none
    size_t parent_cap;
    struct v8_child *children;
    size_t child_count;
    size_t child_cap;
    uint64_t *samples;  // ids of nodes
    size_t sample_count;
    size_t sample_cap;
    int64_t *deltas;  // ns since the sample before; or, of the old form, since any time
    size_t delta_count;
    size_t delta_cap;
    size_t piece_nodes;  // counts before the piece that is read
    size_t piece_samples;
    size_t piece_deltas;
    double start_us;
    double end_us;
    bool has_start;
    bool has_end;
    bool stamped;  // deltas are times
    bool heap;
    bool has_nodes;
    struct losses losses;
};

// Begins a piece of the profile. A list that one piece has twice counts once; if the two differ,
// the file is refused.
void v8_begin_piece(struct v8 *v);

// The value of a profile's field, whose key has been read. Nodes, samples and times are added to
// those of earlier fields. Unknown ones are skipped.
bool v8_field(struct v8 *v, err *e) MUST_CHECK;

// The fields of an object, whose brace has been read, to its end.
bool v8_fields(struct v8 *v, err *e) MUST_CHECK;

// The profile. Nodes that do not exist are "[unknown]", samples out of order are sorted by time.
// Fails with invalid_argument: neither nodes nor samples, or a node that is its own ancestor;
// out_of_range: times.
bool v8_finish(struct v8 *v, size_t bytes, const struct decode_options *o, struct profile **out,
               err *e) MUST_CHECK;
