// SPDX-License-Identifier: Apache-2.0
//
// object_log.h - logs in the object store: how a stream is written, ended, read and deleted there.
//
//     v1/log/<stream>/1 2 3 ...       objects (log_object.h), each created once; the last is a seal
//
// A stream has one writer, which creates its objects one after the other, and no next one before
// the last has landed. Anybody may end it with a seal, the writer too. All that everybody relies on
// is that of several creations of one name one succeeds (store.h).
//
// Creating an object, when all goes well: object_log_fill encodes it, object_log_put creates it,
// and its entries may be acknowledged. When it does not:
//
//     the store fails         nobody knows whether the object is there, or comes later. The same
//                             bytes are put again, under the same name: a writer that gave up and
//                             wrote something else there would take the one for the other.
//     the name is taken       its nonce tells by whom. By this object: it had landed. By a seal:
//                             the stream is over, and this object will never be in it. By anything
//                             else: data_loss.
//
// Sealing. A seal is put one above the highest object that a LIST shows. Whoever writes the stream
// meets it there, unless he is further already: his objects from that place on may be deleted by
// now, and the name of one be free again. So a seal *holds* only if a LIST that began after its
// creation shows nothing above it. One that does not hold means nothing, and the next one is tried.
// Once a seal holds, the stream has all entries that were ever acknowledged in it, but for cuts
// that are covered. A writer whose object is in doubt seals the stream himself, which decides it.
//
// Deleting. A cut goes once it is covered (docs/design.md, 3), and the order makes it visible how
// far that has come:
//
//     cut by cut, the oldest first    all below a number that is missing is covered
//     its first object alone          and only when that is gone the others: a cut without its
//                                     first object is covered
//     the newest object never         while the stream is open: a seal would go below it
//     not for OBJECT_LOG_LATE_NS      after it was put for the last time, if it was put twice: a
//                                     creation that is still on its way would bring it back
//
// So a reader drops a cut of which an object is missing, or vanishes while he reads it, and does
// not name it in any answer: its rows are in the store, and he has only some of them.
//
// Damage. An object that cannot be read is there all the same: the cut that it is in stays whole,
// but for its entries, which the reader counts as lost. Where its head is damaged, its neighbours
// tell which cut that is, or may be (object_log_read.c). Before a cut that lacks entries is deleted
// it is copied to v1/damaged/<stream>/, for a person to look at.
//
// Threads: what has a struct is used by one at a time.
#pragma once

#include "base/arena.h"
#include "ingester/log/log_object.h"
#include "store/store.h"

// ---- writing

// The result of a try to create an object.
enum object_log_put {
    OBJECT_LOG_LANDED,
    OBJECT_LOG_UNKNOWN,  // *e says why; the same again
    OBJECT_LOG_OVER,     // a seal is there: the stream is over, and the object not in it
    OBJECT_LOG_TWICE,  // another object is there, *e is data_loss: somebody else writes the stream
};

struct object_log_writer {
    struct store *store;
    id128 stream;
    uint64_t number;   // of the object in `bytes`, or of the next one
    id128 nonce;       // of the object in `bytes`
    struct buf bytes;  // empty: all objects have landed
    unsigned tries;    // of the object in `bytes`; after its landing: of the last one
    bool over;
};

// Borrows the store. An object is counted against `memory` (may be NULL) until it has landed.
void object_log_init(struct object_log_writer *w, struct store *s, id128 stream,
                     struct mem_budget *memory);
void object_log_release(struct object_log_writer *w);  // idempotent

// Begins the next object; none is in doubt. The caller draws the nonce, gives the head what it says
// of the cut and its entries, adds these (log_object_add), and ends with object_log_filled. If that
// fails there is no object, and the next one may be begun.
void object_log_fill(struct object_log_writer *w, struct log_object_packer *p,
                     const struct log_object_head *h);
bool object_log_filled(struct object_log_writer *w, struct log_object_packer *p, err *e) MUST_CHECK;

// Gives up an object that was begun. If it was put already, the stream must not be written any
// more.
void object_log_unfill(struct object_log_writer *w);

// Puts the object once. LANDED: the next one may be begun. UNKNOWN: again, whenever. OVER: `bytes`
// stay, for the caller to look at.
enum object_log_put object_log_put(struct object_log_writer *w, struct req *r, err *e) MUST_CHECK;

// ---- sealing

// The node that seals a stream. All tries of a sealer use the same values, so they put the same
// bytes.
struct object_log_sealer {
    str node;
    id128 nonce;
    int64_t wall_ns;
};

// Ends a stream, whoever writes it. When it succeeds, a seal holds, and *number is its number. It
// succeeds also if another one sealed the stream. On failure (unavailable, or as the store says)
// there may be a seal or not; the caller comes again, or leaves it.
bool object_log_seal(struct store *s, struct req *r, id128 stream,
                     const struct object_log_sealer *by, uint64_t *number, err *e) MUST_CHECK;

