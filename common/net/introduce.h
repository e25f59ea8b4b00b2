// SPDX-License-Identifier: Apache-2.0
//
// introduce.h - private to net: what a client says of its own node (client.h, client_introduce).
#pragma once

#include "base/str.h"

#include <stdatomic.h>

struct introduction;

struct introductions {
    struct introduction *all;  // that ever were in force, as calls borrow them
    _Atomic(const struct introduction *) now;
};

void introductions_say(struct introductions *v, str node, str cluster);
bool introductions_get(const struct introductions *v, str *node, str *cluster);
void introductions_release(struct introductions *v);
