// SPDX-License-Identifier: Apache-2.0
//
// peer.h - calls to another node: Connect unary with protobuf bodies over net/client.
//
// Tenant, request id and the rest of the deadline travel in headers. An error answer becomes the
// err that the other node's handler returned. A client that has a certificate speaks TLS to other
// nodes, but not over Unix sockets.
//
//     peer_start(client, r, &c, address, path, message, RANK_INGESTER, max);
//     ok = call_wait(r, &c.http.call, e) && peer_answer(&c, &answer, e);
//     ...                                                    answer borrows from c
//     peer_release(&c);
#pragma once

#include "net/client.h"

#include <protobuf-c/protobuf-c.h>

// Headers that name the asking node and, if known, the cluster of its store. A node of another
// cluster is refused with failed_precondition (route.h, `admit`).
#define PEER_CLUSTER "flametree-cluster"
#define PEER_NODE    "flametree-node"

// The CRC32C of path, tenant and message of a request, and of the message of an answer: a proxy or
// a network card on the way may damage bytes that TCP then carries without a fault. A request that
// does not agree with it, or comes without it, is refused; an answer likewise counts as none.
#define PEER_SUM "flametree-crc32c"
str peer_sum(struct arena *a, str path, str tenants, str message);  // of an answer: both empty

// The asking node's wall clock in milliseconds. A node whose clock is far off is refused likewise.
#define PEER_TIME "flametree-time"

// With an error: it is for something that the tenant has too much of, so the request must not go to
// another node instead, where it would take as much. Older nodes do not send it.
#define PEER_FINAL "flametree-final"

struct peer_call {
    struct http_call http;
};

// Starts a call of `path` at `address` with the given message bytes (borrowed until it ended).
void peer_start(struct client *cl, struct req *r, struct peer_call *c, str address,
                const char *path, str message, enum rank rank, size_t answer_max);

// After the wait: the answer's bytes, borrowed until peer_release; false with the error of the
// other node or of the transport.
bool peer_answer(struct peer_call *c, str *message, err *e) MUST_CHECK;
bool peer_is_final(const struct peer_call *c);  // whether an error has PEER_FINAL
void peer_release(struct peer_call *c);
