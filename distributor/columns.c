// SPDX-License-Identifier: Apache-2.0
#include "distributor/columns.h"

#include "model/vector.h"

#define DIGITS     2048  // of 11 bits: three passes sort 32 bits
#define DIGIT_BITS 11
#define INSERT_MAX 32

static void insertion_sort(uint64_t *v, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        uint64_t one = v[i];
        uint32_t at = i;
        for (; at > 0 && v[at - 1] > one; at--) {
            v[at] = v[at - 1];
        }
        v[at] = one;
    }
}

// Sorts by the upper 32 bits; stable. *v may become the other array.
static void radix_sort(uint64_t **v, uint64_t **other, uint32_t n)
{
    uint32_t starts[DIGITS];
    for (unsigned shift = 32; shift < 64; shift += DIGIT_BITS) {
        memset(starts, 0, sizeof starts);
        for (uint32_t i = 0; i < n; i++) {
            starts[(*v)[i] >> shift & (DIGITS - 1)]++;
        }
        if (starts[(*v)[0] >> shift & (DIGITS - 1)] == n) continue;
        uint32_t at = 0;
        for (size_t d = 0; d < DIGITS; d++) {
            uint32_t count = starts[d];
            starts[d] = at;
            at += count;
        }
        for (uint32_t i = 0; i < n; i++) {
            (*other)[starts[(*v)[i] >> shift & (DIGITS - 1)]++] = (*v)[i];
        }
        uint64_t *swap = *v;
        *v = *other;
        *other = swap;
    }
}

static bool overflow(err *e)
{
    return err_set(e, ERR_OUT_OF_RANGE, "the sum of a profile's values does not fit 64 bits");
}

static bool add_row(int64_t *to, const int64_t *values, uint32_t n, err *e)
{
    for (uint32_t t = 0; t < n; t++) {
        if (!sum_add(&to[t], values[t])) return overflow(e);
    }
    return true;
}

bool columns_make(struct columns *c, struct arena *a, struct stacks *to, const uint32_t *rows,
                  uint32_t n, err *e)
{
    const struct profile *p = to->p;
    uint32_t types = p->type_count;
    uint64_t *keys = ARENA_ARRAY(a, uint64_t, n);
    uint64_t *other = ARENA_ARRAY(a, uint64_t, n);
    uint32_t *stacks = ARENA_ARRAY(a, uint32_t, n);
    int64_t *sums = ARENA_ARRAY(a, int64_t, (size_t)n * types);
    int64_t *totals = ARENA_ARRAY(a, int64_t, types);
    if (!keys || !other || !stacks || !sums || !totals) return arena_ok(a, e);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t stack = stacks_row(to, rows[i], e);
        if (stack == MAP_NONE) return false;
        keys[i] = (uint64_t)stack << 32 | rows[i];
    }
    if (n > INSERT_MAX) {
        radix_sort(&keys, &other, n);
    } else {
        insertion_sort(keys, n);
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t stack = (uint32_t)(keys[i] >> 32);
        const int64_t *values = p->values + (size_t)(uint32_t)keys[i] * types;
        if (count == 0 || stacks[count - 1] != stack) stacks[count++] = stack;
        if (!add_row(sums + (size_t)(count - 1) * types, values, types, e)) return false;
        if (!add_row(totals, values, types, e)) return false;
    }
    *c = (struct columns){stacks, sums, totals, count, types};
    return true;
}

bool columns_multiple(const struct columns *c, uint32_t type, uint32_t base, int64_t *factor)
{
    if (c->totals[base] <= 0 || c->totals[type] % c->totals[base] != 0) return false;
    int64_t f = c->totals[type] / c->totals[base];
    if (f == 0) return false;
    for (uint32_t i = 0; i < c->count; i++) {
        int64_t product = 0;
        if (__builtin_mul_overflow(columns_value(c, i, base), f, &product)) return false;
        if (product != columns_value(c, i, type)) return false;
    }
    *factor = f;
    return true;
}
