// SPDX-License-Identifier: Apache-2.0
//
// cli_ask.h - requests to a server, over net/client; errors that say what was asked and what came.
//
//     SelectMergeStacktraces at http://127.0.0.1:4040: 400 invalid_argument: max flamegraph ...
//
// A server may be anything: what answers with a page of HTML, with text, or with an answer that is
// not the message that was asked for is an error like any other, with a piece of what it said.
#pragma once

#include "deploy/cli/cli.h"
#include "net/client.h"

#include <protobuf-c/protobuf-c.h>

#define ASK_QUERIER "/querier.v1.QuerierService/"

// Reads --url and the other options of a server. Idempotent; cli_main closes. Fails with
// invalid_argument.
bool cli_ask_open(struct cli *c, err *e) MUST_CHECK;
void cli_ask_close(struct cli *c);

struct cli_call {
    struct req req;
    struct http_call http;
    struct buf inflated;
    unsigned status;  // after the wait; 0 if nobody answered
    str retry_after;  // of the answer, seconds; or empty
    const char *path;
};

// `path` is the API's ("/ready", or "/querier.v1.../X" with its query), content_type may be NULL;
// body is borrowed until the release. The call does not move.
void cli_call_start(struct cli *c, struct cli_call *call, const char *method, const char *path,
                    const char *content_type, str body);
// Waits; true and the body of a 200 (borrowed until the release), or false with what came back.
bool cli_call_wait(struct cli *c, struct cli_call *call, str *body, err *e) MUST_CHECK;
void cli_call_release(struct cli_call *call);

// A unary call of the querier: *answer is c->arena's.
bool cli_ask(struct cli *c, const char *method, const ProtobufCMessage *question,
             const ProtobufCMessageDescriptor *kind, ProtobufCMessage **answer, err *e) MUST_CHECK;
// The same, but the bytes of the answer, added to *out after a check that they are of that kind.
bool cli_ask_bytes(struct cli *c, const char *method, const ProtobufCMessage *question,
                   const ProtobufCMessageDescriptor *kind, struct buf *out, err *e) MUST_CHECK;
