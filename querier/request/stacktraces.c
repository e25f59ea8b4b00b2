// SPDX-License-Identifier: Apache-2.0
//
// stacktraces.c - SelectMergeStacktraces and SelectMergeSpanProfile: limits first, then one
// question for sums of stacks, then the form that was asked for (put_graph, put_dot, put_pprof,
// put_functions).
#include "querier/request/stacktraces.h"

#include "codec/pb.h"
#include "model/dot.h"
#include "model/flamegraph.h"
#include "model/functions.h"
#include "querier/answer/settle.h"
#include "querier/answer/shown.h"
#include "querier/request/readable.h"
#include "querier/request/stack_sums.h"
#include "querier/v1/querier.pb-c.h"

// Fields of SelectMergeStacktracesResponse; SelectMergeSpanProfileResponse has the first two.
#define FIELD_FLAMEGRAPH 1
#define FIELD_TREE       2
#define FIELD_DOT        3
#define FIELD_PPROF      5
#define FIELD_FUNCTIONS  6

#define DOT_NODES 100  // when none are asked for

static bool put_graph(struct answer *a, const struct stack_sums *s, int64_t max_nodes,
                      bool as_bytes, struct buf *out, err *e)
{
    struct tree whole;
    struct tree cut;
    if (!stack_sums_tree(s, &whole, e)) return false;
    shown_cut(a, &whole);
    if (!tree_truncate(s->arena, &whole, max_nodes, &cut, e)) return stack_sums_failed(s, e);
    if (!shown_tree(a, &whole, &cut, e)) return false;
    if (!as_bytes) {
        size_t mark = pb_begin(out, FIELD_FLAMEGRAPH);
        bool ok = tree_flamegraph(s->arena, &cut, out, e);
        bool readable = ok && readable_put(a, READABLE_NAMES, mark, out, e);
        pb_end(out, mark);
        return ok ? readable : stack_sums_failed(s, e);
    }
    // A field's length stands before its bytes, so they are made apart.
    struct buf bytes;
    buf_init(&bytes, a->querier->memory, out->cap);
    bool ok = tree_bytes(&cut, &bytes, e) && buf_ok(&bytes, e);
    if (ok) pb_put_bytes_opt(out, FIELD_TREE, buf_view(&bytes));
    buf_release(&bytes);
    return ok;
}

static bool put_dot(struct answer *a, const struct stack_sums *s, int64_t max_nodes,
                    struct buf *out, err *e)
{
    struct tree tree;
    struct buf text;
    struct tree_shown shown = {0};
    const struct dot_options o = {s->type.sample_type, s->type.sample_unit, max_nodes, &shown};
    if (!stack_sums_tree(s, &tree, e)) return false;
    shown_cut(a, &tree);
    buf_init(&text, a->querier->memory, out->cap);
    bool ok = dot_print(s->arena, &tree, &o, &text, e);
    if (ok) pb_put_bytes_opt(out, FIELD_DOT, buf_view(&text));
    buf_release(&text);
    return ok ? shown_frames(a, &shown, e) : stack_sums_failed(s, e);
}

static bool put_pprof(struct answer *a, const struct stack_sums *s, int64_t max_nodes,
                      struct buf *out, err *e)
{
    size_t message = pb_begin(out, FIELD_PPROF);
    size_t profile = pb_begin(out, 1);
    bool ok = stack_sums_pprof(a, s, max_nodes, out, e);
    // After a failure too: the answer is dropped, and marks end in the order in which they began.
    pb_end(out, profile);
    pb_end(out, message);
    return ok;
}

static bool put_functions(struct answer *a, const struct stack_sums *s, uint64_t limit,
                          struct buf *out, err *e)
{
    struct tree tree;
    struct function_table table;
    const struct tree *trees[] = {&tree};
    if (!stack_sums_tree(s, &tree, e)) return false;
    // No shown_tree: rows are left out of a table, never frames out of its sums.
    shown_cut(a, &tree);
    if (!functions_build(s->arena, trees, COUNT(trees), &table, e)) return stack_sums_failed(s, e);
    if (table.clipped && !settle_mark_functions(a, e)) return false;
    size_t mark = pb_begin(out, FIELD_FUNCTIONS);
    functions_put(&table, limit, out);
    bool ok = readable_put(a, READABLE_ROWS, mark, out, e);
    pb_end(out, mark);
    return ok && buf_ok(out, e);
}

static bool merge_functions(struct answer *a, const Querier__V1__SelectMergeStacktracesRequest *m,
                            struct buf *out, err *e)
{
    const struct stack_sums_asked asked = stack_sums_asked_of(m);
    struct stack_sums s;
    uint64_t limit = 0;
    return stack_sums_row_limit(m, m->max_nodes, &limit, e) && stack_sums_read(a, &asked, &s, e) &&
           put_functions(a, &s, limit, out, e);
}

bool stacktraces_merge(struct answer *a, str in, struct buf *out, err *e)
{
    const Querier__V1__SelectMergeStacktracesRequest *m =
        ANSWER_UNPACK(a, Querier__V1__SelectMergeStacktracesRequest,
                      querier__v1__select_merge_stacktraces_request, in, e);
    if (!m) return false;
    // Before max_nodes is checked: a table is of all functions, whatever flame graphs may have.
    if (m->format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_FUNCTIONS) {
        return merge_functions(a, m, out, e);
    }
    bool pprof = m->format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_PPROF;
    int64_t max_nodes = m->max_nodes;
    bool dot = m->format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_DOT;
    if (dot && max_nodes == 0) max_nodes = DOT_NODES;
    bool pgo = m->stack_trace_selector && m->stack_trace_selector->go_pgo;
    if (pprof ? !query_pprof_nodes(a->limits, max_nodes, pgo, &max_nodes, e)
              : !query_max_nodes(a->limits, max_nodes, &max_nodes, e)) {
        return false;
    }
    struct stack_sums_asked asked = stack_sums_asked_of(m);
    asked.for_pprof = pprof;
    struct stack_sums s;
    if (!stack_sums_read(a, &asked, &s, e)) return false;
    if (s.range.empty) return true;
    if (dot) return put_dot(a, &s, max_nodes, out, e);
    if (pprof) return put_pprof(a, &s, max_nodes, out, e);
    return put_graph(a, &s, max_nodes,
                     m->format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_TREE, out, e);
}

bool stacktraces_merge_spans(struct answer *a, str in, struct buf *out, err *e)
{
    const Querier__V1__SelectMergeSpanProfileRequest *m =
        ANSWER_UNPACK(a, Querier__V1__SelectMergeSpanProfileRequest,
                      querier__v1__select_merge_span_profile_request, in, e);
    if (!m) return false;
    int64_t max_nodes = 0;
    if (!query_max_nodes(a->limits, m->max_nodes, &max_nodes, e)) return false;
    const struct stack_sums_asked asked = {
        .type_id = m->profile_typeid,
        .selector = m->label_selector,
        .start_ms = m->start,
        .end_ms = m->end,
        .spans = m->span_selector,
        .span_count = m->n_span_selector,
    };
    struct stack_sums s;
    if (!stack_sums_read(a, &asked, &s, e)) return false;
    if (s.range.empty) return true;
    return put_graph(a, &s, max_nodes,
                     m->format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_TREE, out, e);
}
