// SPDX-License-Identifier: Apache-2.0
//
// heatmap.h - SelectHeatmap: how many profiles, or spans, have how large a value, over time.
//
// The y axis spans the values of all groups, so the heads are asked twice: for the least and the
// largest value, which give the 20 buckets, then for counts. They count where the rows lie, so
// memory everywhere follows groups x slots x 20 and not the number of rows. What was pushed before
// the query is counted; what comes between the two questions is counted if it lies on the axis, and
// otherwise came too late.
//
// A value is the total of one profile of one series (INDIVIDUAL), or of what such a profile has of
// one span (SPAN). Slots are named by their right edge start + k * step <= end; the first takes
// what lies at start - step too, the last all up to end. An exemplar is the largest value of its
// cell.
#pragma once

#include "querier/answer/answer.h"

answer_fn heatmap_select;
