// SPDX-License-Identifier: Apache-2.0
//
// merge_profile.h - SelectMergeProfile: everything that matches as one google.v1.Profile, for
// export and for go tool pprof. The answer is the profile message itself; without data it is empty.
#pragma once

#include "querier/answer/answer.h"

answer_fn merge_profile;
