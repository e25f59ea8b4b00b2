// SPDX-License-Identifier: Apache-2.0
//
// search.h - binary search over anything that has an order, without a callback: the condition is an
// expression, so each use compiles to a loop of its own.
#pragma once

#include "base/base.h"

// The first place of [from, to) for which `before` is false; `to` if it holds for all. `before` is
// an expression over `at`, the place that is looked at; it holds for a first part of the places and
// for none behind them. In v sorted by time:
//
//     SEARCH(at, 0, n, v[at].time < t)     the first at or after t
//     SEARCH(at, 0, n, v[at].time <= t)    the first after t; the one before it is the last up to t
//
// An equal element is there if the place is below `to` and its element equal.
#define SEARCH(at, from, to, before)                                          \
    __extension__({                                                           \
        size_t search_low_ = (from);                                          \
        size_t search_high_ = (to);                                           \
        while (search_low_ < search_high_) {                                  \
            const size_t at = search_low_ + (search_high_ - search_low_) / 2; \
            if (before)                                                       \
                search_low_ = (at) + 1;                                       \
            else                                                              \
                search_high_ = at;                                            \
        }                                                                     \
        search_low_;                                                          \
    })
