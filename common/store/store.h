// SPDX-License-Identifier: Apache-2.0
//
// store.h - objects: named bytes that are created once, read by ranges, listed and deleted.
//
// Every kind of store makes these promises, and all code above is built on them:
//
//     creation is atomic    an object is there whole or not at all, and only one creation of a name
//                           succeeds; the second one is told that it exists. Objects are never
//                           replaced and never appended to.
//     durable               an object survives the loss of power
//     consistent            a read, a list or a creation that begins after a creation or deletion
//                           ended sees it
//
// A creation that failed may have happened all the same (a time-out, a crash). A caller to whom it
// matters reads the object and compares the bytes. A store that tries a creation again by itself
// tells its own object from another's: *existed is true only for that of another creation. Names
// are printable ASCII without spaces, '/' separates folders, parts are at most 255 bytes and never
// empty, "." or ".."; other names are invalid_argument here and reach no store.
// common/manifest/names.h has the names in use.
//
// All calls block. They come from jobs and duties, never from loops; any thread, many at once.
// Deadlines are those of `r` (loop/req.h); errors say what was done to which object:
//
//     not_found             no such object: the store itself says so, and a list that began
//                           afterwards does not show it either
//     out_of_range          of a read: the object is shorter. Of a creation: it is too large. The
//                           store, or something on the way, refuses these bytes for good, as with
//                           413; a smaller object may be taken, and this one never will
//     unavailable           the store cannot be reached, is full, or an operation failed; also an
//                           answer that is not the store's own, as of a proxy, whatever it says.
//                           Nothing is known; try later
//     deadline_exceeded, canceled    of the request
//     resource_exhausted    no memory here
//     failed_precondition   at open: this store must not be used, and why
#pragma once

#include "base/buf.h"
#include "loop/req.h"

#define STORE_NAME_MAX 1024

struct store;

// Is it a valid name, or the beginning of valid names? Otherwise invalid_argument.
bool store_name_check(str name, err *e) MUST_CHECK;
bool store_prefix_check(str prefix, err *e) MUST_CHECK;

// ---- reading

// One piece of one object. `to` has room for n bytes; after the call either ok, or fault is set.
struct store_read {
    str name;
    uint64_t at;
    size_t n;
    char *to;
    bool ok;
    bool denied;  // unavailable, as lists show an object that reads say is not there
    err fault;
};

// Reads all pieces, many at once; each has its own result. Returns when all have one. A kind of
// store may read pieces of one object that lie close together as one piece.
void store_read_many(struct store *s, struct req *r, struct store_read *v, size_t n);

bool store_read(struct store *s, struct req *r, str name, uint64_t at, size_t n, char *to,
                err *e) MUST_CHECK;

bool store_size(struct store *s, struct req *r, str name, uint64_t *size, err *e) MUST_CHECK;

// The sizes of n objects, many at once; each has its own result.
struct store_sizing {
    str name;
    uint64_t size;
    bool ok;
    bool denied;  // as of a read
    err fault;
};
void store_size_many(struct store *s, struct req *r, struct store_sizing *v, size_t n);

// How long ago the object was made, by the clock of the store: what clocks of nodes say is of no
// matter. To a second or so, and never negative.
bool store_age(struct store *s, struct req *r, str name, int64_t *age_ns, err *e) MUST_CHECK;

// The whole object, appended to *out.
bool store_get(struct store *s, struct req *r, str name, struct buf *out, err *e) MUST_CHECK;

// ---- listing

// Calls fn for each object whose name begins with `prefix` and comes after `after` (empty: all), in
// byte order of names. The store looks in that order, too: its view of a name is no older than its
// view of the names before. If fn returns false, the list ends and fails with the *e that fn set.
// The name is borrowed during the call.
typedef bool store_visit(void *arg, str name, uint64_t size, err *e);
bool store_list(struct store *s, struct req *r, str prefix, str after, store_visit *fn, void *arg,
                err *e) MUST_CHECK;

// All of them at once, in the same order; the arena's. After a failure there are none.
struct store_name {
    str name;
    uint64_t size;
};
struct store_names {
    struct store_name *v;
    size_t n;
};
bool store_names(struct store *s, struct req *r, str prefix, struct arena *a,
                 struct store_names *out, err *e) MUST_CHECK;

// Whether a list that begins now lacks the name. Something on the way may have answered in the
// store's name, so this is asked before any read says not_found; and by callers after a deletion
// from which something follows (docs/decisions/0025-absence-proves-nothing.md).
bool store_lacks(struct store *s, struct req *r, str name, bool *lacks, err *e) MUST_CHECK;

