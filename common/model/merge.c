// SPDX-License-Identifier: Apache-2.0
//
// merge.c - maps the stacks of a part to those of the merge, and adds values to dense sums.
#include "model/merge.h"

#include "model/period.h"
#include "model/vector.h"

bool merge_init(struct merge *m, struct mem_budget *budget, bool names_only, err *e)
{
    *m = (struct merge){.names_only = names_only};
    if (!symbols_init(&m->symbols, budget, e)) return false;
    if (mem_grow(budget, &m->sums, &m->room, 1, sizeof *m->sums, e)) return true;
    merge_release(m);
    return false;
}

void merge_release(struct merge *m)
{
    mem_free(m->symbols.budget, m->sums, m->room * sizeof *m->sums);
    mem_free(m->symbols.budget, m->carries, m->carry_room * sizeof *m->carries);
    m->sums = NULL;
    m->carries = NULL;
    m->room = m->carry_room = 0;
    symbols_release(&m->symbols);
}

// Extends the sums by zeros for stacks that the remap added.
static bool cover(struct merge *m, err *e)
{
    return mem_grow(m->symbols.budget, &m->sums, &m->room, m->symbols.t.stack_count,
                    sizeof *m->sums, e);
}

// The merge's stack for `stack` of the source, with room for its sum; MAP_NONE without memory.
static inline uint32_t target(struct merge_source *s, uint32_t stack, err *e)
{
    assert(stack < s->remap.from->stack_count);
    uint32_t known = s->remap.stacks[stack];
    uint32_t to = known ? known - 1 : symbols_remap_stack(&s->remap, stack, e);
    if (to < s->into->room || to == MAP_NONE) return to;
    // New stacks come at the end: room is made for all of the table, not for this one alone.
    return cover(s->into, e) ? to : MAP_NONE;
}

static bool carry(struct merge *m, uint32_t to, int64_t by, err *e)
{
    if (by == 0) return true;
    if (to >= m->carry_room && !mem_grow(m->symbols.budget, &m->carries, &m->carry_room,
                                         m->symbols.t.stack_count, sizeof *m->carries, e)) {
        return false;
    }
    m->carries[to] = (int64_t)((uint64_t)m->carries[to] + (uint64_t)by);
    return true;
}

// Adds a value to the merge's stack for `stack` of the source.
static bool add(struct merge_source *s, uint32_t stack, int64_t value, err *e)
{
    struct merge *m = s->into;
    uint32_t to = target(s, stack, e);
    if (to == MAP_NONE) return false;
    if (sum_add(&m->sums[to], value)) return true;
    if (m->wide) return carry(m, to, value < 0 ? -1 : 1, e);
    return err_set(e, ERR_OUT_OF_RANGE, "the sum of a stack does not fit 64 bits");
}

static bool add_wide(struct merge_source *s, uint32_t stack, struct wide value, err *e)
{
    uint32_t to = target(s, stack, e);
    assert(s->into->wide);
    if (to == MAP_NONE) return false;
    wide_add_to(&s->into->sums[to], &value.carry, value.low);
    return carry(s->into, to, value.carry, e);
}

bool merge_from(struct merge *m, struct arena *a, const struct symbol_table *t,
                struct merge_source *source, err *e)
{
    assert(m->room > 0);  // merge_init was called
    source->into = m;
    if (!symbols_remap_init(&source->remap, a, t, &m->symbols, e)) return false;
    source->remap.names_only = m->names_only;
    return true;
}

bool merge_source_add(struct merge_source *source, str vector, int64_t factor, err *e)
{
    uint32_t count = source->remap.from->stack_count;
    struct vector_reader r;
    struct vector_entry v;
    if (!vector_open(&r, vector, e)) return false;
    while (vector_next(&r, &v)) {
        if (v.stack >= count) {
            return err_set(e, ERR_INVALID_ARGUMENT, "vector: stack %u is not below %u", v.stack,
                           count);
        }
        int64_t value = 0;
        if (__builtin_mul_overflow(v.value, factor, &value)) {
            return err_set(e, ERR_OUT_OF_RANGE, "a value does not fit 64 bits");
        }
        if (!add(source, v.stack, value, e)) return false;
    }
    return vector_done(&r, e) && cover(source->into, e);
}

// A source with its arrays in scratch memory. Only the budget limits that, so a failure names the
// budget, not the arena.
static bool begin(struct merge *m, struct arena *scratch, const struct symbol_table *t,
                  struct merge_source *source, err *e)
{
    arena_init(scratch, m->symbols.budget, SIZE_MAX);
    if (merge_from(m, scratch, t, source, e)) return true;
    return mem_no_room(m->symbols.budget, "stacks", t->stack_count * sizeof(uint32_t), e);
}

bool merge_add(struct merge *m, const struct symbol_table *t, str vector, int64_t factor, err *e)
{
    struct arena scratch;
    struct merge_source source;
    bool ok = begin(m, &scratch, t, &source, e) && merge_source_add(&source, vector, factor, e);
    arena_release(&scratch);
    return ok;
}

static bool add_all(struct merge_source *source, const int64_t *sums, err *e)
{
    for (uint32_t i = 0; i < source->remap.from->stack_count; i++) {
        if (sums[i] != 0 && !add(source, i, sums[i], e)) return false;
    }
    return cover(source->into, e);
}

