// SPDX-License-Identifier: Apache-2.0
//
// attime.h - times in URLs, of /ingest and /pyroscope/render: "1700000000", "1700000000123",
// "20240131", "now-1h30m".
//
// Spaces, '_' and ',' are left out. Digits only: 8 that form a date are that day in UTC; 13 are
// milliseconds, 16 microseconds, 19 nanoseconds, others seconds. Anything else is now, plus or
// minus an offset of numbers and units (s, m, h, d, w, mon or M = 30 d, y = 365 d) behind the first
// + or
// -. Nothing is an error. Pure.
#pragma once

#include "base/str.h"

// Unix nanoseconds; a time that does not fit 64 bits becomes the nearest that does.
int64_t attime_parse(str text, int64_t now_ns);