// The same by the writer. *landed: an object was in doubt, and is in the log after all.
bool object_log_close(struct object_log_writer *w, struct req *r,
                      const struct object_log_sealer *by, bool *landed, err *e) MUST_CHECK;

// ---- reading

struct object_log_cut {
    uint64_t cut;
    uint64_t first;  // numbers of its objects
    uint64_t last;
    uint64_t first_seq;
    uint64_t last_seq;
    uint64_t bytes;     // of its objects
    int64_t opened_ns;  // wall clock of its first entry
    int64_t newest_ns;  // and of its last object
    bool whole;         // false: it is covered, and what is left of it is being deleted
    bool damaged;       // heads of objects in it are damaged. Not covered, whatever `whole` says
};

struct object_log_survey {
    struct object_log_cut *cuts;  // in order
    size_t n;
    uint64_t top;    // the highest number; 0: there is none
    bool sealed;     // it is a seal. Whether that holds, object_log_seal tells
    size_t damaged;  // how many heads are damaged, of objects that are not covered
    size_t cutless;  // of these, how many are in no cut that can be read
    uint64_t bad;    // the number of the first
    err why;         // and what is wrong with it, with its name
};

// Lists the objects of a stream and reads their heads. *out is the arena's. Fails with
// data_loss if the objects do not follow each other.
bool object_log_look(struct store *s, struct req *r, struct arena *a, id128 stream,
                     struct object_log_survey *out, err *e) MUST_CHECK;

// Calls fn for each object of a whole cut, in order. not_found: one has vanished, so the cut is
// covered, and what fn was given of it is to be dropped. data_loss names the damaged object. One
// object at a time is in memory, counted against that of the request.
typedef bool object_log_fn(void *arg, const struct log_object *o, err *e);
bool object_log_read(struct store *s, struct req *r, id128 stream, const struct object_log_cut *cut,
                     object_log_fn *fn, void *arg, err *e) MUST_CHECK;

// One object, into `bytes`, which *o borrows. not_found, data_loss naming it, or as the store says.
bool object_log_get(struct store *s, struct req *r, id128 stream, uint64_t number,
                    struct buf *bytes, struct log_object *o, err *e) MUST_CHECK;

// Streams that have objects, in order. The arena's.
bool object_log_streams(struct store *s, struct req *r, struct arena *a, id128 **streams, size_t *n,
                        err *e) MUST_CHECK;

// ---- deleting

// So long after its last try a creation may still arrive at the store.
#define OBJECT_LOG_LATE_NS (INT64_C(20) * 60 * 1000000000)

// Whether the writer's last object may have been sent more than once: it was put twice, or the
// store is reached over a network, where a request is sent again without telling.
bool object_log_may_return(const struct object_log_writer *w);

// The objects of one stream that are there, cut by cut. All of them are in it: the order of
// deletion is kept for the stream as a whole.
struct object_log_shelf {
    struct object_log_place {
        uint64_t cut;
        uint64_t first;  // numbers of its objects that are there
        uint64_t last;
        int64_t until_boot_ns;  // it stays until then
        bool covered;
        bool begun;    // its first object is gone
        bool damaged;  // it lacks entries, and is to be kept (object_log_keep)
    } * v;
    size_t n;
    size_t cap;
};

void object_log_shelf_release(struct object_log_shelf *s);  // idempotent; zero is empty

// Room for one more cut, so that the next object_log_landed cannot fail.
bool object_log_shelf_room(struct object_log_shelf *s, err *e) MUST_CHECK;

// The writer's last object has landed, with entries of this cut.
void object_log_landed(struct object_log_shelf *s, const struct object_log_writer *w, uint64_t cut,
                       int64_t boot_ns);

// Fills the shelf from a survey, for the node that adopts a stream. Cuts that are not whole are
// covered. Nobody knows how often the objects were put, so all of them stay OBJECT_LOG_LATE_NS.
bool object_log_found(struct object_log_shelf *s, const struct object_log_survey *survey,
                      int64_t boot_ns, err *e) MUST_CHECK;

void object_log_covered(struct object_log_shelf *s, uint64_t cut);

// Deletes what may go. `open`: the number of the stream's newest object, 0 if a seal holds. On
// failure the rest stays for the next time.
bool object_log_trim(struct object_log_shelf *s, struct store *store, struct req *r, id128 stream,
                     uint64_t open, int64_t boot_ns, err *e) MUST_CHECK;

// Copies cuts that are damaged; before they are covered for others, too. On failure the next call
// goes on with the rest. *kept: how many objects this one copied.
bool object_log_keep(struct object_log_shelf *s, struct store *store, struct req *r, id128 stream,
                     uint64_t *kept, err *e) MUST_CHECK;

// Clears away logs of streams that are not registered. A seal stays for so long after it was made,
// by the store's clock (store_age): those of two nodes may be days apart. *removed: how many
// objects.
#define OBJECT_LOG_SEAL_NS (INT64_C(48) * 3600 * 1000000000)
bool object_log_sweep(struct store *s, struct req *r, const struct object_log_sealer *by,
                      uint64_t *removed, err *e) MUST_CHECK;
