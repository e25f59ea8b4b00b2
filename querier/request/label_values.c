// SPDX-License-Identifier: Apache-2.0
#include "querier/request/label_values.h"

#include "codec/json.h"
#include "querier/request/render_query.h"
#include "rpc/route.h"
#include "sys/clock.h"

#define LAST_HOUR_MS (INT64_C(3600) * 1000)

static void put_values(const struct merged *found, str name, bool types, struct buf *out)
{
    size_t n = 0;
    for (size_t i = 0; found && i < found->sets.n; i++) {
        if (!labels_has(found->sets.v[i], name)) continue;
        buf_byte(out, n++ ? ',' : '[');
        json_put_string(out, labels_get(found->sets.v[i], name));
    }
    buf_z(out, n ? "]\n" : types ? "null\n" : "[]\n");
}

bool label_values_run(struct answer *a, str in, struct buf *out, err *e)
{
    str name = render_parameter(a, in, "label");
    if (name.n == 0) return err_set(e, ERR_INVALID_ARGUMENT, "label parameter is required");
    bool types = str_is(name, LABEL_NAME);
    if (types) name = S(LABEL_PROFILE_TYPE);
    int64_t start_ms = 0;
    int64_t end_ms = 0;
    if (!render_time(a, in, "until", &end_ms, e) || !render_time(a, in, "from", &start_ms, e))
        return false;
    if (render_parameter(a, in, "from").n == 0) start_ms = end_ms - LAST_HOUR_MS;
    struct query q = {.labels = {.wanted = true, .names = &name, .name_count = 1}};
    struct query_range range;
    if (!query_range(a->limits, a->now_wall_ns, start_ms, end_ms, &range, e) ||
        !render_any_selector(a, render_parameter(a, in, "query"), "query", &q, e)) {
        return false;
    }
    query_set_range(&q, &range);
    struct merged *found = NULL;
    if (!range.empty && !answer_read(a, &q, &found, e)) return false;
    route_header(a->x, "content-type", S("application/json"));
    put_values(found, name, types, out);
    return true;
}
