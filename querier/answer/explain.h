// SPDX-License-Identifier: Apache-2.0
//
// explain.h - tells people how an answer was made: the header Flametree-Explain.
//
// A request with `Flametree-Explain: 1` gets one line of JSON, which `flametree query --explain`
// prints as text:
//
//     {"rounds":1,"plans":1,"objects":3,"nodes":40,"rows":0,"reads":4,"bytes":81234,
//      "rounded_ns":0,"missing":["..."],"ms":{"heads":1.2,...,"query":9.7},
//      "plan":["days    nodes  (...] v1/..."],"more":0}
//
// Plans of long ranges are cut to the first pieces; "more" is the number of the others.
#pragma once

#include "querier/answer/answer.h"
#include "querier/plan/levels.h"

#define EXPLAIN_MAX ((size_t)1 << 16)  // bytes of pieces that are remembered

// Remembers the pieces of a plan if the request asked for them; `sign` is put before each ("minus "
// for pieces that are subtracted).
void explain_plan(struct answer *a, str tenant, const char *sign, const struct level_plan *p);

// The header's value; the arena's.
str explain_text(struct answer *a, uint64_t took_ns);

// A time as text, UTC.
str explain_time(struct arena *a, int64_t ns);

// Server-Timing: the whole, then its phases.
str explain_timing(struct answer *a, uint64_t took_ns);
