// SPDX-License-Identifier: Apache-2.0
//
// fetch.h - one question to every known ingester, and which of the replies count.
//
// Any ingester may hold any series, so all that are known are asked, those that seem dead too. A
// reply has an answer per stream that the ingester serves and names the streams that it only holds.
// Of each stream one answer counts: a complete one of its owner, else a complete one, else what
// there is. What is then missing is named: ingesters that did not answer, streams that were
// answered incompletely or that are held but were answered by nobody. Whether that makes an error
// or a marked partial answer is the caller's choice (fetch_verdict); it is never left out silently.
// Member lists that differ are said as well: an ingester that another one was told of and this
// process was not, and two names for one and the same ingester.
//
//     fetch_peers      messages out, replies in              network
//     fetch_choose     replies -> partials + missing          pure
//     fetch_loose      partials -> rows that several may have pure
//     fetch_verdict    missing -> error, or go on             pure
//
// An answer names the (stream, cut, hour) that it contains: segments made of these are left out
// (reconcile.h).
#pragma once

#include "loop/req.h"
#include "model/loose.h"

// What one ingester said. bytes (a HeadReadResponse) live as long as the request's arena.
struct head_reply {
    str member;
    str bytes;
    const err *fault;  // NULL = it answered
};

struct head_replies {
    struct head_reply *v;
    size_t n;
};

// Asks every ingester on behalf of one tenant and waits for all. Fails only if nobody can be asked
// or the request itself ended (canceled, deadline); an ingester's failure is its reply's fault.
// `transport` is the service's; a test puts a function of its own here.
typedef bool head_ask(const void *transport, struct req *r, str tenant, str message,
                      struct head_replies *out, err *e);

struct fetch_transport {
    struct client *client;
    struct members *members;
    const struct config *config;  // querier.fetch_max: bytes of one reply
};
bool fetch_peers(const void *transport, struct req *r, str tenant, str message,
                 struct head_replies *out, err *e) MUST_CHECK;

// What an answer contains of a cut: its rows of that hour that parts before first_part do not have.
struct fetched_cut {
    id128 stream;
    uint64_t cut;
    int64_t hour;
    uint32_t first_part;
    size_t partial;  // row of the partial that it is in
};

// What counts, over all tenants of a query; arrays in the request's arena.
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
    size_t marks;  // of those, how many only mark the answer; they refuse nothing
    err why;       // of the first that is missing and no mark
    uint64_t bytes;
    bool stores;      // an ingester gives rows to an object store
    bool has_blocks;  // something was read of the store as well
};

bool fetch_choose(struct arena *a, const struct head_replies *replies, struct fetched *out,
                  err *e) MUST_CHECK;

// Adds the loose rows that partials from row `from` on name, with the partial's row as keeper.
bool fetch_loose(const struct fetched *f, size_t from, struct loose_set *out, err *e) MUST_CHECK;

// Fields of a HeadReadRequest: the list of loose rows, the keepers being rows of `keepers` or, from
// `n` on, nobody that is asked; and cuts to be checked for coverage.
void fetch_put_loose(const id128 *keepers, size_t n, const struct loose_set *s, struct buf *out);
void fetch_put_refresh(const struct fetched_cut *v, size_t n, struct buf *out);

// Whether a partial from row `from` on is of the stream; and naming one as missing. Names are
// copied: an object's is its manifest's, which goes before the answer is written.
bool fetch_has_stream(const struct fetched *f, size_t from, id128 stream);
bool fetch_miss_stream(struct arena *a, struct fetched *f, id128 stream, const err *why,
                       err *e) MUST_CHECK;
bool fetch_miss(struct arena *a, struct fetched *f, str name, const err *why, err *e) MUST_CHECK;

// The same for what may be missing and cannot come back by asking again: the answer says so, and is
// given although nobody allowed a partial one.
bool fetch_mark(struct arena *a, struct fetched *f, str name, err *e) MUST_CHECK;

// How much is missing that is no mark.
size_t fetch_lacking(const struct fetched *f);

// The names of what is missing, comma separated; long lists end in "and N more".
str fetch_missing(struct arena *a, const struct fetched *f);

// The first name, how many more there are, and what is wrong with them. Something is missing.
str fetch_missing_first(struct arena *a, const struct fetched *f);

// True if nothing is missing, or if the asker allows a partial answer and something came. Else
// unavailable, naming what is missing; limits (resource_exhausted, out_of_range) and refusals of
// the first ingester keep their code.
bool fetch_verdict(struct arena *a, const struct fetched *f, bool may_be_partial,
                   err *e) MUST_CHECK;
