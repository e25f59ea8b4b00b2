// SPDX-License-Identifier: Apache-2.0
#include "querier/diff.h"

#include "codec/pb.h"
#include "model/flamegraph.h"
#include "querier/stacks.h"
#include "querier/v1/querier.pb-c.h"

struct side {
    struct stacks stacks;
    struct tree tree;
};

static bool read_side(struct answer *a, const Querier__V1__SelectMergeStacktracesRequest *m,
                      const char *name, struct side *out, err *e)
{
    // A missing side is the empty request, whose first fault is the range.
    static const Querier__V1__SelectMergeStacktracesRequest none =
        QUERIER__V1__SELECT_MERGE_STACKTRACES_REQUEST__INIT;
    if (!m) m = &none;
    const struct stacks_asked asked = stacks_asked_of(m);
    if (stacks_read(a, &asked, &out->stacks, e) && stacks_tree(&out->stacks, &out->tree, e)) {
        return true;
    }
    // Faults of the question have one code here; faults of ours keep theirs, so that nobody
    // takes a missing ingester for a bad question.
    if (err_http_status(e->code) == 400) e->code = ERR_INVALID_ARGUMENT;
    return err_wrap(e, "%s side", name);
}

bool diff_run(struct answer *a, str in, struct buf *out, err *e)
{
    const Querier__V1__DiffRequest *m =
        ANSWER_UNPACK(a, Querier__V1__DiffRequest, querier__v1__diff_request, in, e);
    if (!m) return false;
    int64_t left_nodes = m->left ? m->left->max_nodes : 0;
    int64_t right_nodes = m->right ? m->right->max_nodes : 0;
    int64_t max_nodes = 0;
    struct side left;
    struct side right;
    if (!query_max_nodes(a->limits, MAX(left_nodes, right_nodes), &max_nodes, e) ||
        !read_side(a, m->left, "left", &left, e) || !read_side(a, m->right, "right", &right, e)) {
        return false;
    }
    size_t mark = pb_begin(out, 1);
    const struct stacks *room = left.stacks.symbols ? &left.stacks : &right.stacks;
    bool ok = tree_flamegraph_diff(room->arena, &left.tree, &right.tree, max_nodes, out, e);
    pb_end(out, mark);
    return ok || stacks_failed(room, e);
}
