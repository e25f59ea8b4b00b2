// SPDX-License-Identifier: Apache-2.0
//
// rate.h - how much a tenant may push: a token bucket for each tenant that has a rate.
//
// A bucket holds up to `burst` bytes and fills at `rate` bytes a second, of which each distributor
// grants its share, because it sees its share of a tenant's pushes. The burst is not shared: a push
// comes to one of them as a whole. A push that finds too little takes nothing and is refused; a
// push that is larger than the burst always is. Thread-safe; the time is an argument.
#pragma once

#include "base/str.h"
#include "sys/lock.h"

#define RATE_TENANTS_MAX 16384

struct rate_bucket;

struct rates {
    struct lock lock;
    struct rate_bucket *buckets;  // hash table of RATE_TENANTS_MAX, by tenant
};

void rates_init(struct rates *r);
void rates_release(struct rates *r);

// Whether the tenant may push n bytes now; if so, takes them. rate in bytes per second, 0 = no
// limit.
bool rates_take(struct rates *r, str tenant, double rate, double burst, size_t distributors,
                uint64_t n, uint64_t mono_ns);
