// SPDX-License-Identifier: Apache-2.0
//
// flags.h - capabilities.v1.FeatureFlagsService/GetFeatureFlags: what this server can do, by the
// names that clients look for.
#pragma once

#include "querier/answer/answer.h"

answer_fn flags_run;
