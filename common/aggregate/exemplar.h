// SPDX-License-Identifier: Apache-2.0
//
// exemplar.h - a profile, or one span of it, that is shown as an example for a point or a cell.
//
// Of several candidates the first in this order is shown (message Exemplar in
// proto/flametree/v1/internal.proto): the largest value, then the earliest time, then the least
// profile, span and trace id. Two that tie in all of these are one profile in two series, or the
// same twice; then the labels that both have are shown. So the choice does not depend on the order
// of candidates, nor on how they were spread over answers.
#pragma once

#include "base/ulid.h"
#include "model/label.h"

// What an exemplar stands for, and what a heat map counts; values of enum ExemplarKind on the wire.
enum exemplar_kind {
    EXEMPLAR_NONE = 0,
    EXEMPLAR_PROFILE = 1,
    EXEMPLAR_SPAN = 2
};

struct exemplar {
    id128 profile;
    int64_t time_ns;
    int64_t value;
    labels ls;         // of its series, without those of the group; borrowed
    uint64_t span_id;  // 0: it is a profile
    bool has_trace;
    id128 trace;
};

// Below 0: a comes before b; above 0: b before a; 0: they tie. Labels do not matter.
int exemplar_order(const struct exemplar *a, const struct exemplar *b);

// *a becomes the one of a and b that is shown. If they tie, its array of labels may be the arena's.
bool exemplar_merge(struct arena *arena, struct exemplar *a, const struct exemplar *b,
                    err *e) MUST_CHECK;

// Message Exemplar.
void exemplar_encode(const struct exemplar *x, struct buf *out, uint32_t field);

// The array of labels is the arena's, their strings borrow from the bytes.
bool exemplar_decode(struct arena *arena, str bytes, struct exemplar *out, err *e) MUST_CHECK;
