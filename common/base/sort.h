// SPDX-License-Identifier: Apache-2.0
//
// sort.h - insertion sort of short runs, which beats qsort and every merge there: no callback, and
// equal elements keep their order.
#pragma once

#include "base/base.h"

// Sorts v[0 .. n). `after(a, b)`, a function or macro of two elements, says whether a must come
// behind b. Takes n^2 steps at worst: the caller bounds n.
#define INSERTION_SORT(v, n, after)                                                   \
    do {                                                                              \
        for (size_t sort_i_ = 1; sort_i_ < (n); sort_i_++) {                          \
            const __typeof__(*(v)) sort_one_ = (v)[sort_i_];                          \
            size_t sort_at_ = sort_i_;                                                \
            for (; sort_at_ > 0 && after((v)[sort_at_ - 1], sort_one_); sort_at_--) { \
                (v)[sort_at_] = (v)[sort_at_ - 1];                                    \
            }                                                                         \
            (v)[sort_at_] = sort_one_;                                                \
        }                                                                             \
    } while (0)
