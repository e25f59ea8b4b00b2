// SPDX-License-Identifier: Apache-2.0
#include "querier/merge.h"

#include "codec/pb.h"
#include "model/vector.h"
#include "querier/merge_int.h"

#include <stdlib.h>

bool merged_init(struct merged *m, struct mem_budget *parent, size_t limit, bool full_symbols,
                 err *e)
{
    *m = (struct merged){.oldest_ns = INT64_MAX, .newest_ns = INT64_MIN};
    mem_budget_init(&m->memory, "querier.query_memory", parent, limit);
    arena_init(&m->arena, &m->memory, limit ? limit : SIZE_MAX);
    m->arena.setting = m->memory.name;
    cells_init(&m->totals, &m->arena, &m->memory, NULL, 0);
    cells_init(&m->heat, &m->arena, &m->memory, NULL, 0);
    if (!merge_init(&m->stacks, &m->memory, !full_symbols, e)) return false;
    return true;
}

void merged_release(struct merged *m)
{
    merge_release(&m->stacks);
    cells_release(&m->totals);
    cells_release(&m->heat);
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
    arena_init(&scratch, &m->memory, m->arena.cap);
    struct symbol_table from;
    bool ok =
        symbols_decode(&scratch, symbols, &from, e) && merge_add(&m->stacks, &from, vector, 1, e);
    arena_release(&scratch);
    return ok;
}

// ---- labels

static bool add_set(struct merged *m, str bytes, err *e)
{
    if (!arena_grow(&m->arena, &m->sets, &m->set_cap, m->set_count + 1, sizeof *m->sets)) {
        return merged_no_room(m, e);
    }
    return labels_decode_set(&m->arena, bytes, &m->sets[m->set_count++], e);
}

static bool add_name(struct merged *m, str name, err *e)
{
    if (!arena_grow(&m->arena, &m->names, &m->name_cap, m->name_count + 1, sizeof *m->names)) {
        return merged_no_room(m, e);
    }
    m->names[m->name_count++] = name;
    return true;
}

bool merged_new_set(struct merged *m, labels set, err *e)
{
    if (!arena_grow(&m->arena, &m->sets, &m->set_cap, m->set_count + 1, sizeof *m->sets)) {
        return merged_no_room(m, e);
    }
    m->sets[m->set_count++] = labels_copy(&m->arena, set);
    return !m->arena.exhausted || merged_no_room(m, e);
}

bool merged_new_name(struct merged *m, str name, err *e)
{
    return add_name(m, arena_str(&m->arena, name), e) &&
           (!m->arena.exhausted || merged_no_room(m, e));
}

// ---- stats

static bool add_stats(struct merged *m, str bytes, err *e)
{
    uint64_t v[9] = {0};
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.type == PB_VARINT && r.field < COUNT(v)) v[r.field] = r.number;
    }
    if (!pb_done(&r, e)) return false;
    if (v[1] == 0) return true;
    m->stat_profiles += v[1];
    m->oldest_ns = MIN(m->oldest_ns, (int64_t)v[2]);
    m->newest_ns = MAX(m->newest_ns, (int64_t)v[3]);
    m->stat_streams++;
    m->stat_series += v[4];
    m->stat_samples += v[5];
    m->profile_bytes += v[6];
    m->symbol_bytes += v[7];
    m->index_bytes += v[8];
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
            ok = add_set(m, r.bytes, e);
            break;
        case 6:
            ok = add_name(m, r.bytes, e);
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
        default:
            break;
        }
        if (!ok) return false;
    }
    if (!pb_done(&r, e)) return false;
    return vector.n == 0 || add_stacks(m, symbols, vector, e);
}

bool merged_add(struct merged *m, str partial, err *e)
{
    if (add_fields(m, partial, e)) return true;
    // Malformed bytes are the fault of the node that sent them, not of the client who asked.
    if (e->code == ERR_INVALID_ARGUMENT) e->code = ERR_INTERNAL;
    return err_wrap(e, "partial answer");
}

// ---- uniting

static int by_labels(const void *a, const void *b)
{
    return labels_cmp(*(const labels *)a, *(const labels *)b);
}

static int by_bytes(const void *a, const void *b)
{
    return str_cmp(*(const str *)a, *(const str *)b);
}

void merged_sort_sets(struct merged *m)
{
    if (m->set_count == 0) return;
    qsort(m->sets, m->set_count, sizeof *m->sets, by_labels);
    size_t last = 0;
    for (size_t i = 1; i < m->set_count; i++) {
        if (!labels_eq(m->sets[last], m->sets[i])) m->sets[++last] = m->sets[i];
    }
    m->set_count = last + 1;
}

static void sort_names(struct merged *m)
{
    if (m->name_count == 0) return;
    qsort(m->names, m->name_count, sizeof *m->names, by_bytes);
    size_t last = 0;
    for (size_t i = 1; i < m->name_count; i++) {
        if (!str_eq(m->names[last], m->names[i])) m->names[++last] = m->names[i];
    }
    m->name_count = last + 1;
}

bool merged_finish(struct merged *m, err *e)
{
    merged_sort_sets(m);
    sort_names(m);
    return cells_finish(&m->totals, e) && cells_finish(&m->heat, e);
}
