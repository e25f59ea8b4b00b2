// SPDX-License-Identifier: Apache-2.0
//
// answer.h - one public request on its way through the querier, and what all requests share.
//
//     answer_run       tenant's limits, clock, metrics, response headers       once a request
//       a request      discovery, stacktraces, profile, series, diff, stats    its own file each
//         answer_read  encode, ask the heads for each tenant, choose, merge    once a question
//
// Response headers: Flametree-Profiles (how many profiles the answer sums), Flametree-Exact: exact,
// or, where the request said Flametree-Partial: allow and something did not answer,
// Flametree-Exact: partial=... and Flametree-Missing with the names of what is missing;
// Server-Timing: query;dur=<ms>.
#pragma once

#include "net/server.h"
#include "querier/config.h"
#include "querier/fetch.h"
#include "querier/merge.h"
#include "querier/plan.h"

struct querier_state {
    const struct config *config;
    struct mem_budget *memory;
    head_ask *ask;
    const struct fetch_transport *transport;
    struct fetch_transport peers;
};

struct answer {
    const struct querier_state *querier;
    struct http_exchange *x;
    struct arena *arena;  // of the request
    const struct querier_config *config;
    const struct limits *limits;
    int64_t now_wall_ns;
    bool may_be_partial;
    bool asked;            // the heads were asked at least once
    bool counts_profiles;  // the answer is a sum over profiles
    uint64_t profiles;
    struct fetched fetched;  // of all questions so far
};

// A request's own work: the message `in` to the message `out`.
typedef bool answer_fn(struct answer *a, str in, struct buf *out, err *e);

bool answer_run(const struct querier_state *q, struct http_exchange *x, str method, answer_fn *fn,
                str in, struct buf *out, err *e) MUST_CHECK;

// Asks the question of every tenant of the request and merges what came. The result lives as long
// as the request. Fails with the codes of fetch_verdict and merged_add, or when the request ended.
bool answer_read(struct answer *a, const struct query *q, struct merged **out, err *e) MUST_CHECK;

// Unpacks a request message into the arena; `type` names the generated message in lower case, such
// as querier__v1__diff_request.
#define ANSWER_UNPACK(a, Type, type, in, e) \
    ((Type *)(void *)pb_unpack((a)->arena, &type##__descriptor, (in), (e)))
