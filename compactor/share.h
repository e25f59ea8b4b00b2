// SPDX-License-Identifier: Apache-2.0
//
// share.h - which jobs of a plan a process takes, and in which order. Pure.
//
// Rendezvous hashing over the live compactors orders them for each job: of an hour, a day or a
// window. The first is its owner.
//
//     own jobs      at once, in the order of the plan
//     others' jobs  after ten minutes for each place, in case those before are gone; at once when
//                   the tenant is behind. Those come first for which this process is second, of
//                   each owner the last job first: two that help never begin with the same job, and
//                   the owner comes the other way
//
// Nothing has to be right about it: what two do all the same only one commits.
#pragma once

#include "cluster/member.h"
#include "compactor/plan.h"
#include "sys/clock.h"

#define SHARE_WAIT_NS ((int64_t)600 * NS_PER_S)

struct share_pick {
    size_t job;       // of the plan
    bool shared;      // others may have done it: look before it is begun
    int64_t from_ns;  // wall clock at which this process may take it
};

struct share {
    const struct member *members;  // compactors that are known
    size_t member_count;
    str me;
    str tenant;
    bool raced;   // jobs were lost to compactors that are not known: go a way of our own
    bool behind;  // all may take everything
};

// All jobs of the plan, in the order in which to take them; the arena's. NULL: no memory.
struct share_pick *share_order(struct arena *a, const struct plan *p, const struct share *s,
                               err *e) MUST_CHECK;
