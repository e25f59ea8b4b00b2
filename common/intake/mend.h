// SPDX-License-Identifier: Apache-2.0
//
// mend.h - makes a profile fit the limits of its tenant without losing value, where the limit
// faulty_profiles says so; otherwise validate.c refuses the profile. Pure, in place.
//
// Each change is counted in p->losses. Sizes in bytes and the window of time are not mended.
#pragma once

#include "model/label.h"
#include "model/profile.h"
#include "service/limits.h"

// Adds a location with a frame that stands for others (model/marks.h).
bool mend_add_mark(struct arena *a, struct profile *p, str name, uint32_t *location,
                   err *e) MUST_CHECK;

// More samples than max_profile_stacktrace_samples: samples of equal stacks and labels become one.
// If there are still too many, those of the smallest values lose their stack, span and trace: for
// each set of their labels that make series one sample remains, with the frame STACK_SURPLUS_NAME
// and the sum. Half of the limit is for such samples at most; sets beyond that lose their labels
// too. The sum of each type stays as it is.
bool mend_samples(struct arena *a, struct profile *p, const struct limits *l, err *e) MUST_CHECK;

// Labels without a name are left out. More labels that make series on a sample than
// max_profile_stacktrace_sample_labels: those whose names are last in order are left out, but never
// span and trace.
void mend_sample_labels(struct profile *p, const struct limits *l);

// Sample types that are there twice become one, with the sums of both: as two they would be the
// same series at the same time, of which one is stored.
bool mend_types(struct profile *p, err *e) MUST_CHECK;

// Whether the two functions below would leave a label set as it is, as they do mostly.
bool mend_labels_fit(labels set, const struct limits *l);

// More labels of a series than max_label_names_per_series: of `own`, which came with the profile,
// those that do not begin with "__" count. First go names of processes, then of SDKs, systems and
// hosts (mend_labels.c has the list), then all others but service_name; of each the last in order.
// Labels of `set` that are not in `own` are those of samples or rules and stay. Returns the number
// of labels that were left out of *set, whose array is changed.
uint32_t mend_series_labels(labels own, labels *set, label *v, const struct limits *l);

// Labels with names longer than max_label_name_length are left out, and values longer than
// max_label_value_length keep their beginning. Returns the number of both; *set has the array v
// then, which may be its own.
uint32_t mend_label_lengths(labels *set, label *v, const struct limits *l);

// Replaces bytes that are not UTF-8 by U+FFFD: in names, files and labels of the profile, and in a
// label set, which is then sorted again.
bool mend_text(struct arena *a, struct profile *p, err *e) MUST_CHECK;
bool mend_label_text(struct arena *a, labels *ls, struct losses *losses, err *e) MUST_CHECK;
