// SPDX-License-Identifier: Apache-2.0
//
// holding.h - which data directories may hold rows of an ingester that are in no segment.
//
//     v1/nodes/ingester/<node>/<directory>.<number>     message Holding
//
// A data directory has a ULID. Its ingester creates the object before it acknowledges anything
// there, and deletes it when a clean end left the log empty and everything covered. Whoever runs
// under the same id with another directory sees by it that rows may be missing: those that were
// acknowledged there and not flushed. Nobody else deletes it but a person who accepts that loss.
//
// The objects of a directory are a sequence. Number n + 1 is created once all is flushed that was
// acknowledged before the creation of number n was over (ingester/roll.h); after that those before
// n are deleted. So whoever saw number k as the highest, and later k + 2, a lower one or none,
// knows that all is flushed that was acknowledged there before the first look
// (compactor/watch.h). The last two stay: a LIST that goes on while they change sees one.
// docs/formats/manifest.md has the bytes.
#pragma once

#include "manifest/names.h"
#include "store/store.h"

struct holding {
    str node;  // member id
    id128 directory;
    uint64_t number;       // the highest, when listed
    id128 boot;            // of the process that created the object
    str address;           // of its internal listener
    int64_t made_ns;       // wall clock of the creation of the directory's first
    int64_t rows_from_ns;  // no profile in the directory is older
};

// *existed: it was there before, maybe with other values.
bool holding_create(struct store *s, struct req *r, const struct holding *h, bool *existed,
                    err *e) MUST_CHECK;

// Those of a directory with numbers below that one, lowest first; UINT64_MAX: all.
bool holding_delete(struct store *s, struct req *r, str node, id128 directory, uint64_t below,
                    err *e) MUST_CHECK;

// The directories of a node, or all if it is empty, in order of names; the arena's. What cannot be
// decoded counts as well, with the time of its ULID: that something was there is certain.
bool holdings_list(struct store *s, struct req *r, struct arena *a, str node, struct holding **v,
                   size_t *n, err *e) MUST_CHECK;

// The highest number of each directory, by names only; the arena's, in order of names.
struct holding_at {
    str directory;  // <node>/<directory>, as in the name
    uint64_t number;
};
bool holdings_inspect(struct store *s, struct req *r, struct arena *a, struct holding_at **v,
                      size_t *n, err *e) MUST_CHECK;
