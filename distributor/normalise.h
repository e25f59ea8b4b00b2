// SPDX-License-Identifier: Apache-2.0
//
// normalise.h - what Pyroscope does to every profile before it stores it, in place and pure.
#pragma once

#include "model/label.h"
#include "model/profile.h"

// Drops numeric and empty sample labels, samples with a negative value or without any value, frames
// that are neither named nor addressed together with their samples, and addresses in mappings whose
// functions are known. Equal stacks are left to be added up when they become vectors. What remains
// is what every total counts. False if memory is out (ask arena_ok).
bool normalise_profile(struct arena *a, struct profile *p) MUST_CHECK;

// Is it a profile of a Go program: as its spy label says, else as its own strings do?
bool normalise_is_go(const struct profile *p, labels ls);

// Removes [go.shape....] from function names, so that the instances of a generic are one function
// and their places one location.
bool normalise_go_names(struct arena *a, struct profile *p) MUST_CHECK;

// Gives stacks that Go's profiler cut at its depth limit their root again, where another stack of
// the profile tells it (normalise_stacks.c says how). Heap profiles whose deepest stack has 28 to
// 32 locations and CPU profiles with one of 60 or more.
bool normalise_go_stacks(struct arena *a, struct profile *p) MUST_CHECK;

// Both, in this order.
static inline bool normalise_go(struct arena *a, struct profile *p)
{
    return normalise_go_names(a, p) && normalise_go_stacks(a, p);
}

// If labels name repository, revision or path of the service's source, build ids become the JSON
// {"repository", "git_ref", "build_id", "root_path"} that source links are made from.
bool normalise_version(struct arena *a, struct profile *p, labels ls) MUST_CHECK;
