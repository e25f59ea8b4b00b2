// SPDX-License-Identifier: Apache-2.0
//
// compact.h - the compactor's plan and jobs, apart from the rest: its names meet others' there.
#pragma once

#include "manifest/manifest.h"

enum compact_end {
    COMPACT_NOTHING,  // no job is due
    COMPACT_DONE,
    COMPACT_FAILED
};

// One of the first due jobs of the tenant, planned from a snapshot of now. `random` says which, and
// how large blocks may become. retention_ns: how long leaves are kept; 0: for ever.
// hasty: what a commit did not do for certain is deleted.
// copies: when a leaf may expire; NULL: at once.
struct copies;
enum compact_end walk_job(struct manifests *ms, struct store *s, struct mem_budget *memory,
                          struct req *r, str tenant, int64_t retention_ns, uint64_t random,
                          bool hasty, struct copies *copies, err *e);

// A change of the manifest that no job may make: a leaf expires that only it has the rows of, or,
// with `dropped`, parents go that alone have the sums of an expired one. False: there is none.
bool walk_wrong_change(struct manifests *ms, struct req *r, str tenant, int64_t retention_ns,
                       bool dropped);
