// SPDX-License-Identifier: Apache-2.0
//
// normalise.h - changes every profile before it is stored, as Pyroscope does where that loses no
// value; in place, pure.
#pragma once

#include "model/label.h"
#include "model/profile.h"

// Removes sample labels that are numeric or empty; samples with zeros only; and addresses of named
// functions in mappings whose functions are named. A location that says nothing gets the function
// [unknown] (model/marks.h). The sum of all values stays as it is: negative ones are kept, and so
// are samples whose frames say nothing, both of which Pyroscope removes. Samples with equal stacks
// stay apart until they become vectors. False without memory (ask arena_ok).
bool normalise_profile(struct arena *a, struct profile *p) MUST_CHECK;

// Whether it is a profile of a Go program: by its label pyroscope_spy, else by its strings.
bool normalise_is_go(const struct profile *p, labels ls);

// Removes [go.shape....] from function names, so that the instances of a generic are one function
// and their places one location.
bool normalise_go_names(struct arena *a, struct profile *p) MUST_CHECK;

// Gives stacks that Go's profiler cut at its depth limit their root back, if another stack of the
// profile has it (normalise_stacks.c says how). Only heap profiles whose deepest stack has 28 to 32
// locations, and CPU profiles with a stack of 60 or more.
bool normalise_go_stacks(struct arena *a, struct profile *p) MUST_CHECK;

// Both, in this order.
static inline bool normalise_go(struct arena *a, struct profile *p)
{
    return normalise_go_names(a, p) && normalise_go_stacks(a, p);
}

// If labels name repository, revision or path of the service's source, build ids become the JSON
// {"repository", "git_ref", "build_id", "root_path"} that source links are made from.
bool normalise_version(struct arena *a, struct profile *p, labels ls) MUST_CHECK;
