// SPDX-License-Identifier: Apache-2.0
//
// demangle_int.h - shared by demangle.c and demangle_v0.c: text of limited length.
#pragma once

#include "model/demangle.h"

struct demangle_text {
    char p[DEMANGLE_TEXT_MAX];
    size_t n;
};

// False if it does not fit; then nothing is added.
static inline bool demangle_add(struct demangle_text *t, str s)
{
    if (s.n > sizeof t->p - t->n) return false;
    if (s.n) memcpy(t->p + t->n, s.p, s.n);
    t->n += s.n;
    return true;
}

// A v0 name without prefix "_R" and suffix.
bool demangle_v0(str name, struct demangle_text *out);
