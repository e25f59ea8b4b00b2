// SPDX-License-Identifier: Apache-2.0
//
// head_stacks.h - from a batch's stacks to the service's; private to head*.c.
//
// The only cut that an ingester makes: a service may have max_stacks distinct stacks (inner nodes
// count) in an hour of profile time. New ones beyond that end, below their deepest kept ancestor,
// in the frame `[too many stacks]`, values intact.
//
// Which stacks an hour has is known by a bit for each stack of the service's table. Such a set is
// made (from the rows of that hour) only once the whole table could be above the limit, which a
// service in good health never is; a few are kept, the one longest unused goes first.
#pragma once

#include "ingester/head/head_int.h"

// The stacks of a batch that names a lexicon are looked up in its translation (translation.h). Such
// a batch is never cut: where the limit could be met, it has to come with all its symbols.
struct stack_mapper {
    struct service_head *service;
    struct translation *translation;  // a reference, or NULL
    const uint32_t *stacks;           // its
    struct symbols_remap remap;
    uint64_t limit;   // 0 = none can be too many
    uint64_t capped;  // stacks that were cut off
    uint32_t end;     // the frame that ends them
    uint32_t *known;  // in the current hour: row + 1
    struct stack_hour *hour;
};

// The service's lock is held for writing as long as the mapper is used.
bool mapper_init(struct stack_mapper *m, struct service_head *s, struct arena *a,
                 const struct batch *b, uint64_t limit, err *e) MUST_CHECK;
void mapper_release(struct stack_mapper *m);  // also after a failed init

// The following stacks are of a profile of this Unix hour.
bool mapper_hour(struct stack_mapper *m, int64_t hour, err *e) MUST_CHECK;

// The service's stack for one of the batch; MAP_NONE and *e set on failure.
uint32_t mapper_stack(struct stack_mapper *m, uint32_t stack, err *e) MUST_CHECK;

// Forgets the sets: rows were dropped, or the service ends.
void stack_hours_release(struct service_head *s);
void stack_hours_free(struct mem_budget *b, struct stack_hour v[STACK_HOURS]);
