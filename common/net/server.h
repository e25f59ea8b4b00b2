// SPDX-License-Identifier: Apache-2.0
//
// server.h - HTTP/1.1, h2c with prior knowledge and TLS (ALPN h2, http/1.1) on one port.
//
// The first bytes of a connection decide: TLS record, HTTP/2 preface, or HTTP/1.1. Whatever came,
// the application sees a struct http_exchange. Its life:
//
//     HEAD     head is parsed            loop    app.head(): choose lane and body limit, or answer
//     BODY     body arrives              loop    over the limit: 413/resource_exhausted by
//     app.refuse QUEUED   body complete             loop    lane_submit; lane full: app.refuse
//     RUNNING  app.run()                 worker  plain sequential code, fills the answer
//     ANSWER   answer is written         loop    only the loop waits for slow clients
//     DONE     arena released
//
// When the client goes away, req.canceled is set; a running handler finishes and its answer is
// dropped.
//
// Limits (struct server_options): head bytes, header count, body bytes, streams per connection,
// connections, and times for head, body, idle and write. Against smuggling: names with spaces, bare
// LF, both Content-Length and Transfer-Encoding, repeated Content-Length are refused. Against h2
// floods: resets, settings, pings and CONTINUATIONs are counted per interval. Body memory counts
// against the budget; when it is exhausted requests get 429 (Connect: resource_exhausted) with
// Retry-After: 1.
#pragma once

#include "loop/lane.h"
#include "loop/loop.h"
#include "net/http.h"

struct http_exchange {
    struct req req;
    str method;
    str path;   // before '?', as sent
    str query;  // after '?'
    str authority;
    str peer;          // address of the client
    unsigned version;  // 11 or 20
    bool tls;
    struct http_headers headers;
    struct buf body;  // complete when app.run is called

    // set by app.head
    struct lane *lane;
    size_t body_max;
    const void *route;  // the application's own

    // the answer, set by run, refuse or head. Fixed bytes (no copy) or out, not both.
    unsigned status;
    struct http_headers answer_headers;
    struct http_headers trailers;  // HTTP/2 only
    struct buf out;
    str fixed;
};

enum head_verdict {
    HEAD_READ_BODY,
    HEAD_ANSWERED
};

struct server_app {
    void *self;
    enum head_verdict (*head)(void *self, struct http_exchange *x);     // loop
    void (*run)(void *self, struct http_exchange *x);                   // worker
    void (*refuse)(void *self, struct http_exchange *x, const err *e);  // loop or worker
};

struct server_options {
    const char *name;           // "public", "internal"; in logs and metrics
    const char *listen;         // "127.0.0.1:4040", "[::]:0", "unix:/path"
    const char *tls_cert_file;  // NULL: no TLS
    const char *tls_key_file;
    const char *tls_client_ca_file;  // clients must show a certificate of these; NULL: none asked
    bool tls_required;               // with TLS: refuse connections without it
    struct mem_budget *memory;
    size_t request_memory_max;  // cap of one request's arena
    size_t head_max;            // bytes of one head
    unsigned headers_max;
    unsigned streams_max;  // concurrent, per connection
    unsigned connections_max;
    uint64_t head_timeout_ns;
    uint64_t body_timeout_ns;
    uint64_t idle_timeout_ns;
    uint64_t write_timeout_ns;
    uint64_t request_timeout_ns;  // deadline of a request unless its protocol sets a shorter one
    enum rank rank;
};

struct server;

// Binds and listens on the first loop, spreads connections over all. Fails with unavailable naming
// the address (in use, not permitted). Returns owned.
struct server *server_open(const struct server_options *o, struct server_app app,
                           struct loop *const *loops, size_t loop_count, err *e) MUST_CHECK;
unsigned server_port(const struct server *s);  // 0 for a Unix socket

// Stops accepting, tells clients (Connection: close, GOAWAY), lets running exchanges end until the
// deadline, then cuts. close after drain.
void server_drain(struct server *s, uint64_t timeout_ns);
void server_close(struct server *s);
