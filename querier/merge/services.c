// SPDX-License-Identifier: Apache-2.0
//
// services.c - finding the sums of a service by its name, and the messages.
#include "querier/merge/services.h"

#include "base/hash.h"
#include "codec/pb.h"
#include "model/period.h"

// Bytes of symbols or of a vector before they are copied into an answer.
#define PART_MAX ((size_t)1 << 30)

void services_init(struct services *s, struct arena *a, struct mem_budget *budget, bool names_only)
{
    *s = (struct services){.arena = a, .budget = budget, .names_only = names_only};
    map_init(&s->by_name, budget);
}

void services_release(struct services *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        merge_release(&s->v[i]->stacks);
    s->n = 0;
    map_release(&s->by_name);
}

struct service_key {
    const struct services *s;
    str service;
};

static bool same_service(const void *ctx, uint32_t row)
{
    const struct service_key *k = ctx;
    return str_eq(k->s->v[row]->service, k->service);
}

bool services_at(struct services *s, str service, struct service_sums **out, err *e)
{
    struct service_key key = {s, service};
    uint64_t hash = hash_table_str(service);
    uint32_t row = map_find(&s->by_name, hash, same_service, &key);
    if (row != MAP_NONE) {
        *out = s->v[row];
        return true;
    }
    struct service_sums *made = ARENA_NEW(s->arena, struct service_sums);
    if (!made || !arena_grow(s->arena, &s->v, &s->cap, (size_t)s->n + 1, sizeof(void *)))
        return arena_fail(s->arena, e);
    made->service = arena_str(s->arena, service);
    if (!arena_ok(s->arena, e) || !merge_init(&made->stacks, s->budget, s->names_only, e))
        return false;
    made->stacks.wide = true;
    s->v[s->n] = made;
    *out = made;
    // Before the map has it: whatever happens there, services_release releases its sums.
    return map_put(&s->by_name, hash, s->n++, e);
}

static bool add_sums(struct services *s, struct service_sums *to, str symbols, str vector,
                     str carries, err *e)
{
    struct arena scratch;
    struct symbol_table from;
    arena_init(&scratch, s->budget, s->arena->cap);
    bool ok = symbols_decode(&scratch, symbols, &from, e) &&
              merge_add_encoded(&to->stacks, &from, vector, carries, e);
    arena_release(&scratch);
    return ok;
}

bool services_add_bytes(struct services *s, str bytes, err *e)
{
    str parts[5] = {{0}};
    uint64_t profiles = 0;
    int64_t period = 0;
    struct service_sums *to = NULL;
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.type == PB_BYTES && r.field < COUNT(parts)) parts[r.field] = r.bytes;
        if (r.type == PB_VARINT && r.field == 5) profiles = r.number;
        if (r.type == PB_VARINT && r.field == 6) period = (int64_t)r.number;
    }
    if (!pb_done(&r, e) || !services_at(s, parts[1], &to, e)) return false;
    assert(to);
    to->profiles += profiles;
    period_merge(&to->stacks.period, period);
    return add_sums(s, to, parts[2], parts[3], parts[4], e);
}

static bool put_sums(const struct service_sums *x, struct arena *scratch, struct buf parts[3],
                     struct buf *out, err *e)
{
    for (size_t i = 0; i < 3; i++)
        buf_clear(&parts[i]);
    if (!merge_encode(&x->stacks, scratch, &parts[0], &parts[1], &parts[2], e)) return false;
    pb_put_bytes_opt(out, 1, x->service);
    for (uint32_t i = 0; i < 3; i++)
        pb_put_bytes_opt(out, i + 2, buf_view(&parts[i]));
    pb_put_u64_opt(out, 5, x->profiles);
    pb_put_i64_opt(out, 6, x->stacks.period);
    return true;
}

bool services_encode(const struct services *s, struct arena *scratch, struct buf *out,
                     uint32_t field, err *e)
{
    struct buf parts[3];
    bool ok = true;
    for (size_t i = 0; i < COUNT(parts); i++)
        buf_init(&parts[i], s->budget, PART_MAX);
    for (uint32_t i = 0; ok && i < s->n; i++) {
        size_t mark = pb_begin(out, field);
        ok = put_sums(s->v[i], scratch, parts, out, e);
        pb_end(out, mark);
    }
    for (size_t i = 0; i < COUNT(parts); i++)
        buf_release(&parts[i]);
    return ok;
}
