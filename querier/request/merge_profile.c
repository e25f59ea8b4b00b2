// SPDX-License-Identifier: Apache-2.0
#include "querier/request/merge_profile.h"

#include "codec/pb.h"
#include "querier/request/stack_sums.h"
#include "querier/v1/querier.pb-c.h"

bool merge_profile(struct answer *a, str in, struct buf *out, err *e)
{
    const Querier__V1__SelectMergeProfileRequest *m =
        ANSWER_UNPACK(a, Querier__V1__SelectMergeProfileRequest,
                      querier__v1__select_merge_profile_request, in, e);
    if (!m) return false;
    const struct stack_sums_asked asked = {
        .type_id = m->profile_typeid,
        .selector = m->label_selector,
        .start_ms = m->start,
        .end_ms = m->end,
        .traces = m->trace_id_selector,
        .profiles = m->profile_id_selector,
        .trace_count = m->n_trace_id_selector,
        .profile_count = m->n_profile_id_selector,
        .stack_selector = m->stack_trace_selector,
        .for_pprof = true,
    };
    struct stack_sums s;
    bool pgo = m->stack_trace_selector && m->stack_trace_selector->go_pgo;
    int64_t max_nodes = 0;
    return query_pprof_nodes(a->limits, m->max_nodes, pgo, &max_nodes, e) &&
           stack_sums_read(a, &asked, &s, e) && stack_sums_pprof(a, &s, max_nodes, out, e);
}
