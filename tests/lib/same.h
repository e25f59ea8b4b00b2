// SPDX-License-Identifier: Apache-2.0
//
// same.h - aborts if two profiles have other stacks, texts of labels or values; frames have one
// line each. For fuzz targets.
#pragma once

#include "model/profile.h"

void same_profile(const struct profile *one, const struct profile *two);
