// SPDX-License-Identifier: Apache-2.0
//
// writer_int.h - the state of a block that is being written; private to writer*.c.
//
// A service's vectors, details and spans go to the sink frame by frame. Kept in memory until
// the service ends: heads, totals and vectors of ALL, packed; symbols, packed; and for the index
// the labels of keys, nodes without their vectors, and where frames are.
#pragma once

#include "base/map.h"
#include "block/spans.h"
#include "block/wire_int.h"
#include "block/writer.h"
#include "codec/compress.h"
#include "model/period.h"

// Frames of one kind. Those that are kept have places relative to the buffer.
struct writer_frames {
    struct block_frame *v;
    size_t cap;
    uint32_t n;
};

// Vectors on their way into frames.
struct writer_vectors {
    struct buf bytes;  // columns, one after the other
    uint64_t count;    // of the current frame
    uint64_t total;    // of all frames
    struct writer_frames frames;
    struct buf *keep;  // where frames are kept; NULL: they go to the sink
    const char *what;
};

// Vectors of nodes that may come again (writer_share.c).
struct writer_share {
    struct map index;
    struct writer_known *v;
    size_t v_cap;
    struct buf bytes;
    size_t cap;
    uint64_t hash;  // of the last look-up
};

struct writer_node {
    struct block_node node;
    int64_t factor;   // by which its vector counts
    uint64_t vector;  // number among the vectors of ALL or among the others
    bool of_all;
};

struct writer_key {
    enum block_class class;
    labels ls;
    uint32_t nodes;
    uint32_t totals;
    uint64_t rows;
};

// Profiles of one class of a type, counted in its narrowest nodes.
struct writer_profiles {
    int64_t width;
    uint64_t profiles;
};

struct writer_type {
    str name;
    const str *dropped;
    uint32_t dropped_count;
    uint32_t keys[BLOCK_CLASSES];
    struct writer_profiles by_nodes[BLOCK_CLASSES];  // not sampled
    uint64_t rows;                                   // not sampled
    uint64_t loose;                                  // rows with attempt > 0,
    uint64_t placed;                                 // and with BLOCK_IDENTIFIED
    int64_t period;                                  // model/period.h
    bool timed;                                      // has rows or nodes
    int64_t first_ns;
    int64_t last_ns;
};

// Rows, or totals, of the current frame. Each part belongs to one type.
struct writer_parts {
    size_t ends[BLOCK_RUN_MAX / 1024];
    size_t n;
};

struct writer_service {
    bool open;
    str name;
    uint32_t stack_count;
    struct arena arena;  // labels, names
    struct writer_type *types;
    size_t type_cap;
    uint32_t type_count;
    struct writer_key *keys;
    size_t key_cap;
    uint32_t key_count;
    struct writer_node *nodes;
    size_t node_cap;
    uint32_t node_count;
    uint64_t *used;   // stacks of the current frame, a bit each
    uint32_t *ranks;  // how many there are before each word of `used`
    int64_t *vector_totals;
    size_t vector_cap;
    uint64_t vector_count;
    struct writer_vectors row_vectors;
    struct writer_vectors node_vectors;
    struct writer_vectors all_vectors;
    struct writer_share share;
    struct writer_frames totals;
    struct writer_frames heads;
    struct writer_frames details;
    struct writer_frames spans;  // first: number of the run
    struct block_extent blooms;
    struct block_extent symbols;
    struct buf kept_symbols;
    struct buf kept_all;
    struct buf kept_totals;
    struct buf kept_heads;
    bool sampled;  // the current key
    int64_t last_width;
    int64_t last_slot;
    int64_t last_total_slot;
    int64_t last_time_ns;
    id128 last_id;
};

// Rows of a frame. A profile's sample types share most of their ids where they are in one frame.
#define WRITER_ROWS   16384
#define WRITER_TOTALS 32768

