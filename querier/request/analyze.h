// SPDX-License-Identifier: Apache-2.0
//
// analyze.h - AnalyzeQuery: what a query would read.
//
// One scope, "Short term storage": the streams that hold matching profiles, and of those series,
// profiles, samples and bytes. Figures are of each ingester on its own: a series that two of them
// have counts twice. Symbols and indexes are kept for a service, so theirs are of whole services.
// Nothing to read, or no range, is the empty message.
#pragma once

#include "querier/answer/answer.h"

answer_fn analyze_run;
