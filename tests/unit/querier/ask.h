// SPDX-License-Identifier: Apache-2.0
//
// ask.h - a public request to the querier's code with invented ingesters behind it (heads.h): the
// message of a request in, the message of its answer and its headers out.
#pragma once

#include "loop/req.h"
#include "querier/answer/answer.h"
#include "querier/querier.h"
#include "querier/v1/querier.pb-c.h"
#include "service/tenant.h"
#include "unit/querier/heads.h"

#define CPU "process_cpu:cpu:nanoseconds:cpu:nanoseconds"

struct ask {
    struct config *config;
    struct querier_state state;
    struct heads heads;
    unsigned asked;
    struct http_exchange x;
    struct buf out;
    err fault;
};

void ask_open(struct ask *k, struct head *heads, size_t n);
void ask_close(struct ask *k);

// Forgets the last request; a new one may differ in headers and tenant.
void ask_again(struct ask *k);
// From now on with this one flag, such as "--querier.incomplete=refuse".
void ask_set(struct ask *k, const char *flag);
void ask_header(struct ask *k, const char *name, const char *value);

// Runs a request; false with k->fault. The answer is k->out.
bool ask_run(struct ask *k, answer_fn *fn, const ProtobufCMessage *request);

// Runs a request that must go well.
const void *ask_ok(struct ask *k, answer_fn *fn, const ProtobufCMessage *request,
                   const ProtobufCMessageDescriptor *type);

// Stacks of CPU time within a second of at_ms.
typedef Querier__V1__SelectMergeStacktracesRequest merge_request;
typedef Querier__V1__SelectMergeStacktracesResponse merge_response;
merge_request ask_merge(const char *selector, int64_t at_ms);
const merge_response *ask_merge_ok(struct ask *k, const merge_request *m);

const char *ask_said(const struct ask *k, const char *header);

// protobuf-c's strings are not const; requests only borrow them.
char *ask_text(const char *text);
