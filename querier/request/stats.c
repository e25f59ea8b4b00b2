// SPDX-License-Identifier: Apache-2.0
#include "querier/request/stats.h"

#include "codec/pb.h"
#include "querier/v1/querier.pb-c.h"
#include "sys/clock.h"

// Outwards, so that a query from the oldest to the newest ms finds both profiles.
static int64_t ms_floor(int64_t ns)
{
    return ns / NS_PER_MS - (ns % NS_PER_MS < 0);
}

static int64_t ms_ceil(int64_t ns)
{
    return ns / NS_PER_MS + (ns % NS_PER_MS > 0);
}

bool stats_run(struct answer *a, str in, struct buf *out, err *e)
{
    if (!ANSWER_UNPACK(a, Types__V1__GetProfileStatsRequest, types__v1__get_profile_stats_request,
                       in, e)) {
        return false;
    }
    if (str_find(a->x->req.tenant, '|') < a->x->req.tenant.n) {
        return err_set(e, ERR_INVALID_ARGUMENT, "multiple org IDs present");
    }
    const struct query q = {.from_ns = INT64_MIN, .to_ns = INT64_MAX, .stats = true};
    struct merged *m;
    if (!answer_read(a, &q, &m, e)) return false;
    if (m->there.profiles == 0) return true;
    pb_put_u64(out, 1, 1);
    pb_put_i64_opt(out, 2, ms_floor(m->there.oldest_ns));
    pb_put_i64_opt(out, 3, ms_ceil(m->there.newest_ns));
    return true;
}
