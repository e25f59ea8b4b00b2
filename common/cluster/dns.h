// SPDX-License-Identifier: Apache-2.0
//
// dns.h - the addresses behind a name, by DNS (c-ares).
//
//     dns:NAME:PORT           addresses of NAME (A and AAAA), with this port: a headless service
//     dns:_PORT._tcp.NAME     hosts and ports of NAME (SRV, RFC 2782), such as
//                             dns:_internal._tcp.flametree-ingester.profiles.svc.cluster.local.
//                             Hosts stay names, which is what certificates have
//
// Names that do not end in a dot are tried in the domains of /etc/resolv.conf too. That file is
// read at each look-up, as it may change.
#pragma once

#include "base/arena.h"

#include <stdatomic.h>

#define DNS_PREFIX "dns:"

struct dns_name {
    str name;
    unsigned port;  // 0: of SRV records
};

// Does an entry of a member list begin with "dns:"?
bool dns_is(str entry);

// Fails with invalid_argument. The name borrows from the entry.
bool dns_parse(str entry, struct dns_name *out, err *e) MUST_CHECK;

// The addresses, sorted, each once; the arena's. Blocks, for `timeout_ns` at most; returns early
// with ERR_CANCELED once *stop is true. servers: "host:port,..." to ask; empty: those of
// /etc/resolv.conf. Fails with unavailable: no server answered, the name does not exist or has no
// address.
struct dns_options {
    const char *servers;
    uint64_t timeout_ns;
    const atomic_bool *stop;
};
bool dns_look_up(const struct dns_name *name, const struct dns_options *o, struct arena *a,
                 str **addresses, size_t *n, err *e) MUST_CHECK;
