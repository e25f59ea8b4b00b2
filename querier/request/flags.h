// SPDX-License-Identifier: Apache-2.0
//
// flags.h - capabilities.v1.FeatureFlagsService/GetFeatureFlags: the features of this server, under
// the names that clients look for.
#pragma once

#include "querier/answer/answer.h"

answer_fn flags_run;
