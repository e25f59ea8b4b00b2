// SPDX-License-Identifier: Apache-2.0
//
// forgotten.h - streams that a person gave up, and what was deleted since.
//
//     v1/forgotten/<stream>    message ForgottenStream: the loss of the stream was accepted
//     v1/deleted/<ulid>        message EndedDeletion: a deletion that ended while there were such
//
// A disk that was given up may come back. What its log holds has missed deletions: a deletion waits
// for each registered stream, and this one is not registered any more. So
//
//     its log holds rows of the stream, and v1/forgotten/<stream> is there
//         =>  it is neither read nor flushed until a person says so (ingester/aside.h)
//     a deletion has ended since the stream was forgotten
//         =>  an object under v1/deleted/ names both
//
// Both are written before what makes them needed: the first before the registration goes, the
// second before the tombstone does, or v1/closed/<tenant>. Absence alone would prove nothing. The
// objects stay until the log was recovered or removed, however long that takes: some 150 bytes
// for a stream, and for a deletion its matchers more.
#pragma once

#include "manifest/manifest.h"
#include "manifest/stream.h"

struct forgotten_stream {
    id128 stream;
    str node;  // empty: nobody knew whose it was
    id128 boot;
    id128 directory;
    uint32_t log;  // enum stream_log
    int64_t made_ns;
    int64_t forgotten_ns;
};

// Gives up a stream: notes that, then deletes the registration. Repeated, it goes on.
bool stream_forget(struct store *s, struct req *r, const struct registered_stream *v,
                   int64_t now_ns, err *e) MUST_CHECK;

// By one LIST: the names alone, ascending, and with all that is known; the arena's.
bool forgotten_names(struct store *s, struct req *r, struct arena *a, id128 **v, size_t *n,
                     err *e) MUST_CHECK;
bool forgotten_read(struct store *s, struct req *r, struct arena *a, struct forgotten_stream **v,
                    size_t *n, err *e) MUST_CHECK;

// Nothing of the log is left, or all of it is in the store: the note goes, and then deletions that
// concern no other stream.
bool forgotten_clear(struct store *s, struct req *r, id128 stream, err *e) MUST_CHECK;

// Notes a deletion that is about to end, if there are forgotten streams: of all that a tenant had
// (`t` is NULL), or of a tombstone. `id` is the deletion's, so that it is noted once.
bool deletion_note_end(struct store *s, struct req *r, str tenant, id128 id,
                       const struct manifest_tombstone *t, int64_t now_ns, err *e) MUST_CHECK;

// What deletions that ended hide of a stream; the arena's. Fails with data_loss if one cannot be
// read: what it hid is not known.
struct ended_deletion {
    id128 id;
    str tenant;
    struct hide hide;
};
bool deletions_since(struct store *s, struct req *r, struct arena *a, id128 stream,
                     struct ended_deletion **v, size_t *n, err *e) MUST_CHECK;
