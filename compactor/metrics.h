// SPDX-License-Identifier: Apache-2.0
//
// metrics.h - the metrics of the compactor.
#pragma once

#undef METRICS_OWNER
#undef METRICS_DEF
#define METRICS_OWNER compactor
#define METRICS_DEF   "compactor/metrics.def"
#include "sys/metric_rows.inc"
