// SPDX-License-Identifier: Apache-2.0
//
// loose.h - rows that two ingesters may have, and at which one each of them counts.
//
// A distributor that gets no answer from an ingester sends its records to another one with attempt
// > 0; the first one may have stored them all the same. Rows with attempt > 0 are *loose*: another
// ingester may have the same row, with attempt 0 or loose, now or later (a process that stood still
// goes on with what it had received). No two ingesters have a row with attempt 0. An ingester that
// may have taken a record before, and does not know, raises its attempt itself
// (ingester/known_ids.h).
//
//     1. A query goes to all heads. Each counts all of its rows, and names the loose ones.
//     2. If no head names any, the answers are exact.
//     3. Else the query goes out again with all names. Each named row has one keeper, a head that
//        named it. Now a head counts
//
//            a named row       if this head is the keeper, whatever the row's attempt
//            any other row     if its attempt is 0
//
// So each named row counts once. A loose row that is not named came after the head's first answer:
// its push was not acknowledged when the query was asked, or another ingester has it with attempt
// 0. No head waits for another, and two rounds are always enough.
//
//     bytes of a key    series fingerprint (8, little-endian), profile id (16)
//
// Pure; one thread at a time, concurrent readers are fine.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/ulid.h"

#define LOOSE_KEY_BYTES 24

struct loose_key {
    uint64_t series;  // fingerprint
    id128 id;
};

struct loose_row {
    struct loose_key key;
    uint32_t keeper;  // its meaning is up to the owner of the set
};

struct loose_set {
    struct arena *arena;
    struct loose_row *v;  // in order of arrival
    uint32_t n;
    size_t cap;
    size_t most;
    struct map index;
    err fault;  // of the first loose_note that failed
};

// Holds at most `most` rows. Rows are the arena's, the index counts against `budget`; loose_release
// accepts the zero value.
void loose_init(struct loose_set *s, struct arena *a, struct mem_budget *budget, size_t most);
void loose_release(struct loose_set *s);

// Adds a row unless it is there already; the first keeper stays. Fails with resource_exhausted.
bool loose_add(struct loose_set *s, struct loose_key key, uint32_t keeper, err *e) MUST_CHECK;

// The same for callers that cannot fail: the first failure is kept in `fault`.
void loose_note(struct loose_set *s, struct loose_key key);

// NULL if the row is not in the set.
const struct loose_row *loose_find(const struct loose_set *s, struct loose_key key);

// Writes all keys of a keeper; and adds keys from these bytes, which fails with invalid_argument if
// they end within a key.
void loose_encode(const struct loose_set *s, uint32_t keeper, struct buf *out);
bool loose_decode(struct loose_set *s, str bytes, uint32_t keeper, err *e) MUST_CHECK;
