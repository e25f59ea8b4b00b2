// SPDX-License-Identifier: Apache-2.0
//
// loopback.h - private to net: calls that stay inside the process.
//
// A call to a server of this process (client_loopback) needs no socket, no parser and no other
// thread: the asking job makes the exchange itself and, if the lane has room, runs the handler on
// its own thread, counted as a job of that lane. Otherwise it waits in the lane like any other job.
// The application sees the same head and limits as over HTTP, and its answers, refusals and
// statuses have the same effect.
#pragma once

#include "net/client.h"
#include "net/server.h"

// As http_start; the answer's memory counts against `memory`.
void loopback_start(struct server *s, struct mem_budget *memory, struct req *r, struct http_call *c,
                    enum rank rank);
void loopback_release(struct http_call *c);
