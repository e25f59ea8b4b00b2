// SPDX-License-Identifier: Apache-2.0
//
// validate.h - whether a tenant may send this profile with these labels: limits and meaning.
//
// The checks, their order and their words are Pyroscope's (ValidateProfile, ValidateLabels). The
// decoder has checked the structure before (ids, indexes, UTF-8 of pprof). Pure: the time is an
// argument. Every refusal is invalid_argument and has a reason.
#pragma once

#include "intake/discard.h"
#include "model/label.h"
#include "model/profile.h"
#include "service/tenant.h"

// Sets time_ns to now if the sender gave none. Cuts stacks that are too deep at the leaf side: they
// end in the frame STACK_CUT_NAME (model/marks.h) and count in p->losses. Too many samples, or
// labels of one, are mended (mend.h) or refused, as the limit faulty_profiles says. `ls` is for
// messages; `a` for their memory and for what is changed.
bool validate_profile(struct arena *a, struct profile *p, labels ls, const struct limits *l,
                      int64_t now_ns, enum discard_reason *why, err *e) MUST_CHECK;

// Mends texts that are not UTF-8 (mend.h), or refuses them: of formats whose decoder checks none.
bool validate_text(struct arena *a, struct profile *p, const struct limits *l,
                   enum discard_reason *why, err *e) MUST_CHECK;

// Checks a sorted label set (the number of labels only where faulty_profiles is refuse), which is
// to be stored with the labels that storage adds. Unless disable_label_sanitization is set, dots in
// names become '_' (*ls is then a sorted set in the arena), and characters other than letters,
// digits and '_' are refused.
bool validate_labels(struct arena *a, labels *ls, const struct limits *l, enum discard_reason *why,
                     err *e) MUST_CHECK;

// Checks the uncompressed size of a profile against max_profile_size_bytes.
bool validate_size(size_t size, const struct limits *l, enum discard_reason *why,
                   err *e) MUST_CHECK;
