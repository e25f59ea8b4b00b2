// SPDX-License-Identifier: Apache-2.0
//
// diff.h - Diff: two merges side by side in one graph.
#pragma once

#include "querier/answer/answer.h"

answer_fn diff_run;
