// SPDX-License-Identifier: Apache-2.0
//
// A bit for each stack that has a sum, and a bit for each word of these bits. Taking the sums goes
// from set bit to set bit, so a node of a hundred stacks costs little beside a million others.
#include "compactor/merge_sums.h"

static size_t words(uint32_t n)
{
    return (size_t)n / 64 + 1;
}

// Also the identities of MIN and MAX, so that the first note needs no case of its own.
static void forget(struct merge_sums *s)
{
    s->profiles = 0;
    s->total = 0;
    s->first_ns = INT64_MAX;
    s->last_ns = INT64_MIN;
}

bool merge_sums_init(struct merge_sums *s, struct mem_budget *budget, uint32_t n, err *e)
{
    *s = (struct merge_sums){.budget = budget, .n = n};
    forget(s);
    size_t w = words(n);
    s->sums = mem_alloc(budget, (size_t)n * sizeof *s->sums, e);
    s->marks = s->sums ? mem_alloc(budget, w * sizeof *s->marks, e) : NULL;
    s->tops = s->marks ? mem_alloc(budget, (w / 64 + 1) * sizeof *s->tops, e) : NULL;
    if (s->tops) return true;
    merge_sums_release(s);
    return false;
}

void merge_sums_release(struct merge_sums *s)
{
    size_t w = words(s->n);
    mem_free(s->budget, s->sums, (size_t)s->n * sizeof *s->sums);
    mem_free(s->budget, s->marks, w * sizeof *s->marks);
    mem_free(s->budget, s->tops, (w / 64 + 1) * sizeof *s->tops);
    *s = (struct merge_sums){.budget = s->budget};
}

bool merge_sums_add(struct merge_sums *s, const struct vector_entry *v, size_t n, int64_t factor,
                    err *e)
{
    assert(s->tops);
    for (size_t i = 0; i < n; i++) {
        uint32_t row = v[i].stack;
        int64_t value = v[i].value;
        assert(row < s->n);
        s->marks[row / 64] |= UINT64_C(1) << row % 64;
        s->tops[row / 4096] |= UINT64_C(1) << row / 64 % 64;
        if ((factor != 1 && __builtin_mul_overflow(value, factor, &value)) ||
            !sum_add(&s->sums[row], value)) {
            return err_set(e, ERR_OUT_OF_RANGE, "the sum of a stack's values does not fit 64 bits");
        }
    }
    return true;
}

bool merge_sums_note(struct merge_sums *s, uint64_t profiles, int64_t total, int64_t first_ns,
                     int64_t last_ns, err *e)
{
    if (!sum_add(&s->total, total))
        return err_set(e, ERR_OUT_OF_RANGE, "the sum of profiles does not fit 64 bits");
    s->profiles += profiles;
    s->first_ns = MIN(s->first_ns, first_ns);
    s->last_ns = MAX(s->last_ns, last_ns);
    return true;
}

// The rows that are marked, in order; none counts them only.
static size_t walk(const struct merge_sums *s, struct vector_entry *to)
{
    size_t n = 0;
    size_t top_count = words(s->n) / 64 + 1;
    for (size_t t = 0; t < top_count; t++) {
        for (uint64_t top = s->tops[t]; top; top &= top - 1) {
            size_t w = t * 64 + (size_t)__builtin_ctzll(top);
            if (!to) {
                n += (size_t)__builtin_popcountll(s->marks[w]);
                continue;
            }
            for (uint64_t mark = s->marks[w]; mark; mark &= mark - 1) {
                uint32_t row = (uint32_t)(w * 64 + (size_t)__builtin_ctzll(mark));
                to[n] = (struct vector_entry){row, s->sums[row]};
                n += s->sums[row] != 0;  // values may have added up to nothing: no entry
                s->sums[row] = 0;
            }
            s->marks[w] = 0;
        }
        if (to) s->tops[t] = 0;
    }
    return n;
}

bool merge_sums_take(struct merge_sums *s, struct arena *a, struct vector_entry **v, size_t *n,
                     err *e)
{
    assert(s->tops);
    // Counted first: an arena cannot give back what an array has too much.
    *v = ARENA_ARRAY(a, struct vector_entry, walk(s, NULL) + 1);
    if (!*v) return arena_fail(a, e);
    *n = walk(s, *v);
    forget(s);
    return true;
}
