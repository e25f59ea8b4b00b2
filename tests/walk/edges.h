// SPDX-License-Identifier: Apache-2.0
//
// edges.h - questions of every kind, with edges anywhere.
#pragma once

#include "walk/world.h"

void walk_ask_edges(struct world *w, struct dice *d, bool whole);

// ---- actors.c

#define WALK_SERVICES 2
#define WALK_PODS     3
extern const char *const walk_services[WALK_SERVICES];
extern const char *const walk_pods[WALK_PODS];

int64_t walk_first_ns(const struct world *w);  // before which no row can be

// How often each row is in a flame graph (a SelectMergeStacktracesResponse).
void walk_count_rows(struct world *w, struct req *r, const struct buf *out, uint32_t *times);

// Whether a question may end so while others work.
bool walk_may_fail(const struct world *w, const err *e);

// After a walk, a whole question was refused, as it is while something moves. Threads of ingesters
// go on by themselves, and on a busy machine rows can move in each of the few rounds that a
// question of a walk has. So it is asked again, and all that it used is as new. False: it was
// refused for another reason, or for so long that what moves never comes to rest. *until is 0 at
// first.
bool walk_asks_again(struct world *w, struct http_exchange *x, struct buf *out, err *e,
                     uint64_t *until);

void walk_count_answer(struct world *w, bool ok, bool rounded);
