// SPDX-License-Identifier: Apache-2.0
//
// cli_import.h - import: profiles of files or of another server, in requests to a compactor.
//
//     cli_import.c         the command: options, the last words
//     cli_import_send.c    pieces: profiles are gathered, sent, and sent again while the compactor
//     is
//                          busy; what is done goes into the state file
//     cli_import_files.c   files, in order of time
//
// A piece is made of whole hours, or is a part of one hour: then it begins at a place that depends
// on this hour alone. So an import that is repeated is cut in the same way, and the compactor
// recognises it hour by hour (compactor/import.h), without a look at single rows.
//
// The state file has a line for each piece that is done: a hash of what it was made of. An import
// that is given it again does not even read those.
#pragma once

#include "deploy/cli/cli_progress.h"
#include "deploy/cli/cli_retry.h"
#include "model/label.h"

#define IMPORT_PART ((size_t)16 << 20)  // a larger hour is sent in parts, of about so many bytes
#define IMPORT_MANY ((size_t)4 << 20)   // a piece that has so many gets no further hour
// Nor one of so many hours, each of which is an object to create before the answer: in a bucket
// that takes 20 to 100 ms, one after the other, and a request has 30 s.
#define IMPORT_HOURS 256

// A profile of the piece that is gathered, for messages and the last words.
struct import_item {
    const char *name;
};

struct import {
    struct cli *c;
    struct cli_pace pace;
    struct cli_progress progress;
    uint64_t retries;
    bool dry;
    bool again;
    bool stop_at_fault;
    labels given;
    str name;  // --name
    // the state file
    const char *state_path;
    int state_fd;
    uint64_t *done;  // hashes, in order
    size_t done_count;
    // the piece
    struct arena piece;
    struct buf body;
    struct import_item *items;
    size_t item_count;
    size_t item_cap;
    size_t hour_bytes;  // of its last hour
    int64_t hour;
    unsigned hours;
    uint64_t key;  // hash of what it is made of
    // where it is
    double share;
    // counted
    uint64_t pieces;
    uint64_t profiles;
    uint64_t faults;
    uint64_t bytes;  // of profiles, uncompressed
    uint64_t rows;
    uint64_t rows_there;
    uint64_t store_bytes;
    uint64_t skipped;  // profiles of pieces that the state file has
};

bool import_open(struct import *m, struct cli *c, err *e) MUST_CHECK;
void import_close(struct import *m);

// Is the hour, or are so many bytes more of it, to begin a new piece?
bool import_is_full(const struct import *m, int64_t hour);

// Adds a profile. `pprof` may be gzipped; `bytes` is its uncompressed size. `name` is for messages
// and must outlive the piece.
struct import_profile {
    const char *name;
    labels ls;
    str id;
    str pprof;
    size_t bytes;
    int64_t hour;
};
bool import_add(struct import *m, const struct import_profile *p, err *e) MUST_CHECK;

// Sends the piece, if there is one, and notes `key` in the state file if it is not 0.
bool import_flush(struct import *m, uint64_t key, err *e) MUST_CHECK;
bool import_is_done(const struct import *m, uint64_t key);
void import_tell(struct import *m);  // draws the progress

// A profile that cannot be sent: says so, and fails if the import is to stop at the first.
bool import_fault(struct import *m, const char *name, const err *fault, err *e) MUST_CHECK;

// From files and folders.
bool import_files(struct import *m, int *status, err *e) MUST_CHECK;
