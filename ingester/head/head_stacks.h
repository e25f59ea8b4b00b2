// SPDX-License-Identifier: Apache-2.0
//
// head_stacks.h - maps the stacks of a batch to those of its service, and limits their number;
// private to head*.c.
//
// A service may have max_stacks distinct stacks (inner nodes count) in an hour of profile time. A
// new stack beyond that ends, below its deepest ancestor that is kept, in the frame `[too many
// stacks]`, with its value intact. An ingester cuts nothing else off.
//
// A set of bits, one for each stack of the service's table, says which stacks an hour has. It is
// made from the rows of that hour, and only once the whole table could be above the limit, which
// that of a healthy service never is. A few sets are kept; the one that was not used for longest
// goes first.
#pragma once

#include "ingester/head/head_int.h"

// The stacks of a batch that names a lexicon are looked up in its translation (translation.h). Such
// a batch is never cut: if the limit could be met, it is refused and comes with all its symbols.
struct stack_mapper {
    struct service_head *service;
    struct translation *translation;  // a reference, or NULL
    const uint32_t *stacks;           // its
    struct symbols_remap remap;
    uint64_t limit;   // 0: the limit cannot be met
    uint64_t capped;  // stacks that were cut off
    uint32_t end;     // the frame `[too many stacks]`
    uint32_t *known;  // by stack of the batch, in the current hour: the service's stack + 1
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
