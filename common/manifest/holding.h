// SPDX-License-Identifier: Apache-2.0
//
// holding.h - which data directories may hold rows of an ingester that are in no segment.
//
//     v1/nodes/ingester/<node>/<directory>.<number>     message Holding
//
// A data directory has a ULID. Its ingester creates the object before it acknowledges anything
// there, and deletes it when a clean end left the log empty and everything covered. An ingester
// that runs under the same id with another directory learns from it that rows may be missing: those
// that were acknowledged in the first directory and not flushed. Only a person who accepts that
// loss may delete the object otherwise (flametree node forget).
//
// The objects of a directory are numbered. Number n + 1 is created once all rows are flushed that
// were acknowledged before the creation of number n had ended (ingester/roll.h); then the numbers
// below n are deleted. So if a process saw k as the highest number, and later k + 2 or more, a
// lower one, or none, all rows are flushed that were acknowledged there before it first looked
// (compactor/watch.h). The last two numbers stay, so that a LIST that runs while they change shows
// at least one.
//
// Number 0 is apart from this sequence. It says that the directory was in use at a later time than
// the numbers tell: a process that finds the numbers of an earlier one makes it anew at its start.
// Another directory's process needs that time, to know from when on this one took no profiles any
// more. Creation of a higher number deletes it. docs/formats/manifest.md has the bytes.
#pragma once

#include "manifest/names.h"
#include "store/store.h"

struct holding {
    str node;  // member id
    id128 directory;
    uint64_t number;       // the highest, when listed
    id128 boot;            // of the process that created the newest object
    str address;           // of its internal listener
    int64_t made_ns;       // wall clock when the directory's first object was created
    int64_t rows_from_ns;  // no profile in the directory is older
    int64_t seen_ns;       // wall clock when the newest object was created; 0: not known
    int64_t renewed_ns;    // the same for number 0; 0: there is none
};

// *existed: the object was there before, maybe with other values; it stays as it was.
bool holding_create(struct store *s, struct req *r, const struct holding *h, bool *existed,
                    err *e) MUST_CHECK;

// Creates number 0 of the directory, in the place of one that may be there.
bool holding_renew(struct store *s, struct req *r, const struct holding *h, err *e) MUST_CHECK;

// Deletes the directory's objects whose numbers are less than `below`, lowest first; UINT64_MAX:
// all.
bool holding_delete(struct store *s, struct req *r, str node, id128 directory, uint64_t below,
                    err *e) MUST_CHECK;

// The directories of a node, or of all nodes if `node` is empty, in order of names; the arena's. An
// object that cannot be decoded counts as well, with the time of its ULID: it is certain that a
// directory was there.
bool holdings_list(struct store *s, struct req *r, struct arena *a, str node, struct holding **v,
                   size_t *n, err *e) MUST_CHECK;

// The highest number of each directory, by names only; the arena's, in order of names.
struct holding_at {
    str directory;  // <node>/<directory>, as in the name
    uint64_t number;
};
bool holdings_inspect(struct store *s, struct req *r, struct arena *a, struct holding_at **v,
                      size_t *n, err *e) MUST_CHECK;
