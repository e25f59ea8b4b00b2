// SPDX-License-Identifier: Apache-2.0
//
// A label selector. Property: what parses, printed in the plainest form, parses to the same
// matchers; and matching terminates on any value.
#include "fuzz/bound.h"
#include "lib/selector.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Eight regexes, each parsed twice and of the largest program.
FUZZ_BOUND_MS(1000);

static void print(const struct selector *sel, struct buf *out)
{
    static const char ops[][3] = {"=", "!=", "=~", "!~"};
    buf_byte(out, '{');
    for (size_t i = 0; i < sel->n; i++) {
        if (i > 0) buf_byte(out, ',');
        label_quote(sel->v[i].name, out);
        buf_z(out, ops[sel->v[i].op]);
        label_quote(sel->v[i].value, out);
    }
    buf_byte(out, '}');
}

static bool matches(const struct selector *sel, const struct matcher *m, str value)
{
    bool yes = false;
    err e = {0};
    if (!matcher_test(sel, m, value, &yes, &e)) abort();
    return yes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    static const struct selector_most most = {.regexes = 8, .regexes_setting = "r"};
    struct selector sel = {.most = &most};
    struct selector again = {.most = &most};
    err e = {0};
    arena_init(&a, NULL, 64 << 20);
    str text = str_make(data, size);
    if (selector_parse(&a, text, &sel, &e)) {
        struct buf out;
        buf_init(&out, NULL, 64 << 20);
        print(&sel, &out);
        if (!selector_parse(&a, buf_view(&out), &again, &e)) abort();
        if (again.n != sel.n) abort();
        for (size_t i = 0; i < sel.n; i++) {
            const struct matcher *x = &sel.v[i];
            const struct matcher *y = &again.v[i];
            if (x->op != y->op || !str_eq(x->name, y->name) || !str_eq(x->value, y->value)) abort();
            if (matches(&sel, x, text) != matches(&again, y, text)) abort();
        }
        const label l = {S("env"), text};
        if (selector_matches(&sel, (labels){&l, 1}) != selector_matches(&again, (labels){&l, 1})) {
            abort();
        }
        buf_release(&out);
    } else if (e.code != ERR_INVALID_ARGUMENT && e.code != ERR_RESOURCE_EXHAUSTED) {
        abort();
    }
    arena_release(&a);
    return 0;
}
