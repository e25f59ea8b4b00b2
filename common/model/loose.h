// SPDX-License-Identifier: Apache-2.0
//
// loose.h - rows that two ingesters may have, and who counts them.
//
// A distributor that lost sight of an ingester gives its records to another one with attempt > 0;
// the first may have stored them all the same. Rows with attempt > 0 are loose: another ingester
// may have the same row, with attempt 0 or loose as well, now or later (a stopped process goes on
// with what it had received). A row with attempt 0 is in no other ingester with attempt 0.
//
// A question goes to all heads as if there were none, and each names the loose rows that it
// summed. If nobody names any, the answers are exact. Else the question goes out again with all
// names; each row is assigned to one of those that named it, its keeper. A head then counts
//
//     a row of the list      if it is the keeper, whatever its attempt
//     any other row          if its attempt is 0
//
// so each row of the list counts once. A loose row that is not on the list came after the head's
// first answer: its push was not acknowledged when the question was asked, or another ingester has
// it with attempt 0. Nobody has to wait for anybody, and two rounds are always enough.
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
    uint32_t keeper;  // a number that the owner of the set gives meaning to
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

// The same for who cannot stop: the first failure is kept in `fault`.
void loose_note(struct loose_set *s, struct loose_key key);

// NULL if the row is not in the set.
const struct loose_row *loose_find(const struct loose_set *s, struct loose_key key);

// All keys of a keeper as bytes, and back: adds them. Fails with invalid_argument if the length is
// not that of whole keys.
void loose_encode(const struct loose_set *s, uint32_t keeper, struct buf *out);
bool loose_decode(struct loose_set *s, str bytes, uint32_t keeper, err *e) MUST_CHECK;
