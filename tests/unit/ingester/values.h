// SPDX-License-Identifier: Apache-2.0
//
// values.h - totals, exemplars and heat maps over facts by brute force.
#pragma once

#include "facts.h"

void check_heat(struct head *head, const struct fact *facts, size_t n, struct dice *d,
                struct req *r, const struct head_query *q);
void check_totals(struct head *head, const struct fact *facts, size_t count, struct dice *d,
                  struct req *r, const struct head_query *q);
