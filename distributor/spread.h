// SPDX-License-Identifier: Apache-2.0
//
// spread.h - how many ingesters a tenant's and a service's series need, by what they push.
//
// Of each key (a tenant, or a service of one) a decaying average says how many bytes a second this
// distributor sees. One ingester is enough up to `per` of them, and every further `per` needs one
// more. That number grows as soon as the rate asks for it. It shrinks when the rate, and half as
// much again, has asked for fewer during SPREAD_CALM_NS without a break, and then to the most that
// it asked for meanwhile; so a rate that swings does not move it.
//
//     rate   ___/~~~\__/~~~\__/~~\_______________
//     n      1 | 3                       | 1
//                                <-calm->
//
// The table is bounded. Most services are tiny and need one, and so does a key without a place: a
// new key takes the place of the least of its neighbours that needs one, never of one that needs
// more. Thread-safe; the time is an argument.
#pragma once

#include "base/str.h"
#include "sys/lock.h"

#define SPREAD_KEYS    65536
#define SPREAD_CALM_NS (UINT64_C(600) * 1000000000)

struct spread_entry;

struct spread {
    struct lock lock;
    struct spread_entry *entries;  // hash table of SPREAD_KEYS
    uint64_t wide;                 // entries that need more than one
    uint64_t changes;              // of such numbers, since the start
};

void spread_init(struct spread *s);
void spread_release(struct spread *s);

// service empty: of the tenant as a whole.
uint64_t spread_key(str tenant, str service);

// So many bytes came at this time.
void spread_note(struct spread *s, uint64_t key, uint64_t bytes, uint64_t per, uint64_t mono_ns);

// Ingesters that it needs, at least 1.
uint32_t spread_need(struct spread *s, uint64_t key, uint64_t per, uint64_t mono_ns);
