// SPDX-License-Identifier: Apache-2.0
//
// roll.h - keeps the registrations in the store (manifest/stream.h) in step with the streams of the
// log, and takes the log from one stream to the next.
//
//     a stream begins, or is planned    it is registered
//     an earlier process began it, or   it is looked at: in the object store a stream is registered
//     another one                       before it has an object, and one that is not any more was
//                                       covered by others. They may be deleting its objects, and if
//                                       it were registered anew these would be told as lost
//     a while later, and once tenants   pushes in it may be acknowledged (roll_admits)
//     that are closed were listed
//     the open stream is old            the next one, registered ahead, is offered to the log
//     its last cut has left the log     its registration is taken back
//
// So a row that was acknowledged and is in no segment is in a registered stream. Streams end after
// a while although they could go on for ever, because compactors wait for their ends: once all
// streams are gone that were registered at some moment, all is flushed that was acknowledged before
// (compactor/watch.h).
//
// The while (settle) is longer than the time for which queriers share a list of streams, so none of
// them misses a stream that has rows. Pushes do not wait for it: the next stream is registered
// while the one before is open.
//
// Tenants that are being deleted are listed after the registration (closings.h): either that list
// has a tenant, and its pushes are refused, or the tenant was closed after the stream was
// registered, and whoever deletes it finds the stream and asks its process (compactor/confirm.h).
//
// roll_admits may be called by any thread, the others by one at a time.
#pragma once

#include "ingester/log/wal.h"
#include "manifest/stream.h"
#include "sys/lock.h"

struct rolled {
    id128 stream;
    bool registered;
    bool admitted;
    bool ended;             // another process covered it, and took the registration back
    int64_t since_boot_ns;  // when the store had answered
    int64_t rows_age_ns;    // what the registration promises of its profiles
    int64_t made_ns;
};

struct roll {
    struct wal *wal;
    struct store *store;
    struct registered_stream own;  // what all registrations of this process have in common
    struct lock lock;              // of the rest
    struct rolled *v;
    size_t n;
    size_t cap;
};

struct roll_settings {
    int64_t stream_age_ns;  // a stream ends at this age,
    int64_t idle_ns;        // or when it had no entry for so long
    int64_t settle_ns;
    int64_t rows_age_ns;    // a profile is no older when it arrives
    int64_t after_ns;       // registrations have a later time than this
    int64_t asked_boot_ns;  // when the last list of closed tenants began; INT64_MAX: none is closed
};

// own->node is the caller's and lives as long.
void roll_init(struct roll *l, struct wal *wal, struct store *s,
               const struct registered_stream *own);
void roll_release(struct roll *l);

// Takes a list of the store: registrations of this directory that an earlier process left. Those
// whose stream the log does not have are empty; roll_step takes them back. Streams of the log that
// are not in the list count as not registered. The list must not be older than the last roll_step.
bool roll_saw(struct roll *l, const struct registered *list, err *e) MUST_CHECK;
// Whether the list lacks one that this process registered, or of which an earlier process left
// something in the log: to be asked before roll_saw.
bool roll_lacks(struct roll *l, struct arena *a, const struct registered *list, bool *lacks,
                err *e) MUST_CHECK;

// Does what is due. *soon_ns: when to call again at the latest, from now on; INT64_MAX: as usual.
// False: the store or the log failed; call again later.
bool roll_step(struct roll *l, struct req *r, const struct roll_settings *t, int64_t *soon_ns,
               err *e) MUST_CHECK;

// The process ends: takes back the registrations of streams of which the log has nothing.
bool roll_end(struct roll *l, struct req *r, err *e) MUST_CHECK;

// The streams that it has registered, or is about to; the arena's.
bool roll_ids(struct roll *l, struct arena *a, id128 **v, size_t *n, err *e) MUST_CHECK;

// Whether rows of this stream may be acknowledged.
bool roll_admits(struct roll *l, id128 stream);

// Whether pushes may be acknowledged now: the stream that is open is admitted.
bool roll_is_open(struct roll *l);

// Whether some stream waits for a list of closed tenants that begins later than that.
bool roll_wants_asking(struct roll *l, int64_t asked_boot_ns);

// The age that profiles may have at most, as all streams promise that take some.
int64_t roll_rows_age(struct roll *l);

int64_t roll_newest_ns(struct roll *l);  // time of the newest registration; 0: there is none
size_t roll_registered(struct roll *l, int64_t *oldest_ns);  // how many; the time of the oldest
