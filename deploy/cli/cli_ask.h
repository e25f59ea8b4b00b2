// SPDX-License-Identifier: Apache-2.0
//
// cli_ask.h - requests to a server, over net/client. Errors show the request and the answer:
//
//     SelectMergeStacktraces at http://127.0.0.1:4040: 400 invalid_argument: max flamegraph ...
//
// The address may belong to any program. An answer that is a page of HTML, text, or not the
// expected message is an error like others, and the error shows a piece of the answer.
#pragma once

#include "codec/json.h"
#include "deploy/cli/cli.h"
#include "net/client.h"

#include <protobuf-c/protobuf-c.h>

#define ASK_QUERIER "/querier.v1.QuerierService/"

// Reads --url and the other options of a server. Idempotent; cli_main closes. Fails with
// invalid_argument.
bool cli_ask_open(struct cli *c, err *e) MUST_CHECK;
void cli_ask_close(struct cli *c);

// A second server, that of --source, over the same client. The caller releases source->arena, also
// after a failure (invalid_argument).
bool cli_ask_source(struct cli *c, struct cli *source, err *e) MUST_CHECK;

struct cli_call {
    struct req req;
    struct http_call http;
    struct buf inflated;
    unsigned status;  // after the wait; 0 without an answer
    str retry_after;  // of the answer, seconds; or empty
    str discarded;    // of the answer to a push: parts that were left out or mended; or empty
    const char *path;
};

// `path` is the API's ("/ready", or "/querier.v1.../X" with its query), content_type may be NULL;
// body is borrowed until the release. *call must not be moved.
void cli_call_start(struct cli *c, struct cli_call *call, const char *method, const char *path,
                    const char *content_type, str body);
// Waits. True: status 200, and *body is borrowed until the release. False: *e describes the answer.
bool cli_call_wait(struct cli *c, struct cli_call *call, str *body, err *e) MUST_CHECK;
void cli_call_release(struct cli_call *call);

// A whole call without a body; the answer's lives in c->arena. `elsewhere` is the hint for a node
// that does not know the path (404).
bool cli_fetch(struct cli *c, const char *method, const char *path, const char *elsewhere,
               str *body, err *e) MUST_CHECK;

// Where the value of a JSON member goes: one of text, number and flag is set.
struct cli_member {
    const char *key;
    str *text;
    uint64_t *number;
    bool *flag;
};
// Reads the value whose key was read last; it is skipped if no member has the key. False: it is of
// another kind, or the JSON is broken.
bool cli_read_member(struct json_reader *r, const struct cli_member *v, size_t n) MUST_CHECK;
// The members of an object whose opening brace was read.
bool cli_read_members(struct json_reader *r, const struct cli_member *v, size_t n) MUST_CHECK;

// A unary call of the querier; *answer lives in c->arena.
bool cli_ask(struct cli *c, const char *method, const ProtobufCMessage *question,
             const ProtobufCMessageDescriptor *kind, ProtobufCMessage **answer, err *e) MUST_CHECK;
// The same, but appends the bytes of the answer to *out, after a check that they are a message of
// that kind.
bool cli_ask_bytes(struct cli *c, const char *method, const ProtobufCMessage *question,
                   const ProtobufCMessageDescriptor *kind, struct buf *out, err *e) MUST_CHECK;
