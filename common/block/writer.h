// SPDX-License-Identifier: Apache-2.0
//
// writer.h - a block, written from front to back.
//
//     block_begin
//       block_service                   services in byte order of their names
//         block_dropped                 before the first PROJECTION key of a type
//         block_vector, block_vectors_apart   any time before the row that names it
//         block_key                     in order of type, class, labels
//           block_period                any time
//           block_node*                 in order of width, slot
//           block_total*                in order of slot
//           block_row*                  SERIES only, in order of time, then id
//     block_finish | block_abandon
//
// Bytes go to a sink as they come: vectors of rows and series are never kept, the rest of a service
// is kept packed until it ends. The writer's memory counts against the budget. Order, ids of
// vectors against the symbols and totals against vectors are checked (a fault of ours is found here
// and not by a reader); such a fault is internal. One thread.
#pragma once

#include "block/block.h"
#include "model/columns.h"

struct block_writer;

// Takes the next bytes of the block.
typedef bool block_sink(void *arg, str bytes, err *e);

struct block_writer_options {
    struct block_about about;  // copied
    block_sink *sink;
    void *arg;
    struct mem_budget *memory;
    int zstd_level;  // 0: the default for the kind; below 0: nothing is packed, for tests
};

// Returns owned; NULL and *e set on failure.
struct block_writer *block_begin(const struct block_writer_options *o, err *e) MUST_CHECK;

// Begins a service, ending the one before. The table is encoded at once and not kept; its stacks
// must be in depth-first order (order.h). Rows of its other tables that no stack needs are left
// out.
bool block_service(struct block_writer *w, str name, const struct symbol_table *t,
                   err *e) MUST_CHECK;

// Ends the current service, if there is one, as the next block_service or block_finish would do.
// For a caller that holds a lock while it begins the next service.
bool block_service_end(struct block_writer *w, err *e) MUST_CHECK;

// A vector for rows of this service (columns); *number names it. The writer does not look for equal
// vectors: a caller whose rows share a vector passes it once and uses its number for all of them.
bool block_vector(struct block_writer *w, str columns, uint64_t *number, err *e) MUST_CHECK;

// Says that queries seldom read the next vectors together with the last ones: ends the frame of
// vectors, if it is large enough.
bool block_vectors_apart(struct block_writer *w, err *e) MUST_CHECK;

// The labels that projections of a type leave out, in order. Without it they leave out none.
bool block_dropped(struct block_writer *w, str type, const str *names, size_t n, err *e) MUST_CHECK;

bool block_key(struct block_writer *w, enum block_class class, str type, labels ls,
               err *e) MUST_CHECK;
bool block_node(struct block_writer *w, const struct block_node *n, str columns, err *e) MUST_CHECK;
bool block_total(struct block_writer *w, const struct block_total *t, err *e) MUST_CHECK;
bool block_row(struct block_writer *w, const struct block_row *row, err *e) MUST_CHECK;

// Adds to the placings of the footer, beside those of the options (model/placings.h); at any time.
void block_placing(struct block_writer *w, uint64_t placing);

// The period of profiles whose sums the block has, of the current key's type (model/period.h).
// Those of rows are known from the rows.
void block_period(struct block_writer *w, int64_t period);

// Facts of a finished block.
struct block_written {
    uint64_t bytes;
    uint64_t rows;
    uint64_t profiles;  // of all ALL nodes or rows
    int64_t first_ns;   // times of the first and last profile
    int64_t last_ns;
    uint32_t services;
    uint32_t classes;
};
// Writes the footer. The writer is freed in any case.
bool block_finish(struct block_writer *w, struct block_written *out, err *e) MUST_CHECK;
void block_abandon(struct block_writer *w);
