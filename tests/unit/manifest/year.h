// SPDX-License-Identifier: Apache-2.0
//
// year.h - the manifest of a tenant of 400 days, as compactors leave it: leaves of 14 days and the
// names of those that expired, h blocks of 90 days, a d block a day and one a window.
#pragma once

#include "unit/manifest/bench.h"

#include <stdlib.h>

#define YEAR_DAYS     400
#define YEAR_RAW_DAYS 14
#define YEAR_H_DAYS   90
#define YEAR_LAST     (BENCH_HOUR / 24)  // the day that is not over
#define YEAR_LATE     8  // every so many hours of the last day a leaf of late rows, not folded yet

// Ids of a real writer: the rest is random.
id128 year_id(int64_t hour, uint32_t nr);

struct year {
    struct bench *b;
    struct arena arena;  // of a commit
    struct manifest_block *add;
    size_t n;
    struct manifest_cover *covers;  // of the block that was added last
    id128 *expire;
    size_t expired;
};

// Window by window: leaves with their parents, then what is over.
void year_make(struct bench *b);
