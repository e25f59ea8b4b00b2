// SPDX-License-Identifier: Apache-2.0
//
// asked.h - a service behind a real server on loopback that always gives the same answer and notes
// what it was asked last; and a client for those who ask.
#pragma once

#include "lib/test.h"
#include "net/client.h"
#include "net/server.h"

struct asked {
    char url[64];  // "http://127.0.0.1:PORT"
    const char *answer;
    struct client *client;
    char path[512];  // of the last question, and
    char body[4096];
    struct mem_budget memory;
    struct loop *loop;
    struct server *server;
};

void asked_start(struct asked *a, const char *answer);
void asked_end(struct asked *a);
