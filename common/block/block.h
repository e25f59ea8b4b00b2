// SPDX-License-Identifier: Apache-2.0
//
// block.h - a block: one immutable object of profiles, or of sums of profiles, complete in itself.
//
// Four kinds, one format (docs/formats/block.md has the bytes); parts that a kind does not use are
// empty:
//
//     SEGMENT  one cut of a stream within one hour: rows, the hour's ALL node of each dataset
//     RAW      an hour of a pack: rows, 5-minute nodes of ALL       a leaf of the segment tree
//              (or a day of few rows: hour nodes of ALL)
//     HOURS    hours of one day: hour nodes, minute totals
//     DAYS     days of one window of 28: day nodes, hour totals, week nodes, the root
//
// A block holds services in byte order of their names. Each has
//
//     symbols   one table (model/symbols.h) whose stacks are in depth-first order, so the stacks
//               below a stack are a range of rows; ids of vectors are rows of this table
//     keys      nodes, totals and rows belong to keys, in the order of type, class, labels:
//                 ALL          a profile type of the service, without series that carry
//                              __sampled__="true"
//                 PROJECTION   such series without the labels that churn
//                 SERIES       a series, all labels (the profile type included)
//     nodes     by key: a slot of the grid (model/slot.h) with vector, profiles, total, first and
//               last time
//     totals    by key: slots of the block's fine width (minute, hour) with sum and profiles
//     (both sum all rows, whatever their attempt: a query that must leave a row out reads rows)
//     rows      by SERIES key, by time: profiles with vectors, spans and annotations
//
// A block is made of sections. Each has its own CRC32C; most are compressed by zstd (small ones of
// a SEGMENT by LZ4) where that saves bytes. A reader uses a section only after its CRC was compared
// and its contents were checked.
//
//     sections of a service: bulk (vectors of rows and series), spans, details, heads | totals,
//     index, symbols, vectors of ALL       ... then the footer: all services, and where they are
//
// The last four of a service lie together, so that a flame graph without other matchers costs one
// read after the footer.
#pragma once

#include "base/arena.h"
#include "base/ulid.h"
#include "model/label.h"
#include "model/placings.h"
#include "model/slot.h"
#include "model/symbols.h"

enum block_kind {
    BLOCK_SEGMENT = 1,
    BLOCK_RAW = 2,
    BLOCK_HOURS = 3,
    BLOCK_DAYS = 4
};

enum block_class {
    BLOCK_ALL = 0,
    BLOCK_PROJECTION = 1,
    BLOCK_SERIES = 2,
    BLOCK_CLASSES
};

// Facts of a block as its footer has them. Borrows.
struct block_about {
    enum block_kind kind;
    id128 id;  // ULID; of a segment 0: its name says it all
    str tenant;
    int64_t from_hour;  // covers hours from_hour .. from_hour + hours - 1 (Unix hours, slots)
    uint32_t hours;
    uint32_t pack_lo;  // services whose block_pack() is within [pack_lo, pack_hi]
    uint32_t pack_hi;
    uint32_t part;       // it has the series whose block_part() of `parts` is this
    uint32_t parts;      // 0 and 1: it has all series
    uint32_t classes;    // 1 << enum block_class: the classes of its keys
    const str *sources;  // of a leaf: names of the segments that it holds (the part behind live/a/)
    size_t source_count;
    struct placings placings;  // of segments and leaves: those that rows came with
};

// Where a service belongs among packs: the upper half of XXH64 of its name.
uint32_t block_pack(str service);

// The part, of so many, that a series belongs to: by the sum of the fingerprints of its labels
// without those of its type, so that the sample types of a profile stay together.
#define BLOCK_PARTS_MAX 4096
uint32_t block_part(labels series, uint32_t parts);

struct block_node {
    int64_t slot;   // number in slots of `width`
    int64_t width;  // SLOT_FIVE, SLOT_HOUR, SLOT_DAY, SLOT_WEEK, SLOT_WINDOW
    uint64_t profiles;
    int64_t total;     // stack 0 included
    int64_t first_ns;  // times of its first and last profile
    int64_t last_ns;
};

struct block_total {
    int64_t slot;
    int64_t sum;
    uint64_t profiles;
};

struct block_span {
    uint64_t span_id;
    bool has_trace;
    id128 trace;
    str vector;  // columns; its values are included in the row's vector
};

// In an attempt: the client gave an id, and the row was at its home (model/placings.h).
#define BLOCK_IDENTIFIED 0x80000000u
static inline uint32_t block_attempt(uint32_t attempt)
{
    return attempt & ~BLOCK_IDENTIFIED;
}

struct block_row {
    int64_t time_ns;
    id128 id;
    int64_t total;
    uint64_t vector;  // number of a vector of this service; rows may share one
    int64_t factor;   // the vector counts so many times
    int64_t duration_ns;
    int64_t period;
    uint32_t attempt;  // with BLOCK_IDENTIFIED, if the block's placings have this row's
    bool has_first_stream;
    id128 first_stream;
    labels annotations;
    const struct block_span *spans;
    size_t span_count;
};
