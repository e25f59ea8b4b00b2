// SPDX-License-Identifier: Apache-2.0
//
// render_json.h - flame graphs as "flamebearer" JSON. Pure.
#pragma once

#include "base/buf.h"
#include "model/ptype.h"

struct render_ticks {
    int64_t left;  // of a diff
    int64_t right;
};

// {"names":..,"levels":..,"numTicks":..,"maxSelf":..} of the bytes of a FlameGraph or
// FlameGraphDiff, as model/flamegraph.h writes them.
bool render_flamebearer(str graph, struct render_ticks *ticks, struct buf *out, err *e) MUST_CHECK;

// {"format":..,"spyName":"","sampleRate":..,"units":..,"name":..}; format is "single" or "double".
void render_metadata(const char *format, const struct ptype *type, struct buf *out);
