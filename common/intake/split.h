// SPDX-License-Identifier: Apache-2.0
//
// split.h - one profile with labels on its samples becomes several series.
//
// Samples are grouped by their labels, except span_id and trace_id (profile_id is an old name of
// span_id), which stay with the sample. A group's label set is that of the profile and its own; of
// two labels with the same name the profile's wins unless it is empty. Then the caller's function
// changes or drops the set (relabelling rules, validation), and groups whose sets became equal are
// put together. Pure.
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
    uint64_t sent;                 // hash of the client's labels; places the profile (dispatch.h)
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

// The labels of the series of a sample type: `ls` with the labels that storage adds
// (__profile_type__, its parts, __service_name__), without __delta__ and __order__.
labels split_series(struct arena *a, labels ls, const struct profile *p, uint32_t type);
