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
//     it refuses the bytes    for good (out_of_range, store.h): to put them again is of no use, and
//                             whether an earlier try landed nobody knows. The name is in doubt like
//                             any other. The writer seals the stream, which decides it.
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
// He knows how far he was: should the store, or something on the way, have lost his newest objects,
// his seal lies above their numbers, which shows that they were there. Who adopts a stream does not
// know that: objects at its top that are lost before he comes are missed by nobody.
//
// What is missing. That an object is not there proves nothing: something on the way to the store
// may have said so, or may have taken the object and never brought it there. Only two things say
// that an object was deleted because its rows are in segments:
//
//     covered_below           Each object says below which number all objects were covered when it
//                             was written (log_object.h). That stays true for ever, so the highest
//                             number that any object says holds for all of them: it is that of the
//                             newest one.
//     no registration         A stream that is not registered is covered, or was given up by a
//                             person (manifest/stream.h).
//
// An object that is missing otherwise is *lost*. It is told as one that is damaged is, and the rest
// of the stream is read. "Missing" is said by the store's own error and by a LIST that began after
// it. If the two differ nobody knows; both are asked again for a while, and if they differ still,
// the object is damaged.
//
// Deleting. So each deletion has to be told before it begins:
//
//     an open stream          Its writer deletes what is below the covered_below of an object that
//                             has landed; a LIST has to show that object. So what he covered since
//                             stays until his next object. It need not come soon: nobody is in need
//                             of the room. The newest object never goes: its own cut begins in it
//                             or below it. A seal could be put below it otherwise.
//     one that has ended      Its writer has no next object, and who adopted it has none at all. So
//                             nothing is deleted until all of it is covered and a LIST shows that
//                             its registration is gone; then all goes, in any order. A seal tells
//                             nothing that its sealer knows: it repeats what the object below it
//                             says, which is another copy if that is damaged later.
//     one that nobody has     The sweeper lists the logs, then the registrations (a stream is
//                             registered before it has an object), and clears away the others.
//
// Nobody else deletes, so whoever reads beside a deletion finds either the object that told of it,
// which is newer than what is missing and seen later by a LIST, or no registration any more. If he
// has listed before, and the object goes before he reads it, he asks again after he missed it.
//
// The seal stays OBJECT_LOG_SEAL_NS, and so does what lies right below it and is a seal, too, or
// cannot be read: it may be the one that its writer would meet.
//
// A deletion may have no effect, or come late, as may a creation. An object that stays, or comes
// back, is below a covered_below, or in no registered stream: no reader looks at it, and the
// sweeper clears it away. The first object of what is deleted is confirmed to be gone before the
// others are deleted. What was put twice stays OBJECT_LOG_LATE_NS after the last time: a creation
// that is still on its way would bring it back.
//
// Streams of format 1, of earlier programs, have no covered_below. Their writers deleted cut by
// cut, the oldest first, and of each the first object before the others. So there a missing object
// means that all below it is covered, and a cut without its first object is covered as well.
//
// Damage. An object that cannot be read is there all the same: the cut that it is in stays whole,
// but for its entries, which the reader counts as lost. Where its head is damaged, or it is lost,
// its neighbours tell which cut that is, or may be (object_log_look.c). If that is the newest
// object, an older one tells less of what is covered, and objects that were deleted since are told
// as lost, too: that is better than the reverse. Before a cut that lacks entries is deleted it is
// copied to v1/damaged/<stream>/, for a person to look at: within OBJECT_LOG_KEPT_NS.
//
// Many objects. A stream may have any number of them, so all that looks at a stream goes through it
// batch by batch, with a memory that does not grow with their number, and has the time limit of its
// request for each batch.
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
    OBJECT_LOG_REFUSED,  // *e says why; it will never be taken, and may be there: object_log_close
    OBJECT_LOG_OVER,     // a seal is there: the stream is over, and the object not in it
    OBJECT_LOG_TWICE,  // another object is there, *e is data_loss: somebody else writes the stream
};

// The newest object of a stream that its writer knows to have landed, and what that one says is
// covered. Zeros: none.
struct object_log_told {
    uint64_t number;
    struct log_object_bound covered;
};

