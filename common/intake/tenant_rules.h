// SPDX-License-Identifier: Apache-2.0
//
// tenant_rules.h - a tenant's rules for sample types (model/relabel.h), and its limit of sessions.
// The rules for series run in split.h. Pure.
#pragma once

#include "model/profile.h"
#include "model/relabel.h"

// Removes the values of sample types that the rules drop. They see the labels `ls` with __type__
// and __unit__. NULL: no rules. Fails with resource_exhausted.
bool tenant_rules_sample_types(struct arena *a, const struct relabel_rules *rules, labels ls,
                               struct profile *p, err *e) MUST_CHECK;

// __session_id__ is 16 hex digits, a little-endian number; it becomes that number modulo `most`.
// With most 0, or if it is no such number, the label is removed. False without memory.
bool tenant_rules_session(struct arena *a, labels *ls, int64_t most) MUST_CHECK;
