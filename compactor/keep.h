// SPDX-License-Identifier: Apache-2.0
//
// keep.h - how long the blocks of a tenant are kept: by their age, and by the bytes that the tenant
// may have. Pure.
//
// A tenant with too many bytes keeps its blocks for a shorter time, until nine tenths of its bytes
// are left: first single profiles, then hours, then everything; of each the oldest. So it is
// retirement with other periods. What relies on these (single profiles go only once days have their
// sums) holds for it as well. The newest two days always stay: they are what somebody who looks for
// a fault needs, and single profiles of a day cannot go before its day nodes are made.
#pragma once

#include "manifest/manifest.h"

#define KEEP_LEAST (2 * SLOT_DAY)

struct keep_rule {
    int64_t raw_ns;  // 0: for ever
    int64_t hours_ns;
    int64_t days_ns;  // everything
    uint64_t bytes;   // of segments and live blocks; 0: any number
};

struct keep {
    int64_t raw_ns;
    int64_t hours_ns;
    int64_t days_ns;
    bool by_size;   // some period is shorter than the rule says
    uint64_t over;  // bytes above the rule's that nothing older than KEEP_LEAST has
};

// What the segments that wait and the live blocks have, by enum block_kind - 1.
#define KEEP_KINDS ((size_t)BLOCK_DAYS)
struct keep_bytes {
    uint64_t v[KEEP_KINDS];
};
struct keep_bytes keep_count(const struct manifest_block *v, size_t n,
                             const struct snapshot_segment *segments, size_t segment_count);
uint64_t keep_total(const struct keep_bytes *b);

// v: the live blocks, in order of kind and from_hour.
struct keep keep_for(const struct keep_rule *rule, const struct keep_bytes *bytes,
                     const struct manifest_block *v, size_t n, int64_t now_ns);

// The part of a limit of all tenants that a tenant gets which has `have` of `all` bytes; at least
// 1, as 0 would be no limit.
uint64_t keep_share(uint64_t limit, uint64_t have, uint64_t all);
