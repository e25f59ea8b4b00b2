// SPDX-License-Identifier: Apache-2.0
//
// loss_note.h - tells what decoders and limits left out or mended of profiles that are stored
// (model/losses.h): to who pushed, in the answer; to who runs the server, in metrics and the log.
//
//     Flametree-Discarded: bad_line=1, unknown_stack=3        header of /ingest, Push, Parca
//     partial_success.error_message                           OTLP: rejected_profiles is 0
//     flametree_distributor_{discarded,mended}_parts_total    left out; mended
//     event=push.mended                                       log, once in a while (refusal.h)
//
// Only what is stored is told: a push that fails as a whole is told by its error.
#pragma once

#include "distributor/state.h"

// The counter of a reason.
struct metric *loss_note_metric(enum loss why);

// Sets the header of the answer, if there is anything to tell. After request_send.
void loss_note_header(const struct request *q, struct http_exchange *x);

// One sentence for each reason, in the request's arena; empty if there is nothing to tell.
str loss_note_text(const struct request *q);

// Counts and logs.
void loss_note_end(struct request *q);
