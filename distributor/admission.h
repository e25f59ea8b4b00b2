// SPDX-License-Identifier: Apache-2.0
//
// admission.h - what a tenant pays for and may push, asked of every profile before it is looked at:
//
//     quota reached? -> rate -> quota of a usage group reached? -> sampling
//
// A quota that is reached lets a few profiles through, which are marked; so are those that sampling
// kept. Pure: state, time and chance are behind functions.
#pragma once

#include "base/arena.h"
#include "distributor/discard.h"
#include "distributor/usage.h"

// How a profile passed.
struct admission_pass {
    bool dropped;          // by sampling: accepted, and not stored
    bool stripped;         // by sampling: only its totals are stored
    label annotations[2];  // pyroscope.ingest.throttled and .sampled; values in the arena
    uint32_t annotation_count;
};

struct admission {
    struct arena *a;
    const struct limits *limits;
    bool (*take_rate)(void *arg, uint64_t bytes);  // NULL: no rate
    bool (*take_quota)(void *arg, str group);      // may it pass though the quota is reached?
    double (*chance)(void *arg);                   // in [0, 1)
    void (*received)(void *arg, uint64_t bytes);   // by `groups`; NULL: nobody counts
    void *arg;
    struct usage_matches groups;  // of the last profile
};

// May a profile pass that costs `bytes`: its encoded bytes and its labels? False with the answer
// (resource_exhausted) and the reason for its counter.
bool admission_pass(struct admission *g, labels ls, uint64_t bytes, struct admission_pass *pass,
                    enum discard_reason *why, err *e) MUST_CHECK;
