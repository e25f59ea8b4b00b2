// SPDX-License-Identifier: Apache-2.0
//
// metrics.h - the rows of metrics.def as distributor_<id>.
#pragma once

#define METRICS_OWNER distributor
#define METRICS_DEF   "distributor/metrics.def"
#include "sys/metric_rows.inc"
