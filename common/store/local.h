// SPDX-License-Identifier: Apache-2.0
//
// local.h - a store in a directory of this machine.
//
//     <dir>/o/<name>        the objects
//     <dir>/t/<ulid>        files being written; left-over ones are swept at open
//     <dir>/t/lock          held while a process opens the store: tries it out and sweeps
//
// An upload writes its own file in t/, syncs it, and links it to its name (link(2) fails if the
// name is taken, so creation is atomic). Then it syncs the folder, and those above it that may be
// new. Folders are made when a name needs them and removed when the last object is gone. So a name
// cannot be an object and a folder at once: such a creation is invalid_argument. A crash may leave
// empty folders, which do no harm. Reads and writes use io_uring if the kernel allows it; otherwise
// the caller does them, with the help of threads if there are several (flametree_store_io shows
// which).
//
// A directory that disappears under a running process (moved, unmounted) is unavailable, not empty:
// lists and creations compare the folder o with that of the start.
//
// Several processes may use one directory at a time: each file in t/ is locked by its writer, and
// only files without a lock are swept. Open tries whether the file system keeps the promises of
// store.h (two links to one name, fsync of a folder); if not, it fails with failed_precondition.
// Reads that have begun are waited for, even if the request ends meanwhile.
#pragma once

#include "store/store.h"

struct store_local_options {
    const char *dir;            // made if it is not there
    struct mem_budget *memory;  // budget of buffers for reads and writes; may be NULL
    unsigned width;             // operations at once; 0: 16
    bool no_uring;              // use threads even if the kernel offers io_uring
    bool again;                 // a second client of a store that this process has open already
    bool read_only;             // makes, tries out and sweeps nothing; creations, deletions fail
};

// Returns owned.
struct store *store_open_local(const struct store_local_options *o, err *e) MUST_CHECK;
