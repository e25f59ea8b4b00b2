// SPDX-License-Identifier: Apache-2.0
//
// state.h - what a running distributor has, and the way that all its requests go.
//
//     request_begin -> pipeline_* for each profile -> request_send
#pragma once

#include "distributor/admission.h"
#include "distributor/pipeline.h"
#include "distributor/quota.h"
#include "distributor/rate.h"
#include "distributor/refusal.h"
#include "distributor/route.h"
#include "distributor/spread.h"
#include "service/service.h"

struct distributor_state {
    const struct process *process;
    struct rates rates;
    struct spread spread;
    struct quota_samplers samplers;
    struct refusals refusals;
    struct lexicons lexicons;
};

// One push or upload in progress; lives on the handler's stack.
struct request {
    struct distributor_state *self;
    struct req *req;
    const char *protocol;  // for metrics: "push" or "ingest"
    const struct limits *limits;
    struct admission admission;
    struct pipeline in;
    struct route route;
    uint64_t begun_mono_ns;
};

bool request_begin(struct request *q, struct distributor_state *self, struct req *req,
                   const char *protocol, err *e) MUST_CHECK;

// Sends what the pipeline took, if anything. True if it is stored; what was refused before is in
// q->in and is still to be told.
bool request_send(struct request *q, err *e) MUST_CHECK;

// Holds the answer of a push that went well back as ingestion_artificial_delay says, give or take a
// tenth, counted from its begin; the loop waits, not this thread.
void request_delay(const struct request *q, struct http_exchange *x);

// Logs a request that was refused before it got here.
void request_refused(struct distributor_state *self, const struct http_exchange *x,
                     const char *protocol, const err *e);

// Counts what happened, and logs a refusal; once, whatever happened. `fault` is what the answer
// says, NULL if all went well. `answered`: by the handler itself, so nobody else logs it.
void request_end(struct request *q, const err *fault, bool answered);
