// SPDX-License-Identifier: Apache-2.0
//
// log_object.h - the bytes of one object of a log in the object store: entries of one cut, or a
// seal. docs/formats/object-log.md has them byte by byte.
//
//     format | head | CRC32C of these | entries | CRC32C of all
//
// The head has a check of its own and comes first, so that it can be read by itself: a reader plans
// with the first LOG_OBJECT_HEAD_MAX bytes of each object.
//
// Format 2 says how far the stream was covered when the object was written; format 1 does not. What
// that means is in object_log.h.
//
// Bytes come from a store that others can write to: everything is checked before it is used, and an
// object that is not as it should be is data_loss.
#pragma once

#include "base/buf.h"
#include "base/ulid.h"

#define LOG_OBJECT_HEAD_MAX 512  // bytes up to the end of the head's check
#define LOG_OBJECT_NODE_MAX 200  // bytes of the name of a sealer that are kept

// All objects below number `below` were covered when the object was written. So `below` is the
// first object of the oldest cut that was not: these are its number and its first seq.
struct log_object_bound {
    uint64_t below;  // 0: the object does not say it; it has format 1
    uint64_t cut;
    uint64_t seq;
};

struct log_object_head {
    id128 stream;
    uint64_t number;  // of the object in its stream, from 1
    id128 nonce;
    int64_t made_ns;  // wall clock
    bool seal;
    str node;               // of a seal: who made it. Decoded: borrows from the bytes
    uint64_t cut;           // of entries: the cut that they belong to,
    int64_t cut_opened_ns;  // wall clock at the cut's first entry
    uint64_t cut_first_seq;
    uint64_t first_seq;  // of the first entry here
    uint64_t count;      // of entries here, at least 1; their seqs follow each other
    struct log_object_bound covered;
};

struct log_object_entry {
    uint64_t seq;
    str tenant;
    uint64_t rows_before;  // records of the cut's earlier entries
    str rows;              // message LogRows
    str bytes;             // all of it: message Entry
};

struct log_object {
    struct log_object_head head;
    str entries;  // private
};

// ---- writing. The entries follow the head; there are head.count of them.
struct log_object_packer {
    struct buf *out;
    uint64_t seq;   // of the next entry
    uint64_t left;  // entries still to come
    uint64_t cut;
};

// Appends the object to `out`, which is empty, in format 1 if the head has no bound. Whether there
// was room is asked once, at the end.
void log_object_begin(struct log_object_packer *p, struct buf *out,
                      const struct log_object_head *h);
// The rows of an entry may come in two pieces: what it brings, and the rows themselves.
void log_object_add(struct log_object_packer *p, str tenant, uint64_t rows_before, str news,
                    str rows);
bool log_object_end(struct log_object_packer *p, err *e) MUST_CHECK;

// ---- reading. `stream` and `number` are those of the object's name.

// The head alone, from the first LOG_OBJECT_HEAD_MAX bytes (all, if there are fewer). data_loss.
bool log_object_decode_head(str bytes, id128 stream, uint64_t number, struct log_object_head *h,
                            err *e) MUST_CHECK;

// Whether an object that cannot be read seems to be of another format, and not damaged: its
// beginning matches its check.
bool log_object_is_foreign(str bytes);

// The whole object. *o borrows from the bytes. data_loss.
bool log_object_decode(str bytes, id128 stream, uint64_t number, struct log_object *o,
                       err *e) MUST_CHECK;

// The entries one by one; *rest begins as o->entries. False after the last.
bool log_object_next(str *rest, struct log_object_entry *x);
