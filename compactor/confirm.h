// SPDX-License-Identifier: Apache-2.0
//
// confirm.h - before a tenant's profiles are hidden, nobody may acknowledge further ones: which
// ingesters have confirmed that they refuse its pushes, and which are waited for.
//
// Whom a process acknowledges for is no matter of lists of members, which differ: each acknowledges
// in streams that are registered (manifest/stream.h). So, once v1/closed/<tenant> is there,
//
//     1. the streams are listed, and the processes that registered them are asked at their
//        addresses to list closed tenants; members of the list as well
//     2. a process that answers that it knows is waited for no more: it refuses in all its streams
//     3. of the others the streams are waited for, until they are not registered any more: they
//        were flushed by their owner or by who adopted them, or a person gave them up. Nothing is
//        acknowledged in them any more
//
// A stream that is registered after the LIST of 1 acknowledges nothing before its process has
// listed closed tenants in turn, with this one among them (ingester/roll.h).
//
// A boot, not an address or a node's name, says who answered: what another process at that address
// knows tells nothing of one that is cut off.
#pragma once

#include "base/ulid.h"
#include "manifest/stream.h"

struct work;

// A stream in which pushes of the tenant may still be acknowledged.
struct unconfirmed {
    id128 stream;
    str node;  // that registered it; empty: not known
    str why;   // it has not confirmed
};

// Steps 1 to 3; those that are waited for, in the request's arena. False: the store does not list
// streams.
bool confirm_closed(struct work *w, struct req *r, str tenant, struct unconfirmed **v, size_t *n,
                    err *e) MUST_CHECK;

// An ingester that was asked.
struct confirm_answer {
    str address;
    id128 boot;      // of the process that answered; zeros: none, or an earlier program
    bool confirmed;  // it refuses the tenant's pushes
    str why;         // not
};

// Step 2 alone: the streams of the list whose processes are not among those that confirmed. `out`
// has room for a row for each stream; returns how many there are.
size_t confirm_left(struct arena *a, const struct registered *list, const struct confirm_answer *v,
                    size_t n, struct unconfirmed *out);
