// SPDX-License-Identifier: Apache-2.0
//
// stacktraces.h - SelectMergeStacktraces and its older sister SelectMergeSpanProfile: one flame
// graph, tree or pprof over everything that matches.
#pragma once

#include "querier/answer/answer.h"

answer_fn stacktraces_merge;
answer_fn stacktraces_merge_spans;
