// SPDX-License-Identifier: Apache-2.0
//
// admission.h - whether a tenant may push a profile now, asked before the profile is checked:
//
//     quota reached? -> rate -> quota of a usage group reached? -> sampling
//
// A quota that is reached lets a few profiles through, with an annotation; profiles that sampling
// kept have one too. Pure: state, time and chance are behind functions.
#pragma once

#include "base/arena.h"
#include "intake/discard.h"
#include "intake/usage.h"

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
    bool (*take_quota)(void *arg, str group);      // true: it passes though the quota is reached
    double (*chance)(void *arg);                   // in [0, 1)
    void (*received)(void *arg, uint64_t bytes);   // counts bytes for `groups`; or NULL
    void *arg;
    struct usage_matches groups;  // of the last profile
};

// Whether a profile may pass. bytes: its uncompressed bytes and its labels. False with the answer
// (resource_exhausted) and the reason for the counter of discards.
bool admission_pass(struct admission *g, labels ls, uint64_t bytes, struct admission_pass *pass,
                    enum discard_reason *why, err *e) MUST_CHECK;
