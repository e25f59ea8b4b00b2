// SPDX-License-Identifier: Apache-2.0
//
// answer.h - one public request on its way through the querier; the parts that all requests share.
//
//     answer_run       tenant's limits, clock, metrics, response headers       once a request
//       a request      discovery, stacktraces, series, diff, stats …          a file each
//         answer_read  encode, then for each tenant reconcile and serve; merge    once a question
//           reconcile     reconciles heads and snapshot (reconcile.h)
//           serve      plans, and reads pieces of blocks (serve.h)
//
// Response headers:
//
//     Flametree-Profiles   how many profiles the answer sums
//     Flametree-Exact      exact
//                          totals: all sums are exact, but truncation took frames out
//                          rounded=<seconds>: edges of the range, or of steps, lie in rows that are
//                          no longer kept
//                          partial=...: such rows cannot be replaced by sums; or something is
//                          missing, and the asker takes such an answer (fetch_takes)
//     Flametree-Missing    names of missing objects and ingesters, and of what does not fit 64 bits
//                          (settle.h)
//     Flametree-Missing-Since   since when streams of them are missing
//     Flametree-Frames, Flametree-Cut   of trees (shown.h)
//     Flametree-Spread     of values over time: none, each profile counts at its time
//                          duration: it counts in all points that it covers
//                          partly: so do single profiles, but where sums of minutes or hours were
//                          read, profiles count at their times
//     Server-Timing        query;dur=<ms> and its phases
//     Flametree-Explain    if the request has that header (explain.h)
#pragma once

#include "net/server.h"
#include "querier/config.h"
#include "querier/head/fetch.h"
#include "querier/merge/merged.h"
#include "querier/peer/peer_read.h"
#include "querier/plan/query.h"

struct manifests;
struct blocks;
struct disk_cache;
struct lane;

struct querier_state {
    const struct config *config;
    struct mem_budget *memory;
    head_ask *ask;
    const struct fetch_transport *transport;
    struct fetch_transport peers;
    struct directories *directories;  // service/directories.h; or NULL
    struct manifests *manifests;      // NULL: there is no store, heads have everything
    struct streams *streams;          // that are registered; NULL: there is no store
    struct blocks *blocks;
    struct disk_cache *disk;      // of blocks; NULL: none
    struct peer_readers readers;  // of large readings of blocks
    struct lane *prefetch;        // of jobs that prefetch while heads answer; NULL: no prefetch
    // When rows of several placings met last (reconcile.h), 0: never. NULL: nobody remembers.
    _Atomic uint64_t *differ_mono_ns;
};

// The work done for all questions of a request.
enum answer_phase {
    WORK_HEADS,
    WORK_SNAPSHOT,
    WORK_PLAN,
    WORK_READ,
    WORK_MERGE,
    WORK_PHASES
};
struct answer_work {
    uint64_t ns[WORK_PHASES];
    uint64_t rounds;  // questions to heads
    uint64_t plans;
    uint64_t objects;
    uint64_t nodes;
    uint64_t rows;
    uint64_t reads;
    uint64_t bytes;
    int64_t rounded_ns;
    bool sums;  // values over time were read of sums, which have no durations
    bool gone;  // rows in (from, to] are no longer kept
    int64_t gone_from_ns;
    int64_t gone_to_ns;
    struct buf *explain;  // plans as JSON; NULL: the request did not ask for them
    uint64_t explained;   // pieces of plans in `explain`
    uint64_t left_out;    // pieces that found no room there
};

// How much of a tree the answer shows, and how much of it was cut before it came here.
struct answer_shown {
    bool known;     // the answer is a tree
    uint32_t sent;  // frames, without the root and what truncation calls "other"
    uint32_t all;
    uint32_t share;  // of the total that lies in frames that are shown: in 1/10,000, rounded down
    int64_t cut;     // value of the frames that end a cut stack (model/marks.h)
};

struct answer {
    const struct querier_state *querier;
    struct http_exchange *x;
    struct arena *arena;  // of the request
    const struct querier_config *config;
    const struct limits *limits;
    int64_t now_wall_ns;
    uint64_t began_mono_ns;
    enum fetch_takes takes;  // if something is missing
    bool asked;              // the heads were asked at least once
    bool counts_profiles;    // the answer is a sum over profiles
    bool names_readable;     // Flametree-Names: readable
    bool over_time;          // the answer has values over time
    bool spread;             // and they are spread by duration
    uint64_t profiles;
    struct answer_shown shown;
    struct fetched fetched;  // of all questions so far
    struct answer_work work;
    struct selector_most selectors;  // limits of its selectors
    str *left_out;  // services whose stacks are in no answer of the request (settle.h)
    size_t left_out_count;
    size_t left_out_cap;
};

// A request's own work: the message `in` to the message `out`.
typedef bool answer_fn(struct answer *a, str in, struct buf *out, err *e);

bool answer_run(const struct querier_state *q, struct http_exchange *x, str method, answer_fn *fn,
                str in, struct buf *out, err *e) MUST_CHECK;

// Asks the question for every tenant of the request and merges the answers of heads and blocks. The
// result lives as long as the request. Fails with the codes of fetch_verdict and merged_add, or
// when the request ended.
bool answer_read(struct answer *a, const struct query *q, struct merged **out, err *e) MUST_CHECK;

// Does the request ask for values over time that are spread by duration, by this header? Clients
// that cannot change their messages, such as Grafana, can add it.
bool answer_asks_spread(const struct answer *a);

// Whether values were spread, as in Flametree-Spread.
str answer_spread_text(const struct answer *a);

// Unpacks a request message into the arena; `type` names the generated message in lower case, such
// as querier__v1__diff_request.
#define ANSWER_UNPACK(a, Type, type, in, e) \
    ((Type *)(void *)pb_unpack((a)->arena, &type##__descriptor, (in), (e)))
