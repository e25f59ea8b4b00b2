// SPDX-License-Identifier: Apache-2.0
//
// req.h - one request or duty in progress: the first parameter of everything below a handler.
//
// It carries the memory, tenant, deadline and cancel flag that all work for it obeys. A job made by
// another job (a call inside the node) has a separate req whose deadline is not later. call_wait
// and lanes check deadline and cancel; long loops of the services call req_alive as they go.
#pragma once

#include "base/arena.h"
#include "sys/log.h"

#include <stdatomic.h>

// The order in which jobs may wait for jobs, on one node or between nodes: only for those of a
// higher rank. Otherwise all workers of two lanes could wait for each other, and the cluster would
// stop for good. call_gather asserts it.
enum rank {
    RANK_DUTY,      // flush, adopt, compact, self profile
    RANK_PUBLIC,    // public requests
    RANK_QUERIER,   // blocks that a query reads before its plan stands
    RANK_INGESTER,  // Append, HeadRead
    RANK_DISK,      // blocking file work
    RANK_COUNT,
};

struct req {
    struct arena arena;
    str tenant;                 // "anonymous" when multi-tenancy is off; reads: sorted, "a|b"
    uint64_t deadline_mono_ns;  // 0 = none
    atomic_bool canceled;       // the asker is gone
    const struct req *asker;    // of a call within the process: canceled with it; NULL: none
    enum rank rank;
    struct log_fields log;
    char request_id[27];  // ULID
};

// memory: budget that the arena counts against; cap in bytes. timeout_ns 0 = no deadline. The
// tenant is empty until the caller sets it. A req must not be moved: its log fields point into it.
void req_init(struct req *r, enum rank rank, struct mem_budget *memory, size_t cap,
              uint64_t timeout_ns);
void req_release(struct req *r);

// Fails with canceled or deadline_exceeded.
bool req_alive(const struct req *r, err *e) MUST_CHECK;

// Nanoseconds until the deadline, 0 if it has passed, UINT64_MAX if there is none.
uint64_t req_left_ns(const struct req *r);
