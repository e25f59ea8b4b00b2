// SPDX-License-Identifier: Apache-2.0
//
// metrics.h - the metrics of the ingester.
#pragma once

#undef METRICS_OWNER
#undef METRICS_DEF
#define METRICS_OWNER ingester
#define METRICS_DEF   "ingester/metrics.def"
#include "sys/metric_rows.inc"
