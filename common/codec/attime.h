// SPDX-License-Identifier: Apache-2.0
//
// attime.h - times as people and agents write them, in URLs (/ingest, /pyroscope/render) and on a
// command line: "1700000000", "1700000000123", "20240131", "now-1h30m", "2024-01-31T09:30:00Z".
//
// Digits: 8 that form a date are that day in UTC; 13 are milliseconds, 16 microseconds, 19
// nanoseconds, others seconds; a fraction may follow. "now" or nothing, then + or - and an offset
// of numbers and units (ns us ms s m h d w, M or mon of 30 days, y of 365 days, and their English
// words). RFC 3339, also with a space instead of the T, without seconds, without a zone (then it is
// UTC), or a date alone. Spaces, '_' and ',' are left out of the first two; a '+' that became a
// space in a URL is still read. All else is refused. Pure.
#pragma once

#include "base/err.h"
#include "base/str.h"

// Unix nanoseconds; a number or an offset that does not fit 64 bits becomes the nearest that does.
// Fails with invalid_argument, with the text and examples; callers name the parameter.
bool attime_parse(str text, int64_t now_ns, int64_t *ns, err *e) MUST_CHECK;
