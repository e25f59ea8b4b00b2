// SPDX-License-Identifier: Apache-2.0
//
// server.h - HTTP/1.1, h2c with prior knowledge and TLS (ALPN h2, http/1.1) on one port.
//
// The first bytes of a connection decide: TLS record, HTTP/2 preface, or HTTP/1.1. In each case the
// application sees a struct http_exchange. Its life:
//
//     HEAD     head is parsed            loop    app.head(): choose lane and body limit, or answer
//     BODY     body arrives              loop    over the limit: app.refuse
//     QUEUED   body is complete          loop    lane_submit; lane full: app.refuse
//     RUNNING  app.run()                 worker  plain sequential code, fills the answer
//     HELD     answer waits              loop    until hold_until_mono_ns, if that is set
//     ANSWER   answer is written         loop    only the loop waits for slow clients; a small
//                                                answer may be sent by its worker (exchange.h)
//     DONE     arena released
//
// When the client goes away, req.canceled is set; a running handler finishes and its answer is
// dropped. An HTTP/1.1 client that only closed its sending half counts as gone but is still
// answered.
//
// app.refuse writes an error in the form of the request's protocol. x->status holds the HTTP status
// that fits: 413 (body over its limit), 429 (memory, lane, answer over its cap), 408 (body too
// slow), 400 (malformed chunks), 499, 500, 503, 504 by the fault's code. Its memory counts against
// the budget `refusals`, so it works when the other one is used up. When both are, the body is only
// the code's name, and a request without room for itself ends its stream or connection. Messages
// that are no request (bad request line, head too large or too slow) are answered here, in plain
// text, with Connection: close.
//
// Limits (struct server_options): head bytes, header count, body bytes, streams per connection,
// connections, and times. Against smuggling: names with spaces, bare LF, both Content-Length and
// Transfer-Encoding, repeated Content-Length are refused (h1_head.h has the list). Against h2
// floods: frames that clients send too many of are counted per interval (h2.c lists them). Memory
// of requests counts against the budget `memory`. Answers that wait to be read count against
// `answers`, of which each connection and each tenant has a share (held.h). When a budget or share
// is used up, requests get 429 (Connect: resource_exhausted) with Retry-After: 1. A connection
// itself is not counted: it takes less than 1 KiB, with HTTP/2 some 15 KiB; connections_max is
// their limit.
#pragma once

#include "loop/lane.h"
#include "loop/loop.h"
#include "net/http.h"

struct http_exchange {
    struct req req;
    str method;
    str path;    // before '?', as sent; an application may take a prefix away
    str prefix;  // that it took away; empty: none
    str query;   // after '?'
    str authority;
    str peer;          // address of the client
    unsigned version;  // 11 or 20
    bool tls;
    struct http_headers headers;
    struct buf body;  // complete when app.run is called

    // set by app.head
    struct lane *lane;    // NULL: app.run is called on the loop at once, and must not block
    size_t body_max;      // bytes; 0: no body is taken
    void *route;          // for the application
    bool answers_little;  // its answers are small: not refused because others are unread (held.h)

    // the answer, set by run, refuse or head. Its body is either `fixed` (not copied; the bytes may
    // lie in the arena, the body or static memory) or `out`. Header names are in lower case; net
    // adds content-length and all others that frame the message. The application answers HEAD as if
    // it were GET, and net leaves the body out. If `out` failed or the arena is exhausted, net
    // calls app.refuse instead of sending the answer.
    unsigned status;
    struct http_headers answer_headers;
    struct http_headers trailers;  // of HTTP/2 without a body they join the head
    struct buf out;                // cap request_memory_max unless the application changes it
    str fixed;
    uint64_t hold_until_mono_ns;  // the loop keeps the answer back until then; no worker waits
    bool final;                   // of an error: other nodes are not to be asked (rpc/peer.h)
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

    // Must this request be answered even if memory is used up? Its head is filled in. Loop. NULL:
    // no request must.
    bool (*vital)(void *self, const struct http_exchange *x);
};

struct server_options {
    const char *name;           // "public", "internal"; in logs and metrics
    const char *listen;         // "127.0.0.1:4040", "[::]:0", "unix:/path"
    const char *tls_cert_file;  // NULL: no TLS
    const char *tls_key_file;
    const char *tls_client_ca_file;  // clients must show a certificate of these; NULL: none asked
    bool tls_required;               // with TLS: refuse connections without it
    struct mem_budget *memory;
    struct mem_budget *refusals;  // of requests that did not fit into memory; NULL: not counted
    struct mem_budget *reserve;   // of vital requests; NULL: not counted
    size_t request_memory_max;    // cap of one request's arena
    size_t head_max;              // bytes of one head
    unsigned headers_max;
    unsigned streams_max;  // concurrent, per connection
    unsigned connections_max;
    uint64_t head_timeout_ns;    // for a whole head, and for a TLS handshake
    uint64_t body_timeout_ns;    // for each 64 KiB of a body
    uint64_t idle_timeout_ns;    // between requests
    uint64_t write_timeout_ns;   // for each 64 KiB of an answer
    struct mem_budget *answers;  // of answers until they are read; NULL: as requests, no shares
    size_t answers_connection;   // of these, a connection's share; 0: all
    size_t answers_tenant;       // and a tenant's
    uint64_t
        answer_timeout_ns;  // for a whole answer, and for what is unread by answer_rate; 0: none
    size_t answer_rate;     // bytes a second
    uint64_t request_timeout_ns;  // deadline of a request unless its protocol sets a shorter one
    enum rank rank;
};

struct server;

// Binds and listens on the first loop, spreads connections over all. Fails with unavailable naming
// the address (in use, not permitted), or with invalid_argument naming a TLS file. Options are
// copied, their strings borrowed until server_close, as are the loops. Returns owned.
struct server *server_open(const struct server_options *o, struct server_app app,
                           struct loop *const *loops, size_t loop_count, err *e) MUST_CHECK;

// Can a listener be opened with these files? client_ca_file may be NULL. Fails with
// invalid_argument naming the file.
bool server_check_tls(const char *cert_file, const char *key_file, const char *client_ca_file,
                      err *e) MUST_CHECK;

// Reads the TLS files again, for new connections; open ones keep theirs. True without TLS. Fails
// with invalid_argument naming the file; the files read before then stay in use. Any thread, before
// server_close.
bool server_reload_tls(struct server *s, err *e) MUST_CHECK;
unsigned server_port(const struct server *s);  // 0 for a Unix socket

// Stops accepting, tells clients (Connection: close, GOAWAY), lets running exchanges end until the
// deadline, then cuts: canceled handlers may still run when it returns.
void server_drain(struct server *s, uint64_t timeout_ns);

// Closes connections that are not drained and waits until no handler runs any more. The lanes must
// still be alive.
// NULL is fine.
void server_close(struct server *s);
