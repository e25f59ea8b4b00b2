// SPDX-License-Identifier: Apache-2.0
//
// exemplar_wire.h - exemplars as clients see them: types.v1.Exemplar.
#pragma once

#include "querier/merge/merged.h"
#include "querier/plan/query.h"

// The exemplars that a request's exemplar_type asks for; numbers that it does not define are
// refused with invalid_argument.
bool exemplar_wire_type(int asked, enum exemplar_kind *out, err *e) MUST_CHECK;

// Writes an exemplar: of a profile with its id, for profile_id_selector; of a span with span id and
// trace id, for span_selector and trace_id_selector.
void exemplar_wire_put(struct buf *out, uint32_t field, const struct exemplar *x);
