// SPDX-License-Identifier: Apache-2.0
//
// metrics.h - what rpc counts; the rows are in metrics.def.
#pragma once

#undef METRICS_OWNER
#undef METRICS_DEF
#define METRICS_OWNER rpc
#define METRICS_DEF   "rpc/metrics.def"
#include "sys/metric_rows.inc"
