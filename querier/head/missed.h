// SPDX-License-Identifier: Apache-2.0
//
// missed.h - the registered streams that nobody answers for, each with the time since when.
//
//     looked up in vain     it is noted, with that time, or with that of the data directory which
//                           its node has instead of the stream's
//     waited for in vain    the next queries do not wait for it
//     lost                  nobody has answered for cluster.lost_after: no query waits for it, that
//     of
//                           a querier which has just started neither
//     answered again, or    it is forgotten
//     not registered
//
// Answers name it all the while. The times are kept in a file, so that they hold when the querier
// starts anew:
//
//     flametree missed streams 1
//     <stream> <wall clock in ms>      a line for each
//
// A file that is gone or damaged costs only that: times begin anew, and each stream is waited for
// once more.
//
// One thread at a time: streams.c calls all of this with its lock.
#pragma once

#include "base/buf.h"
#include "manifest/stream.h"

#define MISSED_MAX 4096  // further ones are named as well, but each query waits for them

struct missed {
    id128 stream;
    int64_t since_wall_ns;
    bool waited;
    bool lost;
};

struct missed_table {
    struct missed *v;  // MISSED_MAX
    size_t n;
    bool changed;  // since missed_print
};

void missed_init(struct missed_table *t);
void missed_release(struct missed_table *t);

struct missed *missed_find(struct missed_table *t, id128 stream);

// Notes the stream, unless it is noted; NULL if the table is full. *since is the time from which on
// it has been missed, not after now. `list` has the stream and says what its node has now.
struct missed *missed_note(struct missed_table *t, const struct registered *list,
                           const struct registered_stream *o, int64_t now_wall_ns, int64_t *since);

void missed_forget(struct missed_table *t, id128 stream);

// Forgets what is not registered any more.
void missed_prune(struct missed_table *t, const struct registered *list);

size_t missed_lost(const struct missed_table *t);

// The file. What cannot be read of it is passed over.
void missed_print(struct missed_table *t, struct buf *out);
void missed_parse(struct missed_table *t, str text);
