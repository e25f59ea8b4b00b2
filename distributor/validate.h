// SPDX-License-Identifier: Apache-2.0
//
// validate.h - is this profile, with these labels, what a tenant may send?
//
// The checks, their order and their words are Pyroscope's (ValidateProfile, ValidateLabels). What
// is structure (ids, indexes, UTF-8 of pprof) the decoder has checked before; here are the limits
// and the meaning. Pure: the time is an argument. Every refusal is invalid_argument and has a
// reason.
#pragma once

#include "distributor/discard.h"
#include "model/label.h"
#include "model/profile.h"
#include "service/tenant.h"

// Makes time_ns now if the sender gave none, and cuts stacks that are too deep at the leaf side:
// they end in the frame STACK_CUT_NAME (model/marks.h) and count in cut_count. `ls` is for
// messages; `a` for their memory and the mark's.
bool validate_profile(struct arena *a, struct profile *p, labels ls, const struct limits *l,
                      int64_t now_ns, enum discard_reason *why, err *e) MUST_CHECK;

// Names and values of a text format, which its decoder takes as they come.
bool validate_text(const struct profile *p, enum discard_reason *why, err *e) MUST_CHECK;

// A sorted label set, as it will be stored but for the labels that storage adds. Without
// disable_label_sanitization dots in names become '_' (a sorted set in the arena) and other
// characters than letters, digits and '_' are refused.
bool validate_labels(struct arena *a, labels *ls, const struct limits *l, enum discard_reason *why,
                     err *e) MUST_CHECK;

// A profile of `size` bytes, uncompressed, against max_profile_size_bytes.
bool validate_size(size_t size, const struct limits *l, enum discard_reason *why,
                   err *e) MUST_CHECK;
