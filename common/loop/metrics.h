// SPDX-License-Identifier: Apache-2.0
//
// metrics.h - the metrics of loops and lanes.
#pragma once

#undef METRICS_OWNER
#undef METRICS_DEF
#define METRICS_OWNER loop
#define METRICS_DEF   "loop/metrics.def"
#include "sys/metric_rows.inc"
