// SPDX-License-Identifier: Apache-2.0
//
// render.h - GET /pyroscope/render and /pyroscope/render-diff: a flame graph, its samples over
// time and in groups, as the JSON that Grafana's apps, Pyroscope's page and scripts read, or as
// DOT.
//
// The "message" of these requests is the query of their URL. Flame graph and samples come from one
// question, so the samples add up to the flame graph. Numbers are JSON numbers; keys come in the
// documented order.
#pragma once

#include "querier/answer/answer.h"

answer_fn render_run;
answer_fn render_diff;
