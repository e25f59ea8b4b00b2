// SPDX-License-Identifier: Apache-2.0
//
// translation.h - what the rows of a distributor's lexicon are in a service's own tables.
//
// A distributor sends the symbols of a service once and then only those that follow
// (docs/formats/batch.md). For each lexicon this keeps, by row of its strings, functions, mappings,
// frames and stacks, the row of the service's tables: 4 bytes, filled when the row comes. So the
// stack of a vector is one look into an array.
//
// Nothing can be mistaken: a lexicon's id is drawn at random and its rows never change; a batch
// says how many rows it takes for granted, and is refused if they are not here; rows that come
// again are compared with what they became. A translation is for one table of symbols: each has an
// age that no other one ever has, so when a service leaves the head and comes back, or its rows got
// other numbers (head_compact.c), what belongs to the former is not found.
//
// What is unknown is refused with not_found, and the distributor sends the batch with all its
// symbols. Nothing is kept on disk. Memory is that of the head, at most the limit set here; the
// ones longest unused go. 0: this ingester takes none.
//
// Any thread. The rows of one are read and written under the lock of its service; it is found and
// forgotten under the lock of all, which is taken inside of it.
#pragma once

#include "base/shelf.h"
#include "model/batch.h"
#include "sys/lock.h"

enum {
    TRANSLATION_TABLES = 5
};

struct translation {
    struct shelf_item item;
    _Atomic uint32_t refs;
    bool shelved;    // with the lock of all, as is `bytes`
    uint64_t bytes;  // counted in the sum
    id128 lexicon;
    uint64_t age;
    struct {
        uint32_t *to;
        size_t cap;
        uint32_t count;  // rows, row 0 included
    } rows[TRANSLATION_TABLES];
};

struct translations {
    struct mem_budget *budget;
    struct lock lock;  // of what follows
    struct shelf shelf;
    size_t bytes;
    _Atomic size_t limit;
    _Atomic uint64_t age;      // the newest
    _Atomic uint64_t refused;  // batches, since the start
};

void translations_init(struct translations *ts, struct mem_budget *budget);
void translations_release(struct translations *ts);
void translations_limit(struct translations *ts, size_t bytes);

struct translation_counts {
    size_t count;
    size_t bytes;
    uint64_t refused;
};
struct translation_counts translations_count(struct translations *ts);

// Of a table of symbols that is new, or whose rows were numbered anew.
uint64_t translations_age(struct translations *ts);

// What the rows of the batch's lexicon are in *to, whose age that is; its new rows are added to
// both. Returns a reference. Fails with not_found (send all of it), or resource_exhausted.
struct translation *translation_take(struct translations *ts, const struct batch *b,
                                     struct symbols *to, uint64_t age, err *e) MUST_CHECK;
void translation_unref(struct translations *ts, struct translation *t);

// Says that a batch must come with all its symbols; always false.
bool translation_refuse(struct translations *ts, const struct batch *b, const char *why, err *e);

// For each stack of the lexicon its row in the service's table.
static inline const uint32_t *translation_stacks(const struct translation *t)
{
    return t->rows[TRANSLATION_TABLES - 1].to;
}
