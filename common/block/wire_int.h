// SPDX-License-Identifier: Apache-2.0
//
// wire_int.h - numbers, texts, extents and columns in the bytes of sections; private to writer*.c
// and reader*.c. docs/formats/block.md has the bytes.
//
// A wire walks contents that it borrows. Its first fault sticks: a reader reads straight through,
// gets zeros after the fault, and asks wire_done() once. A number by which memory is allocated is
// read with wire_count(), which compares it with the bytes that are left.
#pragma once

#include "base/buf.h"
#include "block/reader.h"
#include "codec/varint.h"

// In the classes of a footer: part and parts follow; placings follow, and at the end how many rows
// of each dataset have one.
#define BLOCK_CUT    8u
#define BLOCK_PLACED 16u

#define BLOCK_VERSION         6
#define BLOCK_VERSION_PERIODS 5  // of a block without placings that has periods,
#define BLOCK_VERSION_LZ4     4  // of one without periods that has sections packed as LZ4,
#define BLOCK_VERSION_PLAIN   3  // of one that has none of these
#define BLOCK_VERSION_MIN     2  // the oldest that is read: newer parts have form bytes of their own
#define BLOCK_SECTION_MAX     ((size_t)256 << 20)  // contents of a section
#define BLOCK_FRAME           ((size_t)256 << 10)  // contents of a frame, unless one item has more
#define BLOCK_FRAME_APART     ((size_t)32 << 10)  // smaller frames are not ended: they compress worse
#define BLOCK_RUN_MAX         65536               // rows or totals of a frame

// A section is not compressed further than that, so that a few bytes cannot claim much memory.
#define BLOCK_RAW_ANY   ((size_t)1 << 20)
#define BLOCK_RAW_TIMES 64

#define BLOCK_MAGIC "FTBL"

// A number for the width of a node, and back (0: none).
static inline int64_t block_width_of(uint8_t code)
{
    static const int64_t widths[] = {SLOT_FIVE, SLOT_HOUR, SLOT_DAY, SLOT_WEEK, SLOT_WINDOW};
    return code < COUNT(widths) ? widths[code] : 0;
}

// Hours whose slots of any width fit 64 bits.
#define BLOCK_HOUR_MAX (INT64_MAX / SLOT_HOUR - 1000)
static inline bool block_hours_are_sane(int64_t from, uint64_t hours)
{
    return from >= -BLOCK_HOUR_MAX && from <= BLOCK_HOUR_MAX && hours >= 1 &&
           hours <= (uint64_t)(BLOCK_HOUR_MAX - from);
}

// Entries of a frame of vectors.
#define BLOCK_BY_VECTOR 0
#define BLOCK_BY_STACK  1
#define BLOCK_MODELLED  2  // stack by stack, model_int.h

// Profile ids of a frame.
#define BLOCK_IDS_ANY      0  // 16 bytes each
#define BLOCK_IDS_UUID     1  // as uuid_profile makes them
#define BLOCK_IDS_SIBLINGS 2  // UUIDs, some as the difference to an earlier row's

// The bits in which the ids of two sibling rows differ; the six bytes of time are left out.
#define BLOCK_ID_TIME 6
struct block_id_bits {
    uint8_t b[16 - BLOCK_ID_TIME];
};

// Columns of symbols.
#define SYMBOL_FUNCTION_COLUMNS 4  // name, system name - name, file, start line
#define SYMBOL_MAPPING_COLUMNS  6  // start, limit, offset, file, build id, flags
#define SYMBOL_FRAME_COLUMNS    5  // function, line, mapping, address, inlined
#define SYMBOL_FRAME_LINE       1

// floor(time / 1 ms); of an id's time only 48 bits count.
static inline uint64_t block_ms_of(int64_t time_ns)
{
    int64_t ms = time_ns / 1000000;
    return (uint64_t)(time_ns % 1000000 < 0 ? ms - 1 : ms);
}

static inline bool block_is_sampled(labels ls)
{
    return str_is(labels_get(ls, S(LABEL_SAMPLED)), "true");
}

static inline bool block_raw_is_sane(uint64_t stored, uint64_t raw)
{
    return raw <= BLOCK_SECTION_MAX && raw <= BLOCK_RAW_ANY + BLOCK_RAW_TIMES * stored;
}

// Where sections are: form, stored, raw (form 2), CRC32C.
enum wire_extent {
    WIRE_NONE = 0,
    WIRE_PLAIN = 1,
    WIRE_PACKED = 2,
    WIRE_SEVERAL = 3,  // several sections; stored is their size together; no CRC32C
    WIRE_LZ4 = 4       // as WIRE_PACKED, an LZ4 block instead of zstd frames
};

struct wire {
    const uint8_t *at;
    const uint8_t *end;
    const char *fault;  // the first one
};

struct wire wire_of(str contents);
void wire_fail(struct wire *w, const char *fault);
bool wire_done(struct wire *w, const char *what, err *e) MUST_CHECK;  // at the end, no fault

uint64_t wire_u64_long(struct wire *w);  // more than one byte, or a fault
static inline uint64_t wire_u64(struct wire *w)
{
    return w->at < w->end && *w->at < 0x80 ? *w->at++ : wire_u64_long(w);
}
int64_t wire_i64(struct wire *w);
uint8_t wire_byte(struct wire *w);
uint32_t wire_fixed32(struct wire *w);
str wire_bytes(struct wire *w, uint64_t n);
str wire_str(struct wire *w);   // length, bytes
str wire_text(struct wire *w);  // the same, valid UTF-8
id128 wire_id(struct wire *w);

// A number of items that take at least `size` bytes each in the rest; more than fit are a fault,
// and 0 is returned.
uint64_t wire_count(struct wire *w, size_t size);

// A section at `at`; *end becomes where it ends. `several`: it may be WIRE_SEVERAL; then the extent
// is empty.
struct block_extent wire_extent(struct wire *w, uint64_t at, uint64_t *end, bool several);

// n numbers of a column.
void wire_numbers(struct wire *w, int64_t *to, size_t n);

// The numbers 0 .. n-1 by descending counts, which are at most `most`, equal ones ascending.
// `places` is scratch, most + 1.
void wire_by_count(const uint32_t *counts, uint32_t n, uint32_t most, uint64_t *places,
                   uint32_t *order);

// ---- writing
void wire_put_u64(struct buf *out, uint64_t v);
void wire_put_i64(struct buf *out, int64_t v);
void wire_put_fixed32(struct buf *out, uint32_t v);
void wire_put_str(struct buf *out, str s);
void wire_put_extent(struct buf *out, const struct block_extent *x);
void wire_put_numbers(struct buf *out, const int64_t *v, size_t n);
