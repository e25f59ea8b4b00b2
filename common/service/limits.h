// SPDX-License-Identifier: Apache-2.0
//
// limits.h - the limits of a tenant as a struct: rows of limits.def, and what is made of them.
//
// A limit that is more than a value comes as a tree; limits_finish (limits.c) checks it and makes
// of it what the write path works with, once a snapshot and not once a push. What it makes lives in
// the snapshot's arena and is immutable; other resources are hooked in with arena_defer.
#pragma once

#include "service/config.h"

struct relabel_rules;  // model/relabel.h

struct limits {
#define ROW(key, type, ...) CONFIG_##type key;
#include "service/limits.def"
#undef ROW
    const struct relabel_rules *relabel;        // of series: the tenant's and the default ones
    const struct relabel_rules *relabel_types;  // of sample types; both NULL before limits_finish
};

extern const struct config_section limits_section;
