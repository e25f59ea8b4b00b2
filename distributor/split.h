// SPDX-License-Identifier: Apache-2.0
//
// split.h - one profile with labels on its samples becomes several series.
//
// Samples are grouped by their labels except span_id and trace_id (profile_id is an old name of
// span_id), which stay with the sample. A group's label set is the profile's labels and its own,
// where a label of the profile that is not empty wins; then the caller's function changes or drops
// it (relabelling rules, validation); groups whose sets became equal are one. Pure.
#pragma once

#include "model/label.h"
#include "model/profile.h"

struct split_group {
    labels ls;  // sorted; names may repeat if the client sent them so (validation tells)
    uint64_t fingerprint;
    const uint32_t *rows;  // samples, in order
    uint32_t row_count;
};

// Where the time of a sample was spent; zero if unknown.
struct split_origin {
    uint64_t span_id;
    uint8_t trace_id[16];
    bool has_trace;
};

struct split {
    struct split_group *groups;
    uint32_t group_count;
    uint64_t sent;                 // hash of the labels that the client sent for the profile
    struct split_origin *origins;  // a row for each sample; NULL if no sample has one
    uint32_t dropped;              // samples that are in no group
};

// Gives each group's set its final form: a sorted set in the arena, or *keep = false.
struct split_finish {
    bool (*run)(void *arg, struct arena *a, labels *ls, bool *keep, err *e);
    void *arg;
};

// `ls` are the client's labels, sorted; `finish` may be NULL. Memory is the arena's, strings are
// borrowed. Fails with resource_exhausted, or as `finish` does.
bool split_profile(struct arena *a, const struct profile *p, labels ls,
                   const struct split_finish *finish, struct split *out, err *e) MUST_CHECK;

// The labels of the series of a sample type: those that storage adds (__profile_type__ and its
// parts, __service_name__) over `ls`, without those that are not for storage.
labels split_series(struct arena *a, labels ls, const struct profile *p, uint32_t type);
