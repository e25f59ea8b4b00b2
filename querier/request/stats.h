// SPDX-License-Identifier: Apache-2.0
//
// stats.h - GetProfileStats: whether there are profiles, and the times of the first and the last.
#pragma once

#include "querier/answer/answer.h"

answer_fn stats_run;
