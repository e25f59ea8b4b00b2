// SPDX-License-Identifier: Apache-2.0
//
// diff.c - Diff: each side is a question of its own (read_side); both trees become one flame graph
// (put_graph) or one table (put_functions).
#include "querier/request/diff.h"

#include "codec/pb.h"
#include "model/flamegraph.h"
#include "model/functions.h"
#include "querier/answer/settle.h"
#include "querier/answer/shown.h"
#include "querier/request/readable.h"
#include "querier/request/stack_sums.h"
#include "querier/v1/querier.pb-c.h"

#define FUNCTIONS QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_FUNCTIONS

// Fields of DiffResponse, and of FunctionTableDiff.
#define FIELD_FLAMEGRAPH 1
#define FIELD_FUNCTIONS  2
#define FIELD_LEFT       5

struct side {
    struct stack_sums stacks;
    struct tree tree;
};

// What is made of both sides lives in the arena of one of them: the first that has an answer.
static const struct stack_sums *room_of(const struct side sides[2])
{
    return sides[0].stacks.symbols ? &sides[0].stacks : &sides[1].stacks;
}

static bool read_side(struct answer *a, const Querier__V1__SelectMergeStacktracesRequest *m,
                      const char *name, struct side *out, err *e)
{
    // A missing side is the empty request, whose first fault is the range.
    static const Querier__V1__SelectMergeStacktracesRequest none =
        QUERIER__V1__SELECT_MERGE_STACKTRACES_REQUEST__INIT;
    if (!m) m = &none;
    const struct stack_sums_asked asked = stack_sums_asked_of(m);
    if (stack_sums_read(a, &asked, &out->stacks, e) &&
        stack_sums_tree(&out->stacks, &out->tree, e)) {
        shown_cut(a, &out->tree);
        return true;
    }
    // Faults of the question all become invalid_argument. Faults of ours keep their code: a missing
    // ingester is not a bad question.
    if (err_http_status(e->code) == 400) e->code = ERR_INVALID_ARGUMENT;
    return err_wrap(e, "%s side", name);
}

// Both sides; again, if one of them left out a service (settle.h) that the other one has.
static bool read_sides(struct answer *a, const Querier__V1__DiffRequest *m, struct side sides[2],
                       err *e)
{
    size_t known = 0;
    do {
        known = a->left_out_count;
        a->profiles = 0;
        a->shown.cut = 0;
        if (!read_side(a, m->left, "left", &sides[0], e) ||
            !read_side(a, m->right, "right", &sides[1], e)) {
            return false;
        }
    } while (a->left_out_count > known);
    return true;
}

static bool put_graph(struct answer *a, const struct side sides[2], int64_t max_nodes,
                      struct buf *out, err *e)
{
    const struct stack_sums *room = room_of(sides);
    assert(sides[0].tree.count > 0 && sides[1].tree.count > 0);  // an empty side has its root
    struct tree_shown shown = {0};
    size_t mark = pb_begin(out, FIELD_FLAMEGRAPH);
    bool ok = tree_flamegraph_diff(room->arena, &sides[0].tree, &sides[1].tree, max_nodes, &shown,
                                   out, e);
    bool readable = ok && readable_put(a, READABLE_NAMES, mark, out, e);
    pb_end(out, mark);
    if (ok && !shown_frames(a, &shown, e)) return false;
    return ok ? readable : stack_sums_failed(room, e);
}

struct table_asked {
    uint64_t limit;
    bool as_sides;
};

static bool put_functions(struct answer *a, const struct side sides[2],
                          const struct table_asked *asked, struct buf *out, err *e)
{
    const struct stack_sums *room = room_of(sides);
    const struct tree *trees[] = {&sides[0].tree, &sides[1].tree};
    struct function_table table;
    if (!functions_build(room->arena, trees, COUNT(trees), &table, e)) {
        return stack_sums_failed(room, e);
    }
    if (table.clipped && !settle_mark_functions(a, e)) return false;
    size_t mark = pb_begin(out, FIELD_FUNCTIONS);
    functions_put(&table, asked->limit, out);
    bool ok = readable_put(a, READABLE_ROWS, mark, out, e);
    for (size_t i = 0; asked->as_sides && i < COUNT(trees); i++) {
        size_t side = pb_begin(out, (uint32_t)(FIELD_LEFT + i));
        functions_put_side(&table, i, asked->limit, out);
        pb_end(out, side);
    }
    pb_end(out, mark);
    return ok && buf_ok(out, e);
}

// The older draft of function tables says the format in the request itself, the newer one in its
// left side.
static bool is_functions(const Querier__V1__DiffRequest *m)
{
    return m->format == FUNCTIONS || (m->left && m->left->format == FUNCTIONS);
}

bool diff_run(struct answer *a, str in, struct buf *out, err *e)
{
    const Querier__V1__DiffRequest *m =
        ANSWER_UNPACK(a, Querier__V1__DiffRequest, querier__v1__diff_request, in, e);
    if (!m) return false;
    int64_t left_nodes = m->left ? m->left->max_nodes : 0;
    int64_t right_nodes = m->right ? m->right->max_nodes : 0;
    int64_t max_nodes = m->max_nodes ? m->max_nodes : MAX(left_nodes, right_nodes);
    bool functions = is_functions(m);
    struct table_asked table = {.as_sides = m->left && m->left->format_options};
    struct side sides[2];
    if (!(functions ? stack_sums_row_limit(m->left, max_nodes, &table.limit, e)
                    : query_max_nodes(a->limits, max_nodes, &max_nodes, e)) ||
        !read_sides(a, m, sides, e)) {
        return false;
    }
    return functions ? put_functions(a, sides, &table, out, e)
                     : put_graph(a, sides, max_nodes, out, e);
}
