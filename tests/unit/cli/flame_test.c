// SPDX-License-Identifier: Apache-2.0
#include "deploy/cli/cli_draw.h"
#include "lib/test.h"

#include <locale.h>

// docs/formats/flamegraph.md: a;b;e 1, a;c 2, a;c;d 1.
static int64_t level0[] = {0, 4, 0, 0};
static int64_t level1[] = {0, 4, 0, 1};
static int64_t level2[] = {0, 1, 0, 4, 0, 3, 2, 2};
static int64_t level3[] = {0, 1, 1, 5, 2, 1, 1, 3};
static char *names[] = {(char[]){"total"}, (char[]){"a"}, (char[]){"c"},
                        (char[]){"d"},     (char[]){"b"}, (char[]){"e"}};

struct graph {
    Querier__V1__FlameGraph g;
    Querier__V1__Level levels[8];
    Querier__V1__Level *rows[8];
};

static void graph_init(struct graph *x)
{
    querier__v1__flame_graph__init(&x->g);
    x->g.names = names;
    x->g.n_names = COUNT(names);
    x->g.levels = x->rows;
}

static void add_level(struct graph *x, int64_t *v, size_t n)
{
    Querier__V1__Level *l = &x->levels[x->g.n_levels];
    querier__v1__level__init(l);
    l->values = v;
    l->n_values = n;
    x->rows[x->g.n_levels++] = l;
}

static void example(struct graph *x)
{
    graph_init(x);
    add_level(x, level0, 4);
    add_level(x, level1, 4);
    add_level(x, level2, 8);
    add_level(x, level3, 8);
}

static bool append(void *arg, struct buf *b, err *e)
{
    (void)e;
    buf_str(arg, buf_view(b));
    buf_clear(b);
    return true;
}

static bool read_and_fold(void *arg, err *e)
{
    struct buf *out = arg;
    struct graph x;
    struct flame f;
    struct arena a;
    struct buf b;
    buf_clear(out);
    arena_init(&a, NULL, 1 << 20);
    buf_init(&b, NULL, 1 << 20);
    example(&x);
    struct flame_sink sink = {append, out};
    bool ok = flame_read(&a, &x.g, &f, e) && flame_folded(&f, &a, &b, &sink, e);
    buf_release(&b);
    arena_release(&a);
    return ok && buf_ok(out, e);
}

static void levels_become_collapsed_text(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, NULL, 1 << 20);
    assert_ok(read_and_fold(&out, e));
    assert_true(str_is(buf_view(&out), "a;b;e 1\na;c 2\na;c;d 1\n"));
    assert_true(torture(read_and_fold, &out) > 0);
    buf_release(&out);
}

// Names that collapsed text would take for two frames, two lines or a comment.
static void a_name_stays_one_frame_in_collapsed_text(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *text;  // of it, and below itself
    } odd[] = {
        {"Ljava/lang/Object;.f",
         "Ljava/lang/Object:.f 1\nLjava/lang/Object:.f;Ljava/lang/Object:.f 3\n"},
        {"x\ny", "x?y 1\nx?y;x?y 3\n"},
        {"# of rows", "? of rows 1\n? of rows;# of rows 3\n"},
        {"#", "? 1\n?;# 3\n"},
        {"#1", "#1 1\n#1;#1 3\n"},
    };
    for (size_t i = 0; i < COUNT(odd); i++) {
        char name[64];
        char *two[] = {(char[]){"total"}, name};
        int64_t root[] = {0, 4, 0, 0};
        int64_t outer[] = {0, 4, 1, 1};
        int64_t inner[] = {0, 3, 3, 1};
        struct graph x;
        struct flame f;
        struct arena a;
        struct buf out;
        struct buf b;
        snprintf(name, sizeof name, "%s", odd[i].name);
        arena_init(&a, NULL, 1 << 20);
        buf_init(&out, NULL, 1 << 20);
        buf_init(&b, NULL, 1 << 20);
        graph_init(&x);
        x.g.names = two;
        x.g.n_names = COUNT(two);
        add_level(&x, root, 4);
        add_level(&x, outer, 4);
        add_level(&x, inner, 4);
        struct flame_sink sink = {append, &out};
        assert_ok(flame_read(&a, &x.g, &f, e) && flame_folded(&f, &a, &b, &sink, e));
        if (!str_is(buf_view(&out), odd[i].text)) fail_msg("%.*s", STR(buf_view(&out)));
        buf_release(&b);
        buf_release(&out);
        arena_release(&a);
    }
}

