// SPDX-License-Identifier: Apache-2.0
//
// stack_sums.c - the question for stacks (stack_sums_read), and what is made of its sums: a tree or
// a pprof. Both take memory of the query's budget, so what that refuses is named
// (stack_sums_failed).
#include "querier/request/stack_sums.h"

#include "querier/answer/shown.h"
#include "querier/request/pgo.h"
#include "sys/clock.h"

struct stack_sums_asked stack_sums_asked_of(const Querier__V1__SelectMergeStacktracesRequest *m)
{
    return (struct stack_sums_asked){
        .type_id = m->profile_typeid,
        .selector = m->label_selector,
        .start_ms = m->start,
        .end_ms = m->end,
        .spans = m->span_selector,
        .traces = m->trace_id_selector,
        .profiles = m->profile_id_selector,
        .span_count = m->n_span_selector,
        .trace_count = m->n_trace_id_selector,
        .profile_count = m->n_profile_id_selector,
        .stack_selector = m->stack_trace_selector,
    };
}

bool stack_sums_row_limit(const Querier__V1__SelectMergeStacktracesRequest *m, int64_t max_nodes,
                          uint64_t *limit, err *e)
{
    const Querier__V1__FunctionsOptions *o =
        m && m->format_options ? m->format_options->functions : NULL;
    if (o && o->limit < 0) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "format_options.functions.limit is %lld, but at least 0",
                       (long long)o->limit);
    }
    *limit = (uint64_t)(o ? o->limit : MAX(max_nodes, 0));
    return true;
}

static bool selectors(struct answer *a, const struct stack_sums_asked *s, struct query *q, err *e)
{
    if (s->span_count && s->trace_count) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "span_selector and trace_id_selector cannot be combined");
    }
    return query_add_spans(a->arena, q, s->spans, s->span_count, e) &&
           query_add_traces(a->arena, q, s->traces, s->trace_count, e) &&
           query_add_profiles(a->arena, q, s->profiles, s->profile_count, e);
}

static bool call_site(struct answer *a, const Types__V1__StackTraceSelector *in,
                      struct stack_sums *out, err *e)
{
    str *names = ARENA_ARRAY(a->arena, str, in->n_call_site);
    if (!names) return arena_fail(a->arena, e);
    for (size_t i = 0; i < in->n_call_site; i++)
        names[i] = str_of(in->call_site[i]->name);
    out->call_site = names;
    out->call_site_count = in->n_call_site;
    return true;
}

bool stack_sums_read(struct answer *a, const struct stack_sums_asked *asked, struct stack_sums *out,
                     err *e)
{
    struct query q = {.tree = {.wanted = true, .full_symbols = asked->for_pprof}};
    *out = (struct stack_sums){.arena = a->arena};  // until there is an answer with its own
    q.selector.most = &a->selectors;
    if (!query_range(a->limits, a->now_wall_ns, asked->start_ms, asked->end_ms, &out->range, e) ||
        !query_add_type(a->arena, &q, str_of(asked->type_id), &out->type, e) ||
        !query_add_selector(a->arena, &q, str_of(asked->selector), e) ||
        !selectors(a, asked, &q, e)) {
        return false;
    }
    a->counts_profiles = true;
    // Only now: a bad selector is refused, also where the range is empty.
    if (out->range.empty) return true;
    query_set_range(&q, &out->range);

    struct merged *m;
    if (!answer_read(a, &q, &m, e)) return false;
    assert(m->stacks.symbols.t.stack_count > 0);  // the empty stack at least
    out->symbols = &m->stacks.symbols.t;
    out->sums = m->stacks.sums;
    out->period = m->stacks.period;
    out->arena = &m->arena;  // what is made of the sums counts as the query's memory
    const Types__V1__StackTraceSelector *s = asked->stack_selector;
    if (!s) return true;
    if (!asked->for_pprof || !s->go_pgo) return call_site(a, s, out, e);
    struct pgo_options pgo = {s->go_pgo->keep_locations, s->go_pgo->aggregate_callees};
    return pgo_trim(&m->stacks, &m->arena, &pgo, &out->sums, e);
}

bool stack_sums_failed(const struct stack_sums *s, err *e)
{
    // Only for what the budget refused. The answer's buffer has a cap of its own, with its message.
    if (!s->symbols || !s->arena->exhausted) return false;
    return err_wrap(e, "querier.query_memory");
}

bool stack_sums_tree(const struct stack_sums *s, struct tree *out, err *e)
{
    assert(s->arena && (s->symbols == NULL) == s->range.empty);
    if (s->symbols) {
        return tree_build(s->arena, s->symbols, s->sums, s->call_site, s->call_site_count, out,
                          e) ||
               stack_sums_failed(s, e);
    }
    // Callers draw and subtract trees: an empty one spares each of them a special case.
    struct tree_node *root = ARENA_NEW(s->arena, struct tree_node);
    if (!root) return arena_fail(s->arena, e);
    *out = (struct tree){.nodes = root, .count = 1};
    return true;
}

// The period that the profiles state. If they state none, or not all the same, it is the one that
// pprof tools expect of a type.
static int64_t period_of(const struct stack_sums *s)
{
    if (s->period > 0) return s->period;
    if (str_is(s->type.name, "process_cpu")) return 1000000000;
    if (str_is(s->type.name, "memory")) return 524288;
    return 1;
}

bool stack_sums_pprof(struct answer *a, const struct stack_sums *s, int64_t max_nodes,
                      struct buf *out, err *e)
{
    assert(s->arena && (s->symbols == NULL) == s->range.empty);
    if (!s->symbols) return true;
    // A merged profile has no time of its own. The end of its range is when it was complete.
    int64_t time_ns = 0;
    struct tree_shown shown = {0};
    if (__builtin_mul_overflow(s->range.end_ms, NS_PER_MS, &time_ns)) time_ns = INT64_MAX;
    const struct pprof_options o = {
        .header = {.sample_type = s->type.sample_type,
                   .sample_unit = s->type.sample_unit,
                   .period_type = s->type.period_type,
                   .period_unit = s->type.period_unit,
                   .period = period_of(s),
                   .time_ns = time_ns},
        .max_nodes = max_nodes,
        .call_site = s->call_site,
        .call_site_count = s->call_site_count,
        .shown = &shown,
    };
    if (!pprof_encode(s->arena, s->symbols, s->sums, &o, out, e)) return stack_sums_failed(s, e);
    return max_nodes <= 0 || shown_frames(a, &shown, e);
}
