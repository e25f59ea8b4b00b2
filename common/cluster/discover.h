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
    // discover_free, and be at another place when the entries may have changed.
    void (*entries)(void *arg, enum member_kind kind, const char *const **v, size_t *n);
    void *arg;
};

struct discoverer;

// Pointers of the options are borrowed until discover_free. Returns owned.
struct discoverer *discover_start(const struct discover_options *o, err *e) MUST_CHECK;
void discover_stop(struct discoverer *d);  // ends the thread; NULL is fine
void discover_free(struct discoverer *d);  // once it is stopped; NULL is fine

// A name of the lists, and how its look-ups went. Times are of clock_mono_ns; 0: never.
struct discover_name {
    enum member_kind kind;
    str name;              // as it is in the list
    const str *addresses;  // the last that were found
    size_t n;
    uint64_t answered_mono_ns;  // the last look-up that found them
    uint64_t failed_mono_ns;    // the last that failed, and
    str why;                    // its message
    bool failing;               // the last one failed
};

// Copies of all names, in the arena, in order of kind. NULL with *n 0 when there are none or the
// arena is exhausted. Any thread, until discover_free.
struct discover_name *discover_names(struct discoverer *d, struct arena *a, size_t *n);
