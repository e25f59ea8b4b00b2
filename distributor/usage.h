// SPDX-License-Identifier: Apache-2.0
//
// usage.h - which usage groups a series belongs to, and which part of it is kept. Pure.
#pragma once

#include "model/label.h"
#include "service/limits.h"

struct usage_match {
    str configured;  // "app/${labels.service_name}"
    str resolved;    // "app/checkout"
    bool templated;
};

struct usage_matches {
    struct usage_match v[LIMITS_GROUPS_MAX];
    size_t n;
};

// The groups all of whose matchers hold for labels that the series has. A group whose name asks for
// a label that the series lacks is none. Resolved names live in the arena; if that is exhausted
// there are fewer.
void usage_find(struct arena *a, const struct usage_groups *g, labels ls,
                struct usage_matches *out);

// What sampling says of a series.
struct usage_sampling {
    const struct usage_match *match;  // NULL: no rule, all is kept
    double probability;
};

// The lowest probability of the groups; of equal ones that of a name without placeholders.
struct usage_sampling usage_sampling(const struct sampling *s, const struct usage_matches *groups);
