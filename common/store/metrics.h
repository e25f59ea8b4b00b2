// SPDX-License-Identifier: Apache-2.0
//
// metrics.h - the metrics of stores.
#pragma once

#undef METRICS_OWNER
#undef METRICS_DEF
#define METRICS_OWNER store
#define METRICS_DEF   "store/metrics.def"
#include "sys/metric_rows.inc"
