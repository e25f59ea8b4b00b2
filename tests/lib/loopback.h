// SPDX-License-Identifier: Apache-2.0
//
// loopback.h - a process for tests of one service, with an invented ingester in the same process.
//
//     struct loopback n;
//     loopback_open(&n, &querier, rows, count, arg);   the service is started; rows are the
//     ingester exchange_go(&n.app, x, body);                    a request to its public listener
//     loopback_close(&n);                              asserts that all memory was given back
//
// Calls to the ingester stay inside the process (client_loopback), so a request runs on one thread.
#pragma once

#include "lib/listener.h"
#include "lib/test.h"
#include "service/service.h"
#include "sys/clock.h"

struct loopback {
    struct config *config;
    struct mem_budget memory;
    struct loop *loop;
    struct client *client;
    struct members *members;
    struct router *ingesters;
    struct server *server;
    struct process process;
    const struct service *service;
    void *self;
    struct router *router;
    struct server_app app;
};

void loopback_open(struct loopback *n, const struct service *service, const struct rpc_method *rows,
                   size_t count, void *arg);
void loopback_close(struct loopback *n);