struct object_log_writer {
    struct store *store;
    id128 stream;
    uint64_t number;   // of the object in `bytes`, or of the next one
    id128 nonce;       // of the object in `bytes`
    struct buf bytes;  // empty: all objects have landed
    unsigned tries;    // of the object in `bytes`; after its landing: of the last one
    struct log_object_bound covered;  // as the object in `bytes` says
    struct object_log_told told;
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

// Puts the object once. LANDED: the next one may be begun. UNKNOWN: again, whenever. REFUSED, OVER:
// `bytes` stay, for the caller to look at.
enum object_log_put object_log_put(struct object_log_writer *w, struct req *r, err *e) MUST_CHECK;

// ---- sealing

// The node that seals a stream. All tries of a sealer use the same values, so they put the same
// bytes. The writer says what it knows to have landed (borrowed): where a LIST does not show that,
// the seal is put above it all the same.
struct object_log_sealer {
    str node;
    id128 nonce;
    int64_t wall_ns;
    const struct object_log_told *told;  // NULL: nothing is known
};

// Ends a stream, whoever writes it. When it succeeds, a seal holds, and *number is its number. It
// succeeds also if another one sealed the stream. On failure (unavailable, or as the store says; a
// seal that is too large for the store is unavailable, too) there may be a seal or not; the caller
// comes again, or leaves it.
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
    size_t damaged;  // objects that are lost, or whose heads are damaged, and that are not covered
    size_t lost;     // of these, how many are lost
    size_t cutless;  // of `damaged`, how many are in no cut that can be read
    uint64_t bad;    // the number of the first
    err why;         // and what is wrong with it, with its name
    struct mem_budget *memory;  // private, as the next
    size_t cap;
};

// Lists the objects of a stream that are not covered, and reads their heads. `least`: the number of
// one that is known to be there, such as a seal; 0: none is. *out counts against
// the memory of the request, and is released in any case. Fails with data_loss if the objects do
// not follow each other, and with unavailable if that changes faster than it can be looked at.
bool object_log_look(struct store *s, struct req *r, id128 stream, uint64_t least,
                     struct object_log_survey *out, err *e) MUST_CHECK;
void object_log_survey_release(struct object_log_survey *survey);  // idempotent; zero is empty

// Who is given the objects of a cut, in order. Several of them are read at once, with a few
// megabytes of the request's memory, or one that is larger.
struct object_log_reader {
    bool (*object)(void *arg, const struct log_object *o, err *e);
    void (*damaged)(void *arg, const err *why);  // one cannot be read; `why` is data_loss, names it
    void *arg;
};

// Reads a whole cut. *covered: one has gone meanwhile because the cut is covered, and what the
// reader was given of it is to be dropped. Fails as the store or the reader does.
bool object_log_read(struct store *s, struct req *r, id128 stream, const struct object_log_cut *cut,
                     const struct object_log_reader *to, bool *covered, err *e) MUST_CHECK;

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

// The objects that a writer has put and that are there, cut by cut.
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

void object_log_covered(struct object_log_shelf *s, uint64_t cut);

// Of an open stream, deletes the covered cuts that may go, as the writer's newest object has told.
// On failure the rest stays for the next time.
bool object_log_trim(struct object_log_shelf *s, struct store *store, struct req *r, id128 stream,
                     const struct object_log_told *told, int64_t boot_ns, err *e) MUST_CHECK;

// Copies cuts that are damaged; before they are covered for others, too. On failure the next call
// goes on with the rest. *kept: how many objects this one copied.
bool object_log_keep(struct object_log_shelf *s, struct store *store, struct req *r, id128 stream,
                     uint64_t *kept, err *e) MUST_CHECK;

// Deletes all objects of a stream whose seal holds and which is covered, but for that seal. First
// it sees whether the registration is gone; if it is not, *done stays false. So it does if the time
// is up, after at least one batch: the next call goes on. *removed: how many objects.
bool object_log_clear(struct store *s, struct req *r, id128 stream, uint64_t until_mono_ns,
                      uint64_t *removed, bool *done, err *e) MUST_CHECK;

// Clears away logs of streams that are not registered. A seal stays for so long after it was made,
// by the store's clock (store_age): those of two nodes may be days apart.
#define OBJECT_LOG_SEAL_NS (INT64_C(48) * 3600 * 1000000000)

// Then copies of damaged cuts. What a deletion hides is in no file after three days
// (docs/decisions/0017-deletion.md), so a copy stays for less. While a tenant is being deleted,
// copies that have something of it go at once, and so do those of which that cannot be told.
#define OBJECT_LOG_KEPT_NS (INT64_C(60) * 3600 * 1000000000)

// A sweep that goes on from call to call. Zero: it begins.
struct object_log_sweep {
    id128 next;        // the first stream that was not looked at
    bool logs_done;    // it is one of which there are copies
    uint64_t removed;  // objects so far
    uint64_t dropped;  // copies
    bool done;         // set by the call that looked at the last one
};

// Goes on with a sweep until the time is up, after at least one stream. A call that fails, too,
// leaves *x where the next one goes on.
bool object_log_sweep(struct object_log_sweep *x, struct store *s, struct req *r,
                      const struct object_log_sealer *by, uint64_t until_mono_ns,
                      err *e) MUST_CHECK;
