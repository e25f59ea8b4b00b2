// SPDX-License-Identifier: Apache-2.0
//
// cli_merge.c - the request for merged stacks, and its answer as a flame graph.
#include "deploy/cli/cli_merge.h"

#include "codec/pb.h"
#include "deploy/cli/cli_ask.h"
#include "model/ptype.h"
#include "sys/clock.h"

struct draw_unit cli_merge_unit(str type)
{
    struct ptype t = {0};
    err ignored = {0};
    struct draw_unit u = {TEXT_COUNT, 1};
    // A type of a foreign server may not have our form; then values are plain numbers.
    if (ptype_parse(type, &t, &ignored)) u.unit = text_unit_of(t.sample_unit, &u.factor);
    return u;
}

bool cli_merge_ask(struct cli *c, const struct cli_query *q, const struct cli_merge *how,
                   Querier__V1__SelectMergeStacktracesResponse **answer, err *e)
{
    Querier__V1__SelectMergeStacktracesRequest m =
        QUERIER__V1__SELECT_MERGE_STACKTRACES_REQUEST__INIT;
    m.profile_typeid = pb_z(&c->arena, q->type);
    m.label_selector = pb_z(&c->arena, q->selector);
    assert(q->from_ns <= q->until_ns && q->type.n > 0);
    m.start = q->from_ns / NS_PER_MS;
    m.end = q->until_ns / NS_PER_MS;
    m.format = how->format;
    uint64_t nodes = how->nodes;
    if (!cli_args_number(&c->args, OPT_MAX_NODES, 1, INT64_MAX, &nodes, e)) return false;
    if (nodes > 0) {
        m._max_nodes_case = QUERIER__V1__SELECT_MERGE_STACKTRACES_REQUEST___MAX_NODES_MAX_NODES;
        m.max_nodes = (int64_t)nodes;
    }
    ProtobufCMessage *got = NULL;
    bool ok = cli_ask(c, "SelectMergeStacktraces", &m.base,
                      &querier__v1__select_merge_stacktraces_response__descriptor, &got, e);
    *answer = (Querier__V1__SelectMergeStacktracesResponse *)got;
    // Servers limit the nodes of an answer; the number is known only to them.
    if (!ok && e->code == ERR_INVALID_ARGUMENT && strstr(e->msg, "nodes limit"))
        cli_hint(c, "use a smaller --max-nodes");
    assert(!ok || got);
    return ok;
}

bool cli_merge_flame(struct cli *c, const struct cli_query *q, uint64_t nodes, struct flame *f,
                     err *e)
{
    const struct cli_merge how = {QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_FLAMEGRAPH, nodes};
    Querier__V1__SelectMergeStacktracesResponse *answer = NULL;
    if (!cli_merge_ask(c, q, &how, &answer, e)) return false;
    bool ok = flame_read(&c->arena, answer->flamegraph, f, e);
    if (ok && f->is_flat) {
        const struct cli_merge as_tree = {QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_TREE, nodes};
        if (!cli_merge_ask(c, q, &as_tree, &answer, e)) return false;
        // A server that does not know this form answers as before.
        str tree = str_make(answer->tree.data, answer->tree.len);
        ok = tree.n == 0 || flame_read_tree(&c->arena, tree, f, e);
    }
    return ok || err_wrap(e, "SelectMergeStacktraces at %.*s", STR(c->url.shown));
}
