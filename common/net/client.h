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

// Answers count against memory. Calls beyond connections_per_host to one address wait for their
// turn; so does nobody for another address.
struct client *client_new(struct loop *l, struct mem_budget *memory, unsigned connections_per_host,
                          err *e) MUST_CHECK;
void client_free(struct client *c);  // all calls must have ended

// For calls with tls: whom to trust (NULL: the system's CAs), and our own certificate and key
// (NULL: none shown). PEM files, which are read now; before the first call, and again when they
// changed, for connections to come. Fails naming the file; then what was there stays. Not from the
// loop.
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

// Who asks, for calls to other nodes that say so (rpc/peer.h): the node's name and the cluster that
// its store is of. Copied; what was told stays in memory as long as the client, as calls borrow it.
// One thread says it. False, of any thread: nothing was said.
void client_introduce(struct client *c, str node, str cluster);
bool client_introduction(const struct client *c, str *node, str *cluster);

struct http_call {
    struct call call;
    // asked; everything borrowed until the call ended
    const char *method;
    str address;
    str path;  // with query
    struct http_headers headers;
    str body;
    size_t answer_max;  // bytes
    bool tls;
    // answered
    unsigned status;
    struct http_headers answer_headers;  // live until http_call_release
    struct buf answer;                   // owned: http_call_release
    struct http_call_private *inner;     // private, as what follows
    struct exchange *near;
    uint64_t near_started_ns;
};

// Starts it under r's deadline; finish with call_wait/call_gather on &c->call, then release. Fails
// (through the wait) with unavailable when nobody answers, deadline_exceeded, or resource_exhausted
// when the answer exceeds answer_max. A status other than 200 is not a fault.
void http_start(struct client *cl, struct req *r, struct http_call *c, enum rank rank);
void http_call_release(struct http_call *c);