static void functions_have_self_and_total(void **state)
{
    (void)state;
    struct graph x;
    struct flame f;
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    example(&x);
    struct flame_function *v = NULL;
    size_t n = 0;
    assert_ok(flame_read(&a, &x.g, &f, e) && flame_functions(&f, &a, &v, &n, e));
    flame_functions_by_self(v, n);
    assert_int_equal(n, 5);
    assert_true(str_is(v[0].name, "c") && v[0].self == 2 && v[0].total == 3);
    assert_true(str_is(v[4].name, "a") || str_is(v[4].name, "b"));
    arena_release(&a);
}

static void lies_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t values[8];
        size_t n;
        const char *message;
    } lies[] = {
        {"three numbers", {0, 4, 0}, 3, "groups of 4"},
        {"name too large", {0, 4, 0, 6}, 4, "name does not exist"},
        {"negative name", {0, 4, 0, -1}, 4, "name does not exist"},
        {"negative gap", {-1, 4, 0, 1}, 4, "negative size"},
        {"negative total", {0, -4, 0, 1}, 4, "negative size"},
        {"more self than total", {0, 4, 5, 1}, 4, "more self"},
        {"too wide", {INT64_MAX, 4, 0, 1}, 4, "too wide"},
        {"wraps later", {0, INT64_MAX, 0, 1, 1, 1, 0, 1}, 8, "lies below none"},
        {"beside the root", {4, 1, 0, 1}, 4, "lies below none"},
        {"wider than the root", {0, 5, 0, 1}, 4, "lies below none"},
        {"the least self", {0, 4, INT64_MIN, 1}, 4, "do not fit"},
        {"selves that add up to less", {0, 4, -1, 1}, 4, "another size"},
        {"two, the second outside", {0, 3, 0, 1, 0, 2, 0, 1}, 8, "lies below none"},
    };
    for (size_t i = 0; i < COUNT(lies); i++) {
        struct graph x;
        struct flame f;
        struct arena a;
        err e = {0};
        arena_init(&a, NULL, 1 << 20);
        graph_init(&x);
        add_level(&x, level0, 4);
        int64_t values[8];
        memcpy(values, lies[i].values, sizeof values);
        add_level(&x, values, lies[i].n);
        bool ok = flame_read(&a, &x.g, &f, &e);
        if (ok || !strstr(e.msg, lies[i].message)) fail_msg("%s: %d %s", lies[i].name, ok, e.msg);
        arena_release(&a);
    }
}

// A function that takes something away is as exact as its selves, whatever its bar.
static void negative_selves_count(void **state)
{
    (void)state;
    struct graph x;
    struct flame f;
    struct arena a;
    struct buf out;
    struct flame_function *v = NULL;
    size_t n = 0;
    int64_t root[] = {0, 4, 0, 0};
    int64_t first[] = {0, 0, -3, 1, 0, 4, 5, 2};
    int64_t second[] = {4, 0, 2, 1};
    arena_init(&a, NULL, 1 << 20);
    buf_init(&out, NULL, 1 << 20);
    graph_init(&x);
    add_level(&x, root, 4);
    add_level(&x, first, 8);
    add_level(&x, second, 4);
    struct flame_sink sink = {append, &out};
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    assert_ok(flame_read(&a, &x.g, &f, e) && flame_functions(&f, &a, &v, &n, e) &&
              flame_folded(&f, &a, &b, &sink, e));
    assert_true(f.total == 4 && f.is_signed);
    assert_int_equal(n, 2);
    assert_true(v[0].self == -1 && v[0].total == -1 && v[1].self == 5 && v[1].total == 7);
    assert_true(str_is(buf_view(&out), "a -3\nc 5\nc;a 2\n"));
    buf_release(&b);
    buf_release(&out);
    arena_release(&a);
}

