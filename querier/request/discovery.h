// SPDX-License-Identifier: Apache-2.0
//
// discovery.h - what is there: profile types, label names, values, and series. All four take a
// time range and, but for the first, selectors that must all hold; answers are sorted and distinct,
// and exact to single profiles.
#pragma once

#include "querier/answer/answer.h"

answer_fn discovery_profile_types;
answer_fn discovery_label_names;
answer_fn discovery_label_values;
answer_fn discovery_series;
