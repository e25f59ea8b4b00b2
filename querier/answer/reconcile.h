// SPDX-License-Identifier: Apache-2.0
//
// reconcile.h - reconciles one tenant's heads with its objects, so that each row counts exactly
// once.
//
//     1. ask all heads; each answer names the (stream, cut, hour) that it contains
//     2. take the snapshot: segments and manifest. The order matters: a row that a head did not
//        have any more had been flushed before, so the snapshot shows it
//     3. count the answers of the heads, the segments that no head names, and all live blocks. Of a
//        cut that a head names, its answer contains the parts from first_part on; earlier parts are
//        counted as segments
//
// Rows may still count twice, or not at all. Then another round is made, with more said to the
// heads and with a new snapshot:
//
//     a leaf absorbed a cut that a head names
//         the head is asked again with the cut in `refresh`: it checks coverage and leaves the cut
//         out of its answer
//     a row may be in several places (loose, model/loose.h); heads are told a keeper for each
//         it is found in heads                the first of these streams counts it
//         it is found in a segment            the segment counts it, or a leaf that has it too
//         it is found in a leaf               the leaf counts it. Only leaves are searched whose
//                                             hours occur in heads or segments
//     a stream that was to count a row is gone, or no block has a row that blocks were to count
//         its ingester started anew: all loose rows are sought anew
//     rows of several placings meet (model/placings.h): rows with a client's id may be in several
//     places at attempt 0
//         all of them are loose. Heads are told so and name them, and segments are searched for
//         them. The querier remembers that for a while and tells heads at once
//     the manifest has tombstones that heads were not told of
//         they are told, and leave out the rows that these hide
//     a segment or leaf vanished while it was read
//         the next snapshot names the leaf that took its place
//
// It ends when a round finds nothing that the heads were not told of. After a few rounds it ends in
// any case, and the answer names as missing whatever is still open. Then too no row counts twice:
//
//     a row in a block that heads were     they may count it (at attempt 0 without naming it), so
//     no not told to leave to blocks          block does a row that was left to blocks, and nothing
//     counts it none has it an object whose loose rows could     none of its rows counts, nor a sum
//     that contains them not be looked for
//
// With more loose rows than querier.loose_max nobody is told of any, rows may count twice, and the
// answer says so.
//
// Among heads no row counts twice once they were told of all that they named (model/loose.h); if
// the last round is the first that lists rows, one more follows. The answer says how many rows are
// left out so.
#pragma once

#include "manifest/manifest.h"
#include "querier/answer/answer.h"

// Rows of a segment or leaf that do not count, because another object or a head counts them.
struct reconciled_skip {
    str object;
    struct loose_set rows;
};

struct reconciled {
    str tenant;
    bool has_blocks;           // there is a store, and it answered
    struct snapshot snapshot;  // segments: those that count beside the heads
    const struct hide *hides;  // deletions that the question meets; heads obeyed the same ones
    size_t hide_count;
    struct reconciled_skip *skips;
    size_t skip_count;
    str *unsearched;  // objects of which no row may count
    size_t unsearched_count;
    err unsearched_why;  // of the first
    size_t cut_from;     // cuts of answer.fetched that heads of this tenant named
    size_t cut_to;
};

// `message` is the encoded question, without refresh and lists of loose rows. The answers of heads
// come to a->fetched, and missing objects are named there. False only if the question cannot go on:
// its request ended, its memory. reconciled_release in any case.
bool reconcile(struct answer *a, const struct query *q, str tenant, str message,
               struct reconciled *out, err *e) MUST_CHECK;

void reconciled_release(struct reconciled *s);  // also a zero value
