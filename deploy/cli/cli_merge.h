// SPDX-License-Identifier: Apache-2.0
//
// cli_merge.h - requests for merged stacks, for `query` and `diff`.
#pragma once

#include "deploy/cli/cli_draw.h"
#include "deploy/cli/cli_find.h"

// The largest --max-nodes that Pyroscope allows: for answers without nodes left out.
#define CLI_MERGE_ALL UINT64_C(1048576)

bool cli_merge_flame(struct cli *c, const struct cli_query *q, uint64_t nodes, struct flame *f,
                     err *e) MUST_CHECK;
struct draw_unit cli_merge_unit(str type);
