// SPDX-License-Identifier: Apache-2.0
//
// fetch.h - one question to every known ingester, and which of the replies count.
//
// Any ingester may hold any series, so all known ingesters are asked, those that seem dead too, and
// nodes that only the registration of a stream names (streams.h). A
// reply has an answer for each stream that its ingester serves, and names the streams that it holds
// without serving them. Of each stream one answer counts: a complete one by its owner, else a
// complete one by another ingester, else an incomplete one. Then it is named what is missing:
// ingesters that did not answer, streams answered incompletely, and streams that are held but that
// no ingester answered for. The caller turns that into an error or a marked answer (fetch_verdict);
// nothing is left out silently. Differences between lists of members are named as
// well: an ingester that another one was told of and this process was not, and two names for one
// ingester.
//
//     fetch_peers      messages out, replies in                 network
//     fetch_choose     replies -> partials, names of missing    pure
//     fetch_loose      partials -> rows that may be elsewhere   pure
//     fetch_placings   partials -> whether more of them may be  pure
//     fetch_verdict    missing -> an error, or go on            pure
//
// An answer names the (stream, cut, hour) that it contains: segments made of these are left out
// (reconcile.h).
#pragma once

#include "loop/req.h"
#include "model/loose.h"
#include "model/placings.h"

// The reply of one ingester. Its bytes (a HeadReadResponse) live as long as the request's arena.
struct head_reply {
    str member;
    str bytes;
    const err *fault;  // NULL = it answered
    bool unlisted;     // only a registration names it: if it fails, its streams are missing
    bool away;         // with fault: nobody answered there, or one that is not ready or ends
    bool alone;        // no other process reaches it
    str address;
};

struct head_replies {
    struct head_reply *v;
    size_t n;
    // A list of streams says whose rows are needed. So an ingester that is away is only noted
    // (fetched.away), and lists of members need not agree.
    bool registered;
};

// Asks every ingester on behalf of one tenant and waits for all. An ingester's failure is its
// reply's fault. Fails itself only if no ingester is known, the request ended (canceled, deadline)
// or there is no memory. `transport` is the service's; tests have a function of their own here.
typedef bool head_ask(const void *transport, struct req *r, str tenant, str message,
                      struct head_replies *out, err *e);

struct streams;
struct fetch_transport {
    struct client *client;
    struct members *members;
    struct streams *streams;      // NULL: there is no store
    const struct config *config;  // querier.fetch_max: bytes of one reply
};
bool fetch_peers(const void *transport, struct req *r, str tenant, str message,
                 struct head_replies *out, err *e) MUST_CHECK;

// Rows that an answer contains: those of a cut and hour that are in no part before first_part.
struct fetched_cut {
    id128 stream;
    uint64_t cut;
    int64_t hour;
    uint32_t first_part;
    size_t partial;  // row of the partial that it is in
};

// A node that replied to the last question, with its data directory; zeros: it names none.
struct fetched_node {
    str node;
    id128 directory;
};

// An ingester of the list that is away. It is missing only if a stream of it is.
struct fetched_away {
    str member;
    str address;
    const err *fault;
};

// The answers that count, over all tenants of a query; arrays in the request's arena.
struct fetched {
    str *partials;  // bytes of Partial messages
    size_t partial_count;
    size_t partial_cap;
    id128 *streams;  // of the partials
    size_t stream_cap;
    struct fetched_cut *cuts;
    size_t cut_count;
    size_t cut_cap;
    str *missing;  // "ingester-2", "stream 01J..."; each once
    size_t missing_count;
    size_t missing_cap;
    size_t marks;           // how many of those are marks (fetch_mark)
    err why;                // reason of the first missing name that is no mark
    err mark_why;           // reason of the first mark
    int64_t since_wall_ns;  // the first of them whose time is known is missing since; 0: not known
    struct fetched_away *away;  // of the last replies
    size_t away_count;
    struct fetched_node *nodes;
    size_t node_count;
    id128 *served;  // streams that the last replies serve, and directories that they know as lost,
                    // in order of ids
    size_t served_count;
    uint64_t bytes;
    bool stores;      // an ingester gives rows to an object store
    bool has_blocks;  // a snapshot of the store was taken as well
};

// Adds the answers that count, and the names of what is missing, but for those in out->away. A
// reply that cannot be read makes its ingester missing. Fails for lack of memory only.
bool fetch_choose(struct arena *a, const struct head_replies *replies, struct fetched *out,
                  err *e) MUST_CHECK;

// Whether somebody speaks for a stream or a data directory: its rows are in the answers, or are in
// segments; or an ingester says that it is lost (and has marked the answer, if rows of its range
// may be missing).
bool fetch_serves(const struct fetched *f, id128 id);

// Is that name missing?
bool fetch_lacks(const struct fetched *f, str name);

// Adds the loose rows that partials from row `from` on name, with the partial's row as keeper.
bool fetch_loose(const struct fetched *f, size_t from, struct loose_set *out, err *e) MUST_CHECK;

// Adds the placings of the same partials' rows (model/placings.h).
bool fetch_placings(const struct fetched *f, size_t from, struct placings *out, err *e) MUST_CHECK;

// Append fields of a HeadReadRequest: the list of loose rows, where a keeper below n is a stream of
// `keepers` and others mean that no head counts the row; and cuts whose coverage is to be checked.
void fetch_put_loose(const id128 *keepers, size_t n, const struct loose_set *s, struct buf *out);
void fetch_put_refresh(const struct fetched_cut *v, size_t n, struct buf *out);

// Is there a partial, from row `from` on, of the stream? The others name something as missing,
// once. They copy names: an object's name is its manifest's, which is released before the answer is
// written.
bool fetch_has_stream(const struct fetched *f, size_t from, id128 stream);
str fetch_stream_name(struct arena *a, id128 stream);
bool fetch_miss_stream(struct arena *a, struct fetched *f, id128 stream, const err *why,
                       err *e) MUST_CHECK;
bool fetch_miss(struct arena *a, struct fetched *f, str name, const err *why, err *e) MUST_CHECK;

// Names something that is missing because nobody has it now: streams and data directories of
// ingesters that are away, damaged logs. Asking again does not help, and the name says whose
// profiles are not there. So it is a mark: by default (FETCH_MARKED) the answer is given.
bool fetch_mark(struct arena *a, struct fetched *f, str name, const err *why, err *e) MUST_CHECK;

// How many missing names are no marks.
size_t fetch_lacking(const struct fetched *f);

// The names of what is missing, comma separated; long lists end in "and N more".
str fetch_missing(struct arena *a, const struct fetched *f);

// The first name, how many more there are, and what is wrong with them. Something is missing.
str fetch_missing_first(struct arena *a, const struct fetched *f);

// The answers that an asker accepts when something is missing. The header Flametree-Partial
// decides, and without it the setting querier.incomplete.
enum fetch_takes {
    FETCH_MARKED,  // an answer of which all missing names are marks: querier.incomplete: mark
    FETCH_EXACT,   // no such answer: Flametree-Partial: deny, or querier.incomplete: refuse
    FETCH_ANY,     // every such answer: Flametree-Partial: allow
};

// Is something missing for which the asker takes no answer?
bool fetch_refuses(const struct fetched *f, enum fetch_takes takes);

// True if nothing is missing, or if the asker takes such an answer; of FETCH_ANY something must
// have come. Else unavailable, naming what is missing; limits (resource_exhausted, out_of_range)
// and refusals of the first ingester keep their code.
bool fetch_verdict(struct arena *a, const struct fetched *f, enum fetch_takes takes,
                   err *e) MUST_CHECK;
