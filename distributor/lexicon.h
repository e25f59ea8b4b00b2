// SPDX-License-Identifier: Apache-2.0
//
// lexicon.h - the symbols that an ingester has been told already.
//
// Agents push the same names and stacks every few seconds. So a distributor keeps, for each tenant,
// service and ingester, the symbols of earlier pushes in one table, a lexicon, under an id that it
// drew for it. A push interns its stacks there, which finds nearly all of them, and what goes over
// the wire is the lexicon's id, the rows that the ingester was not told yet, and vectors of the
// lexicon's stacks. The ingester keeps what each row is in its own table
// (ingester/head/translation.h).
//
//     lexicons_take       one of this tenant, service and ingester, or none: then the push brings
//                         its symbols along (batch.symbols)
//     lexicon_lock        ... intern; rows are only added and never change ...
//     lexicon_lock        ... encode the rows behind `told` ...
//     lexicon_stored      the ingester has them: `told` grows
//     lexicons_refused    the ingester does not have the rows before (it started anew, forgot them,
//                         numbered its own rows anew): the lexicon ends, the push is sent with all
//                         its symbols, and later pushes begin another one
//
// Why nothing can be mistaken: an id names one table for ever, and a row of it never changes.
// `told` grows by acknowledgements alone. Pushes that are under way at once each send all rows
// behind `told`, so each stands for itself, whichever comes first; rows that come twice are
// compared by the ingester. A lexicon that ends lives on until the pushes that use it are over.
//
// Memory is distributor.lexicon_memory; beyond three quarters of it the ones longest unused go, for
// few newcomers: if there are more services than fit, some of them are always told all. One
// may take a quarter: what does not fit ends it, and its push brings its symbols along. Keys of the
// indexes are secret. Any thread; lexicons.lock is taken inside of no lexicon's lock.
#pragma once

#include "base/shelf.h"
#include "base/ulid.h"
#include "model/symbols.h"
#include "sys/lock.h"

struct lexicon {
    struct mem_budget memory;
    _Atomic uint32_t refs;
    id128 id;
    struct lock lock;  // of what follows
    struct symbols symbols;
    struct symbols_hints hints;
    struct symbol_counts told;
    uint64_t asked;         // stacks that pushes looked for
    _Atomic bool answered;  // the ingester took a batch with it
    _Atomic bool ended;
};

// Whose it is. Strings are borrowed.
struct lexicon_key {
    str tenant;
    str service;
    str member;
};

// What a member says of itself: whether it takes lexicons.
struct lexicon_member {
    char *id;
    size_t n;
    bool takes;
};

struct lexicons {
    struct mem_budget memory;
    struct lock lock;
    struct shelf shelf;  // of slots
    struct lexicon_member *members;
    size_t member_count;
    size_t member_cap;
    uint64_t turned_away;  // newcomers for whom there was no room, and those let in
    // What happened so far.
    _Atomic uint64_t opened;
    _Atomic uint64_t refused;
    _Atomic uint64_t evicted;
    _Atomic uint64_t full;
};

void lexicons_init(struct lexicons *ls, struct mem_budget *parent, size_t limit);
void lexicons_release(struct lexicons *ls);  // nobody uses them any more

// 0: none, not those that exist either. Cheap if it is as before.
void lexicons_limit(struct lexicons *ls, size_t limit);

// Returns a reference, or NULL: this member takes none, or there is no room.
struct lexicon *lexicons_take(struct lexicons *ls, const struct lexicon_key *k);
void lexicon_unref(struct lexicon *l);

static inline void lexicon_lock(struct lexicon *l)
{
    lock_take(&l->lock);
}
static inline void lexicon_unlock(struct lexicon *l)
{
    lock_give(&l->lock);
}

// It took no more rows: later pushes begin another one. Of one that mostly grew instead of being
// found, because its service never says the same twice, not at once.
void lexicons_full(struct lexicons *ls, const struct lexicon_key *k, struct lexicon *l);

// What an ingester answered to a batch: it stored it and has the first `to` rows; or it does not
// have those that were told; and whether it takes lexicons at all.
void lexicon_stored(struct lexicon *l, const struct symbol_counts *to);
void lexicons_refused(struct lexicons *ls, const struct lexicon_key *k, struct lexicon *l);
void lexicons_note_member(struct lexicons *ls, str member, bool takes);

struct lexicon_facts {
    size_t count;
    size_t bytes;
    uint64_t opened;
    uint64_t refused;
    uint64_t evicted;
    uint64_t full;
};
struct lexicon_facts lexicons_facts(struct lexicons *ls);
