// SPDX-License-Identifier: Apache-2.0
//
// An answer of a server, whatever it holds: what is read as a flame graph is a tree within its
// root, its collapsed text adds up to the selfs of its nodes, drawing it stays in its columns, and
// nothing that is drawn commands a terminal. The same bytes are read as those of a tree, too.
#include "codec/pb.h"
#include "deploy/cli/cli_draw.h"

#include <locale.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tree(const struct flame *f)
{
    for (uint32_t i = 1; i < f->count; i++) {
        const struct flame_node *n = &f->nodes[i];
        if (n->parent >= i) abort();
        const struct flame_node *p = &f->nodes[n->parent];
        if (n->left < p->left || n->left + n->width > p->left + p->width) abort();
    }
    uint32_t entered = 0;
    uint32_t left = 0;
    if (f->count == 0) return;
    struct flame_walk w = flame_walk_begin(f);
    do {
        if (w.leaving)
            left++;
        else
            entered++;
    } while (flame_walk_next(f, &w));
    if (entered != f->count || left != f->count) abort();
}

static bool count_lines(void *arg, struct buf *b, err *e)
{
    (void)e;
    size_t *lines = arg;
    for (size_t i = 0; i < b->n; i++)
        *lines += b->p[i] == '\n';
    buf_clear(b);
    return true;
}

static void check_folded(const struct flame *f, struct arena *a)
{
    struct buf b;
    buf_init(&b, NULL, 64 << 20);
    size_t lines = 0;
    size_t nodes = 0;
    err e = {0};
    struct flame_sink sink = {count_lines, &lines};
    for (uint32_t i = 1; i < f->count; i++)
        nodes += f->nodes[i].self != 0;
    if (flame_folded(f, a, &b, &sink, &e) && lines != nodes) abort();
    buf_release(&b);
}

static void check_drawing(const struct flame *f, struct arena *a)
{
    struct buf b;
    buf_init(&b, NULL, 64 << 20);
    struct text_look look = {.width = 60, .colors = TEXT_PLAIN};
    struct draw_unit unit = {TEXT_NS, 1};
    draw_flame(&b, f, &look, unit, 0);
    str rest = buf_view(&b);
    while (rest.n && !b.failed) {
        str line = str_split(rest, '\n', &rest);
        if (text_columns(line) > look.width) abort();
        str s = line;
        struct text_char c;
        while (text_next(&s, &c)) {
            if (!c.shown) abort();
        }
    }
    draw_tree(&b, f, &look, unit, 0, 50);
    struct flame_function *v = NULL;
    size_t n = 0;
    err e = {0};
    if (flame_functions(f, a, &v, &n, &e)) {
        flame_functions_by_self(v, n);
        draw_functions(&b, v, n, f->total, &look, unit);
    }
    buf_release(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    struct arena a;
    arena_init(&a, NULL, 64 << 20);
    err e = {0};
    struct flame f;
    ProtobufCMessage *m =
        pb_unpack(&a, &querier__v1__flame_graph__descriptor, str_make(data, size), &e);
    if (m && flame_read(&a, (const Querier__V1__FlameGraph *)m, &f, &e)) {
        check_tree(&f);
        check_folded(&f, &a);
        check_drawing(&f, &a);
    }
    e = (err){0};
    if (flame_read_tree(&a, str_make(data, size), &f, &e)) {
        check_tree(&f);
        check_folded(&f, &a);
        check_drawing(&f, &a);
    }
    arena_release(&a);
    return 0;
}
