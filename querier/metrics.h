// SPDX-License-Identifier: Apache-2.0
//
// metrics.h - the rows of metrics.def as querier_<id>.
#pragma once

#define METRICS_OWNER querier
#define METRICS_DEF   "querier/metrics.def"
#include "sys/metric_rows.inc"
