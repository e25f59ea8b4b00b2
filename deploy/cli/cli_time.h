// SPDX-License-Identifier: Apache-2.0
//
// cli_time.h - times as people write them on a command line. Pure.
#pragma once

#include "base/buf.h"

// Reads the grammar of /ingest (codec/attime.h): "now", "now-1h30m", digits, "20240131"; texts that
// /ingest ignores are errors here. Also RFC 3339: "2026-01-31T09:30:00Z", with a space instead of
// the T, without seconds, with a fraction, with an offset; without a zone it is UTC.
bool cli_time_parse(str text, int64_t now_ns, int64_t *ns, err *e) MUST_CHECK;

// "2026-01-31 09:30:00", UTC.
void cli_time_put(struct buf *b, int64_t ns);

// "11:41 - 12:41" of one day, or with the days where they differ; for headings.
void cli_time_put_range(struct buf *b, int64_t from_ns, int64_t until_ns);
