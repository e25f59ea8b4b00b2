// SPDX-License-Identifier: Apache-2.0
//
// Call graphs show the functions and edges of their tree.
#include "model/dot.h"
#include "unit/model/stacks.h"

static str dot_of(struct arena *a, const struct text_sum *v, size_t n, int64_t max_nodes)
{
    struct merge m;
    struct tree t;
    struct buf out;
    const struct dot_options o = {S("cpu"), S("nanoseconds"), max_nodes, NULL};
    buf_init(&out, NULL, 1 << 22);
    assert_ok(merge_init(&m, NULL, false, e));
    assert_ok(sum_stacks(&m, v, n, e));
    assert_ok(tree_build(a, &m.symbols.t, m.sums, NULL, 0, &t, e));
    assert_ok(dot_print(a, &t, &o, &out, e));
    str text = arena_str(a, buf_view(&out));
    buf_release(&out);
    merge_release(&m);
    return text;
}

static const struct {
    const char *name;
    struct text_sum stacks[5];
    int64_t max_nodes;
    const char *has[4];
    const char *lacks;
} rows[] = {
    {"two callees",
     {{"main;work", 30}, {"main;idle", 10}},
     0,
     {"N1 [label=\"main\\n0 of 40ns (100%)\"", "N2 [label=\"work\\n30ns (75.00%)\"",
      "N1 -> N2 [label=\" 30ns\"", "N1 -> N3 [label=\" 10ns\""},
     "dotted"},
    {"recursion counts once",
     {{"a;b;a;b", 5}},
     0,
     {"label=\"a\\n0 of 5ns (100%)\"", "label=\"b\\n5ns (100%)\"", "N2 -> N1 [label=\" 5ns\"",
      "N1 -> N2 [label=\" 5ns\""},
     "10ns"},
    {"no edge to itself", {{"a;a;a", 5}}, 0, {"label=\"a\\n5ns (100%)\""}, "->"},
    {"functions left out",
     {{"main;thin;leaf", 10}, {"main;leaf", 1}, {"main", 100}},
     2,
     {"Showing top 2 nodes out of 3", "N1 -> N2 [label=\" 11ns\""},
     "thin"},
    {"an edge over what is left out",
     {{"r;m;z", 9}, {"r", 1}, {"z", 9}},
     2,
     {"style=\"dotted\""},
     "label=\"m"},
    {"units", {{"a", 1500000000}}, 0, {"1.50s (100%)"}, NULL},
    {"quotes and backslashes",
     {{"q\"];\\n x", 1}},
     0,
     {"label=\"q\\\"]\\n", "label=\"\\\\n x\\n"},
     NULL},
    {"controls",
     {{"a\nb\x01"
       "c",
       1}},
     0,
     {"label=\"a b c\\n"},
     NULL},
};

static void graphs_are_as_the_tree_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct arena a;
        arena_init(&a, NULL, 1 << 24);
        str got = dot_of(&a, rows[i].stacks, COUNT(rows[i].stacks), rows[i].max_nodes);
        for (size_t k = 0; k < COUNT(rows[i].has) && rows[i].has[k]; k++) {
            if (!str_contains(got, str_of(rows[i].has[k])))
                fail_msg("%s: no %s in\n%.*s", rows[i].name, rows[i].has[k], STR(got));
        }
        if (rows[i].lacks && str_contains(got, str_of(rows[i].lacks)))
            fail_msg("%s: %s in\n%.*s", rows[i].name, rows[i].lacks, STR(got));
        arena_release(&a);
    }
}

static void nothing_is_no_text(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    assert_int_equal(dot_of(&a, NULL, 0, 0).n, 0);
    arena_release(&a);
}

static void long_names_are_cut_between_characters(void **state)
{
    (void)state;
    char name[3 * DOT_NAME_MAX + 2] = "x";
    for (size_t i = 1; i + 2 < sizeof name; i += 3)
        memcpy(name + i, "\xe2\x82\xac", 3);  // three bytes each
    struct arena a;
    arena_init(&a, NULL, 1 << 24);
    str got = dot_of(&a, (struct text_sum[]){{name, 1}}, 1, 0);
    assert_true(str_utf8(got));
    assert_true(got.n < 2 * DOT_NAME_MAX);
    assert_true(str_contains(got, S("\xe2\x80\xa6")));
    arena_release(&a);
}

static void a_million_deep_stack_needs_no_recursion(void **state)
{
    (void)state;
    struct buf deep;
    buf_init(&deep, NULL, 1 << 24);
    for (int i = 0; i < 1000000; i++)
        buf_printf(&deep, i ? ";f%d" : "f%d", i % 7);
    buf_byte(&deep, 0);
    struct arena a;
    arena_init(&a, NULL, (size_t)1 << 30);
    str got = dot_of(&a, (struct text_sum[]){{deep.p, 3}}, 1, 100);
    assert_true(str_contains(got, S("N7 [label=")));
    assert_false(str_contains(got, S("N8 [label=")));
    arena_release(&a);
    buf_release(&deep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_are_as_the_tree_says),
        cmocka_unit_test(nothing_is_no_text),
        cmocka_unit_test(long_names_are_cut_between_characters),
        cmocka_unit_test(a_million_deep_stack_needs_no_recursion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
