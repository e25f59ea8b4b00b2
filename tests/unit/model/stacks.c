// SPDX-License-Identifier: Apache-2.0
//
// stacks.c - sums of stacks from text, and trees as text.
#include "unit/model/stacks.h"

uint32_t frame_of_text(struct symbols *s, str text, err *e)
{
    struct symbol_frame f = {0};
    if (text.n > 0 && text.p[text.n - 1] == '!') {
        f.inlined = true;
        text.n--;
    }
    str line = {0};
    str name = str_split(text, '@', &line);
    if (line.n > 0 && !str_i64(line, &f.line)) return MAP_NONE;
    uint32_t string = symbols_string(s, name, e);
    if (string == MAP_NONE) return MAP_NONE;
    f.function = symbols_function(s, (struct symbol_function){.name = string}, e);
    if (f.function == MAP_NONE) return MAP_NONE;
    f.address = name.n == 0 ? 64 : 0;
    return symbols_frame(s, f, e);
}

uint32_t stack_of_text(struct symbols *s, str text, err *e)
{
    uint32_t stack = 0;
    str rest = text;
    for (bool more = text.n > 0; more && stack != MAP_NONE;) {
        more = str_find(rest, ';') < rest.n;
        str name = str_split(rest, ';', &rest);
        uint32_t frame = frame_of_text(s, name, e);
        if (frame == MAP_NONE) return MAP_NONE;
        stack = symbols_stack(s, stack, frame, e);
    }
    return stack;
}

MUST_CHECK bool sum_stack(struct merge *m, str stack, int64_t value, err *e)
{
    uint32_t row = stack_of_text(&m->symbols, stack, e);
    if (row == MAP_NONE) return false;
    if (!mem_grow(m->symbols.budget, &m->sums, &m->room, m->symbols.t.stack_count, sizeof *m->sums,
                  e)) {
        return false;
    }
    m->sums[row] += value;
    return true;
}

MUST_CHECK bool sum_stacks(struct merge *m, const struct text_sum *v, size_t n, err *e)
{
    for (size_t i = 0; i < n && v[i].stack; i++) {
        if (!sum_stack(m, str_of(v[i].stack), v[i].value, e)) return false;
    }
    return true;
}

str text_of_tree(struct arena *a, const struct tree *t)
{
    struct buf b;
    buf_init(&b, NULL, 1 << 24);
    uint32_t *path = ARENA_ARRAY(a, uint32_t, t->count);
    uint32_t node = t->nodes[0].first_child;
    while (node) {
        const struct tree_node *n = &t->nodes[node];
        if (n->self) {
            uint32_t depth = 0;
            for (uint32_t at = node; at; at = t->nodes[at].parent)
                path[depth++] = at;
            if (b.n) buf_byte(&b, ' ');
            while (depth-- > 0) {
                buf_str(&b, t->nodes[path[depth]].name);
                buf_byte(&b, depth ? ';' : '=');
            }
            buf_i64(&b, n->self);
        }
        uint32_t next = n->first_child;
        for (; !next && node; node = t->nodes[node].parent)
            next = t->nodes[node].next_sibling;
        node = next;
    }
    str text = arena_str(a, buf_view(&b));
    buf_release(&b);
    return text;
}
