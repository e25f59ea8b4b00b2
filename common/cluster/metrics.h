// SPDX-License-Identifier: Apache-2.0
//
// metrics.h - the metrics of the cluster as this node sees it.
#pragma once

#undef METRICS_OWNER
#undef METRICS_DEF
#define METRICS_OWNER cluster
#define METRICS_DEF   "cluster/metrics.def"
#include "sys/metric_rows.inc"
