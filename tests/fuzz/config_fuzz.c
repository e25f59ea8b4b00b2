// SPDX-License-Identifier: Apache-2.0
//
// config_fuzz.c - a configuration file. Property: what loads is printed to a text that loads and
// prints the same.
#include "fuzz/bound.h"
#include "service/config_int.h"
#include "service/tenant.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Relabelling rules and selectors, each with a program.
FUZZ_BOUND_MS(2000);

struct settings {
    struct limits limits;
    struct arena *arena;
};

static bool on_setting(void *ctx, str section, str key, const struct config_text *t, err *e)
{
    struct settings *s = ctx;
    if (!str_is(section, "limits")) return err_set(e, ERR_INVALID_ARGUMENT, "section");
    for (size_t i = 0; i < limits_section.row_count && key.n; i++) {
        const struct config_row *row = &limits_section.rows[i];
        if (!str_is(key, row->key)) continue;
        return config_value_parse(row, t, (char *)&s->limits + row->offset, s->arena, e);
    }
    return key.n == 0 || err_set(e, ERR_INVALID_ARGUMENT, "key");
}

static bool load(str text, struct settings *s)
{
    err e = {0};
    *s = (struct settings){.arena = s->arena};
    return config_yaml_read(text, "fuzz.yaml", s->arena, on_setting, s, &e);
}

static void print(const struct settings *s, struct buf *out)
{
    buf_z(out, "limits:\n");
    for (size_t i = 0; i < limits_section.row_count; i++) {
        const struct config_row *row = &limits_section.rows[i];
        buf_printf(out, "  %s: ", row->key);
        config_value_print(row, (const char *)&s->limits + row->offset, out);
        buf_byte(out, '\n');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    arena_init(&a, NULL, 1 << 22);
    struct settings s = {.arena = &a};
    if (load(str_make(data, size), &s)) {
        struct buf first;
        struct buf second;
        buf_init(&first, NULL, 1 << 20);
        buf_init(&second, NULL, 1 << 20);
        print(&s, &first);
        if (!load(buf_view(&first), &s)) abort();
        print(&s, &second);
        if (!str_eq(buf_view(&first), buf_view(&second))) abort();
        buf_release(&first);
        buf_release(&second);
    }
    arena_release(&a);
    return 0;
}