struct block_writer {
    struct block_about about;
    block_sink *sink;
    void *arg;
    struct mem_budget *memory;
    int level;            // of zstd; 0: by section
    size_t packed_least;  // bytes of contents from which on packing is tried
    size_t lz4_most;      // up to so many bytes as LZ4
    bool has_lz4;         // some section is
    bool has_periods;     // some type has
    bool has_placed;      // some row has BLOCK_IDENTIFIED
    bool failed;
    uint64_t at;          // bytes that went to the sink
    struct arena arena;   // about
    struct buf services;  // of the footer
    struct buf placed;    // of the footer: by dataset its rows with BLOCK_IDENTIFIED
    uint64_t tail;        // where the last service ended
    struct buf contents;  // of the current section
    struct buf packed;
    struct compressor compressor;
    struct writer_service s;
    struct buf last_name;    // of the services
    struct block_row *rows;  // of the current frame; annotations are in row_arena
    size_t row_cap;
    uint32_t row_count;
    struct writer_parts row_parts;
    struct arena row_arena;
    struct block_spans spans;
    struct block_total *totals;
    size_t total_cap;
    uint32_t total_count;
    struct writer_parts total_parts;
    int64_t *column;  // scratch, for rows or totals of the current frame, or nodes
    size_t column_cap;
    struct block_written written;
};

// Contents of a section. At a split (0: none) bytes of another nature begin; the parts between
// splits are packed one by one.
struct writer_contents {
    str bytes;
    size_t splits[8];
    int level;    // of zstd, if the caller named none; 0: the usual
    bool packed;  // nothing is left to pack
};

// Packs contents if that wins and writes them to the sink, or appends them to *keep.
bool writer_section(struct block_writer *w, const struct writer_contents *c, const char *what,
                    struct buf *keep, struct block_extent *x, err *e) MUST_CHECK;
bool writer_section_of(struct block_writer *w, const struct buf *contents, const char *what,
                       struct buf *keep, struct block_extent *x, err *e) MUST_CHECK;
bool writer_emit(struct block_writer *w, str bytes, err *e) MUST_CHECK;

// The current service (writer_service.c). next: emptied for the next service; small arrays keep
// their memory.
void writer_service_init(struct block_writer *w);
void writer_service_next(struct block_writer *w);
void writer_service_release(struct block_writer *w);

// Room for n numbers in the column. It grows with rows, totals and nodes: most services have few.
bool writer_column(struct block_writer *w, size_t n, err *e) MUST_CHECK;
bool writer_frame_add(struct block_writer *w, struct writer_frames *f,
                      const struct block_frame *one, err *e) MUST_CHECK;

// Vectors of nodes by their entries (columns without head). find: the vector's number among the
// vectors of ALL or among the others; `all` finds only the former. keep: after a failed find, makes
// the vector known, if there is room.
void writer_share_init(struct writer_share *s, struct mem_budget *memory);
void writer_share_release(struct writer_share *s);
bool writer_share_find(struct writer_share *s, str entries, bool all, uint64_t *number,
                       bool *is_of_all) MUST_CHECK;
bool writer_share_keep(struct writer_share *s, str entries, bool all, uint64_t number,
                       err *e) MUST_CHECK;

// Ends the current frame, if there is one.
bool writer_cut_vectors(struct block_writer *w, struct writer_vectors *v, err *e) MUST_CHECK;
bool writer_cut_rows(struct block_writer *w, err *e) MUST_CHECK;
bool writer_cut_totals(struct block_writer *w, err *e) MUST_CHECK;

// The rows or totals from here on are of another type.
void writer_part(struct writer_parts *p, size_t at);

// Contents of the current frame. Details: *split is where ids begin.
void writer_heads(struct block_writer *w, struct buf *out);
bool writer_details(struct block_writer *w, struct buf *out, size_t *split, err *e) MUST_CHECK;

// Appends the ids of the current rows, which are the last part of their details.
bool writer_ids(struct block_writer *w, struct buf *out, size_t *split, err *e) MUST_CHECK;

// Contents of symbols; every stack has a frame, and they are in depth-first order. `sorted`:
// strings and functions in the order that makes them smallest, else as they are used first.
bool writer_symbols(const struct symbol_table *t, bool sorted, struct arena *scratch,
                    struct buf *out, struct writer_contents *c, err *e) MUST_CHECK;

// Contents of a frame of vectors, which are well-formed columns with stacks below stack_count.
bool writer_vectors(struct block_writer *w, const struct writer_vectors *v, struct buf *out,
                    struct writer_contents *c, err *e) MUST_CHECK;
void writer_totals(struct block_writer *w, struct buf *out);

// Contents of the index; writes nothing.
bool writer_index(struct block_writer *w, struct buf *out, err *e) MUST_CHECK;
