// SPDX-License-Identifier: Apache-2.0
//
// share.h - which jobs of a plan a process takes, and in which order; and who looks at a tenant
// that is idle, when. Pure.
//
// Rendezvous hashing over the live compactors orders them for each job: of an hour, a day or a
// window. The first is its owner. A plan of few small jobs belongs to the tenant's first compactor
// as a whole, which is the one that looks at the tenant most often.
//
//     own jobs      at once, in the order of the plan
//     others' jobs  after ten minutes for each place, in case those before are gone; at once when
//                   the tenant is behind. Those come first for which this process is second, of
//                   each owner the last job first: two that help never begin with the same job, and
//                   the owner comes the other way
//
// A tenant without anything to do is looked at once in ten intervals, by all processes together: at
// times that the tenant's name says, in turn by its first compactor and by one of the others, so
// that all learn of a tenant that needs more than one.
//
// Nothing has to be right about it: what two do all the same only one commits.
#pragma once

#include "cluster/member.h"
#include "compactor/plan.h"
#include "sys/clock.h"

#define SHARE_WAIT_NS ((int64_t)600 * NS_PER_S)

// Such a plan is of few small jobs.
#define SHARE_FEW       8
#define SHARE_FEW_BYTES ((uint64_t)64 << 20)

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

// The place of this process among the live compactors for the tenant as a whole (0: its first, or
// alone), and how many they are.
struct share_place {
    size_t place;
    size_t count;
};
struct share_place share_place_of(struct arena *a, const struct share *s);
bool share_is_few(const struct plan *p, const struct share *s);

// When this process looks next at an idle tenant, which is looked at once in every_ns.
int64_t share_idle_inspect(const struct share_place *p, str tenant, int64_t every_ns,
                           int64_t now_ns);

// All jobs of the plan, in the order in which to take them; the arena's. NULL: no memory.
struct share_pick *share_order(struct arena *a, const struct plan *p, const struct share *s,
                               err *e) MUST_CHECK;
