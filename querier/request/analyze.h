// SPDX-License-Identifier: Apache-2.0
//
// analyze.h - AnalyzeQuery: how much a query would read.
//
// One scope, "Short term storage": the number of streams with matching profiles, and their series,
// profiles, samples and bytes. Each ingester counts for itself, so a series that two of them have
// counts twice. Bytes of symbols and indexes are those of whole services. The answer is the empty
// message if there is nothing to read, or no range.
#pragma once

#include "querier/answer/answer.h"

answer_fn analyze_run;
