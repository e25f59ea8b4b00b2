// SPDX-License-Identifier: Apache-2.0
//
// reader.h - reading blocks piece by piece: bytes in, checked structures out.
//
// Nothing here does IO. The caller reads the bytes (source.h reads from a store) and hands them in:
// first the footer, which says where the sections of each service are, then those sections that it
// needs:
//
//     last BLOCK_TRAILER bytes --block_trailer--> extent of the footer
//     footer --block_footer_parse--> services: extents of index, symbols, ...
//     index --block_index_parse--> keys, nodes, where vectors, totals, heads, details, spans are
//     bytes of an extent --block_section--> its contents: CRC right, inflated, of the stated size
//
// Nothing is used unchecked: after a parse succeeded, every number in the structures is in range.
// Damage is data_loss and names the section; contents that do not fit the arena are
// resource_exhausted. Structures are the arena's and borrow from the bytes given.
#pragma once

#include "block/block.h"
#include "model/columns.h"

#define BLOCK_TRAILER 32

// Bytes at..at+stored of the object. Empty: stored is 0.
struct block_extent {
    uint64_t at;
    uint32_t stored;
    uint32_t raw;  // when inflated
    uint32_t crc;  // CRC32C of the stored bytes
    bool packed;
    bool lz4;  // packed as LZ4, else as zstd
};

// The footer's extent from the object's last bytes and its size.
bool block_trailer(str bytes, uint64_t size, struct block_extent *footer, err *e) MUST_CHECK;

// The contents of a section; borrows `stored` if it is not packed, else the arena's.
bool block_section(struct arena *a, const struct block_extent *x, str stored, const char *what,
                   str *out, err *e) MUST_CHECK;

// ---- footer
struct block_dataset {
    str type;
    uint64_t profiles;  // without those of series with __sampled__="true"; may be 0
    uint64_t loose;     // rows with attempt > 0 (model/loose.h): a query looks for copies of them
    uint64_t placed;    // rows with BLOCK_IDENTIFIED: it does so where placings differ
    int64_t first_ns;   // times of rows or nodes, sampled ones included
    int64_t last_ns;
};

struct block_service_ref {
    str name;
    struct block_dataset *datasets;  // in order of type
    uint32_t dataset_count;
    // These four lie next to each other, in this order. totals and all (vectors of ALL nodes) are
    // set if they are one frame; else the index has their frames.
    struct block_extent totals;
    struct block_extent index;
    struct block_extent symbols;
    struct block_extent all;
};

struct block_footer {
    struct block_about about;
    const struct block_service_ref *services;  // in order of names
    uint32_t service_count;
};

bool block_footer_parse(struct arena *a, str contents, uint64_t object_size,
                        struct block_footer *out, err *e) MUST_CHECK;
const struct block_service_ref *block_find_service(const struct block_footer *f, str name);

// ---- symbols of a service: symbols_decode, and stacks are in depth-first order
bool block_symbols_parse(struct arena *a, str contents, struct symbol_table *out,
                         err *e) MUST_CHECK;

// ---- index of a service
struct block_key_ref {
    enum block_class class;
    uint32_t type;  // row of index.types
    labels ls;
    bool sampled;         // __sampled__="true"
    uint32_t first_node;  // nodes first_node .. + node_count - 1
    uint32_t node_count;
    uint64_t first_total;
    uint32_t total_count;
    uint64_t first_row;
    uint64_t row_count;
};

struct block_node_ref {
    struct block_node node;
    uint32_t frame;  // of index.nodes_at
    uint32_t place;  // in that frame; nodes may share a vector
    int64_t factor;  // the vector counts so many times, 1 or more
};

// A section that holds a run of vectors, rows or totals of the service.
struct block_frame {
    struct block_extent extent;
    uint64_t first;  // number of the first of them
    uint64_t count;
    int64_t first_ns;  // heads, details, spans: times of its rows
    int64_t last_ns;
};
struct block_frames {
    const struct block_frame *v;
    uint32_t n;
};
const struct block_frame *block_frame_of(const struct block_frames *f, uint64_t number);

struct block_dropped_labels {
    const str *v;
    uint32_t n;
};

struct block_index {
    const str *types;
    const struct block_dropped_labels *dropped;  // by type: labels that its projections leave out
    const int64_t *periods;                      // by type: model/period.h
    uint32_t type_count;
    const struct block_key_ref *keys;  // in order of type, class, labels
    uint32_t key_count;
    const struct block_node_ref *nodes;
    uint32_t node_count;
    uint32_t stack_count;          // rows of the symbols
    struct block_frames nodes_at;  // vectors of nodes
    struct block_frames vectors;   // vectors of rows, by number
    struct block_frames totals;
    struct block_frames heads;    // times and totals of rows, by row number
    struct block_frames details;  // the rest of a row, the same runs as heads
    struct block_frames spans;    // of rows that have some; runs as heads, only where there are any
    struct block_extent blooms;   // of the span frames; empty: there are no spans
    const struct block_postings *postings;  // keys.h
};
// `service` is the footer's entry that named the index: its extents are relative to that.
bool block_index_parse(struct arena *a, str contents, const struct block_service_ref *service,
                       struct block_index *out, err *e) MUST_CHECK;

// ---- vectors: a frame's contents, then any of its vectors (columns; checked by columns_add)
struct block_vectors {
    const uint32_t *ends;
    uint32_t n;
    str bytes;
};
bool block_vectors_parse(struct arena *a, str contents, uint64_t count, struct block_vectors *out,
                         err *e) MUST_CHECK;
str block_vector_at(const struct block_vectors *v, uint32_t place);

// ---- totals and rows: a frame's contents to columns
bool block_totals_parse(struct arena *a, str contents, uint64_t count, struct block_total **out,
                        err *e) MUST_CHECK;

struct block_heads {
    const int64_t *times;
    const int64_t *totals;
    const uint32_t *attempts;  // with BLOCK_IDENTIFIED; NULL: all 0
    uint64_t n;
};
bool block_heads_parse(struct arena *a, str contents, uint64_t count, struct block_heads *out,
                       err *e) MUST_CHECK;

struct block_details {
    const id128 *ids;
    const uint64_t *vectors;
    const int64_t *factors;    // NULL: all 1
    const int64_t *durations;  // NULL: all 0, as for the next
    const int64_t *periods;
    const id128 *first_streams;  // NULL: no row has one; zeros: that row has none
    const labels *annotations;   // NULL: no row has any
    uint64_t n;
};
// `heads` are those of the same run of rows: an id is stored without the bits that follow from its
// row's time.
bool block_details_parse(struct arena *a, str contents, const struct block_heads *heads,
                         struct block_details *out, err *e) MUST_CHECK;

// ---- spans: the bloom filters, and a frame's contents to the spans of each of its rows
struct block_blooms;
bool block_blooms_parse(struct arena *a, str contents, uint32_t frames,
                        const struct block_blooms **out, err *e) MUST_CHECK;
bool block_bloom_may_have_span(const struct block_blooms *b, uint32_t frame, uint64_t span_id);
bool block_bloom_may_have_trace(const struct block_blooms *b, uint32_t frame, id128 trace);

struct block_row_spans {
    const struct block_span *v;
    uint32_t n;
};
bool block_spans_parse(struct arena *a, str contents, uint64_t count, struct block_row_spans **rows,
                       err *e) MUST_CHECK;
