// SPDX-License-Identifier: Apache-2.0
//
// caller.h - a rig with a client that calls it: over the socket, and, where a test asks for it, by
// a second client that knows the server as one of its own process.
#pragma once

#include "unit/net/rig.h"

#define CONNECTIONS 4

struct caller {
    struct rig *rig;
    struct client *client;
    struct client *loopback;  // NULL until caller_loopback
    char address[128];        // empty until caller_open
    struct req req;
    struct mem_budget memory;
};

int caller_new(void **state);
void caller_open(struct caller *c);
int caller_loopback(void **state);
int caller_free(void **state);
struct http_call caller_call(const struct caller *c, const char *method, str path, str body);
