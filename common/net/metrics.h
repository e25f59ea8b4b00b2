// SPDX-License-Identifier: Apache-2.0
//
// metrics.h - what net counts; the rows are in metrics.def.
#pragma once

#undef METRICS_OWNER
#undef METRICS_DEF
#define METRICS_OWNER net
#define METRICS_DEF   "net/metrics.def"
#include "sys/metric_rows.inc"
