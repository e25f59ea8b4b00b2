// SPDX-License-Identifier: Apache-2.0
//
// discovery.h - lists profile types, label names, label values and series. All four take a time
// range and, except for the first, selectors that must all hold. Answers are sorted and distinct,
// and exact to single profiles.
#pragma once

#include "querier/answer/answer.h"

answer_fn discovery_profile_types;
answer_fn discovery_label_names;
answer_fn discovery_label_values;
answer_fn discovery_series;
