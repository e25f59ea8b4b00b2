// SPDX-License-Identifier: Apache-2.0
//
// cli_copy.h - copies a store to another one, tenant by tenant, while processes work on the first.
//
//     1. a snapshot of the tenant: its segments, then its newest version (manifest.h). Together
//     they
//        have every row once
//     2. the pages, blocks and segments of the snapshot are copied; those that the copy has
//     already,
//        with their size, are not. One that is gone was replaced meanwhile, and deleted after
//        delete_delay: again from 1, where only what is new since is left to do
//     3. once all tenants are copied the catalog is written (cli_catalog.h), and then the roots: a
//        version is there only if all that it names is there
//     4. what the copy has beyond that goes: older versions, objects that nothing names any more
//
// Killed at any point, the copy is the one before or the new one, for each tenant; another run goes
// on. Objects never change, so the CRC32C of one is that of all copies: it is computed while an
// object is read, compared with the catalog of the store that is read, if that is a copy, and with
// what was written, by reading that again.
//
// No hold is needed in the store: what a version names stays for delete_delay (2 h) after it was
// replaced, and a copy that takes longer takes another snapshot. Each round copies what is new
// since the last one, so they become shorter.
#pragma once

#include "deploy/cli/cli_catalog.h"
#include "deploy/cli/cli_progress.h"
#include "deploy/cli/cli_retry.h"
#include "manifest/manifest.h"

struct copy_root {
    str tenant;
    str name;
    struct buf bytes;
};

struct copying {
    struct cli *c;
    struct cli_progress progress;
    struct cli_pace pace;
    struct req req;
    struct arena arena;  // of the whole copy
    struct store *from;
    struct store *to;             // NULL: only a check
    struct manifests *manifests;  // of `from`
    struct catalog source;        // of `from`; empty if it is no copy
    struct catalog catalog;       // of `to`
    struct map there;             // names of objects in `to`: rows of `have`
    struct catalog_entry *have;   // with their sizes
    size_t have_count;
    size_t have_cap;
    struct copy_root *roots;
    size_t root_count;
    size_t root_cap;
    const char *tenant;  // only this one; NULL: all
    bool verify_kept;    // reads objects that are there already, too
    // counted
    uint64_t objects;  // that the copy has
    uint64_t bytes;
    uint64_t copied;
    uint64_t copied_bytes;
    uint64_t deleted;
    uint64_t mended;
    uint64_t snapshots;
};

// Opens `from` for reading and, unless it is NULL, `to`. Release in any case.
bool copying_open(struct copying *k, struct cli *c, const char *from, const char *to,
                  err *e) MUST_CHECK;
void copying_release(struct copying *k);

// fresh: a restore. `to` must have no version that the copy does not have; nothing is deleted
// there, and it gets no catalog. Else a backup: a `to` that has versions and no catalog is refused,
// unless the option adopt is given. It may be a store of servers, where what `from` does not name
// must stay.
bool copying_run(struct copying *k, bool fresh, err *e) MUST_CHECK;

// Reads every object of the catalog of `from` and compares. Damaged and missing ones are said;
// *faults counts them.
bool copying_check(struct copying *k, uint64_t *faults, err *e) MUST_CHECK;
