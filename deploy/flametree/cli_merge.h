// SPDX-License-Identifier: Apache-2.0
//
// cli_merge.h - asking for merged stacks, for `query` and `diff`.
#pragma once

#include "deploy/flametree/cli_draw.h"
#include "deploy/flametree/cli_find.h"

// What Pyroscope allows at most, for answers that leave nothing out.
#define CLI_MERGE_ALL UINT64_C(1048576)

struct cli_merge_how {
    Querier__V1__ProfileFormat format;
    uint64_t nodes;  // 0: the server's default; --max-nodes goes over both
};

// The answer is c->arena's.
bool cli_merge_ask(struct cli *c, const struct cli_query *q, struct cli_merge_how how,
                   Querier__V1__SelectMergeStacktracesResponse **answer, err *e) MUST_CHECK;
bool cli_merge_flame(struct cli *c, const struct cli_query *q, uint64_t nodes, struct flame *f,
                     err *e) MUST_CHECK;
struct draw_unit cli_merge_unit(str type);
