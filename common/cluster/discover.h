// SPDX-License-Identifier: Apache-2.0
//
// discover.h - keeps the members what the configuration and DNS say, while the process runs.
//
// An entry of a list is id=address, or a name (dns.h). A thread takes over a configuration that was
// read again within a second, and looks names up in intervals:
//
//     an address that is new       is probed each second until a node answers that has the service.
//                                  Its own id is the member's, never the address: so a node that
//                                  comes back elsewhere is the same member
//     an address that is gone      its member goes
//     another node at an address   its member goes, and the address is probed anew (probe.h)
//     a look-up that fails         the last answer of this name holds; one line is logged, and one
//                                  when the name is found again
#pragma once

#include "cluster/member.h"
#include "rpc/peer.h"

struct discover_options {
    struct client *client;  // for probes alone
    struct members *members;
    const struct node_identity *self;
    uint64_t interval_ns;  // between look-ups of a name; not 0
    const char *servers;   // dns.h
    // The entries of a kind as they are configured now. What it returns must stay as it is until
    // discover_stop, and be at another place when the entries may have changed.
    void (*entries)(void *arg, enum member_kind kind, const char *const **v, size_t *n);
    void *arg;
};

struct discoverer;

// Pointers of the options are borrowed until discover_stop. Returns owned.
struct discoverer *discover_start(const struct discover_options *o, err *e) MUST_CHECK;
void discover_stop(struct discoverer *d);  // NULL is fine
