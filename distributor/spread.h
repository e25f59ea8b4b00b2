// SPDX-License-Identifier: Apache-2.0
//
// spread.h - how many ingesters the series of a tenant or service need, by the rate of its pushes.
//
// For each key (a tenant, or a service of one) a decaying average says how many bytes a second this
// distributor sees. One ingester is enough for `per` bytes a second, and each further `per` needs
// one more. The number grows as soon as the rate asks for it. It shrinks once one and a half times
// the rate has asked for fewer during SPREAD_CALM_NS without a break, and then to the most that
// this asked for meanwhile. So a rate that swings does not move it.
//
//     rate   ___/~~~\__/~~~\__/~~\_______________
//     n      1 | 3                       | 1
//                                <-calm->
//
// One ingester may be enough for a service and have three times another's load all the same: where
// many ingesters are busy with few services, one on each, some have several and some have none. So
// a tenant or service is spread over more than it needs, if `per` is less (spread_even): what an
// ingester has then consists of at least SPREAD_PIECES pieces, and the fullest has about
// 1 + 1.5 / sqrt(pieces) of its share (docs/scaling.md).
//
// A label set of a service that needs several has a key too. One that pushes more than an ingester
// should take is hot: its pushes take turns among as many ingesters as it needs (dispatch.h).
//
// The table is bounded. A key without a place counts as needing one ingester, as most services do.
// A new key takes the place of the smallest neighbour that needs one, never of a key that needs
// more. Thread-safe; the time is an argument.
#pragma once

#include "base/str.h"
#include "sys/lock.h"

#define SPREAD_KEYS    65536
#define SPREAD_CALM_NS (UINT64_C(600) * 1000000000)
#define SPREAD_PIECES  25
#define SPREAD_FINEST  100  // of these pieces an ingester takes no more

struct spread_entry;

struct spread {
    struct lock lock;
    struct spread_entry *entries;  // hash table of SPREAD_KEYS, and one for all
    uint64_t wide;                 // entries that need more than one
    uint64_t changes;              // of such numbers, since the start
    uint64_t turns;                // that were taken
};

void spread_init(struct spread *s);
void spread_release(struct spread *s);

// service empty: the key of the tenant as a whole.
uint64_t spread_key(str tenant, str service);

// The key of a label set, of the service's key and the hash of the labels as sent.
uint64_t spread_series_key(uint64_t service_key, uint64_t labels_hash);

// The key of the same for evenness, with another `per`.
uint64_t spread_even_key(uint64_t key);

// A number for a request: each is one more than the one before.
uint64_t spread_turn(struct spread *s);

// Counts bytes that came at this time, for spread_even.
void spread_note_all(struct spread *s, uint64_t bytes, uint64_t mono_ns);

// Bytes a second of all.
uint64_t spread_all(struct spread *s, uint64_t mono_ns);

// The `per` of even ingesters: a SPREAD_PIECES-th of the share that each of so many has of all that
// comes, between a SPREAD_FINEST-th of `per` and `per`. As little as that is no load, and a service
// on one ingester takes less memory. Each distributor measures a like part of what all push, so
// they come to like numbers.
uint64_t spread_even(struct spread *s, size_t ingesters, uint64_t per, uint64_t mono_ns);

// Counts bytes that came at this time.
void spread_note(struct spread *s, uint64_t key, uint64_t bytes, uint64_t per, uint64_t mono_ns);

// How many ingesters the key needs, at least 1.
uint32_t spread_need(struct spread *s, uint64_t key, uint64_t per, uint64_t mono_ns);
