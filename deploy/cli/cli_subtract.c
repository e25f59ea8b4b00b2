// SPDX-License-Identifier: Apache-2.0
#include "deploy/cli/cli_subtract.h"

#include "decode/decode.h"
#include "intake/stack_rows.h"
#include "model/pprof.h"

#define DECODED_MAX ((size_t)4 << 30)

struct sums {
    struct arena *a;
    struct symbols symbols;
    int64_t *v;  // by stack
    size_t cap;
};

static bool add(struct sums *s, const struct profile *p, int sign, err *e)
{
    struct stack_rows rows;
    if (p->type_count != 1)
        return err_set(e, ERR_INVALID_ARGUMENT, "a profile of %u types instead of one",
                       p->type_count);
    if (!stack_rows_init(&rows, s->a, p, &s->symbols, NULL, e)) return false;
    for (uint32_t i = 0; i < p->sample_count; i++) {
        uint32_t row = stack_rows_row(&rows, i, e);
        if (row == MAP_NONE) return false;
        size_t had = s->cap;
        if (!arena_grow(s->a, &s->v, &s->cap, (size_t)row + 1, sizeof *s->v))
            return arena_fail(s->a, e);
        if (s->cap > had) memset(s->v + had, 0, (s->cap - had) * sizeof *s->v);
        bool over = sign > 0 ? __builtin_add_overflow(s->v[row], p->values[i], &s->v[row])
                             : __builtin_sub_overflow(s->v[row], p->values[i], &s->v[row]);
        if (over) return err_set(e, ERR_OUT_OF_RANGE, "the sum of a stack exceeds 64 bits");
    }
    return true;
}

static bool encode(struct sums *s, const struct profile *p, struct buf *out, err *e)
{
    uint32_t count = s->symbols.t.stack_count;
    int64_t *all = ARENA_ARRAY(s->a, int64_t, count);
    if (!all) return arena_fail(s->a, e);
    memcpy(all, s->v, MIN(s->cap, count) * sizeof *all);
    const struct pprof_options o = {.header = {.sample_type = p->types[0].type,
                                               .sample_unit = p->types[0].unit,
                                               .period_type = p->period_type.type,
                                               .period_unit = p->period_type.unit,
                                               .period = p->period,
                                               .time_ns = p->time_ns,
                                               .duration_ns = p->duration_ns}};
    return pprof_encode(s->a, &s->symbols.t, all, &o, out, e);
}

bool pprof_subtract(str whole, str part, struct buf *out, err *e)
{
    struct arena a;
    struct decode_options o = {0};
    struct decoded w = {0};
    struct decoded p = {0};
    arena_init(&a, NULL, DECODED_MAX);
    struct sums s = {.a = &a};
    bool ok = symbols_init(&s.symbols, NULL, e);
    ok = ok && decode_pprof(&a, whole, &o, &w, NULL, e) &&
         decode_pprof(&a, part, &o, &p, NULL, e) && add(&s, &w.profiles[0], 1, e) &&
         add(&s, &p.profiles[0], -1, e) && encode(&s, &w.profiles[0], out, e);
    symbols_release(&s.symbols);
    arena_release(&a);
    return ok;
}
