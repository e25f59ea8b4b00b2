// SPDX-License-Identifier: Apache-2.0
//
// type_columns.h - sums of some samples of a profile by stack, for all sample types at once.
#pragma once

#include "intake/stack_rows.h"

struct type_columns {
    const uint32_t *stacks;  // ascending
    const int64_t *sums;     // count rows of type_count
    int64_t *totals;         // of each type
    uint32_t count;
    uint32_t type_count;
};

// Memory for several columns of one profile, allocated at once; `rows` is for all of them together.
struct type_columns_room {
    uint64_t *keys;
    uint64_t *other;
    uint32_t *stacks;
    int64_t *sums;
    int64_t *totals;
};
bool type_columns_room_init(struct type_columns_room *r, struct arena *a, uint32_t type_count,
                            uint32_t rows, uint32_t columns, err *e) MUST_CHECK;

// `rows` are samples of the profile that `to` maps. Takes a part of the room. Fails with
// out_of_range or resource_exhausted.
bool type_columns_make(struct type_columns *c, struct type_columns_room *room,
                       struct stack_rows *to, const uint32_t *rows, uint32_t n, err *e) MUST_CHECK;

static inline int64_t type_columns_value(const struct type_columns *c, uint32_t i, uint32_t type)
{
    return c->sums[(size_t)i * c->type_count + type];
}

// Whether all sums of `type` are 0.
bool type_columns_is_zero(const struct type_columns *c, uint32_t type);

// Whether each sum of `type` is the same multiple, not 0, of that of `base`; *factor is the
// multiple.
bool type_columns_multiple(const struct type_columns *c, uint32_t type, uint32_t base,
                           int64_t *factor);
