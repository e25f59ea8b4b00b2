// SPDX-License-Identifier: Apache-2.0
//
// introduce.h - private to net: the node and cluster names that a client sends with its calls
// (client.h, client_introduce). Old ones are kept, because running calls borrow them.
#pragma once

#include "base/str.h"

#include <stdatomic.h>

struct introduction;

struct introductions {
    struct introduction *all;  // all that were ever set
    _Atomic(const struct introduction *) now;
};

void introductions_say(struct introductions *v, str node, str cluster);
bool introductions_get(const struct introductions *v, str *node, str *cluster);
void introductions_release(struct introductions *v);
