// SPDX-License-Identifier: Apache-2.0
//
// outbox.h - the records of one request on their way to ingesters.
//
// A parcel is one batch (model/batch.h): records of one service for one owner, sharing one symbol
// table. Records carry vectors over that table; of sample types that are a constant multiple of
// another one only the factor is kept. Pure: who owns a label set is asked through a function, the
// random numbers are arguments.
//
// All series of a profile have one owner, that of the labels which the client sent for it: an
// ingester shows what one request brought for a service whole or not at all, so no query sees a
// part of a profile.
//
// Each record has a home: the one ingester to which it goes with attempt 0. Whoever else gets it,
// gets it with attempt > 0, so a row with attempt 0 is in no other ingester with attempt 0, and a
// query can count rows that are in two of them once (docs/design.md, Exactly once). With a client's
// id the home is the same for every distributor at every time, alive or not, since an earlier
// upload may have reached it; without one nobody but this request knows the record's id, and its
// home is who gets it first.
#pragma once

#include "distributor/lexicon.h"
#include "distributor/split.h"
#include "distributor/stacks.h"
#include "model/batch.h"

// What makes the id of a profile, so that a repeated upload is recognised.
struct outbox_source {
    str body;            // as sent
    str client_id;       // empty if there is none
    int64_t time_ns;     // as sent, 0 if there was none
    uint64_t nonce;      // of the request; used where the client gave no id
    uint32_t number;     // of the profile in the request
    label *annotations;  // of all its records; live as long as the outbox
    uint32_t annotation_count;
};

enum parcel_state {
    PARCEL_WAITING,
    PARCEL_STORED,
    PARCEL_FAILED
};

struct parcel {
    struct batch batch;    // symbols are set by outbox_seal
    uint32_t owner;        // who gets it, or gets it next
    uint64_t labels_hash;  // of its first profile as sent: orders those who may get it
    bool identified;       // that one had a client's id
    uint32_t attempt;
    enum parcel_state state;
    size_t number;          // in the outbox
    struct parcel *newest;  // of its service and owner; set in the first
    struct stacks *stacks;  // of the profile at hand, if that is number stacks_of
    uint64_t stacks_of;
    struct lexicon *lexicon;    // a reference; whose stacks vectors have; or NULL
    struct symbol_counts sent;  // rows that its ingester has if it takes the last encoding
    struct symbols symbols;     // its own, without a lexicon
    struct map series;          // index over batch.series
    size_t series_cap;
    size_t record_cap;
    uint32_t *homes;  // of the records
    size_t home_cap;
    size_t bytes;  // of vectors, roughly
};

// Who is to get a label set now. *home: who is its home, whoever is alive and whatever is measured;
// NULL for a record without a client's id, whose home is who gets it.
typedef uint32_t outbox_owner(void *arg, str service, uint64_t labels_hash, uint32_t *home);

// What the owner of a service has been told, a reference, or NULL; and that it took no more rows.
typedef struct lexicon *outbox_lexicon(void *arg, str service, uint32_t owner);
typedef void outbox_full(void *arg, str service, uint32_t owner, struct lexicon *l);

struct outbox {
    struct arena *a;  // lives as long as the request
    struct parcel **parcels;
    size_t parcel_count;
    size_t parcel_cap;
    struct map *by_owner;  // first parcels by service and owner; NULL before there is one
    uint64_t profiles;     // added so far
    outbox_owner *owner;
    void *owner_arg;
    outbox_lexicon *lexicon;  // NULL: every parcel brings its symbols along
    outbox_full *full;
    uint64_t records;
    uint64_t values;
};

// owner may be NULL: all belongs to owner 0. What the outbox holds is released with the arena.
void outbox_init(struct outbox *o, struct arena *a, outbox_owner *owner, void *owner_arg);

// Adds all series of a profile that was validated, normalised and split. `scratch` holds what is
// needed only meanwhile. Fails with out_of_range (a sum does not fit; nothing was added) or
// resource_exhausted; then the outbox is not to be sent.
bool outbox_add(struct outbox *o, struct arena *scratch, const struct profile *p,
                const struct split *split, const struct outbox_source *from, err *e) MUST_CHECK;

// After the last profile: batches may be encoded.
void outbox_seal(struct outbox *o);

// Writes into the records whether `member` is their home. Before each encoding.
void parcel_address(struct parcel *p, uint32_t member);

// The batch, of a lexicon only what its ingester was not told. Fails with resource_exhausted.
bool parcel_encode(struct parcel *p, struct arena *scratch, struct buf *out, err *e) MUST_CHECK;

// From now on the parcel brings all its symbols along. Memory of what stays is the outbox' arena.
bool parcel_make_whole(struct parcel *p, struct arena *a, err *e) MUST_CHECK;
