// SPDX-License-Identifier: Apache-2.0
//
// holding.h - which data directories may hold rows of an ingester that are in no segment.
//
//     v1/nodes/ingester/<node>/<directory>     message Holding
//
// A data directory has a ULID. Its ingester creates the object before it acknowledges anything
// there, and deletes it when a clean end left the log empty and everything covered. Whoever runs
// under the same id with another directory sees by it that rows may be missing: those that were
// acknowledged there and not flushed. Nobody else deletes it but a person who accepts that loss.
// docs/formats/manifest.md has the bytes.
#pragma once

#include "manifest/names.h"
#include "store/store.h"

struct holding {
    str node;  // member id
    id128 directory;
    id128 boot;            // of the process that created the object
    str address;           // of its internal listener
    int64_t made_ns;       // wall clock of the creation
    int64_t rows_from_ns;  // no profile in the directory is older
};

// *existed: it was there before, maybe with other values.
bool holding_create(struct store *s, struct req *r, const struct holding *h, bool *existed,
                    err *e) MUST_CHECK;
bool holding_delete(struct store *s, struct req *r, str node, id128 directory, err *e) MUST_CHECK;

// Those of a node, or of all if it is empty, in order of names; the arena's. What cannot be decoded
// counts as well, with the time of its ULID: that something was there is certain.
bool holdings_list(struct store *s, struct req *r, struct arena *a, str node, struct holding **v,
                   size_t *n, err *e) MUST_CHECK;
