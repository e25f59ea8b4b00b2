// SPDX-License-Identifier: Apache-2.0
//
// question.h - a share of a plan as another querier gets it: the question, and the pieces that it
// is to add up. Pure.
#pragma once

#include "base/buf.h"
#include "querier/plan/levels.h"
#include "querier/plan/query.h"

// A PartialReadRequest. Of the pieces' objects only kind, name and size are told, which is all that
// reading them needs.
// `excluded`: as in struct block_task.
void question_put(const struct query *q, bool excluded, const struct level_piece *v, size_t n,
                  struct buf *out);

// Reads it; the arena's. Selectors ask `alive(arg)` while they match, as a regex over many values
// takes long. Fails with invalid_argument, and resource_exhausted.
struct question {
    struct query q;
    struct selector_most most;
    struct level_plan plan;  // pieces alone
    bool excluded;
    bool wide_totals;  // the asker knows carries
};
bool question_read(struct arena *a, str message, bool (*alive)(const void *arg, err *e),
                   const void *arg, struct question **out, err *e) MUST_CHECK;