// ---- creating, piece by piece; one thread at a time
//
// There are two kinds of names. EXCLUSIVE: several may create it, and only one creation succeeds.
// UNIQUE: the caller has just drawn it (it has a ULID), so nobody else ever creates it. Stores do
// less for those: a large object can be sent in parts where a service has no condition for the end
// of such an upload, and a repeated request does no harm.
struct store_upload;
enum store_naming {
    STORE_EXCLUSIVE,
    STORE_UNIQUE,
};

// Begins an exclusive creation, or a unique one. NULL and *e set on failure. `about` is the
// expected number of bytes, a hint.
struct store_upload *store_begin(struct store *s, struct req *r, str name, uint64_t about,
                                 err *e) MUST_CHECK;
struct store_upload *store_begin_unique(struct store *s, struct req *r, str name, uint64_t about,
                                        err *e) MUST_CHECK;
bool store_write(struct store_upload *u, str bytes, err *e) MUST_CHECK;

// Makes it visible; the upload is freed in any case. *existed: the name was taken before, and
// nothing changed. On failure the object may be there or not.
bool store_commit(struct store_upload *u, bool *existed, err *e) MUST_CHECK;
void store_abandon(struct store_upload *u);  // nothing of it stays; NULL is fine

bool store_put(struct store *s, struct req *r, str name, str bytes, bool *existed,
               err *e) MUST_CHECK;

// An object of that name is data_loss: a name that was just drawn cannot be taken.
bool store_put_unique(struct store *s, struct req *r, str name, str bytes, err *e) MUST_CHECK;

// ---- deleting. An object that is not there is fine. A deletion has no proof of its own: where
// something follows from it, store_lacks is asked afterwards.
bool store_delete(struct store *s, struct req *r, str name, err *e) MUST_CHECK;

// One object; after the call either ok, or fault is set.
struct store_removal {
    str name;
    bool ok;
    err fault;
};

// Deletes all, many at once, in any order; each has its own result. Returns when all have one.
void store_delete_many(struct store *s, struct req *r, struct store_removal *v, size_t n);

// Drops what is left of creations that began `age_ns` ago and neither ended nor were abandoned, as
// after a kill (0: of all that are under way); *dropped counts them. Only kinds where such a rest
// costs something and does not go by itself do anything.
bool store_tidy(struct store *s, struct req *r, uint64_t age_ns, uint64_t *dropped,
                err *e) MUST_CHECK;

// ---- life
void store_close(struct store *s);  // when no call is in progress; NULL is fine

// A kind of store implements these functions, with the contracts above. Its struct begins with a
// struct store. If `remove_many` or `size_many` is NULL, `remove` or `size` is called for each
// object; if `get` is NULL, the size is asked for first, and then the bytes; if `tidy` is NULL,
// there is nothing to tidy; if `age` is NULL, the store has no clock (failed_precondition).
struct store_kind {
    const char *name;  // "local"
    bool remote;       // reached over a network: a copy on this machine's disk is worth its bytes
    void (*read_many)(struct store *s, struct req *r, struct store_read *v, size_t n);
    bool (*list)(struct store *s, struct req *r, str prefix, str after, store_visit *fn, void *arg,
                 err *e);
    struct store_upload *(*begin)(struct store *s, struct req *r, str name,
                                  enum store_naming naming, uint64_t about, err *e);
    bool (*write)(struct store_upload *u, str bytes, err *e);
    bool (*commit)(struct store_upload *u, bool *existed, err *e);
    void (*abandon)(struct store_upload *u);
    bool (*remove)(struct store *s, struct req *r, str name, err *e);
    void (*remove_many)(struct store *s, struct req *r, struct store_removal *v, size_t n);
    bool (*size)(struct store *s, struct req *r, str name, uint64_t *size, err *e);
    void (*size_many)(struct store *s, struct req *r, struct store_sizing *v, size_t n);
    bool (*age)(struct store *s, struct req *r, str name, int64_t *age_ns, err *e);
    bool (*get)(struct store *s, struct req *r, str name, struct buf *out, err *e);
    bool (*tidy)(struct store *s, struct req *r, uint64_t age_ns, uint64_t *dropped, err *e);
    void (*close)(struct store *s);
};
struct store {
    const struct store_kind *kind;
};
struct store_upload {
    struct store *store;
};
