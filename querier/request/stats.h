// SPDX-License-Identifier: Apache-2.0
//
// stats.h - GetProfileStats: is there anything, and from when to when.
#pragma once

#include "querier/answer/answer.h"

answer_fn stats_run;
