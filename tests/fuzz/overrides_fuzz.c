// SPDX-License-Identifier: Apache-2.0
//
// overrides_fuzz.c - a file with limits of single tenants. Property: what is accepted alone is
// accepted laid over itself, and means the same.
#include "fuzz/bound.h"
#include "service/config_int.h"
#include "service/overrides.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Relabelling rules and selectors, each with a program.
FUZZ_BOUND_MS(2000);

static bool same(const struct limits *a, const struct limits *b)
{
    for (size_t i = 0; i < limits_section.row_count; i++) {
        const struct config_row *row = &limits_section.rows[i];
        if (!config_value_eq(row, (const char *)a + row->offset, (const char *)b + row->offset))
            return false;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"one.yaml", "two.yaml"};
    str text = str_make(data, size);
    str texts[] = {text, text};
    struct arena a;
    struct limits defaults = {0};
    struct overrides once = {0};
    struct overrides twice = {0};
    err e = {0};
    arena_init(&a, NULL, 1 << 20);
    if (!config_defaults(&limits_section, &defaults, &a, &e)) abort();
    if (overrides_read(&once, (CONFIG_LIST){names, 1}, texts, &defaults, &e)) {
        if (!overrides_read(&twice, (CONFIG_LIST){names, 2}, texts, &defaults, &e)) abort();
        if (once.count != twice.count) abort();
        for (size_t i = 0; i < once.count; i++) {
            const struct limits *l = overrides_find(&twice, once.v[i].tenant);
            if (!l || !same(once.v[i].limits, l)) abort();
        }
        overrides_release(&twice);
    } else if (e.code == ERR_OK) {
        abort();
    }
    overrides_release(&once);
    arena_release(&a);
    return 0;
}
