// SPDX-License-Identifier: Apache-2.0
//
// type_columns.c - rows of samples sorted by stack, then added up.
#include "intake/type_columns.h"

#include "base/sort.h"
#include "model/vector.h"

#define DIGITS     2048  // of 11 bits: three passes sort 32 bits
#define DIGIT_BITS 11
#define INSERT_MAX 32  // rows up to which insertion is quicker than three passes

#define IS_GREATER(a, b) ((a) > (b))

static void sort_few(uint64_t *v, uint32_t n)
{
    INSERTION_SORT(v, n, IS_GREATER);
}

// Sorts by the upper 32 bits; stable. *v may become the other array.
static void radix_sort(uint64_t **v, uint64_t **other, uint32_t n)
{
    uint32_t starts[DIGITS];
    assert(n > 0);
    // The lower half needs no pass: rows are ascending already, and each pass keeps their order.
    for (unsigned shift = 32; shift < 64; shift += DIGIT_BITS) {
        memset(starts, 0, sizeof starts);
        for (uint32_t i = 0; i < n; i++) {
            starts[(*v)[i] >> shift & (DIGITS - 1)]++;
        }
        if (starts[(*v)[0] >> shift & (DIGITS - 1)] == n) continue;  // all have this digit
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

bool type_columns_room_init(struct type_columns_room *r, struct arena *a, uint32_t type_count,
                            uint32_t rows, uint32_t columns, err *e)
{
    *r = (struct type_columns_room){
        .keys = ARENA_ARRAY(a, uint64_t, rows),
        .other = ARENA_ARRAY(a, uint64_t, rows),
        .stacks = ARENA_ARRAY(a, uint32_t, rows),
        .sums = ARENA_ARRAY(a, int64_t, (size_t)rows * type_count),
        .totals = ARENA_ARRAY(a, int64_t, (size_t)columns * type_count),
    };
    return arena_ok(a, e);
}

// Sample rows in the order of their stacks. A key has the stack in its upper half, the row in its
// lower half. Many profiles come in that order already.
static bool sorted_keys(struct type_columns_room *room, struct stack_rows *to, const uint32_t *rows,
                        uint32_t n, err *e)
{
    bool ascending = true;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t stack = stack_rows_row(to, rows[i], e);
        if (stack == MAP_NONE) return false;
        room->keys[i] = (uint64_t)stack << 32 | rows[i];
        ascending = ascending && (i == 0 || room->keys[i - 1] < room->keys[i]);
    }
    if (ascending) return true;
    if (n > INSERT_MAX) {
        radix_sort(&room->keys, &room->other, n);
    } else {
        sort_few(room->keys, n);
    }
    return true;
}

bool type_columns_make(struct type_columns *c, struct type_columns_room *room,
                       struct stack_rows *to, const uint32_t *rows, uint32_t n, err *e)
{
    const struct profile *p = to->p;
    uint32_t types = p->type_count;
    assert(types > 0 && n > 0);
    if (!sorted_keys(room, to, rows, n, e)) return false;
    *c = (struct type_columns){room->stacks, room->sums, room->totals, 0, types};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t stack = (uint32_t)(room->keys[i] >> 32);
        const int64_t *values = p->values + (size_t)(uint32_t)room->keys[i] * types;
        // The keys are in order, so samples with one stack are neighbours.
        if (c->count == 0 || room->stacks[-1] != stack) {
            *room->stacks++ = stack;
            room->sums += types;
            c->count++;
        }
        if (!add_row(room->sums - types, values, types, e)) return false;
        if (!add_row(c->totals, values, types, e)) return false;
    }
    room->totals += types;
    assert(c->count > 0 && c->count <= n);
    return true;
}

bool type_columns_is_zero(const struct type_columns *c, uint32_t type)
{
    assert(type < c->type_count);
    if (c->totals[type] != 0) return false;
    // Positive and negative ones may add up to 0, and are stored.
    for (uint32_t i = 0; i < c->count; i++) {
        if (type_columns_value(c, i, type) != 0) return false;
    }
    return true;
}

bool type_columns_multiple(const struct type_columns *c, uint32_t type, uint32_t base,
                           int64_t *factor)
{
    assert(type < c->type_count && base < c->type_count);
    // The totals decide nearly always; only then are all rows compared.
    if (c->totals[base] <= 0 || c->totals[type] % c->totals[base] != 0) return false;
    int64_t f = c->totals[type] / c->totals[base];
    if (f == 0) return false;
    for (uint32_t i = 0; i < c->count; i++) {
        int64_t product = 0;
        if (__builtin_mul_overflow(type_columns_value(c, i, base), f, &product)) return false;
        if (product != type_columns_value(c, i, type)) return false;
    }
    *factor = f;
    return true;
}
