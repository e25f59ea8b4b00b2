// SPDX-License-Identifier: Apache-2.0
//
// share.h - which jobs of a plan a process takes and in which order, and when it looks at an idle
// tenant. Pure.
//
// The names of the live compactors say who owns a job. A plan of few small jobs belongs as a whole
// to the tenant's first compactor, which looks at the tenant most often: a plan for each process
// would cost more than the jobs.
//
//     own jobs      at once, in the order of the plan
//     others' jobs  in time: ten minutes later for each place, in case the processes before are
//                   gone. Behind: at once, from the end of each owner's jobs; but as long as
//                   somebody is at work, only those that no other helper takes, and neither few
//                   small jobs nor the next ones of the owner, who may have made them
//
// All processes together look at an idle tenant once in ten intervals, at times derived from its
// name: in turn its first compactor and one of the others, so that all learn of a tenant that needs
// more than one.
//
// All of this only saves work. If two processes do the same job, one commit is refused.
#pragma once

#include "cluster/member.h"
#include "compactor/plan.h"
#include "sys/clock.h"

#define SHARE_WAIT_NS ((int64_t)600 * NS_PER_S)

// Such a plan is of few small jobs.
#define SHARE_FEW       8
#define SHARE_FEW_BYTES ((uint64_t)64 << 20)

// So many of its jobs are left to an owner that is at work: it may have done them already.
#define SHARE_NEXT 32

struct share_pick {
    size_t job;       // of the plan
    bool helps;       // another process is its owner
    bool shared;      // others may have done it: check that before it is begun
    int64_t from_ns;  // this process may take it from then on; wall clock
};

struct share {
    const struct member *members;  // compactors that are known
    size_t member_count;
    str me;
    str tenant;
    bool
        raced;  // jobs were lost to compactors that are not known: take jobs in an order of our own
    bool behind;  // every process may take every job
    bool moves;   // somebody has committed a job of the tenant in the last minute
};

// The place of this process among the live compactors for the tenant as a whole (0: its first, or
// alone), and how many they are.
struct share_place {
    size_t place;
    size_t count;
};
struct share_place share_place_of(struct arena *a, const struct share *s);
bool share_is_few(const struct plan *p);

// When this process looks next at an idle tenant, which is looked at once in every_ns.
int64_t share_idle_inspect(const struct share_place *p, str tenant, int64_t every_ns,
                           int64_t now_ns);

// All jobs of the plan, in the order in which to take them; the arena's. NULL: no memory.
struct share_pick *share_order(struct arena *a, const struct plan *p, const struct share *s,
                               err *e) MUST_CHECK;
