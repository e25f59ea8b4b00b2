// SPDX-License-Identifier: Apache-2.0
//
// pipeline.h - from an agent's profile to records: the order of all checks and changes.
//
//     bytes -> decode -> service name, order of labels -> admission -> validate -> Go
//           -> sample types -> normalise -> version -> session -> split by sample labels
//           -> rules, validate labels -> send buffer
//
// A request has one pipeline and any number of profiles. A profile that is refused is counted and
// does not affect the others; the first refusal becomes the answer. Pure: time and randomness are
// fields.
#pragma once

#include "decode/decode.h"
#include "intake/admission.h"
#include "intake/send_buffer.h"
#include "intake/validate.h"

struct pipeline {
    struct arena *a;  // of the request
    const struct limits *limits;
    int64_t now_ns;
    uint64_t nonce;
    struct admission *admission;  // quotas, rate, sampling; NULL: all profiles pass
    struct send_buffer out;
    struct discards discards;
    uint32_t received;        // profiles that were offered
    uint64_t received_bytes;  // uncompressed
    uint32_t refused;         // profiles that were refused; those that sampling drops are not
    uint64_t stored;          // profiles with records in the send buffer
    struct losses losses;     // of the profiles that were taken, not of those that were refused
    str losses_service;       // that of the first profile with losses names
    void (*lost)(void *arg, enum discard_reason why, size_t bytes);  // for each loss; or NULL
    void *lost_arg;
    str service;  // of the current profile, as its sender names it
    bool failed;
    err first;              // the first failure, which is the request's answer
    uint32_t first_number;  // of its profile, from 1
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

// Decodes, checks and adds a pprof message. Failures are noted in `in`.
void pipeline_pprof(struct pipeline *in, const struct pipeline_item *item);

// Checks and adds a profile that was decoded into `scratch`, which also gets the memory of this
// call. `text`: its strings have not been checked for UTF-8.
void pipeline_profile(struct pipeline *in, struct arena *scratch, struct profile *p, bool text,
                      const struct pipeline_item *item);

// Counts a failure and notes it as the answer, unless there was one before.
void pipeline_refuse(struct pipeline *in, enum discard_reason why, size_t bytes, const err *e);

// The same for what was not offered, as it could not be read: it counts as one profile received, so
// that what was received is what was stored and what was discarded.
void pipeline_refuse_unread(struct pipeline *in, enum discard_reason why, size_t bytes,
                            const err *e);

// The first refusal as the answer to a request of several profiles: which of them it is, and what
// became of the others.
void pipeline_answer(const struct pipeline *in, err *e);

// Notes a failure as the request's answer, unless there was one before; counts nothing.
void pipeline_fail(struct pipeline *in, enum discard_reason why, const err *e);

// Whether the uncompressed bytes of all profiles so far are within ingestion_body_limit_mb. False
// with *e if not; then all profiles of the request count as discarded.
bool pipeline_body_fits(struct pipeline *in, err *e) MUST_CHECK;

// The request is refused for its size with *e, which is the answer whatever was wrong before: all
// of its profiles count as discarded.
void pipeline_too_large(struct pipeline *in, const err *e);

// The cap of decoded sizes for decode_options.inflated_max; 0 = none.
size_t pipeline_size_max(const struct pipeline *in);
