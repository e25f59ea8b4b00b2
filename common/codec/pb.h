// SPDX-License-Identifier: Apache-2.0
//
// pb.h - the protobuf wire format by hand: a pull reader, a writer, and the guarded way to
// protobuf-c.
//
// The reader walks one message over borrowed bytes, without allocating. It accepts all that the
// format allows (fields in any order, packed or not) and fails with invalid_argument on bytes that
// can never be right: a length past the end, field number 0, groups, a cut varint. Source:
// https://protobuf.dev/programming-guides/encoding/.
//
//     struct pb_reader r = pb_reader(bytes);
//     while (pb_next(&r)) switch (r.field) { case 1: name = r.bytes; break; ... }
//     if (!pb_done(&r, e)) return err_wrap(e, "Batch");
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "codec/varint.h"

#include <protobuf-c/protobuf-c.h>

enum pb_type {
    PB_VARINT = 0,
    PB_FIXED64 = 1,
    PB_BYTES = 2,
    PB_FIXED32 = 5
};

struct pb_reader {
    const uint8_t *at;
    const uint8_t *end;
    uint32_t field;  // of the field that pb_next returned
    enum pb_type type;
    uint64_t number;    // value of VARINT, FIXED64, FIXED32
    str bytes;          // value of BYTES; borrows from the message
    const char *fault;  // NULL while all is well
};

struct pb_reader pb_reader(str message);
bool pb_next(struct pb_reader *r);                           // false at the end or at a fault
bool pb_done(const struct pb_reader *r, err *e) MUST_CHECK;  // false if it was a fault

// Calls for a repeated varint field, packed or not: the values of the current field one by one.
// Start with *at = NULL; false when there are no more (or a fault, which pb_done then reports).
bool pb_packed_next(struct pb_reader *r, const uint8_t **at, uint64_t *v);

// ---- writing. Zero values are left out by the *_opt forms only.
void pb_put_varint(struct buf *b, uint64_t v);
void pb_put_u64(struct buf *b, uint32_t field, uint64_t v);
void pb_put_u64_opt(struct buf *b, uint32_t field, uint64_t v);
void pb_put_i64_opt(struct buf *b, uint32_t field, int64_t v);
void pb_put_double_opt(struct buf *b, uint32_t field, double v);
void pb_put_fixed64_opt(struct buf *b, uint32_t field, uint64_t v);
void pb_put_bytes(struct buf *b, uint32_t field, str s);
void pb_put_bytes_opt(struct buf *b, uint32_t field, str s);

// A nested message or packed field of unknown length: write its content between begin and end. end
// inserts the length, for which it moves the content: cheap if it is small.
size_t pb_begin(struct buf *b, uint32_t field);
void pb_end(struct buf *b, size_t mark);

// The same into memory that the caller has reserved: at most PB_RAW_MAX bytes for each, and those
// of the string. Only for fields below 16. They return the place for the next one.
#define PB_RAW_MAX (1 + VARINT_MAX)

static inline uint8_t *pb_raw_varint(uint8_t *at, uint64_t v)
{
    return at + varint_put(at, v);
}
static inline uint8_t *pb_raw_u64(uint8_t *at, uint32_t field, uint64_t v)
{
    *at++ = (uint8_t)(field << 3 | PB_VARINT);
    return pb_raw_varint(at, v);
}
static inline uint8_t *pb_raw_u64_opt(uint8_t *at, uint32_t field, uint64_t v)
{
    return v ? pb_raw_u64(at, field, v) : at;
}
static inline uint8_t *pb_raw_fixed64_opt(uint8_t *at, uint32_t field, uint64_t v)
{
    if (!v) return at;
    *at++ = (uint8_t)(field << 3 | PB_FIXED64);
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(v >> (8 * i));
    return at + 8;
}
// The head of a message or string of n bytes, which follow.
static inline uint8_t *pb_raw_head(uint8_t *at, uint32_t field, size_t n)
{
    *at++ = (uint8_t)(field << 3 | PB_BYTES);
    return pb_raw_varint(at, n);
}
static inline uint8_t *pb_raw_bytes(uint8_t *at, uint32_t field, str s)
{
    at = pb_raw_head(at, field, s.n);
    if (s.n) __builtin_memcpy(at, s.p, s.n);
    return at + s.n;
}
static inline uint8_t *pb_raw_bytes_opt(uint8_t *at, uint32_t field, str s)
{
    return s.n ? pb_raw_bytes(at, field, s) : at;
}

// ---- protobuf-c: no other code may call its unpack
//
// protobuf_c_message_unpack recurses without limit and amplifies (8 MB of "12 00" became 379 MB),
// so a message from outside is scanned against its descriptor first: depth <= 100, well-formed
// wire, string fields valid UTF-8 without NUL, singular messages only once (its merging is
// unsound), and the memory that unpacking takes at least; then it is unpacked into the arena, whose
// cap holds. Returns memory of the arena. Fails with invalid_argument (malformed) or
// resource_exhausted (too large).
ProtobufCMessage *pb_unpack(struct arena *a, const ProtobufCMessageDescriptor *desc, str bytes,
                            err *e) MUST_CHECK;
void pb_pack(const ProtobufCMessage *m, struct buf *out);

// The scan alone, without a limit of memory: is this a message of that kind?
bool pb_check(const ProtobufCMessageDescriptor *desc, str bytes, err *e) MUST_CHECK;

// A NUL-terminated string field as str, and a bytes field as str.
static inline str pb_text(const char *z)
{
    return str_of(z);
}
static inline str pb_blob(ProtobufCBinaryData d)
{
    return str_make(d.data, d.len);
}
// An arena copy with NUL, for setting string fields; never NULL (an exhausted arena gives "").
char *pb_z(struct arena *a, str s);
