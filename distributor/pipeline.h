// SPDX-License-Identifier: Apache-2.0
//
// pipeline.h - from what agents send to records: the order of all checks and changes.
//
//     bytes -> decode -> service name, order of labels -> admission -> validate -> Go -> sample
//     types
//           -> normalise -> version -> session -> split by sample labels -> rules, validate labels
//           -> send buffer
//
// A request has one pipeline and any number of profiles. Each stands for itself: what is wrong with
// one is told, counted, and does not touch the others. Pure: time and randomness are fields.
#pragma once

#include "decode/decode.h"
#include "distributor/admission.h"
#include "distributor/send_buffer.h"
#include "distributor/validate.h"

struct pipeline {
    struct arena *a;  // of the request
    const struct limits *limits;
    int64_t now_ns;
    uint64_t nonce;
    struct admission *admission;  // what the tenant pays for; NULL: all passes
    struct send_buffer out;
    struct discards discards;
    uint32_t received;        // profiles that were offered
    uint64_t received_bytes;  // uncompressed
    uint64_t stored;          // profiles of which something is in the send buffer
    uint64_t cut;             // samples of these whose stacks were cut for their depth
    void (*lost)(void *arg, enum discard_reason why, size_t bytes);  // told of each; or NULL
    void *lost_arg;
    str service;  // of the profile at hand, as its sender names it
    bool failed;
    err first;  // the first failure, which is the request's answer
    enum discard_reason first_why;
    str first_service;
    bool exhausted;  // the send buffer ran out of memory: nothing of this request may be sent
};

struct pipeline_item {
    str bytes;  // as sent
    str client_id;
    const label *labels;  // as sent, in any order
    size_t label_count;
};

void pipeline_init(struct pipeline *in, struct arena *a, const struct limits *limits,
                   int64_t now_ns, uint64_t nonce);

// A pprof message: decoded, checked, added. What fails is in `in`.
void pipeline_pprof(struct pipeline *in, const struct pipeline_item *item);

// A profile that was decoded already, into `scratch`, which also holds what is needed meanwhile.
// `text`: its strings have not been checked for UTF-8.
void pipeline_profile(struct pipeline *in, struct arena *scratch, struct profile *p, bool text,
                      const struct pipeline_item *item);

// Counts a failure, also one that was met before a profile could be offered.
void pipeline_refuse(struct pipeline *in, enum discard_reason why, size_t bytes, const err *e);

// Notes what the request's answer is going to be, unless something failed before; counts nothing.
void pipeline_fail(struct pipeline *in, enum discard_reason why, const err *e);

// The body as a whole against ingestion_body_limit_mb, counting each profile's uncompressed bytes;
// false with *e if it is over, and then all of it counts as discarded.
bool pipeline_body_fits(struct pipeline *in, err *e) MUST_CHECK;

// The cap of decoded sizes for decode_options.inflated_max; 0 = none.
size_t pipeline_size_max(const struct pipeline *in);
