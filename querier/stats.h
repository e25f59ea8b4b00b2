// SPDX-License-Identifier: Apache-2.0
//
// stats.h - GetProfileStats: is there anything, and from when to when (pyroscope-api 6.15); and
// AnalyzeQuery.
#pragma once

#include "querier/answer.h"

answer_fn stats_run;

// Always the empty message, which is what the current Pyroscope answers; clients read it as "no
// analysis".
answer_fn stats_analyze;