bool merge_add_sums(struct merge *m, const struct symbol_table *t, const int64_t *sums, err *e)
{
    struct arena scratch;
    struct merge_source source;
    bool ok = begin(m, &scratch, t, &source, e) && add_all(&source, sums, e);
    arena_release(&scratch);
    return ok;
}

static bool add_all_wide(struct merge_source *source, const struct wide *sums, err *e)
{
    for (uint32_t i = 0; i < source->remap.from->stack_count; i++) {
        bool any = sums[i].low != 0 || sums[i].carry != 0;
        if (any && !add_wide(source, i, sums[i], e)) return false;
    }
    return cover(source->into, e);
}

bool merge_add_wide(struct merge *m, const struct symbol_table *t, const struct wide *sums, err *e)
{
    struct arena scratch;
    struct merge_source source;
    bool ok = begin(m, &scratch, t, &source, e) && add_all_wide(&source, sums, e);
    arena_release(&scratch);
    return ok;
}

static bool unite_all(struct merge_source *source, const struct merge *from, err *e)
{
    for (uint32_t i = 0; i < from->symbols.t.stack_count; i++) {
        struct wide v = merge_sum(from, i);
        bool any = v.low != 0 || v.carry != 0;
        if (any && !add_wide(source, i, v, e)) return false;
    }
    return cover(source->into, e);
}

bool merge_unite(struct merge *m, const struct merge *from, err *e)
{
    struct arena scratch;
    struct merge_source source;
    assert(m != from && from->room >= from->symbols.t.stack_count);
    bool ok = begin(m, &scratch, &from->symbols.t, &source, e) && unite_all(&source, from, e);
    period_merge(&m->period, from->period);
    arena_release(&scratch);
    return ok;
}

static bool add_carries(struct merge_source *source, str carries, err *e)
{
    struct vector_reader r;
    struct vector_entry v;
    if (!vector_open(&r, carries, e)) return false;
    while (vector_next(&r, &v)) {
        if (v.stack >= source->remap.from->stack_count) {
            return err_set(e, ERR_INVALID_ARGUMENT, "carries: stack %u is not below %u", v.stack,
                           source->remap.from->stack_count);
        }
        if (!add_wide(source, v.stack, (struct wide){.carry = v.value}, e)) return false;
    }
    return vector_done(&r, e) && cover(source->into, e);
}

bool merge_add_encoded(struct merge *m, const struct symbol_table *t, str vector, str carries,
                       err *e)
{
    struct arena scratch;
    struct merge_source source;
    bool ok = begin(m, &scratch, t, &source, e) &&
              (vector.n == 0 || merge_source_add(&source, vector, 1, e)) &&
              (carries.n == 0 || add_carries(&source, carries, e));
    arena_release(&scratch);
    return ok;
}

// ---- what fits

// Are all sums, in whatever order stacks are added up, within int64? Most are, and then totals
// need not be made.
static bool fits_in_any_order(const struct merge *m, struct wide *total)
{
    struct wide above = {0};
    struct wide below = {0};
    bool carried = false;
    for (uint32_t i = 0; i < m->symbols.t.stack_count; i++) {
        wide_add(m->sums[i] < 0 ? &below : &above, m->sums[i]);
        carried = carried || merge_sum(m, i).carry != 0;
    }
    *total = above;
    wide_unite(total, below);
    return !carried && wide_fits(above) && wide_fits(below);
}

bool merge_fits(const struct merge *m, bool *fits, struct wide *total, err *e)
{
    const struct symbol_table *t = &m->symbols.t;
    size_t room = 0;
    struct wide *totals = NULL;
    assert(m->room >= t->stack_count);
    *fits = fits_in_any_order(m, total);
    if (*fits) return true;
    if (!mem_grow(m->symbols.budget, &totals, &room, t->stack_count, sizeof *totals, e)) {
        return false;
    }
    *fits = true;
    // In one pass from the last stack: children come after their parents.
    for (uint32_t i = t->stack_count; i-- > 0;) {
        struct wide self = merge_sum(m, i);
        wide_unite(&totals[i], self);
        *fits = *fits && wide_fits(self) && wide_fits(totals[i]);
        if (i) wide_unite(&totals[t->stacks[i].parent], totals[i]);
    }
    *total = totals[0];
    mem_free(m->symbols.budget, totals, room * sizeof *totals);
    return true;
}

bool merge_encode(const struct merge *m, struct arena *scratch, struct buf *symbols,
                  struct buf *vector, struct buf *carries, err *e)
{
    const struct symbol_table *t = &m->symbols.t;
    bool *used = ARENA_ARRAY(scratch, bool, t->stack_count);
    uint32_t *ids = ARENA_ARRAY(scratch, uint32_t, t->stack_count);
    if (!used || !ids) return arena_fail(scratch, e);
    // Sums may have become 0: their stacks are left out of the symbols too.
    assert(m->room >= t->stack_count && (carries || !m->wide));
    uint32_t carried = (uint32_t)MIN(m->carry_room, (size_t)t->stack_count);
    for (uint32_t i = 0; i < t->stack_count; i++)
        used[i] = m->sums[i] != 0 || (i < carried && m->carries[i] != 0);
    if (!symbols_encode(t, used, scratch, ids, symbols, e)) return false;
    vector_encode_sums(m->sums, t->stack_count, ids, vector);
    if (carried) vector_encode_sums(m->carries, carried, ids, carries);
    return buf_ok(vector, e) && (!carries || buf_ok(carries, e));
}
