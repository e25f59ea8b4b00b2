// SPDX-License-Identifier: Apache-2.0
//
// overrides.h - private to tenant.c: reads the files of overrides into a table of limits by tenant.
#pragma once

#include "service/limits.h"

#define OVERRIDES_MAX_BYTES ((size_t)64 << 20)  // of all files together

struct override {
    str tenant;
    const struct limits *limits;
};

// Immutable. Its arena holds all memory of its limits, except that of the defaults.
struct overrides {
    struct arena arena;
    const struct override *v;  // sorted by tenant, each once
    size_t count;
};

// The texts of the files, in the arena, and a hash of names and texts.
bool overrides_load(struct arena *a, CONFIG_LIST files, str **texts, uint64_t *hash,
                    err *e) MUST_CHECK;

// Makes the table from the texts, one per file; the names of the files are borrowed as long as *o.
// Fails with invalid_argument "file:line: overrides.tenant.key: ..."; *o must be released then,
// too.
bool overrides_read(struct overrides *o, CONFIG_LIST files, const str *texts,
                    const struct limits *defaults, err *e) MUST_CHECK;
void overrides_release(struct overrides *o);

// NULL if the tenant has none.
const struct limits *overrides_find(const struct overrides *o, str tenant);
