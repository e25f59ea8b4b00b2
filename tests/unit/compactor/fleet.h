// SPDX-License-Identifier: Apache-2.0
//
// fleet.h - facts (profiles of a few made-up services), segments of them written by the real
// writer, and what blocks must say about them: added up one by one.
#pragma once

#include "block/order.h"
#include "block/source.h"
#include "compactor/job.h"
#include "lib/memstore.h"
#include "lib/test.h"
#include "manifest/manifest.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define FLEET_TENANT  "team-a"
#define FLEET_ENTRIES 6

struct fact {
    int64_t time_ns;
    id128 id;
    uint32_t attempt;
    uint32_t service;
    uint32_t type;
    uint32_t series;
    int64_t factor;
    uint32_t n;
    struct vector_entry v[FLEET_ENTRIES];  // stacks of the service's universe; without the factor
    bool span;
    uint64_t copies;  // further copies that are in segments
};

struct fleet {
    uint64_t seed;
    struct fact *facts;
    size_t n;
    size_t cap;
    uint64_t cut;
    struct mem_budget memory;
};

uint64_t fleet_random(struct fleet *f, uint64_t below);
void fleet_init(struct fleet *f, uint64_t seed);
void fleet_release(struct fleet *f);
const char *fleet_service(uint32_t i);
uint32_t fact_part(const struct fact *x, uint32_t parts);
bool fact_is_hidden(const struct fact *x, const struct hide *h);
struct fact *fleet_add(struct fleet *f, int64_t time_ns);

// Facts of an hour: times on its borders as well.
void fleet_hour(struct fleet *f, int64_t hour, size_t n);

// ---- segments

// A segment of these facts, all of one hour. `retried`: copies with a raised attempt.
void fleet_segment(struct fleet *f, struct store *store, const size_t *which, size_t n,
                   bool retried);

// All facts from number `first` on into segments of up to `most` rows; every tenth fact a second
// time into another segment, as a retry does.
void fleet_flush(struct fleet *f, struct store *store, size_t first, size_t most);

// ---- what blocks say

// Everything in a block, against the facts that it must have.
void check_block(struct fleet *f, struct store *s, str name, uint64_t bytes, const bool *within);
