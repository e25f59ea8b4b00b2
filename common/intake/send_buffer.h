// SPDX-License-Identifier: Apache-2.0
//
// send_buffer.h - the records of one request, in batches for ingesters.
//
// A batch is one batch (model/batch.h): records of one service for one owner (an ingester), over
// one symbol table. A record has a vector over that table, or only a factor, if its sample type is
// a constant multiple of another type of the profile. Pure: functions say which ingester owns a
// label set, and random numbers are arguments.
//
// All series of a profile have one owner, that of the labels which the client sent for it. An
// ingester shows the records of one request and service all at once, so no query sees a part of a
// profile.
//
// Each record has a *home*: the one ingester that gets it with attempt 0. Every other ingester gets
// it with attempt > 0. So no two ingesters have a row with attempt 0, and a query can count rows
// that are in two of them once (docs/design.md, Exactly once). For a record with a client's id the
// home is the same for every distributor at every time, whether it is alive or not, because an
// earlier upload may have reached it. Without a client's id only this request knows the record's
// id, and its home is the ingester that gets it first.
#pragma once

#include "intake/lexicon.h"
#include "intake/split.h"
#include "intake/stack_rows.h"
#include "model/batch.h"

// The parts that a profile's id is made of, so that a repeated upload has the same id.
struct send_buffer_source {
    str body;            // as sent
    str client_id;       // empty if there is none
    uint64_t series;     // hash of the labels as sent: rules may make one series of several
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
    uint32_t owner;        // the ingester that gets it now
    uint64_t labels_hash;  // of its first profile as sent: decides the order of ingesters
    bool identified;       // that profile had a client's id
    uint32_t attempt;
    enum send_batch_state state;
    size_t number;              // in the send buffer
    struct send_batch *newest;  // of its service and owner; set in the first
    struct stack_rows *stacks;  // of the profile with number stack_rows_of
    uint64_t stack_rows_of;
    struct lexicon *lexicon;    // a reference: vectors have its stacks; or NULL
    struct symbol_counts sent;  // rows that the ingester has once it stored the last encoding
    struct symbols symbols;     // its own, without a lexicon
    struct map series;          // index over batch.series
    size_t series_cap;
    size_t record_cap;
    uint32_t *homes;  // of the records
    size_t home_cap;
    size_t bytes;  // of vectors, roughly
};

// Returns the ingester that is to get a label set now. *home: its home, which depends neither on
// the ingesters that are alive nor on measured rates. home is NULL for a record without a client's
// id, whose home is the ingester that gets it.
typedef uint32_t send_buffer_owner(void *arg, str service, uint64_t labels_hash, uint32_t *home);

// The lexicon of a service and owner, a reference, or NULL; and a note that it has no more room.
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

// owner may be NULL: then owner 0 gets everything. All memory is released with the arena.
void send_buffer_init(struct send_buffer *o, struct arena *a, send_buffer_owner *owner,
                      void *owner_arg);

// Adds all series of a profile that was validated, normalised and split. `scratch` is for memory of
// this call. Fails with out_of_range (a sum does not fit 64 bits; nothing was added), or with
// resource_exhausted; then the send buffer must not be sent.
bool send_buffer_add(struct send_buffer *o, struct arena *scratch, const struct profile *p,
                     const struct split *split, const struct send_buffer_source *from,
                     err *e) MUST_CHECK;

// To be called after the last profile, before batches are encoded.
void send_buffer_seal(struct send_buffer *o);

// Sets the records' attempts: 0 where `member` is the home. To be called before each encoding.
void send_batch_address(struct send_batch *p, uint32_t member);

// Appends the batch to `out`; of a lexicon only the rows that the ingester does not have. Fails
// with resource_exhausted.
bool send_batch_encode(struct send_batch *p, struct arena *scratch, struct buf *out,
                       err *e) MUST_CHECK;

// From now on the batch brings all its symbols along, in a table of its own. a: the send buffer's
// arena.
bool send_batch_make_whole(struct send_batch *p, struct arena *a, err *e) MUST_CHECK;
