// SPDX-License-Identifier: Apache-2.0
//
// rpc_int.h - private to rpc: the facts that the loop reads from a head and the worker needs.
//
//     router.c    tables, on_head, on_run, on_refuse
//     head.c      content types, encodings, Accept, deadlines
//     connect.c   Connect unary          grpc.c   gRPC and gRPC-Web unary
//     plain.c     REST: errors, bodies, compression
#pragma once

#include "rpc/route.h"

enum protocol {
    PLAIN,
    CONNECT,
    GRPC,
    GRPC_WEB
};

enum encoding {
    IDENTITY,
    GZIP,
    ZSTD
};

struct content_type {
    const char *text;  // canonical
    enum protocol protocol;
    bool json;
};

struct row {
    str path;
    bool prefix;
    const struct rpc_method *rpc;   // one of the two
    const struct http_route *http;  // is set
    void *service;
    struct lane *lane;
};

struct router {
    struct router_options options;
    struct row *rows;
    size_t count;
    size_t cap;
};

// Lives in the request's arena; x->route points to it once a row was found.
struct rpc_call {
    const struct router *router;
    const struct row *row;
    const struct content_type *type;  // RPC only
    enum protocol protocol;
    enum encoding body;
    bool gzip_answer;
    size_t message_max;
    bool begun;  // the handler has seen the request, so it is not reported as refused
};

// ---- head.c
// NULL: no content type of RPC. content_type_list is the value of Accept-Post.
const struct content_type *content_type_find(struct arena *a, str header);
extern const char content_type_list[];

// Is the Accept header well-formed? *utf8 (may be NULL): does it ask for UTF-8 label names?
bool accept_check(const struct http_exchange *x, struct arena *a, bool *utf8, err *e) MUST_CHECK;

// Does a list of names, separated by commas or spaces, have exactly this one? (Connect, gRPC)
bool names_have(str list, const char *name);

// Does an Accept-Encoding header with quality values (RFC 9110) accept gzip?
bool accepts_gzip(str header);

// Makes the deadline earlier, never later.
void deadline_within(struct http_exchange *x, uint64_t ns);

// ---- connect.c
bool connect_head(struct http_exchange *x, struct rpc_call *c, err *e) MUST_CHECK;
bool connect_run(struct http_exchange *x, const struct rpc_call *c, err *e) MUST_CHECK;
void connect_error(struct http_exchange *x, const err *e);

// Runs the method on one message in its codec; *out is in the same codec.
bool method_run(struct http_exchange *x, const struct rpc_call *c, str message, struct buf *out,
                err *e) MUST_CHECK;

// Inflates a message. Fails as Connect says: "decompress: ...", or that it is too large.
bool message_inflate(struct http_exchange *x, const struct rpc_call *c, str message,
                     struct buf *out, err *e) MUST_CHECK;
// x->status is 413 then, which tells the service what is wrong; the answer has another one.
bool message_too_large(struct http_exchange *x, const struct rpc_call *c, size_t size, err *e);

// The compressions that requests may have, as answers and refusals name them.
#define ENCODINGS "gzip,zstd"

// ---- grpc.c
bool grpc_head(struct http_exchange *x, struct rpc_call *c, err *e) MUST_CHECK;
bool grpc_run(struct http_exchange *x, const struct rpc_call *c, err *e) MUST_CHECK;
void grpc_error(struct http_exchange *x, const struct rpc_call *c, const err *e);

// ---- plain.c
void plain_head(struct http_exchange *x, struct rpc_call *c);
void plain_run(struct http_exchange *x, const struct rpc_call *c);
void plain_error(struct http_exchange *x, const err *e);
void plain_too_large(struct http_exchange *x, const char *msg);

// Drops the answer that was written so far: body, headers, trailers.
void answer_clear(struct http_exchange *x);

// ---- router.c
void error_note(const struct http_exchange *x, const err *e);
void handler_begins(struct http_exchange *x);
// False, with a reason in *e: a handler that gave none would be answered with 200.
bool handler_failed(err *e);
