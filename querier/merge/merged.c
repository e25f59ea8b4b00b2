// SPDX-License-Identifier: Apache-2.0
//
// merged.c - takes partial answers apart, field by field, and adds each field where it belongs.
// Bytes come from other nodes: what cannot be read is an error, never an assertion.
#include "querier/merge/merged.h"

#include "codec/pb.h"
#include "model/period.h"
#include "querier/merge/merged_int.h"

// Bytes of symbols or of a vector before they are copied into an answer.
#define PART_MAX ((size_t)1 << 30)

bool merged_init(struct merged *m, struct mem_budget *parent, size_t limit, bool full_symbols,
                 err *e)
{
    // merged_release may be called whether this fails or not.
    *m = (struct merged){0};
    mem_budget_init(&m->memory, "querier.query_memory", parent, limit);
    arena_init(&m->arena, &m->memory, limit ? limit : SIZE_MAX);
    m->arena.setting = m->memory.name;
    cells_init(&m->totals, &m->arena, &m->memory, NULL, 0);
    cells_init(&m->heat, &m->arena, &m->memory, NULL, 0);
    label_sets_init(&m->sets, &m->arena, &m->memory);
    label_sets_init(&m->names, &m->arena, &m->memory);
    services_init(&m->services, &m->arena, &m->memory, !full_symbols);
    if (!merge_init(&m->stacks, &m->memory, !full_symbols, e)) return false;
    return true;
}

void merged_release(struct merged *m)
{
    merge_release(&m->stacks);
    services_release(&m->services);
    cells_release(&m->totals);
    cells_release(&m->heat);
    label_sets_release(&m->sets);
    label_sets_release(&m->names);
    arena_release(&m->arena);
}

// The arena says only that it is exhausted; the budget knows which limit was met.
bool merged_no_room(const struct merged *m, err *e)
{
    return err_set(e, ERR_RESOURCE_EXHAUSTED,
                   "the answer needs more memory than a query may take (querier.query_memory, in "
                   "use: %zu, limit: %zu)",
                   atomic_load_explicit(&m->memory.used, memory_order_relaxed),
                   atomic_load_explicit(&m->memory.limit, memory_order_relaxed));
}

static bool add_stacks(struct merged *m, str symbols, str vector, err *e)
{
    struct arena scratch;
    assert(vector.n > 0);
    arena_init(&scratch, &m->memory, m->arena.cap);
    struct symbol_table from;
    bool ok =
        symbols_decode(&scratch, symbols, &from, e) && merge_add(&m->stacks, &from, vector, 1, e);
    arena_release(&scratch);
    return ok;
}

static bool add_stats(struct merged *m, str bytes, err *e)
{
    bool any = false;
    if (!inventory_merge_bytes(&m->there, bytes, &any, e)) return false;
    m->streams += any;
    return true;
}

static bool add_fields(struct merged *m, str partial, err *e)
{
    str symbols = {0};
    str vector = {0};
    struct pb_reader r = pb_reader(partial);
    while (pb_next(&r)) {
        bool ok = true;
        if (r.field == 3 && r.type == PB_VARINT) m->profiles += r.number;
        if (r.field == 10 && r.type == PB_VARINT)
            period_merge(&m->stacks.period, (int64_t)r.number);
        if (r.type != PB_BYTES) continue;
        switch (r.field) {
        case 1:
            symbols = r.bytes;
            break;
        case 2:
            vector = r.bytes;
            break;
        case 4:
            ok = totals_merge_bytes(&m->totals, r.bytes, e);
            break;
        case 5:
            ok = label_sets_merge_bytes(&m->sets, r.bytes, e);
            break;
        case 6:
            ok = label_sets_merge_name(&m->names, r.bytes, e);
            break;
        case 7:
            ok = add_stats(m, r.bytes, e);
            break;
        case 8:
            ok = extent_merge_bytes(&m->extent, r.bytes, e);
            break;
        case 9:
            ok = heat_merge_bytes(&m->heat, r.bytes, e);
            break;
        case 16:
            ok = services_add_bytes(&m->services, r.bytes, e);
            break;
        default:
            break;
        }
        if (!ok) return false;
    }
    if (!pb_done(&r, e)) return false;
    // Only now: the vector names rows of the symbols, which may come behind it.
    return vector.n == 0 || add_stacks(m, symbols, vector, e);
}

bool merged_add(struct merged *m, str partial, err *e)
{
    assert(!m->totals.finished && !m->heat.finished);  // their order would be lost
    if (add_fields(m, partial, e)) return true;
    // Malformed bytes are a fault of the node that sent them, not of the client.
    if (e->code == ERR_INVALID_ARGUMENT) e->code = ERR_INTERNAL;
    return err_wrap(e, "partial answer");
}

bool merged_finish(struct merged *m, err *e)
{
    assert(!m->totals.finished && !m->heat.finished);
    label_sets_finish(&m->sets);
    label_sets_finish(&m->names);
    return cells_finish(&m->totals, e) && cells_finish(&m->heat, e);
}

bool merged_encode(struct merged *m, bool wide_totals, struct arena *scratch, struct buf *out,
                   err *e)
{
    struct buf symbols;
    struct buf vector;
    buf_init(&symbols, &m->memory, PART_MAX);
    buf_init(&vector, &m->memory, PART_MAX);
    assert(m->there.profiles == 0);
    bool ok = merged_finish(m, e) && merge_encode(&m->stacks, scratch, &symbols, &vector, NULL, e);
    if (ok) {
        pb_put_bytes_opt(out, 1, buf_view(&symbols));
        pb_put_bytes_opt(out, 2, buf_view(&vector));
        pb_put_u64_opt(out, 3, m->profiles);
        pb_put_i64_opt(out, 10, m->stacks.period);
        label_sets_encode(&m->sets, out, 5);
        label_sets_encode_names(&m->names, out, 6);
        extent_encode(&m->extent, out, 8);
        ok = totals_encode(&m->totals, wide_totals, out, 4, e) &&
             heat_encode(&m->heat, out, 9, e) && services_encode(&m->services, scratch, out, 16, e);
    }
    buf_release(&symbols);
    buf_release(&vector);
    return ok;
}
