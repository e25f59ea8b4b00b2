// SPDX-License-Identifier: Apache-2.0
//
// stack_sums.h - sums over the stacks of all matching profiles: what flame graphs, pprof and diffs
// are made of.
//
// The four requests that merge stacks differ in their messages only, so each fills a struct
// stack_sums_asked, has it read, and shows the result in its own way.
#pragma once

#include "model/pprof.h"
#include "model/tree.h"
#include "querier/answer/answer.h"
#include "querier/v1/querier.pb-c.h"
#include "types/v1/types.pb-c.h"

struct stack_sums_asked {
    const char *type_id;
    const char *selector;
    int64_t start_ms;
    int64_t end_ms;
    char *const *spans;
    char *const *traces;
    char *const *profiles;
    size_t span_count;
    size_t trace_count;
    size_t profile_count;
    const Types__V1__StackTraceSelector *stack_selector;  // or NULL
    bool for_pprof;  // full symbols, and the stack selector's go_pgo holds
};

// Of the request that two of them are.
struct stack_sums_asked stack_sums_asked_of(const Querier__V1__SelectMergeStacktracesRequest *m);

// Rows of a function table: format_options.functions.limit, else max_nodes, 0 = all. `m` may be
// NULL. Fails with invalid_argument.
bool stack_sums_row_limit(const Querier__V1__SelectMergeStacktracesRequest *m, int64_t max_nodes,
                          uint64_t *limit, err *e) MUST_CHECK;

struct stack_sums {
    struct query_range range;
    struct ptype type;
    const struct symbol_table *symbols;  // NULL if range.empty
    const int64_t *sums;
    struct arena *arena;  // for what is built from them; of the request if range.empty
    const str *call_site;
    size_t call_site_count;
};

// Checks, asks and merges. Fails with invalid_argument or as answer_read.
bool stack_sums_read(struct answer *a, const struct stack_sums_asked *asked, struct stack_sums *out,
                     err *e) MUST_CHECK;

// As the tree by function names, not truncated. An empty range gives the empty tree.
bool stack_sums_tree(const struct stack_sums *s, struct tree *out, err *e) MUST_CHECK;

// As a google.v1.Profile; nothing if there is nothing. max_nodes <= 0: whole.
bool stack_sums_pprof(const struct stack_sums *s, int64_t max_nodes, struct buf *out,
                      err *e) MUST_CHECK;

// For failures while something is built in s->arena: names the setting if its limit was met.
// Returns false.
bool stack_sums_failed(const struct stack_sums *s, err *e);
