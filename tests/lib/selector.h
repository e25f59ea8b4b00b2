// SPDX-License-Identifier: Apache-2.0
//
// selector.h - whether a selector means a label set, for tests that compare with what an index or a
// query found. Ends the program without memory, so it is not for work that torture disturbs.
#pragma once

#include "model/label.h"

#include <stdlib.h>

static inline bool selector_matches(const struct selector *sel, labels ls)
{
    for (size_t i = 0; i < sel->n; i++) {
        const struct matcher *m = &sel->v[i];
        bool yes = false;
        err e = {0};
        if (!matcher_test(sel, m, labels_get(ls, m->name), &yes, &e)) abort();
        if (!yes) return false;
    }
    return true;
}
