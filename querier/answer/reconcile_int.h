// SPDX-License-Identifier: Apache-2.0
//
// reconcile_int.h - what the files of reconcile.h have in common: the state of its rounds, and how
// a round asks the heads (reconcile_ask.c).
#pragma once

#include "querier/answer/reconcile.h"

// Keeper of a loose row that a block counts: no stream has this row of keepers, so heads leave it
// out (fetch_put_loose).
#define KEPT_BY_BLOCK UINT32_MAX

struct reconciling {
    struct answer *a;
    const struct query *q;
    str message;
    struct reconciled *out;
    size_t from;             // first partial of this tenant
    struct loose_set loose;  // rows that may be in several places, each with its keeper
    id128 *keepers;          // streams, by the keepers of loose rows that heads count
    size_t keeper_count;
    struct placings placings;  // of the rows that were met (model/placings.h)
    bool differed;             // they did in some round
    bool identified;  // they differ, or did lately: rows with a placing are loose, and heads are
                      // told so
    bool unsure;      // that was found too late for heads to be told
    bool listed;      // the next question to heads has the list of loose rows
    bool told;        // the question of this round had it
    bool crowded;     // there are more loose rows than querier.loose_max: nobody is told of any
    const struct manifest_tombstone *tombstones;  // that heads were told of
    size_t tombstone_count;
    size_t hide_bytes;  // that they take in the message, or more
    struct fetched_cut *refresh;
    size_t refresh_count;
    size_t refresh_cap;
    bool last;          // this round is the last one
    bool again;         // another round is needed
    uint64_t left_out;  // rows that may be elsewhere, of which no copy counts for certain
};

// Asks all heads, again until each registered stream is answered or was waited for. The answers
// that count come to a->fetched, and what is missing is named there.
bool reconcile_ask(struct reconciling *s, str message, err *e) MUST_CHECK;

// Appends what heads are to be told to the encoded question.
bool reconcile_encode(struct reconciling *s, str *out, err *e) MUST_CHECK;
