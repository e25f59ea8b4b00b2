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

// Removes [go.shape....] from function names, so that the instances of a generic are one function.
bool normalise_go_names(struct arena *a, struct profile *p) MUST_CHECK;

// If labels name repository, revision or path of the service's source, build ids become the JSON
// {"repository", "git_ref", "build_id", "root_path"} that source links are made from.
bool normalise_version(struct arena *a, struct profile *p, labels ls) MUST_CHECK;
