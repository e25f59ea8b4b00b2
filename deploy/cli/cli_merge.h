// SPDX-License-Identifier: Apache-2.0
//
// cli_merge.h - asking for merged stacks, for `query` and `diff`.
#pragma once

#include "deploy/cli/cli_draw.h"
#include "deploy/cli/cli_find.h"

// What Pyroscope allows at most, for answers that leave nothing out.
#define CLI_MERGE_ALL UINT64_C(1048576)

bool cli_merge_flame(struct cli *c, const struct cli_query *q, uint64_t nodes, struct flame *f,
                     err *e) MUST_CHECK;
struct draw_unit cli_merge_unit(str type);
