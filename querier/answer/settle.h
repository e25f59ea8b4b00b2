// SPDX-License-Identifier: Apache-2.0
//
// settle.h - sums that do not fit 64 bits: what of them an answer has.
//
// Such a sum spoils what it is a sum of, and nothing else.
//
//     stacks   the unit is the service. One whose own sum does not fit is left out. If each fits
//              and the sum of all does not, the largest are left out until it does; of equal ones
//              the last by name. If none is left the question is refused.
//     totals   the unit is the point of a group. It is shown as the nearest number that fits.
//     frames   parts of a total that fits need not fit, as values may be negative. A node
//              "other" of truncation, or a function of a call graph, is shown as the nearest
//              number too.
//
// The answer names what was left out or cut as it names what is missing (fetch_mark), so it is not
// called exact, and whoever takes only exact answers is refused.
//
// Whether a sum fits is asked of the last sum only: on the way there it may leave 64 bits and come
// back, so an answer depends neither on orders nor on levels.
#pragma once

#include "querier/answer/answer.h"

// From sums by service (m->services) to the sums of the answer (m->stacks). a->left_out gets the
// names of the services that are left out; those that it has already are left out in any case.
// Fails with out_of_range if all are.
bool settle_stacks(struct answer *a, const struct query *q, struct merged *m, err *e) MUST_CHECK;

// After merged_finish.
bool settle_totals(struct answer *a, struct merged *m, err *e) MUST_CHECK;

// Marks for what became too large only afterwards. They fail if the asker takes no such answer.
bool settle_mark_total(struct answer *a, labels group, err *e) MUST_CHECK;
bool settle_mark_functions(struct answer *a, err *e) MUST_CHECK;
bool settle_mark_frames(struct answer *a, err *e) MUST_CHECK;
