// SPDX-License-Identifier: Apache-2.0
//
// stack_sums.h - sums over the stacks of all matching profiles: the input of flame graphs, pprof
// and diffs.
//
// The four requests that merge stacks differ only in their messages. Each fills a struct
// stack_sums_asked, calls stack_sums_read, and shows the result in its own form.
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

// From the request of SelectMergeStacktraces, which is also each side of a Diff.
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
    int64_t period;       // of the profiles (model/period.h)
    struct arena *arena;  // for results built from them; the request's if range.empty
    const str *call_site;
    size_t call_site_count;
};

// Checks, asks and merges. Fails with invalid_argument or as answer_read.
bool stack_sums_read(struct answer *a, const struct stack_sums_asked *asked, struct stack_sums *out,
                     err *e) MUST_CHECK;

// Builds the tree by function names, not truncated. An empty range gives the empty tree.
bool stack_sums_tree(const struct stack_sums *s, struct tree *out, err *e) MUST_CHECK;

// Appends a google.v1.Profile, or nothing if there are no stacks. max_nodes <= 0: whole; else the
// answer says how much of it there is (shown.h).
bool stack_sums_pprof(struct answer *a, const struct stack_sums *s, int64_t max_nodes,
                      struct buf *out, err *e) MUST_CHECK;

// After a failure while something was built in s->arena: adds the name of the setting if the
// query's memory was exhausted. Returns false.
bool stack_sums_failed(const struct stack_sums *s, err *e);
