// SPDX-License-Identifier: Apache-2.0
//
// cli_merge.h - asks a server for merged stacks, for `query`, `diff` and `top`.
#pragma once

#include "deploy/cli/cli_draw.h"
#include "deploy/cli/cli_find.h"

// The largest --max-nodes that Pyroscope allows: for answers without nodes left out.
#define CLI_MERGE_ALL UINT64_C(1048576)

struct cli_merge {
    Querier__V1__ProfileFormat format;
    uint64_t nodes;  // 0: the server's default; --max-nodes takes precedence
};

// The answer is c->arena's.
bool cli_merge_ask(struct cli *c, const struct cli_query *q, const struct cli_merge *how,
                   Querier__V1__SelectMergeStacktracesResponse **answer, err *e) MUST_CHECK;

// The same as a flame graph that can be drawn.
bool cli_merge_flame(struct cli *c, const struct cli_query *q, uint64_t nodes, struct flame *f,
                     err *e) MUST_CHECK;

// The unit of a profile type's values; that of a type that cannot be read is a count.
struct draw_unit cli_merge_unit(str type);
