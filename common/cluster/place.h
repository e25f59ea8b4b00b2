// SPDX-License-Identifier: Apache-2.0
//
// place.h - which ingesters a series goes to, by rendezvous hashing. Only a hint: queries find the
// series wherever it went.
//
// Three steps (docs/design.md, Placement): the tenant's subset of the live ingesters; of those, `n`
// for (tenant, service); of those, one order for the label set as sent, so that all sample types of
// a profile stay together. Each step draws h = XXH64(key 0xff member id) for each member, and the
// highest come first.
//
// A member of weight w (cluster.weight, MEMBER_WEIGHT if it has none) gets w / sum of all weights
// of the keys: members come by w / -log2(h / 2^64), highest first ("weighted rendezvous",
// Schindelhauer and Schomaker 2005). With equal weights that is the order of h. So a change of one
// weight moves only keys of this member. The logarithm is of integers alone: all machines get the
// same order.
//
// Costs n log n for n members. Pure.
#pragma once

#include "cluster/member.h"

struct place_options {
    size_t tenant_members;   // size of a tenant's subset; 0 = all
    size_t service_members;  // n
};

// Orders all members for a label set: the owner first, then those to try if it does not answer.
// Dead members and those that want no traffic come last. `order` has room for n rows of `members`.
void place_order(const struct member *members, size_t n, const struct place_options *o, str tenant,
                 str service, uint64_t labels_hash, uint32_t *order);

// A hash of all that decides the order if every member is alive: ids and weights, in the order of
// members_of, and the options. Never 0, and odd. Whoever has the same one gives each record the
// same home (model/placings.h).
uint64_t place_print(const struct member *members, size_t n, const struct place_options *o);
