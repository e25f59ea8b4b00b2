// SPDX-License-Identifier: Apache-2.0
//
// cli_time.h - times as the client prints them; codec/attime.h reads them. Pure.
#pragma once

#include "base/buf.h"

// "2026-01-31 09:30:00", UTC.
void cli_time_put(struct buf *b, int64_t ns);

// "11:41 - 12:41" of one day, or with the days where they differ; for headings.
void cli_time_put_range(struct buf *b, int64_t from_ns, int64_t until_ns);
