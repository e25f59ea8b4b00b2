// SPDX-License-Identifier: Apache-2.0
//
// listener.h - the options of a listener that a test opens when it does not try limits: room for a
// few small requests, a minute for each step.
#pragma once

#include "base/mem.h"
#include "net/server.h"
#include "sys/clock.h"

struct server_options listener_for(const char *name, const char *listen, struct mem_budget *memory,
                                   enum rank rank);
