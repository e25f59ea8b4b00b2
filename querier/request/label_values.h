// SPDX-License-Identifier: Apache-2.0
//
// label_values.h - GET /pyroscope/label-values?label=NAME[&from=&until=&query=]: the values of a
// label as a JSON array of strings, sorted. Without times, of the last hour. The label __name__
// stands for profile type ids; if there are none, the answer is null, as it always was.
#pragma once

#include "querier/answer/answer.h"

answer_fn label_values_run;
