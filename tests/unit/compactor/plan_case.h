// SPDX-License-Identifier: Apache-2.0
//
// plan_case.h - a state and what the plan says of it, as a row of a table. Times are hours from the
// window's first; a block's made time is "hours after".
#pragma once

#include "compactor/plan.h"
#include "lib/test.h"
#include "sys/clock.h"

#define PLAN_HOUR_0 (INT64_C(28) * 24 * 700)

extern const struct plan_settings plan_usual;

// A block: kind, hours, when it was made, which leaves each of its windows names ("a" is leaf a).
struct case_block {
    char kind;  // 'r' leaf, 'h' hour nodes, 'd' a day, 'w' a window; without series 'b' hour nodes,
                // 'e' a day; 's' hour nodes that are spared; 0: end
    char id;
    int from;
    int hours;
    int made;
    const char *covers;  // "0:ab 5:c": at hour 0 the leaves a, b ...
    bool damaged;
    unsigned bytes;  // 0: 100
};

struct plan_case {
    const char *name;
    double now;                       // hours
    const char *segments;             // hours of them, "1 1 7"
    uint64_t day_leaf;                // bytes below which leaves of a day become one
    const struct case_block *blocks;  // in the manifest's order
    const char *expired;              // leaves that are gone but count
    bool asked;                       // somebody waits for it
    size_t much;                      // so many sources are much
    unsigned much_bytes;              // so many bytes are
    int deleted[2];                   // hours from and to of a deletion; {0}: none. Blocks made
                                      // after hour 100 obey it
    const char *want;                 // "leaf@1 hour@0+3 retire@5"
    const char *later;  // kinds of jobs that wait for their interval; NULL: not looked at
};

// The leaves that count.
struct ids {
    const char *expired;
    const struct case_block *blocks;
};
bool plan_case_counts(void *arg, id128 leaf);  // arg: struct ids

int64_t plan_case_hours(double h);  // the wall clock, so many hours after the first

void plan_case_check(const struct plan_case *c);

#define LEAF(id_, from_, made_)                                                \
    {                                                                          \
        .kind = 'r', .id = (id_), .from = (from_), .hours = 1, .made = (made_) \
    }
#define PARENT(kind_, id_, from_, hours_, made_, covers_)                                  \
    {                                                                                      \
        .kind = (kind_), .id = (id_), .from = (from_), .hours = (hours_), .made = (made_), \
        .covers = (covers_)                                                                \
    }
#define DAY_LEAF(id_, from_, made_)                                             \
    {                                                                           \
        .kind = 'r', .id = (id_), .from = (from_), .hours = 24, .made = (made_) \
    }
// Hour nodes of leaf a, in all hours of the day.
#define EVERY_HOUR_OF(kind_)                                                                  \
    PARENT(kind_, 'h', 0, 24, 26,                                                             \
           "0:a 1:a 2:a 3:a 4:a 5:a 6:a 7:a 8:a 9:a 10:a 11:a 12:a 13:a 14:a 15:a 16:a 17:a " \
           "18:a 19:a 20:a 21:a 22:a 23:a")
#define EVERY_HOUR EVERY_HOUR_OF('h')
#define BAD(kind_, id_, from_, hours_, made_, covers_)                                     \
    {                                                                                      \
        .kind = (kind_), .id = (id_), .from = (from_), .hours = (hours_), .made = (made_), \
        .covers = (covers_), .damaged = true                                               \
    }
#define BLOCKS(...)             \
    (const struct case_block[]) \
    {                           \
        __VA_ARGS__,            \
        {                       \
            .kind = 0           \
        }                       \
    }
