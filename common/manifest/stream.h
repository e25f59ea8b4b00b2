// SPDX-License-Identifier: Apache-2.0
//
// stream.h - the streams that are registered in the store: those that may hold rows which are in no
// segment.
//
//     v1/streams/<stream>     message RegisteredStream
//
// An ingester registers a stream before it acknowledges anything in it, and takes the registration
// back once the stream is closed and every row of it is covered. So
//
//     a row was acknowledged, and no segment or leaf has it  =>  its stream is registered
//
// and the store, not a list of members, says whose rows an answer needs, and where they were. The
// object of a name never changes, so who has read it once need not read it again. It tells where
// the process was that made it: of a node with several streams the newest one knows best.
// docs/formats/manifest.md has the bytes.
#pragma once

#include "manifest/names.h"
#include "store/store.h"

enum stream_log {
    STREAM_LOG_UNKNOWN,
    STREAM_LOG_LOCAL,   // on the ingester's disk
    STREAM_LOG_OBJECT,  // in the object store
};

const char *stream_log_name(uint32_t log);  // "local", "object", "other"

struct registered_stream {
    id128 stream;
    str node;                // member id; empty: the object could not be read, `why` says why
    id128 boot;              // of the process that registered it
    str address;             // of its internal listener
    id128 directory;         // its data directory, which a local log is in
    uint32_t log;            // enum stream_log, or what a newer program has
    int64_t made_ns;         // wall clock of the registration
    int64_t rows_from_ns;    // no profile in it is older; 0: not known
    enum err_code fault;     // of reading it; data_loss: its bytes are none of this program's
    str why;                 // the same in words
    uint64_t again_mono_ns;  // it was read in vain, next then; 0: there was no time to read it
};

// An answer goes by a list of streams that began so long before the query at the earliest. So a
// stream acknowledges nothing for longer than that after its registration (ingester.stream_settle).
#define STREAMS_SHARED_NS ((uint64_t)1000000000)

// *existed: it was registered before, maybe with other values, which stay as they were.
bool stream_register(struct store *s, struct req *r, const struct registered_stream *v,
                     bool *existed, err *e) MUST_CHECK;

// A deletion has no proof of its own, so a LIST confirms it; unavailable if that still has the
// registration: call it again.
bool stream_unregister(struct store *s, struct req *r, id128 stream, err *e) MUST_CHECK;

// Deletes what programs before had of a node, under v1/nodes/ingester/<node>/.
bool streams_clear_former(struct store *s, struct req *r, str node, err *e) MUST_CHECK;

// The names alone, ascending; the arena's.
bool stream_names(struct store *s, struct req *r, struct arena *a, id128 **v, size_t *n,
                  err *e) MUST_CHECK;

// A list with all that is known of each stream, in order of their ids.
struct registered {
    struct arena arena;  // of the rest
    struct registered_stream *v;
    size_t n;
    size_t unread;   // of them those whose object could not be read,
    size_t untried;  // and of these those for which the request had no time
};

// Whether a stream is not registered any more: its registration is not there, as the store says and
// a list after that. A list alone may be an old one, which something on the way has kept.
bool stream_has_ended(struct store *s, struct req *r, id128 stream, bool *ended, err *e) MUST_CHECK;

// Lists the streams, and reads those that `before` (or NULL) has not read, many at once. It fails
// only if the store does not list them, or for lack of memory:
//
//     an object cannot be read or     it counts as a stream of an unknown node: it is certain that
//     decoded, or time is over        it was registered. A later call reads it again, after a
//                                     second, or ten times as long as the read took
//     one is not there (store.h)      it was unregistered meanwhile, and is left out
//
// An object that hangs holds up the others for three seconds, or for half of the request's time.
// The memory is `memory`'s until registered_release, also after a failure. A process reads through
// a registry (registry.h), which keeps what was read.
bool registered_read(struct store *s, struct req *r, struct mem_budget *memory,
                     const struct registered *before, struct registered *out, err *e) MUST_CHECK;
void registered_release(struct registered *v);  // also a zero value

const struct registered_stream *registered_find(const struct registered *v, id128 stream);

// A copy whose memory is the arena's.
struct registered_stream registered_copy(struct arena *a, const struct registered_stream *v);
