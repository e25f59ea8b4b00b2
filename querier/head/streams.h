// SPDX-License-Identifier: Apache-2.0
//
// streams.h - the registered streams (manifest/stream.h), as one list that all queries of the
// process share.
//
// An answer needs the rows of each stream that is registered. Which these are says a list that
// began at most a second before the query (STREAMS_SHARED_NS): a stream acknowledges nothing for
// longer than that after its registration (ingester/roll.h), so what was acknowledged before the
// query is in a listed stream, or its stream had ended and all of it was flushed. Of an older list
// a query waits for the next one, also of one from before the machine was suspended; one LIST runs
// at a time.
//
// Any thread.
#pragma once

#include "loop/req.h"
#include "manifest/stream.h"

struct streams;

struct streams *streams_new(struct store *s, struct mem_budget *memory);
void streams_free(struct streams *s);  // NULL is fine

// The list, begun at not_before_mono_ns or later. It lives as long as the request.
bool streams_take(struct streams *s, struct req *r, uint64_t not_before_mono_ns,
                  const struct registered **out, err *e) MUST_CHECK;

// The nodes of the newest list, each data directory with its newest address, the newest first; the
// arena's. Zeros and true if nothing was listed yet.
struct stream_node {
    str node;
    str address;
    id128 boot;   // of its process
    bool waited;  // it was waited for in vain already
};
bool streams_nodes(struct streams *s, struct arena *a, struct stream_node **v, size_t *n,
                   err *e) MUST_CHECK;

// Keeps since when streams are missed in this file, and takes what is there (missed.h); without it
// that is forgotten at the end of the process. Before the first query.
void streams_keep_in(struct streams *s, const char *path);

// A stream that nobody has answered for so long is lost: no query waits for it. Before the first
// query, after streams_keep_in; without it none is ever lost.
void streams_lose_after(struct streams *s, int64_t ns);

// Nobody speaks for a stream of the list. Notes that, and returns since when; *wait: a query should
// wait for it, because no query has waited in vain and it is not lost.
int64_t streams_miss(struct streams *s, const struct registered *list,
                     const struct registered_stream *o, int64_t now_wall_ns, bool *wait);

// A query has waited for the stream in vain: the next ones do not, until it is answered once
// (streams_answered), or unregistered.
void streams_waited(struct streams *s, id128 stream);
void streams_answered(struct streams *s, const struct registered *list,
                      bool (*serves)(void *, id128), void *arg);

// After a query that missed something, or that was answered what was missed: writes the file if
// something has changed.
void streams_keep(struct streams *s);
