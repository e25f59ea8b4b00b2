// SPDX-License-Identifier: Apache-2.0
//
// heatmap.h - SelectHeatmap: counts of profiles, or of spans, by time and value.
//
// The y axis spans the values of all groups, so two questions are asked: first for the least and
// the largest value, which give the 20 buckets, then for counts. Counting is done where the rows
// lie, so memory follows groups x slots x 20 everywhere, not the number of rows. Everything pushed
// before the query is counted. A profile pushed between the two questions is counted if its value
// lies on the axis.
//
// A value is the total of one profile of one series (INDIVIDUAL), or of the part of such a profile
// that belongs to one span (SPAN). Slots are named by their right edge start + k * step <= end. The
// first slot also has the time start - step, the last one all times up to end. An exemplar is the
// largest value of its cell.
#pragma once

#include "querier/answer/answer.h"

answer_fn heatmap_select;
