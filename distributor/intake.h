// SPDX-License-Identifier: Apache-2.0
//
// intake.h - from what agents send to records: the order of all checks and changes.
//
//     bytes -> decode -> service name, order of labels -> gate -> validate -> Go -> sample types
//           -> normalise -> version -> session -> split by sample labels -> rules, validate labels
//           -> outbox
//
// A request has one intake and any number of profiles. Each stands for itself: what is wrong with
// one is told, counted, and does not touch the others. Pure: time and randomness are fields.
#pragma once

#include "decode/decode.h"
#include "distributor/gate.h"
#include "distributor/outbox.h"
#include "distributor/validate.h"

struct intake {
    struct arena *a;  // of the request
    const struct limits *limits;
    int64_t now_ns;
    uint64_t nonce;
    struct gate *gate;  // what the tenant pays for; NULL: all passes
    struct outbox out;
    struct discards discards;
    uint32_t received;        // profiles that were offered
    uint64_t received_bytes;  // uncompressed
    uint64_t stored;          // profiles of which something is in the outbox
    uint64_t cut;             // samples of these whose stacks were cut for their depth
    void (*lost)(void *arg, enum discard_reason why, size_t bytes);  // told of each; or NULL
    void *lost_arg;
    str service;  // of the profile at hand, as its sender names it
    bool failed;
    err first;  // the first failure, which is the request's answer
    enum discard_reason first_why;
    str first_service;
    bool exhausted;  // the outbox ran out of memory: nothing of this request may be sent
};

struct intake_item {
    str bytes;  // as sent
    str client_id;
    const label *labels;  // as sent, in any order
    size_t label_count;
};

void intake_init(struct intake *in, struct arena *a, const struct limits *limits, int64_t now_ns,
                 uint64_t nonce);

// A pprof message: decoded, checked, added. What fails is in `in`.
void intake_pprof(struct intake *in, const struct intake_item *item);

// A profile that was decoded already, into `scratch`, which also holds what is needed meanwhile.
// `text`: its strings have not been checked for UTF-8.
void intake_profile(struct intake *in, struct arena *scratch, struct profile *p, bool text,
                    const struct intake_item *item);

// Counts a failure, also one that was met before a profile could be offered.
void intake_refuse(struct intake *in, enum discard_reason why, size_t bytes, const err *e);

// Notes what the request's answer is going to be, unless something failed before; counts nothing.
void intake_fail(struct intake *in, enum discard_reason why, const err *e);

// The body as a whole against ingestion_body_limit_mb, counting each profile's uncompressed bytes;
// false with *e if it is over, and then all of it counts as discarded.
bool intake_body_fits(struct intake *in, err *e) MUST_CHECK;

// The cap of decoded sizes for decode_options.inflated_max; 0 = none.
size_t intake_size_max(const struct intake *in);
