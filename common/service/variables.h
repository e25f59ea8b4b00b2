// SPDX-License-Identifier: Apache-2.0
//
// variables.h - is every FLAMETREE_* variable of the environment one that somebody reads?
//
// Known are the settings of this process, all that begins with the name of another service (one
// environment may be that of a whole cluster), what the client, the program and its tests read, and
// the links that Kubernetes gives every pod when a service is called flametree or flametree-*:
// FLAMETREE_SERVICE_HOST, FLAMETREE_PORT_4040_TCP_ADDR and the like. Pure.
#pragma once

#include "service/config.h"

#define VARIABLE_NAME_MAX 128

struct variable_fault {
    str name;                         // borrows from the environment; cut if it is very long
    char nearest[VARIABLE_NAME_MAX];  // a known one, or empty if none is near
};

// The next unknown variable of an environment from *at on, which moves behind it; false at the end.
bool variables_next_unknown(const struct config *c, const char *const *environment, size_t *at,
                            struct variable_fault *fault);
