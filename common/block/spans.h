// SPDX-License-Identifier: Apache-2.0
//
// spans.h - writes the spans of a run of rows as a frame, and the bloom filters of such frames; for
// the writer only. reader.h has the functions for reading.
//
// Contents of a frame, for `count` rows (the index has the number):
//
//     spans         LEB128          in all
//     by row        LEB128          how many are the row's
//     by span       1 byte          1: it has a trace
//     by span       8 bytes         span id, little-endian
//     by trace      16 bytes        of the spans that have one
//     by span       LEB128          bytes of its vector
//     vectors                       columns (model/columns.h), one after the other
//
// The blooms of a service say for each frame which span ids and traces may be in it:
//
//     by frame      LEB128          blocks of its filter, 1 or more
//     filters                       blocks of 8 words of 32 bits, little-endian
//
// A split-block bloom filter (as in Apache Parquet's format): the upper half of the key's XXH64
// (of the 8 bytes of a span id, little-endian, or the 16 of a trace) picks a block, the lower half
// times each of 8 salts a bit in each word. With 12 bits for each distinct key 1 of 200 frames is
// read in vain, and no span is ever missed.
#pragma once

#include "block/block.h"

struct block_spans {
    struct mem_budget *budget;
    struct buf counts;  // columns of the current frame
    struct buf traced;
    struct buf ids;
    struct buf traces;
    struct buf sizes;
    struct buf vectors;
    uint64_t spans;
    uint64_t *keys;  // hashes for its filter
    size_t key_count;
    size_t key_cap;
    struct buf blocks;   // of finished filters: numbers of blocks
    struct buf filters;  // and their bytes
};

// Release is idempotent.
void block_spans_init(struct block_spans *s, struct mem_budget *budget);
void block_spans_release(struct block_spans *s);

// The spans of the next row of the frame; none is fine.
bool block_spans_row(struct block_spans *s, const struct block_span *v, size_t n,
                     err *e) MUST_CHECK;

// Bytes that the current frame would have; 0: no row of it has spans.
size_t block_spans_bytes(const struct block_spans *s);

// Appends the current frame to *out, makes its filter, and begins the next frame. A frame without
// spans is not appended and gets no filter.
bool block_spans_frame(struct block_spans *s, struct buf *out, err *e) MUST_CHECK;

// Appends the filters of the frames so far and forgets them; nothing if there are none.
bool block_spans_blooms(struct block_spans *s, struct buf *out, err *e) MUST_CHECK;
