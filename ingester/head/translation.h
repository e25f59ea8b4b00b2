// SPDX-License-Identifier: Apache-2.0
//
// translation.h - which rows of a service's own tables the rows of a distributor's lexicon are.
//
// A distributor sends the symbols of a service once, and then only new ones
// (docs/formats/batch.md): its *lexicon*. For each lexicon a translation keeps, for each row of its
// strings, functions, mappings, frames and stacks, the row of the service's table: 4 bytes, filled
// when the row comes. So the stack of a vector is found by one look into an array.
//
// No row can be mistaken for another. A lexicon's id is random, and its rows never change. A batch
// says how many rows it relies on, and is refused if they are not here. Rows that come again are
// compared with the rows that they became. A translation belongs to one table of symbols, by an age
// that no other table ever has: when a service leaves the head and comes back, or its rows get new
// numbers (head_compact.c), translations of the former table are not found any more.
//
// A batch that relies on unknown rows is refused with not_found, and the distributor sends it again
// with all its symbols. Nothing is kept on disk. Memory is that of the head, at most the limit set
// here. Beyond it the tenants pay that have most of it: tenants are told apart by a hash, as one of
// TRANSLATION_GROUPS, and the group with the most bytes loses the translation that it has not used
// for longest. With limit 0 this ingester takes no lexicons.
//
// Threads: any. The rows of a translation are read and written under the lock of its service; it is
// found and dropped under the lock of all translations, which is taken inside that one.
#pragma once

#include "base/shelf.h"
#include "model/batch.h"
#include "sys/lock.h"

enum {
    TRANSLATION_TABLES = 5,
    TRANSLATION_GROUPS = 256
};

struct translation {
    struct shelf_item item;
    _Atomic uint32_t refs;
    bool shelved;    // with the lock of all, as is `bytes`
    uint64_t bytes;  // counted in the sums
    uint32_t group;  // of its tenant
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
    struct {
        struct shelf shelf;
        size_t bytes;
    } groups[TRANSLATION_GROUPS];
    size_t bytes;
    size_t count;
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

// A new age, for a table of symbols that is new or whose rows were numbered anew.
uint64_t translations_age(struct translations *ts);

// The translation of the lexicon of the tenant's batch into `to`, whose age is given; the batch's
// new rows are added to both. Returns a reference. Fails with not_found (the batch must come with
// all its symbols) or resource_exhausted.
struct translation *translation_take(struct translations *ts, str tenant, const struct batch *b,
                                     struct symbols *to, uint64_t age, err *e) MUST_CHECK;
void translation_unref(struct translations *ts, struct translation *t);

// Says that a batch must come with all its symbols; always false.
bool translation_refuse(struct translations *ts, const struct batch *b, const char *why, err *e);

// For each stack of the lexicon its row in the service's table.
static inline const uint32_t *translation_stacks(const struct translation *t)
{
    return t->rows[TRANSLATION_TABLES - 1].to;
}
