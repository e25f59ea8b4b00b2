// SPDX-License-Identifier: Apache-2.0
//
// metrics.h - the metrics of the process as a whole.
#pragma once

#undef METRICS_OWNER
#undef METRICS_DEF
#define METRICS_OWNER service
#define METRICS_DEF   "service/metrics.def"
#include "sys/metric_rows.inc"
