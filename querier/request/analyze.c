// SPDX-License-Identifier: Apache-2.0
#include "querier/request/analyze.h"

#include "codec/pb.h"
#include "querier/request/render_query.h"
#include "querier/v1/querier.pb-c.h"

static void put_answer(const struct inventory *x, size_t streams, struct buf *out)
{
    size_t scope = pb_begin(out, 1);
    pb_put_bytes(out, 1, S("Short term storage"));
    pb_put_u64_opt(out, 2, streams);
    pb_put_u64_opt(out, 4, x->series);
    pb_put_u64_opt(out, 5, x->profiles);
    pb_put_u64_opt(out, 6, x->samples);
    pb_put_u64_opt(out, 7, x->index_bytes);
    pb_put_u64_opt(out, 8, x->profile_bytes);
    pb_put_u64_opt(out, 9, x->symbol_bytes);
    pb_end(out, scope);
    size_t impact = pb_begin(out, 2);
    pb_put_u64_opt(out, 2, x->index_bytes + x->profile_bytes + x->symbol_bytes);
    pb_put_u64_opt(out, 3, x->series);
    pb_end(out, impact);
}

bool analyze_run(struct answer *a, str in, struct buf *out, err *e)
{
    const Querier__V1__AnalyzeQueryRequest *m =
        ANSWER_UNPACK(a, Querier__V1__AnalyzeQueryRequest, querier__v1__analyze_query_request, in,
                      e);
    if (!m) return false;
    struct query q = {.stats = true, .stat_sizes = true};
    struct query_range range;
    if (m->start == 0 && m->end == 0) return true;
    if (!query_range(a->limits, a->now_wall_ns, m->start, m->end, &range, e) ||
        !render_any_selector(a, str_of(m->query), "query", &q, e)) {
        return false;
    }
    if (range.empty) return true;
    query_set_range(&q, &range);
    struct merged *found;
    if (!answer_read(a, &q, &found, e)) return false;
    if (found->there.profiles) put_answer(&found->there, found->streams, out);
    return true;
}
