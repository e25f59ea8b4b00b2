// SPDX-License-Identifier: Apache-2.0
#include "store/metrics.h"

#define METRICS_DEFINE
#include "sys/metric_rows.inc"
