// SPDX-License-Identifier: Apache-2.0
//
// relabel.h - what a tenant's rules (model/relabel.h) and limits change in a profile and its labels
// besides the rules for series, which split.h runs. Pure.
#pragma once

#include "model/profile.h"
#include "model/relabel.h"

// Removes the values of sample types that the rules drop. They see the labels `ls` with __type__
// and __unit__. NULL: no rules. Fails with resource_exhausted.
bool relabel_sample_types(struct arena *a, const struct relabel_rules *rules, labels ls,
                          struct profile *p, err *e) MUST_CHECK;

// Of __session_id__, 16 hex digits that are a little-endian number, keeps the rest modulo `most`;
// with 0, or if it is something else, the label goes. False if memory is out.
bool relabel_session(struct arena *a, labels *ls, int64_t most) MUST_CHECK;
