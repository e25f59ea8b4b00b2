// SPDX-License-Identifier: Apache-2.0
//
// local.h - a store in a directory of this machine.
//
//     <dir>/o/<name>        the objects
//     <dir>/t/<ulid>        what is being written; swept at open
//
//     <dir>/t/lock          held by who opens the store, until he has tried it out and swept
//
// An upload writes a file of its own in t/, syncs it, and links it to its name (link(2) fails if
// the name is taken, so creation is atomic), then syncs the folder, and those above it that may be
// new. Folders are made as names need them and removed when the last object is gone, so a name
// cannot be an object and a folder of others at once: such a creation is invalid_argument. A crash
// may leave empty folders, which do no harm. Reads and writes go through io_uring where the kernel
// lets us, otherwise the caller does them, with the help of threads where there are several;
// flametree_store_io says which.
//
// A directory that is gone under a running process (moved, unmounted) is unavailable and not empty:
// lists and creations compare the folder o with that of the start.
//
// Several processes may use one directory at a time: a file in t/ is locked by who writes it, and
// only files without a lock are swept. At open it is tried whether the file system keeps the
// promises of store.h (two links to one name, fsync of a folder); if not, open fails with
// failed_precondition. Reads that began are waited for, also when the request ends meanwhile.
#pragma once

#include "store/store.h"

struct store_local_options {
    const char *dir;            // made if it is not there
    struct mem_budget *memory;  // what reads and writes hold counts here; may be NULL
    unsigned width;             // operations at once; 0: 16
    bool no_uring;              // threads, whatever the kernel offers
    bool again;                 // another client of a store that this process has open already
    bool read_only;             // nothing is made, tried out or swept; creations and deletions fail
};

// Returns owned.
struct store *store_open_local(const struct store_local_options *o, err *e) MUST_CHECK;
