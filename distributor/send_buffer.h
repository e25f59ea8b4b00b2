// SPDX-License-Identifier: Apache-2.0
//
// send_buffer.h - the records of one request on their way to ingesters.
//
// A batch is one batch (model/batch.h): records of one service for one owner, sharing one symbol
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
#include "distributor/stack_rows.h"
#include "model/batch.h"

// What makes the id of a profile, so that a repeated upload is recognised.
struct send_buffer_source {
    str body;            // as sent
    str client_id;       // empty if there is none
    int64_t time_ns;     // as sent, 0 if there was none
    uint64_t nonce;      // of the request; used where the client gave no id
    uint32_t number;     // of the profile in the request
    label *annotations;  // of all its records; live as long as the send buffer
    uint32_t annotation_count;
};

enum send_batch_state {
    SEND_BATCH_WAITING,
    SEND_BATCH_STORED,
    SEND_BATCH_FAILED
};

struct send_batch {
    struct batch batch;    // symbols are set by send_buffer_seal
    uint32_t owner;        // who gets it, or gets it next
    uint64_t labels_hash;  // of its first profile as sent: orders those who may get it
    bool identified;       // that one had a client's id
    uint32_t attempt;
    enum send_batch_state state;
    size_t number;              // in the send buffer
    struct send_batch *newest;  // of its service and owner; set in the first
    struct stack_rows *stacks;  // of the profile at hand, if that is number stack_rows_of
    uint64_t stack_rows_of;
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
typedef uint32_t send_buffer_owner(void *arg, str service, uint64_t labels_hash, uint32_t *home);

// What the owner of a service has been told, a reference, or NULL; and that it took no more rows.
typedef struct lexicon *send_buffer_lexicon(void *arg, str service, uint32_t owner);
typedef void send_buffer_full(void *arg, str service, uint32_t owner, struct lexicon *l);

struct send_buffer {
    struct arena *a;  // lives as long as the request
    struct send_batch **batches;
    size_t batch_count;
    size_t batch_cap;
    struct map *by_owner;  // first batches by service and owner; NULL before there is one
    uint64_t profiles;     // added so far
    send_buffer_owner *owner;
    void *owner_arg;
    send_buffer_lexicon *lexicon;  // NULL: every batch brings its symbols along
    send_buffer_full *full;
    uint64_t records;
    uint64_t values;
};

// owner may be NULL: all belongs to owner 0. What the send buffer holds is released with the arena.
void send_buffer_init(struct send_buffer *o, struct arena *a, send_buffer_owner *owner,
                      void *owner_arg);

// Adds all series of a profile that was validated, normalised and split. `scratch` holds what is
// needed only meanwhile. Fails with out_of_range (a sum does not fit; nothing was added) or
// resource_exhausted; then the send buffer is not to be sent.
bool send_buffer_add(struct send_buffer *o, struct arena *scratch, const struct profile *p,
                     const struct split *split, const struct send_buffer_source *from,
                     err *e) MUST_CHECK;

// After the last profile: batches may be encoded.
void send_buffer_seal(struct send_buffer *o);

// Writes into the records whether `member` is their home. Before each encoding.
void send_batch_address(struct send_batch *p, uint32_t member);

// The batch, of a lexicon only what its ingester was not told. Fails with resource_exhausted.
bool send_batch_encode(struct send_batch *p, struct arena *scratch, struct buf *out,
                       err *e) MUST_CHECK;

// From now on the batch brings all its symbols along. Memory of what stays is the send buffer'
// arena.
bool send_batch_make_whole(struct send_batch *p, struct arena *a, err *e) MUST_CHECK;
