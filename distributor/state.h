// SPDX-License-Identifier: Apache-2.0
//
// state.h - the state of a running distributor, and the steps that all its requests take.
//
//     request_begin -> pipeline_* for each profile -> request_send
#pragma once

#include "distributor/dispatch.h"
#include "distributor/quota.h"
#include "distributor/rate.h"
#include "distributor/refusal.h"
#include "distributor/spread.h"
#include "intake/admission.h"
#include "intake/pipeline.h"
#include "service/service.h"

struct distributor_state {
    const struct process *process;
    int64_t begun_wall_ns;
    struct rates rates;
    struct spread spread;
    struct quota_samplers samplers;
    struct refusals refusals;
    struct lexicons lexicons;
    struct settle *settle;  // NULL in the all-in-one, which is its own ingester
};

// One push or upload in progress; lives on the handler's stack.
struct request {
    struct distributor_state *self;
    struct req *req;
    const char *protocol;  // for metrics: "push" or "ingest"
    const struct limits *limits;
    struct admission admission;
    struct pipeline in;
    struct dispatch dispatch;
    uint64_t begun_mono_ns;
    bool sent;       // what the pipeline took is stored
    bool too_large;  // for the log's store: HTTP's status for that is 413
};

bool request_begin(struct request *q, struct distributor_state *self, struct req *req,
                   const char *protocol, err *e) MUST_CHECK;

// Sends the records of the pipeline, if there are any. True if they are stored; the caller still
// has to answer with a refusal in q->in. A push that the store of the log never takes, because of
// its size, is invalid_argument and q->too_large: its sender must not send it again.
bool request_send(struct request *q, err *e) MUST_CHECK;

// Holds the answer of a push that went well back by ingestion_artificial_delay, give or take a
// tenth, counted from the request's begin. The loop waits, not this thread.
void request_delay(const struct request *q, struct http_exchange *x);

// Makes the counters of what a tenant loses exist, so that its first loss is a rise (sys/metric.h).
// request_begin does; also for requests that are refused before.
void request_expect(str tenant);

// Counts and logs a request that was refused before it got here.
void request_refused(struct distributor_state *self, const struct http_exchange *x,
                     const char *protocol, const err *e);

// Counts the request and logs a refusal. To be called once for each request_begin, failed ones too.
// `fault` is the error of the answer, NULL if all went well. `answered`: the handler made the
// answer itself, so the router does not log it.
void request_end(struct request *q, const err *fault, bool answered);
