// SPDX-License-Identifier: Apache-2.0
//
// facts.h - profiles as tests know them, as batches that an ingester takes, and what a query over
// them must give by brute force.
#pragma once

#include "ingester/head/head.h"
#include "lib/test.h"
#include "model/batch.h"
#include "model/vector.h"
#include "unit/model/stacks.h"

#define FACT_STACKS  12  // texts in fact_stacks
#define FACT_ENTRIES 4

extern const char *const fact_stacks[FACT_STACKS];

extern const char *const fact_services[3];
extern const char *const fact_tenants[2];
extern const char *const fact_types[3];
extern const char *const fact_pods[5];

#define FACT_NOTES 4
extern const char *const fact_notes[FACT_NOTES];

struct fact {
    unsigned tenant;
    unsigned service;
    unsigned type;
    unsigned pod;
    bool sampled;
    int64_t time_ns;
    id128 id;
    struct vector_entry entries[FACT_ENTRIES];  // number in fact_stacks
    size_t n;
    uint64_t span_id;  // of entries[0]; 0 = none
    int64_t total;
    unsigned note;  // its annotation; 0 = none
};

// A small generator, so that a seed gives the same facts everywhere.
struct dice {
    uint64_t state;
};

uint64_t roll(struct dice *d, uint64_t sides);
struct fact fact_roll(struct dice *d, int64_t from_ns, int64_t span_ns);

// In the arena.
labels fact_labels(struct arena *a, const struct fact *f);

// What a distributor has told of one service.
struct fact_lexicon {
    id128 id;
    struct symbols s;
    struct symbol_counts told;
};

void fact_lexicon_init(struct fact_lexicon *l, struct dice *d);

// The bytes of a Batch of these facts, all of one tenant and service, whose symbols are added to s;
// with a lexicon those that are in it, else all of them. The arena's.
str fact_batch_of(struct arena *a, const struct fact *facts, size_t n, struct symbols *s,
                  const struct fact_lexicon *l);
str fact_batch(struct arena *a, const struct fact *facts, size_t n);
bool fact_matches(struct arena *a, const struct fact *f, const struct head_query *q);

// The tree of all facts that match, as text; the arena's.
str fact_tree(struct arena *a, const struct fact *facts, size_t n, const struct head_query *q,
              uint64_t span_id, uint64_t *profiles);
str merge_text(struct arena *a, const struct merge *m);

// Random matchers over the labels that facts have.
void fact_selector(struct arena *a, struct dice *d, struct selector *sel);
