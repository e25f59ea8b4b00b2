// SPDX-License-Identifier: Apache-2.0
//
// aside.h - logs of streams that were forgotten, and what becomes of them when their disk is back.
//
//     aside_sort       at a start, before the log is read: what it holds of streams that were
//                      forgotten (manifest/forgotten.h) goes to <data>/ingester/forgotten/<stream>,
//                      a log each. It is neither read nor flushed, and a notice says where it is
//     aside_recover    a person takes a stream back: its rows are written to the store as a flush
//                      would have done it, under the same names, but for those that deletions hide:
//                      such as stand, and such as ended since the stream was forgotten
//     aside_remove    or removes it
//
// The last two clear the note of the stream once nothing of the log is left here. If they fail, or
// the process ends, the same call goes on: what is in the store is found there, and a log whose
// removal has begun is not there any more, neither for this call nor for aside_recover.
//
// A deletion that begins during a recovery is not known to it. It does not end so soon: it stays
// for compactor.deletion_stay, and finds what was recovered.
#pragma once

#include "base/buf.h"
#include "base/ulid.h"
#include "loop/req.h"

struct ingester;

// Asks the store for the streams that were forgotten, unless the log is empty. Fails with
// unavailable: the log must not be read yet. *any: some were set aside.
bool aside_sort(struct ingester *in, bool *any, err *e) MUST_CHECK;

// The streams that are set aside in this data directory; the arena's.
bool aside_list(const struct ingester *in, struct arena *a, id128 **v, size_t *n,
                err *e) MUST_CHECK;

// All streams that were forgotten, as JSON, and which are here.
bool aside_print(struct ingester *in, struct req *r, struct buf *out, err *e) MUST_CHECK;

struct aside_recovered {
    uint64_t segments;
    uint64_t rows;     // that were written
    uint64_t deleted;  // that deletions hide
    uint64_t lost;     // that could not be read
};

// not_found: it was not forgotten, or its log is not here.
bool aside_recover(struct ingester *in, struct req *r, id128 stream, struct aside_recovered *out,
                   err *e) MUST_CHECK;
bool aside_remove(struct ingester *in, struct req *r, id128 stream, err *e) MUST_CHECK;
