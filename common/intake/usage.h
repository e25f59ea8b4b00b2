// SPDX-License-Identifier: Apache-2.0
//
// usage.h - which usage groups a series belongs to, and which part of it sampling keeps. Pure.
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

// The groups whose matchers all hold for labels that the series has. A group whose name has a
// placeholder for a label that the series lacks does not count. Resolved names are the arena's.
// Fails with resource_exhausted, and then there are none: with some of them missing, a profile
// would pass a quota or escape its sampling.
bool usage_find(struct arena *a, const struct usage_groups *g, labels ls, struct usage_matches *out,
                err *e) MUST_CHECK;

// The sampling of a series.
struct usage_sampling {
    const struct usage_match *match;  // NULL: no rule, all is kept
    double probability;
};

// The group with the lowest probability; of equal ones one whose name has no placeholders.
struct usage_sampling usage_sampling(const struct sampling *s, const struct usage_matches *groups);
