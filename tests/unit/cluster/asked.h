// SPDX-License-Identifier: Apache-2.0
//
// asked.h - a node that answers probes, and what another node asks it with.
#pragma once

#include "cluster/probe.h"
#include "rpc/route.h"

struct asked {
    struct mem_budget memory;
    struct loop *loop;
    struct client *client;
    struct router *router;
    struct server *server;  // NULL: nobody answers
    struct members *members;
    struct node_identity self;  // of the node that asks
};

// `rows` are answered with `self`. Nobody listens yet.
void asked_open(struct asked *x, const struct rpc_method *rows, size_t n, void *self);
unsigned asked_serve(struct asked *x, unsigned port);  // 0: any; returns the port
void asked_serve_no_more(struct asked *x);
void asked_close(struct asked *x);
