// SPDX-License-Identifier: Apache-2.0
//
// reconcile.h - one tenant's heads and objects, such that every row is in exactly one of them.
//
// First the heads are asked, then the snapshot is taken: a row that a head has no more was flushed
// before, so the snapshot shows it. What counts is
//
//     answers of heads      each names the (stream, cut, hour) that it contains
//     segments              that no head names (a part from first_part on is in the head's answer)
//     live blocks           all
//
// That is not reconciled yet when a head names a cut that a leaf has absorbed: it is asked again
// with `refresh`, checks coverage and leaves that cut out. Nor when rows may be in several places
// (model/loose.h):
//
//     a head names a loose row          all heads are asked again with the list, one counts it
//     a segment has one                 the same, and the segment counts it, or a leaf that has it
//     a leaf of an hour of which heads or segments have something has one    the leaf counts it
//
// Each time the heads are asked again a new snapshot is taken. If a row that a block should count
// is in none any more, all begins anew: an ingester may have started again and have it. It ends
// when nothing was found that the heads were not told of; what stays open after a few rounds is
// missing.
#pragma once

#include "manifest/manifest.h"
#include "querier/answer/answer.h"

// Rows of a segment that somebody else counts.
struct reconciled_skip {
    str object;
    struct loose_set rows;
};

struct reconciled {
    str tenant;
    bool has_blocks;           // there is a store, and it answered
    struct snapshot snapshot;  // segments: those that count beside the heads
    struct reconciled_skip *skips;
    size_t skip_count;
    size_t cut_from;  // cuts of answer.fetched that heads of this tenant named
    size_t cut_to;
};

// `message` is the question without refresh and lists. The answers of heads are in a->fetched.
bool reconcile(struct answer *a, const struct query *q, str tenant, str message,
               struct reconciled *out, err *e) MUST_CHECK;

void reconciled_release(struct reconciled *s);  // also a zero value