// Each self is within its bar, but not beside the bars below: the sum over "a" would not fit 64
// bits.
static void self_has_its_place_beside_the_bars_below(void **state)
{
    (void)state;
    struct graph x;
    struct flame f;
    struct arena a;
    struct flame_function *v = NULL;
    size_t n = 0;
    err e = {0};
    int64_t root[] = {0, INT64_MAX, 0, 0};
    int64_t below[] = {0, INT64_MAX, INT64_MAX, 1};
    arena_init(&a, NULL, 1 << 20);
    graph_init(&x);
    add_level(&x, root, 4);
    add_level(&x, below, 4);
    add_level(&x, below, 4);
    bool ok = flame_read(&a, &x.g, &f, &e) && flame_functions(&f, &a, &v, &n, &e);
    assert_false(ok);
    assert_non_null(strstr(e.msg, "level 2 has bars that leave no room for the self"));
    arena_release(&a);
}

// The bytes of a tree as model/tree.h has them: siblings from the last to the first.
static bool fold_tree(struct arena *a, str bytes, struct flame *f, struct buf *out, err *e)
{
    struct flame_sink sink = {append, out};
    struct buf b;
    buf_clear(out);
    buf_init(&b, NULL, 1 << 20);
    bool ok = flame_read_tree(a, bytes, f, e) && flame_folded(f, a, &b, &sink, e);
    buf_release(&b);
    return ok;
}

static void trees_have_what_lies_below_bars_without_width(void **state)
{
    (void)state;
    struct arena a;
    struct buf out;
    struct flame f;
    struct flame_function *v = NULL;
    size_t n = 0;
    arena_init(&a, NULL, 1 << 20);
    buf_init(&out, NULL, 1 << 20);
    // total { a { a { } 5, b -7 }, c 1 }; -7 has ten bytes
    static const char bytes[] = "\0\0\2"
                                "\1c\1\0"
                                "\1a\0\2"
                                "\1b\xf9\xff\xff\xff\xff\xff\xff\xff\xff\1\0"
                                "\1a\5\0";
    str tree = str_make(bytes, sizeof bytes - 1);
    assert_ok(fold_tree(&a, tree, &f, &out, e));
    assert_true(str_is(buf_view(&out), "a;a 5\na;b -7\nc 1\n"));
    assert_true(f.total == -1 && f.is_signed && f.level_count == 3 && f.count == 5);
    assert_ok(flame_functions(&f, &a, &v, &n, e));
    assert_int_equal(n, 3);
    assert_true(str_is(v[0].name, "a") && v[0].self == 5 && v[0].total == -2);

    static const char none[] = "\0\0\1\1a\0\0";
    assert_ok(fold_tree(&a, str_make(none, sizeof none - 1), &f, &out, e));
    assert_int_equal(f.count, 0);
    assert_ok(fold_tree(&a, (str){0}, &f, &out, e));
    assert_int_equal(f.count, 0);

    for (size_t cut = 1; cut < tree.n; cut++) {
        err e = {0};
        assert_false(flame_read_tree(&a, str_make(tail_guard(tree.p, cut), cut), &f, &e));
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
    }
    err e = {0};
    static const char two[] = "\1x\1\0\1y\1\0";
    assert_false(flame_read_tree(&a, str_make(two, sizeof two - 1), &f, &e));
    assert_non_null(strstr(e.msg, "more than one root"));
    buf_release(&out);
    arena_release(&a);
}

static void nothing_is_nothing(void **state)
{
    (void)state;
    struct graph x;
    struct flame f;
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    assert_ok(flame_read(&a, NULL, &f, e));
    assert_int_equal(f.count, 0);
    graph_init(&x);
    assert_ok(flame_read(&a, &x.g, &f, e));
    assert_int_equal(f.count, 0);
    int64_t zero[] = {0, 0, 0, 0};
    add_level(&x, zero, 4);
    assert_ok(flame_read(&a, &x.g, &f, e));
    assert_int_equal(f.count, 0);
    arena_release(&a);
}

