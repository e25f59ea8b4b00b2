// SPDX-License-Identifier: Apache-2.0
#include "querier/analyze.h"

#include "codec/pb.h"
#include "querier/render_query.h"
#include "querier/v1/querier.pb-c.h"

static void put_answer(const struct merged *m, size_t streams, struct buf *out)
{
    size_t scope = pb_begin(out, 1);
    pb_put_bytes(out, 1, S("Short term storage"));
    pb_put_u64_opt(out, 2, streams);
    pb_put_u64_opt(out, 4, m->stat_series);
    pb_put_u64_opt(out, 5, m->stat_profiles);
    pb_put_u64_opt(out, 6, m->stat_samples);
    pb_put_u64_opt(out, 7, m->index_bytes);
    pb_put_u64_opt(out, 8, m->profile_bytes);
    pb_put_u64_opt(out, 9, m->symbol_bytes);
    pb_end(out, scope);
    size_t impact = pb_begin(out, 2);
    pb_put_u64_opt(out, 2, m->index_bytes + m->profile_bytes + m->symbol_bytes);
    pb_put_u64_opt(out, 3, m->stat_series);
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
    if (found->stat_profiles) put_answer(found, found->stat_streams, out);
    return true;
}
