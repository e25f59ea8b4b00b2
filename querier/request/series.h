// SPDX-License-Identifier: Apache-2.0
//
// series.h - SelectSeries: totals over time, in groups (query.h draws the buckets).
//
// A group is the values of the asked labels; those that a series does not have are left out. Points
// exist only where profiles are. The value of a point is the sum of the profiles' totals, or that
// sum divided by their number; under a call site a profile's total is what lies there, 0 if nothing
// does. Series come largest first, then by labels. A point has the annotations of its profiles, and
// if exemplars are asked for the largest profile, or the largest span of one.
#pragma once

#include "querier/answer/answer.h"

answer_fn series_select;
