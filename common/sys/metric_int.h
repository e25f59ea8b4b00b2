// SPDX-License-Identifier: Apache-2.0
//
// metric_int.h - private to metric*.c.
#pragma once

#include "sys/lock.h"
#include "sys/metric.h"

extern struct lock metric_lock;

// Escapes for HELP texts; with `quotes` for label values, where '"' is escaped as well.
void metric_print_escaped(struct buf *out, const char *z, bool quotes);

// ---- metric_set.c
bool metric_has_sets(const struct metric *m);
void metric_print_sets(struct buf *out, const struct metric *m);
