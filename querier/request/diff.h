// SPDX-License-Identifier: Apache-2.0
//
// diff.h - Diff: two merges in one flame graph, or in one table of functions.
#pragma once

#include "querier/answer/answer.h"

answer_fn diff_run;
