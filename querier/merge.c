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
    map_init(&m->group_index, &m->memory);
    if (!merge_init(&m->stacks, &m->memory, !full_symbols, e)) return false;
    return true;
}

void merged_release(struct merged *m)
{
    merge_release(&m->stacks);
    map_release(&m->group_index);
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

// A message Annotation or Label.
static bool read_pair(str bytes, label *out, err *e)
{
    *out = (label){0};
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_BYTES) out->name = r.bytes;
        if (r.field == 2 && r.type == PB_BYTES) out->value = r.bytes;
    }
    return pb_done(&r, e);
}

bool merged_read_labels(struct merged *m, str bytes, labels *out, err *e)
{
    label *v = NULL;
    size_t n = 0;
    size_t cap = 0;
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field != 1 || r.type != PB_BYTES) continue;
        if (!arena_grow(&m->arena, &v, &cap, n + 1, sizeof *v)) return merged_no_room(m, e);
        if (!read_pair(r.bytes, &v[n++], e)) return false;
    }
    labels_sort(v, n);
    *out = (labels){v, n};
    return pb_done(&r, e);
}

static bool add_set(struct merged *m, str bytes, err *e)
{
    if (!arena_grow(&m->arena, &m->sets, &m->set_cap, m->set_count + 1, sizeof *m->sets)) {
        return merged_no_room(m, e);
    }
    return merged_read_labels(m, bytes, &m->sets[m->set_count++], e);
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

// ---- totals

struct group_key {
    const struct merged *m;
    labels ls;
};

static bool same_group(const void *ctx, uint32_t row)
{
    const struct group_key *k = ctx;
    return labels_eq(k->m->groups[row], k->ls);
}

static bool find_group(struct merged *m, labels ls, bool copy, uint32_t *row, err *e)
{
    uint64_t hash = labels_hash(ls);
    struct group_key key = {m, ls};
    *row = map_find(&m->group_index, hash, same_group, &key);
    if (*row != MAP_NONE) return true;
    if (copy) ls = labels_copy(&m->arena, ls);
    if (m->group_count >= MAP_NONE - 1 ||
        !arena_grow(&m->arena, &m->groups, &m->group_cap, m->group_count + 1, sizeof *m->groups)) {
        return merged_no_room(m, e);
    }
    if (m->arena.exhausted) return merged_no_room(m, e);
    *row = (uint32_t)m->group_count;
    m->groups[m->group_count++] = ls;
    return map_put(&m->group_index, hash, *row, e);
}

bool merged_group(struct merged *m, labels ls, uint32_t *row, err *e)
{
    return find_group(m, ls, true, row, e);
}

static bool read_point(struct merged *m, str bytes, struct merged_total *t, err *e)
{
    label *notes = NULL;
    size_t cap = 0;
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.type == PB_VARINT && r.field == 1) t->point = (int64_t)r.number;
        if (r.type == PB_VARINT && r.field == 2) t->sum = unzigzag(r.number);
        if (r.type == PB_VARINT && r.field == 3) t->profiles = r.number;
        if (r.type != PB_BYTES) continue;
        if (r.field == 5 && !merged_read_exemplar(m, r.bytes, &t->exemplar, e)) return false;
        if (r.field != 4) continue;
        if (!arena_grow(&m->arena, &notes, &cap, t->annotation_count + 1, sizeof *notes)) {
            return merged_no_room(m, e);
        }
        if (!read_pair(r.bytes, &notes[t->annotation_count++], e)) return false;
    }
    t->annotation_count = merged_sort_pairs(notes, t->annotation_count);
    t->annotations = notes;
    return pb_done(&r, e);
}

bool merged_new_total(struct merged *m, uint32_t group, int64_t point, uint32_t *row, err *e)
{
    if (m->total_count >= MAP_NONE - 1 ||
        !arena_grow(&m->arena, &m->totals, &m->total_cap, m->total_count + 1, sizeof *m->totals)) {
        return merged_no_room(m, e);
    }
    *row = (uint32_t)m->total_count;
    m->totals[m->total_count++] = (struct merged_total){.group = group, .point = point};
    return true;
}

