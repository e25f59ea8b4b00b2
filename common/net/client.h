// SPDX-License-Identifier: Apache-2.0
//
// client.h - HTTP/1.1 requests to other processes (libcurl on a loop), waited for by jobs.
//
// libcurl 7.88 cannot reuse h2c connections, so HTTP/1.1 with keep-alive is pinned. Addresses are
// "host:port" or "unix:/path". Calls to a server of the same process stay inside it (loopback.h).
#pragma once

#include "loop/call.h"
#include "loop/loop.h"
#include "net/http.h"

struct client;

// Answers count against memory. At most connections_per_host calls to one address run at a time;
// further calls to it wait in order. Calls to different addresses never wait for each other.
struct client *client_new(struct loop *l, struct mem_budget *memory, unsigned connections_per_host,
                          err *e) MUST_CHECK;
void client_free(struct client *c);  // all calls must have ended

// For calls with tls: the authorities to trust (NULL: the system's), and our own certificate and
// key (NULL: we show none). These are PEM files, and are read now. Call it before the first call,
// and again after the files changed: new connections then use the new contents. Fails naming the
// file; the contents read before stay in use. Not from the loop.
struct client_tls {
    const char *ca_file;
    const char *cert_file;
    const char *key_file;
};
bool client_set_tls(struct client *c, const struct client_tls *tls, err *e) MUST_CHECK;
bool client_has_certificate(const struct client *c);

// Calls without tls to `address` go to this server's application at once, without a socket. Before
// the first call; the server must live longer than all calls. One address, borrowed.
struct server;
void client_loopback(struct client *c, str address, struct server *s);

// Sets the name of our own node and the cluster of its store, which calls to other nodes carry
// (rpc/peer.h). Both are copied and stay in memory as long as the client, because calls borrow
// them. Only one thread may call client_introduce; client_introduction may be called from any
// thread and returns false as long as nothing was set.
void client_introduce(struct client *c, str node, str cluster);
bool client_introduction(const struct client *c, str *node, str *cluster);

struct http_call {
    struct call call;
    // the request; everything is borrowed until the call has ended
    const char *method;
    str address;
    str path;  // with query
    struct http_headers headers;
    str body;
    size_t answer_max;  // bytes
    unsigned stall_s;   // ends, as unavailable, when for so long no byte moves; 0: never
    bool tls;
    // the answer
    unsigned status;
    struct http_headers answer_headers;  // live until http_call_release
    struct buf answer;                   // owned: http_call_release
    // private
    struct http_call_private *inner;
    struct exchange *loopback;  // or NULL
    uint64_t loopback_started_ns;
};

// Starts it under r's deadline; finish with call_wait/call_gather on &c->call, then release. Fails
// (through the wait) with unavailable when no server answers, deadline_exceeded, or
// resource_exhausted when the answer exceeds answer_max. A status other than 200 is not a fault.
void http_start(struct client *cl, struct req *r, struct http_call *c, enum rank rank);
void http_call_release(struct http_call *c);
