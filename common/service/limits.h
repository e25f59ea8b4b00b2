// SPDX-License-Identifier: Apache-2.0
//
// limits.h - the limits of a tenant as a struct: rows of limits.def, and structs made from them.
//
// A limit that is more than a value is read as a YAML tree. limits_finish (limits.c) checks it and
// turns it into the structs that the write path uses: once per snapshot, not once per push. They
// live in the snapshot's arena and are immutable; other resources are hooked in with arena_defer.
#pragma once

#include "service/config.h"

struct relabel_rules;  // model/relabel.h
struct selector;       // model/label.h
struct relabelling;    // limits_relabel.c

#define LIMITS_GROUPS_MAX 50

// distributor_usage_groups: groups of series that a tenant wants counted, refused or sampled
// separately.
struct usage_group {
    str name;        // "app/${labels.service_name}": resolved with the labels of a series
    bool templated;  // has such a part
    const struct selector *selector;
};

struct usage_groups {
    const struct usage_group *v;  // sorted by name
    size_t n;
};

// ingestion_limit: the bytes that a tenant may push in a period. A program outside counts them and
// writes the overrides; only "reached" has an effect here.
struct quota_group {
    str name;  // as configured or resolved
    int64_t period_limit_mb;
    bool limit_reached;
};

struct quota {
    const char *period_type;  // "hour"
    int64_t period_limit_mb;
    int64_t limit_reset_s;  // Unix time
    bool limit_reached;
    int64_t sampled;           // pushes that pass though it is reached, in every ...
    int64_t sample_period_ns;  // ... of these
    const struct quota_group *groups;
    size_t group_count;
};

// distributor_sampling: the part of a group's profiles that is kept.
struct sampling_rule {
    str group;  // as configured
    double probability;
};

struct sampling {
    const struct sampling_rule *v;
    size_t n;
};

struct limits {
#define ROW(key, type, ...) CONFIG_##type key;
#include "service/limits.def"
#undef ROW
    const struct relabel_rules *relabel;        // of series: the tenant's and the default ones
    const struct relabel_rules *relabel_types;  // of sample types; both NULL before limits_finish
    const struct relabelling *relabelling;      // what these two were made of
    struct usage_groups usage_groups;
    bool refuses_faulty;        // faulty_profiles is refuse
    const struct quota *quota;  // NULL: none
    struct sampling sampling;
};

extern const struct config_section limits_section;