static bool add_point(struct merged *m, uint32_t group, str bytes, err *e)
{
    uint32_t row = 0;
    return merged_new_total(m, group, 0, &row, e) && read_point(m, bytes, &m->totals[row], e);
}

bool merged_add_grouped(struct merged *m, str bytes, merged_item_fn *add, err *e)
{
    str group = {0};  // the field may come after the items
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_BYTES) group = r.bytes;
    }
    labels ls = {0};
    uint32_t row = 0;
    if (!pb_done(&r, e) || !merged_read_labels(m, group, &ls, e) ||
        !find_group(m, ls, false, &row, e)) {
        return false;
    }
    r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field == 2 && r.type == PB_BYTES && !add(m, row, r.bytes, e)) return false;
    }
    return pb_done(&r, e);
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
            ok = merged_add_grouped(m, r.bytes, add_point, e);
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
            ok = merged_add_extent(m, r.bytes, e);
            break;
        case 9:
            ok = merged_add_heat(m, r.bytes, e);
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

static int by_group_and_point(const void *a, const void *b)
{
    const struct merged_total *x = a;
    const struct merged_total *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    return x->point < y->point ? -1 : x->point > y->point;
}

static int by_labels(const void *a, const void *b)
{
    return labels_cmp(*(const labels *)a, *(const labels *)b);
}

static int by_bytes(const void *a, const void *b)
{
    return str_cmp(*(const str *)a, *(const str *)b);
}

static bool unite_notes(struct merged *m, struct merged_total *to, const struct merged_total *from,
                        err *e)
{
    size_t n = to->annotation_count + from->annotation_count;
    if (from->annotation_count == 0) return true;
    label *v = ARENA_ARRAY(&m->arena, label, n);
    if (!v) return merged_no_room(m, e);
    for (size_t i = 0; i < n; i++) {
        v[i] = i < to->annotation_count ? to->annotations[i]
                                        : from->annotations[i - to->annotation_count];
    }
    to->annotations = v;
    to->annotation_count = merged_sort_pairs(v, n);
    return true;
}

bool merged_total_add(struct merged *m, struct merged_total *to, const struct merged_total *from,
                      err *e)
{
    to->profiles += from->profiles;
    if (!sum_add(&to->sum, from->sum)) {
        return err_set(e, ERR_OUT_OF_RANGE, "the sum of a point does not fit 64 bits");
    }
    return merged_choose(m, to->exemplar, from->exemplar, &to->exemplar, e) &&
           unite_notes(m, to, from, e);
}

static bool unite_totals(struct merged *m, err *e)
{
    if (m->total_count == 0) return true;
    qsort(m->totals, m->total_count, sizeof *m->totals, by_group_and_point);
    size_t last = 0;
    for (size_t i = 1; i < m->total_count; i++) {
        struct merged_total *to = &m->totals[last];
        const struct merged_total *from = &m->totals[i];
        if (by_group_and_point(to, from) != 0) {
            m->totals[++last] = *from;
        } else if (!merged_total_add(m, to, from, e)) {
            return false;
        }
    }
    m->total_count = last + 1;
    return true;
}

bool merged_finish(struct merged *m, err *e)
{
    if (m->set_count) {
        qsort(m->sets, m->set_count, sizeof *m->sets, by_labels);
        size_t last = 0;
        for (size_t i = 1; i < m->set_count; i++) {
            if (!labels_eq(m->sets[last], m->sets[i])) m->sets[++last] = m->sets[i];
        }
        m->set_count = last + 1;
    }
    if (m->name_count) {
        qsort(m->names, m->name_count, sizeof *m->names, by_bytes);
        size_t last = 0;
        for (size_t i = 1; i < m->name_count; i++) {
            if (!str_eq(m->names[last], m->names[i])) m->names[++last] = m->names[i];
        }
        m->name_count = last + 1;
    }
    return unite_totals(m, e) && merged_unite_cells(m, e);
}
