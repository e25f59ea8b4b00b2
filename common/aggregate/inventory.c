// SPDX-License-Identifier: Apache-2.0
//
// inventory.c - adds up what there is, and its message.
#include "aggregate/inventory.h"

#include "codec/pb.h"

void inventory_count(struct inventory *x, uint64_t profiles, int64_t first_ns, int64_t last_ns)
{
    if (profiles == 0) return;
    if (x->profiles == 0 || first_ns < x->oldest_ns) x->oldest_ns = first_ns;
    if (x->profiles == 0 || last_ns > x->newest_ns) x->newest_ns = last_ns;
    x->profiles += profiles;
}

void inventory_merge(struct inventory *x, const struct inventory *other)
{
    if (other->profiles == 0) return;
    inventory_count(x, other->profiles, other->oldest_ns, other->newest_ns);
    x->series += other->series;
    x->samples += other->samples;
    x->profile_bytes += other->profile_bytes;
    x->symbol_bytes += other->symbol_bytes;
    x->index_bytes += other->index_bytes;
}

void inventory_encode(const struct inventory *x, struct buf *out, uint32_t field)
{
    size_t mark = pb_begin(out, field);
    pb_put_u64_opt(out, 1, x->profiles);
    pb_put_i64_opt(out, 2, x->oldest_ns);
    pb_put_i64_opt(out, 3, x->newest_ns);
    pb_put_u64_opt(out, 4, x->series);
    pb_put_u64_opt(out, 5, x->samples);
    pb_put_u64_opt(out, 6, x->profile_bytes);
    pb_put_u64_opt(out, 7, x->symbol_bytes);
    pb_put_u64_opt(out, 8, x->index_bytes);
    pb_end(out, mark);
}

bool inventory_merge_bytes(struct inventory *x, str bytes, bool *any, err *e)
{
    uint64_t v[9] = {0};
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.type == PB_VARINT && r.field < COUNT(v)) v[r.field] = r.number;
    }
    if (!pb_done(&r, e)) return false;
    const struct inventory other = {.profiles = v[1],
                                    .oldest_ns = (int64_t)v[2],
                                    .newest_ns = (int64_t)v[3],
                                    .series = v[4],
                                    .samples = v[5],
                                    .profile_bytes = v[6],
                                    .symbol_bytes = v[7],
                                    .index_bytes = v[8]};
    *any = other.profiles > 0;
    inventory_merge(x, &other);
    return true;
}
