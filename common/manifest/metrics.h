// SPDX-License-Identifier: Apache-2.0
//
// metrics.h - the metrics of manifests.
#pragma once

#undef METRICS_OWNER
#undef METRICS_DEF
#define METRICS_OWNER manifest
#define METRICS_DEF   "manifest/metrics.def"
#include "sys/metric_rows.inc"
