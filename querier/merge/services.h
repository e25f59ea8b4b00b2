// SPDX-License-Identifier: Apache-2.0
//
// services.h - sums of stacks, each service apart from the others (message ServiceSums).
//
// Sums of all services are added to one merge, because that is fast, and then one service whose
// values are absurd would spoil the answer for all. So a question whose sums do not fit int64 is
// asked once more, with sums by service, which are wide (model/wide.h), and answer/settle.h decides
// which of them the answer has.
//
// Arrays are the arena's, sums count against the budget. One thread at a time.
#pragma once

#include "base/map.h"
#include "model/merge.h"

struct service_sums {
    str service;
    struct merge stacks;  // wide
    uint64_t profiles;
};

struct services {
    struct arena *arena;
    struct mem_budget *budget;
    bool names_only;  // as in merge_init
    struct service_sums **v;
    size_t cap;
    uint32_t n;
    struct map by_name;
};

void services_init(struct services *s, struct arena *a, struct mem_budget *budget, bool names_only);
void services_release(struct services *s);  // idempotent; the zero value is fine

// The sums of a service, made if they are new. They stay where they are until services_release.
bool services_at(struct services *s, str service, struct service_sums **out, err *e) MUST_CHECK;

// Adds the bytes of one ServiceSums. Fails with invalid_argument if they are malformed.
bool services_add_bytes(struct services *s, str bytes, err *e) MUST_CHECK;

// Appends all as messages ServiceSums in `field`.
bool services_encode(const struct services *s, struct arena *scratch, struct buf *out,
                     uint32_t field, err *e) MUST_CHECK;
