// SPDX-License-Identifier: Apache-2.0
//
// diff.h - Diff: two merges side by side in one graph (pyroscope-api 6.14).
#pragma once

#include "querier/answer.h"

answer_fn diff_run;
