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
    str node;              // member id; empty: the object cannot be read
    id128 boot;            // of the process that registered it
    str address;           // of its internal listener
    id128 directory;       // its data directory, which a local log is in
    uint32_t log;          // enum stream_log, or what a newer program has
    int64_t made_ns;       // wall clock of the registration
    int64_t rows_from_ns;  // no profile in it is older; 0: not known
};

// An answer goes by a list of streams that began so long before the query at the earliest. So a
// stream acknowledges nothing for longer than that after its registration (ingester.stream_settle).
#define STREAMS_SHARED_NS ((uint64_t)1000000000)

// *existed: it was registered before, maybe with other values, which stay as they were.
bool stream_register(struct store *s, struct req *r, const struct registered_stream *v,
                     bool *existed, err *e) MUST_CHECK;
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
};

// Lists the streams, and reads those that `before` (or NULL) does not have. An object that cannot
// be decoded counts as well: it is certain that a stream was registered. The memory is `memory`'s
// until registered_release, also after a failure.
bool registered_read(struct store *s, struct req *r, struct mem_budget *memory,
                     const struct registered *before, struct registered *out, err *e) MUST_CHECK;
void registered_release(struct registered *v);  // also a zero value

const struct registered_stream *registered_find(const struct registered *v, id128 stream);
