// SPDX-License-Identifier: Apache-2.0
//
// variables.h - finds FLAMETREE_* variables of the environment that no code reads.
//
// Known are: the settings of this process; names that begin with that of another service (a cluster
// may share one environment); the variables of the client, the program and its tests; and the links
// that Kubernetes sets in every pod when a service is called flametree or flametree-*, such as
// FLAMETREE_SERVICE_HOST and FLAMETREE_PORT_4040_TCP_ADDR. Pure.
#pragma once

#include "service/config.h"

#define VARIABLE_NAME_MAX 128

struct variable_fault {
    str name;                         // borrows from the environment; cut if it is very long
    char nearest[VARIABLE_NAME_MAX];  // a known one, or empty if none is near
};

// Finds the next unknown variable from *at on, and moves *at behind it. False at the end.
bool variables_next_unknown(const struct config *c, const char *const *environment, size_t *at,
                            struct variable_fault *fault);