static void picture_is_as_wide_as_the_terminal(void **state)
{
    (void)state;
    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
    struct graph x;
    struct flame f;
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    example(&x);
    assert_ok(flame_read(&a, &x.g, &f, e));
    struct text_look look = {.width = 41, .colors = TEXT_PLAIN};
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    draw_flame(&b, &f, &look, (struct draw_unit){TEXT_COUNT, 1}, 0);
    static const char expected[] = "│ total                      100.0 %  4 │\n"
                                   "│ a                          100.0 %  4 │\n"
                                   "│ b       │ c                 75.0 %  3 │\n"
                                   "│ e       │                   │ d       │\n";
    if (!str_is(buf_view(&b), expected)) fail_msg("\n%.*s", STR(buf_view(&b)));
    for (unsigned width = 20; width < 200; width++) {
        look.width = width;
        look.colors = width % 4;
        buf_clear(&b);
        draw_flame(&b, &f, &look, (struct draw_unit){TEXT_COUNT, 1}, 0);
        str line = {0};
        str rest = buf_view(&b);
        line = str_split(rest, '\n', &rest);
        if (look.colors == TEXT_PLAIN) assert_int_equal(text_columns(line), width);
    }
    buf_release(&b);
    arena_release(&a);
}

// Numbers have 19 columns and two behind them, names at least 12.
static void names_of_a_tree_are_cut_on_narrow_terminals_too(void **state)
{
    (void)state;
    static char long_name[] = "a_function_whose_name_is_far_longer_than_any_narrow_terminal";
    char *old = names[2];
    struct graph x;
    struct flame f;
    struct arena a;
    struct buf b;
    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
    arena_init(&a, NULL, 1 << 20);
    buf_init(&b, NULL, 1 << 20);
    names[2] = long_name;
    example(&x);
    assert_ok(flame_read(&a, &x.g, &f, e));
    for (unsigned width = 20; width < 60; width++) {
        const struct text_look look = {.width = width, .colors = TEXT_PLAIN};
        buf_clear(&b);
        draw_tree(&b, &f, &look, (struct draw_unit){TEXT_COUNT, 1}, 0, 0);
        str rest = buf_view(&b);
        while (rest.n)
            assert_in_range(text_columns(str_split(rest, '\n', &rest)), 21, MAX(width, 33));
    }
    names[2] = old;
    buf_release(&b);
    arena_release(&a);
}

static void names_have_short_forms(void **state)
{
    (void)state;
    assert_true(str_is(draw_short_name(S("github.com/a/b.(*T).M")), "b.(*T).M"));
    assert_true(str_is(draw_short_name(S("a/b/c")), "c"));
    assert_true(str_is(draw_short_name(S("plain")), "plain"));
    assert_true(str_is(draw_short_name(S("f(a/b)")), "f(a/b)"));
    assert_true(str_is(draw_short_name(S("x/")), "x/"));
    assert_int_equal(draw_hue(S("runtime.mallocgc")), TEXT_HUE_RUNTIME);
    assert_int_equal(draw_hue(S("runtime.goready.func1")), TEXT_HUE_RUNTIME);
    assert_int_equal(draw_hue(S("net/http.(*conn).serve")), TEXT_HUE_LIBRARY);
    assert_int_equal(draw_hue(S("github.com/a/b.F")), draw_hue(S("github.com/a/b.(*T).M")));
    assert_int_equal(draw_hue(S("std::vec::push")), TEXT_HUE_LIBRARY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_become_collapsed_text),
        cmocka_unit_test(a_name_stays_one_frame_in_collapsed_text),
        cmocka_unit_test(functions_have_self_and_total),
        cmocka_unit_test(lies_are_refused),
        cmocka_unit_test(self_has_its_place_beside_the_bars_below),
        cmocka_unit_test(negative_selves_count),
        cmocka_unit_test(trees_have_what_lies_below_bars_without_width),
        cmocka_unit_test(nothing_is_nothing),
        cmocka_unit_test(picture_is_as_wide_as_the_terminal),
        cmocka_unit_test(names_of_a_tree_are_cut_on_narrow_terminals_too),
        cmocka_unit_test(names_have_short_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
