// SPDX-License-Identifier: Apache-2.0
//
// lexicon.h - the symbols that an ingester already has from this distributor.
//
// Agents push the same names and stacks every few seconds. So a distributor keeps the symbols of
// earlier pushes of a tenant and service to one ingester in a table, a *lexicon*, under a random
// id. A push interns its stacks there and finds nearly all of them. It sends the lexicon's id, the
// rows that the ingester does not have yet, and vectors of the lexicon's stacks. For each row the
// ingester keeps the row of its own table (ingester/head/translation.h).
//
//     1. lexicons_take     the lexicon of this tenant, service and ingester. NULL: the push brings
//                          its symbols along (batch.symbols).
//     2. lexicon_lock      ... interns; rows are only added and never change ...
//     3. lexicon_lock      ... encodes the rows behind `told` ...
//     4. lexicon_stored    the ingester has them: `told` grows.
//
//     lexicons_refused     instead of 4, if the ingester does not have the rows up to `told` (it
//                          started anew, dropped them, or renumbered its own rows): the lexicon
//                          ends, the push is sent with all its symbols, and later pushes begin
//                          another one
//     lexicons_full        in 2, if there is no room for more rows: the same
//
// No row can be mistaken for another: an id names one table for ever, and a row of it never
// changes. Only acknowledgements raise `told`. Pushes that are under way at once each send all rows
// behind `told`, so each is complete in itself, in whatever order they arrive; the ingester
// compares rows that come twice. A lexicon that ends is freed when the pushes that use it are over.
//
// Memory is distributor.lexicon_memory. Beyond three quarters of it lexicons that were not used for
// longest are dropped, but only one newcomer in ADMITTED gets such a place: if there are more
// services than fit, some keep their lexicons and the others send all symbols each time. One
// lexicon may take a quarter of the memory. Keys of the indexes are secret. Any thread; no
// lexicon's lock is held when lexicons.lock is taken.
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

// What a lexicon is for. Strings are borrowed.
struct lexicon_key {
    str tenant;
    str service;
    str member;
};

// An ingester, and whether its last answer said that it takes lexicons.
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
    uint64_t turned_away;  // newcomers that met a full memory, those that were let in included
    // What happened so far.
    _Atomic uint64_t opened;
    _Atomic uint64_t refused;
    _Atomic uint64_t evicted;
    _Atomic uint64_t full;
};

void lexicons_init(struct lexicons *ls, struct mem_budget *parent, size_t limit);
void lexicons_release(struct lexicons *ls);  // no push uses one any more

// With 0 there are none from now on. Cheap if the limit is as before.
void lexicons_limit(struct lexicons *ls, size_t limit);

// Returns a reference; NULL: this member takes no lexicons, or there is no room.
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

// The lexicon has no room for more rows and ends. Later pushes begin another one; not at once if
// most stacks that were looked for were new, as in a service that never sends the same stack twice.
void lexicons_full(struct lexicons *ls, const struct lexicon_key *k, struct lexicon *l);

// An ingester's answer to a batch: it stored the batch and has the rows up to `to`; or it lacks
// rows up to `told`; and whether it takes lexicons at all.
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
