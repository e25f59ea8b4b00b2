// SPDX-License-Identifier: Apache-2.0
//
// rig.h - a small application behind a real server on loopback, and a plain blocking client.
//
//     GET  /hello          "hello\n"
//     POST /echo           the body
//     GET  /big            1 MiB of 'x'
//     GET  /here           answered by the loop itself, without a lane
//     GET  /empty          204
//     GET  /inject         a header value with a line end in it
//     GET  /none           the handler gives no answer
//     GET  /greedy         the handler uses up its memory, and says 200 nevertheless
//     GET  /wait           answers when rig_open_gate was called or the client is gone
//     anything else        404 from app.head
//
// Body limit 100 000 bytes. Refusals are answered with net's status and the fault's text.
#pragma once

#include "lib/await.h"
#include "net/client.h"
#include "net/server.h"
#include "sys/clock.h"
#include "sys/metric.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#define RIG_BODY_MAX 100000
#define RIG_LOOPS    2

struct rig {
    struct loop *loops[RIG_LOOPS];
    struct lane *lane;
    struct mem_budget memory;
    struct server *server;
    struct server_options options;
    pthread_mutex_t mutex;
    pthread_cond_t change;
    bool open;            // the gate of /wait
    unsigned waiting;     // handlers at the gate
    unsigned canceled;    // handlers whose client went away at the gate
    atomic_uint refused;  // calls of app.refuse
    char *big;
};

#define RIG_BIG ((size_t)1 << 20)

enum head_verdict rig_head(void *self, struct http_exchange *x);
void rig_wait(struct rig *r, struct http_exchange *x);
void rig_run(void *self, struct http_exchange *x);
void rig_refuse(void *self, struct http_exchange *x, const err *e);
struct rig *rig_new(void);
void rig_open(struct rig *r);
void rig_open_gate(struct rig *r);
void rig_await(struct rig *r, const unsigned *count, unsigned at_least);
void rig_free(struct rig *r);

// ---- the client's side

int rig_connect(const struct rig *r);
void rig_send(int fd, str bytes);

// Receives until `until` was seen or the connection ends; appends to b. True if it was seen.
bool rig_recv(int fd, struct buf *b, str until);

// One answer with Content-Length (or none of a body): its bytes are removed from the front of b.
struct rig_answer {
    unsigned status;
    struct buf head;
    struct buf body;
    bool closes;
};

void rig_answer_release(struct rig_answer *a);
bool rig_take_answer(int fd, struct buf *b, struct rig_answer *a, bool no_body);

// Sends one text on a fresh connection and returns everything until the server closes.
struct buf rig_exchange(const struct rig *r, str request, bool half_close);
