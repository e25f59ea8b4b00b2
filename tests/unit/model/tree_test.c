// SPDX-License-Identifier: Apache-2.0
//
// Trees equal brute force over their stacks; truncation keeps the total; bytes are Pyroscope's.
#include "model/tree.h"
#include "unit/model/random.h"
#include "unit/model/stacks.h"

#include <stdlib.h>

// The tree of a merge that the caller releases; fails the test on error.
static struct tree build(struct arena *a, struct merge *m, const struct text_sum *v, size_t n)
{
    struct tree t;
    assert_ok(merge_init(m, NULL, false, e));
    assert_ok(sum_stacks(m, v, n, e));
    assert_ok(tree_build(a, &m->symbols.t, m->sums, NULL, 0, &t, e));
    return t;
}

// What every tree promises.
static void assert_sound(const struct tree *t, bool truncated)
{
    int64_t max_self = 0;
    uint32_t seen = 0;
    assert_int_equal(t->nodes[0].self, 0);
    for (uint32_t i = 0; i < t->count; i++) {
        const struct tree_node *n = &t->nodes[i];
        int64_t total = n->self;
        const struct tree_node *last = NULL;
        max_self = MAX(max_self, n->self);
        for (uint32_t c = n->first_child; c; c = t->nodes[c].next_sibling) {
            const struct tree_node *child = &t->nodes[c];
            assert_true(c > i || truncated);
            assert_int_equal(child->parent, i);
            assert_true(child->name.n > 0);
            bool other = truncated && str_is(child->name, "other") && !child->next_sibling;
            assert_true(!last || other || str_cmp(last->name, child->name) < 0);
            total += child->total;
            last = child;
            seen++;
        }
        assert_true(n->total == total);
    }
    assert_int_equal(seen + 1, t->count);
    assert_true(t->max_self == max_self);
}

static const struct {
    const char *name;
    struct text_sum stacks[8];
    const char *tree;
    int64_t total;
} trees[] = {
    {"nothing", {{0}}, "", 0},
    {"one", {{"a", 5}}, "a=5", 5},
    {"three stacks", {{"a;b;e", 1}, {"a;c", 2}, {"a;c;d", 1}}, "a;b;e=1 a;c=2 a;c;d=1", 4},
    {"byte order",
     {{"b", 1}, {"\xc3\xa9", 2}, {"B", 4}, {"ab", 8}, {"a", 16}},
     "B=4 a=16 ab=8 b=1 \xc3\xa9=2",
     31},
    {"order of long names",
     {{"prefix.prefix.b", 1}, {"prefix.prefix.a", 2}, {"prefix.", 4}, {"prefix.prefix.", 8}},
     "prefix.=4 prefix.prefix.=8 prefix.prefix.a=2 prefix.prefix.b=1",
     15},
    {"lines fold", {{"a@1;b@2", 1}, {"a@3;b@4", 2}, {"a;b@2!", 4}}, "a;b=7", 7},
    {"recursion stays", {{"a;a;a", 1}, {"a;a", 2}}, "a;a=2 a;a;a=1", 3},
    {"the empty stack is a node below the root", {{"a", 1}, {"", 5}}, "[unknown]=5 a=1", 6},
    {"frames without a name are nodes",
     {{";a;;b;", 3}, {"a;b", 4}},
     "0x40;a;0x40;b;0x40=3 a;b=4",
     7},
    {"stacks without any name count", {{";", 5}, {"a", 1}}, "0x40;0x40=5 a=1", 6},
    {"a frame without a name and the empty stack are one node",
     {{"[unknown]", 2}, {"", 5}, {"[unknown];a", 1}},
     "[unknown]=7 [unknown];a=1",
     8},
    {"zeros add no node", {{"a;b", 1}, {"a;c", 5}, {"a;c", -5}, {"d", 0}}, "a;b=1", 1},
    {"negative values", {{"a;b", -2}, {"a;c", 5}}, "a;b=-2 a;c=5", 3},
};

static void trees_fold_stacks_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(trees); i++) {
        struct arena a;
        struct merge m;
        arena_init(&a, NULL, 1 << 20);
        struct tree t = build(&a, &m, trees[i].stacks, COUNT(trees[i].stacks));
        assert_sound(&t, false);
        str text = text_of_tree(&a, &t);
        if (!str_is(text, trees[i].tree)) fail_msg("%s: %.*s", trees[i].name, STR(text));
        if (t.nodes[0].total != trees[i].total) fail_msg("%s: total", trees[i].name);
        merge_release(&m);
        arena_release(&a);
    }
}

static const struct text_sum mains[] = {
    {"main;a;x", 1}, {"main;a;y", 2}, {"main;b", 4}, {"main", 8},
    {"init;a", 16},  {"", 32},        {";a", 64},
};

static const struct {
    const char *name;
    str site[3];
    size_t n;
    const char *tree;
} sites[] = {
    {"none",
     {S_INIT("x")},
     0,
     "0x40;a=64 [unknown]=32 init;a=16 main=8 main;a;x=1 main;a;y=2 main;b=4"},
    {"the empty stack", {S_INIT("[unknown]")}, 1, "[unknown]=32"},
    {"below the empty stack", {S_INIT("[unknown]"), S_INIT("a")}, 2, ""},
    {"root", {S_INIT("main")}, 1, "main=8 main;a;x=1 main;a;y=2 main;b=4"},
    {"two", {S_INIT("main"), S_INIT("a")}, 2, "main;a;x=1 main;a;y=2"},
    {"leaf", {S_INIT("main"), S_INIT("a"), S_INIT("y")}, 3, "main;a;y=2"},
    {"below a leaf", {S_INIT("main"), S_INIT("b"), S_INIT("c")}, 3, ""},
    {"not at the root", {S_INIT("a")}, 1, ""},
    {"part of a name", {S_INIT("mai")}, 1, ""},
    {"no name", {S_INIT("")}, 1, ""},
    {"an address", {S_INIT("0x40")}, 1, "0x40;a=64"},
};

static void a_call_site_keeps_the_stacks_below_it(void **state)
{
    (void)state;
    struct arena a;
    struct merge m;
    arena_init(&a, NULL, 1 << 20);
    build(&a, &m, mains, COUNT(mains));
    for (size_t i = 0; i < COUNT(sites); i++) {
        struct tree t;
        assert_ok(tree_build(&a, &m.symbols.t, m.sums, sites[i].site, sites[i].n, &t, e));
        assert_sound(&t, false);
        str text = text_of_tree(&a, &t);
        if (!str_is(text, sites[i].tree)) fail_msg("%s: %.*s", sites[i].name, STR(text));
    }
    merge_release(&m);
    arena_release(&a);
}

static const struct {
    const char *name;
    struct text_sum stacks[8];
    int64_t max_nodes;
    const char *tree;
} cuts[] = {
    {"small leaves become other",
     {{"a;b;c", 10}, {"a;b;d", 1}, {"a;b;e", 2}, {"a;f", 5}},
     4,
     "a;b;c=10 a;b;other=3 a;f=5"},
    {"a whole branch becomes other",
     {{"a;b", 10}, {"a;z;y;x", 1}, {"a;w", 2}},
     2,
     "a;b=10 a;other=3"},
    {"a parent keeps its self", {{"a", 7}, {"a;b", 1}, {"c", 9}}, 2, "a=7 a;other=1 c=9"},
    {"ties are kept",
     {{"a;b", 1}, {"a;c", 1}, {"a;d", 1}, {"a;e", 1}},
     3,
     "a;b=1 a;c=1 a;d=1 a;e=1"},
    {"exactly as many nodes", {{"a;b", 3}, {"a;c", 1}}, 3, "a;b=3 a;c=1"},
    {"one less", {{"a;b", 3}, {"a;c", 1}}, 2, "a;b=3 a;other=1"},
    {"two of five", {{"a", 5}, {"b", 4}, {"c", 3}, {"d", 2}, {"e", 1}}, 2, "a=5 b=4 other=6"},
    {"one of five", {{"a", 5}, {"b", 4}, {"c", 3}, {"d", 2}, {"e", 1}}, 1, "a=5 other=10"},
    {"below a root",
     {{"r;a", 5}, {"r;b", 4}, {"r;c", 3}, {"r;d", 2}, {"r;e", 1}},
     3,
     "r;a=5 r;b=4 r;other=6"},
    {"zero is all", {{"a;b", 3}, {"c", 1}}, 0, "a;b=3 c=1"},
    {"negative is all", {{"a;b", 3}, {"c", 1}}, -1, "a;b=3 c=1"},
    {"far more than nodes", {{"a;b", 3}, {"c", 1}}, INT64_MAX, "a;b=3 c=1"},
    {"other comes last", {{"a", 5}, {"z", 9}, {"b", 1}}, 2, "a=5 z=9 other=1"},
    {"an other that is kept takes the rest",
     {{"other;x", 9}, {"z", 10}, {"a", 1}, {"b", 2}},
     3,
     "z=10 other=3 other;x=9"},
    {"an other that is removed becomes it",
     {{"other;x", 1}, {"z", 10}, {"a", 2}},
     1,
     "z=10 other=3"},
    {"an other is left alone",
     {{"other;x", 9}, {"z", 10}, {"y;b", 12}, {"y;c", 1}},
     5,
     "other;x=9 y;b=12 y;other=1 z=10"},
    {"other below other",
     {{"other;a", 9}, {"other;b", 1}, {"c", 2}},
     2,
     "other=2 other;a=9 other;other=1"},
    {"everything ties", {{"a;b;c", 1}}, 1, "a;b;c=1"},
};

static void truncation_keeps_the_largest_nodes_and_the_total(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cuts); i++) {
        struct arena a;
        struct merge m;
        struct tree cut;
        arena_init(&a, NULL, 1 << 20);
        struct tree t = build(&a, &m, cuts[i].stacks, COUNT(cuts[i].stacks));
        assert_ok(tree_truncate(&a, &t, cuts[i].max_nodes, &cut, e));
        str text = text_of_tree(&a, &cut);
        if (!str_is(text, cuts[i].tree)) fail_msg("%s: %.*s", cuts[i].name, STR(text));
        if (cut.nodes[0].total != t.nodes[0].total) fail_msg("%s: total", cuts[i].name);
        assert_sound(&cut, true);
        merge_release(&m);
        arena_release(&a);
    }
}

// ---- against brute force

static int by_value_down(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

// Sums of random paths of at most three names of four letters, added into an array by path.
enum {
    LETTERS = 5,
    PATHS = LETTERS * LETTERS * LETTERS
};

static str path_text(char text[8], unsigned path)
{
    size_t n = 0;
    for (unsigned rest = path; rest % LETTERS && n < 6; rest /= LETTERS) {
        if (n) text[n++] = ';';
        text[n++] = (char)('a' + rest % LETTERS - 1);
    }
    return str_make(text, n);
}

// A path's number by its letters: each is a digit, the root's the lowest; 0 ends it.
static unsigned key_of_text(str path)
{
    unsigned key = 0;
    for (size_t k = path.n + 1; k > 1; k -= 2)
        key = key * LETTERS + (unsigned)(path.p[k - 2] - 'a' + 1);
    return key;
}

static unsigned key_of_node(const struct tree *t, uint32_t node)
{
    unsigned key = 0;
    if (str_is(t->nodes[node].name, "[unknown]")) return 0;  // the empty stack's
    for (; node; node = t->nodes[node].parent)
        key = key * LETTERS + (unsigned)(t->nodes[node].name.p[0] - 'a' + 1);
    return key;
}

// The sum over all paths that begin with a path.
static int64_t total_of(const int64_t selfs[PATHS], unsigned key)
{
    unsigned size = LETTERS;
    while (size <= key)
        size *= LETTERS;
    int64_t total = 0;
    for (unsigned longer = key; longer < PATHS; longer += size)
        total += selfs[longer];
    return total;
}

static void random_paths(struct random *r, struct merge *m, int64_t selfs[PATHS])
{
    for (int i = 0; i < 60; i++) {
        char text[8];
        str stack = path_text(text, random_below(r, PATHS));
        int64_t value = 1 + random_below(r, 100);
        assert_ok(sum_stack(m, stack, value, e));
        selfs[key_of_text(stack)] += value;
    }
}

// Each truncation keeps exactly the nodes that are at least as large as the max_nodes-th.
static void assert_cuts(struct arena *a, const struct tree *t, const int64_t *totals, size_t count)
{
    for (size_t max_nodes = 1; max_nodes <= count; max_nodes++) {
        struct tree cut;
        assert_ok(tree_truncate(a, t, (int64_t)max_nodes, &cut, e));
        assert_sound(&cut, true);
        assert_true(cut.nodes[0].total == t->nodes[0].total);
        size_t kept = 0;
        for (uint32_t i = 1; i < cut.count; i++)
            kept += !str_is(cut.nodes[i].name, "other");
        size_t wanted = max_nodes;
        while (wanted < count && totals[wanted] == totals[max_nodes - 1])
            wanted++;
        assert_int_equal(kept, wanted);
    }
}

static void trees_equal_brute_force(void **state)
{
    (void)state;
    struct random r = {11};
    for (int round = 0; round < 100; round++) {
        struct arena a;
        struct merge m;
        struct tree t;
        int64_t selfs[PATHS] = {0};
        int64_t totals[PATHS];
        size_t count = 0;
        arena_init(&a, NULL, 1 << 20);
        assert_ok(merge_init(&m, NULL, false, e));
        random_paths(&r, &m, selfs);
        assert_ok(tree_build(&a, &m.symbols.t, m.sums, NULL, 0, &t, e));
        assert_sound(&t, false);
        for (uint32_t i = 1; i < t.count; i++) {
            unsigned key = key_of_node(&t, i);
            assert_true(t.nodes[i].self == selfs[key]);
            assert_true(t.nodes[i].total == (key ? total_of(selfs, key) : selfs[0]));
        }
        for (unsigned key = 0; key < PATHS; key++) {
            totals[count] = key ? total_of(selfs, key) : selfs[0];
            count += totals[count] != 0;
        }
        assert_int_equal(count, t.count - 1);
        qsort(totals, count, sizeof *totals, by_value_down);
        assert_cuts(&a, &t, totals, count);
        merge_release(&m);
        arena_release(&a);
    }
}

// ---- size and depth

// One stack of a million frames, and its siblings on the way down.
static void a_million_frames_deep_is_a_tree(void **state)
{
    (void)state;
    enum {
        DEPTH = 1000000
    };
    struct arena a;
    struct merge m;
    struct tree t;
    struct tree cut;
    struct buf b;
    err fault = {0};
    arena_init(&a, NULL, (size_t)1 << 30);
    buf_init(&b, NULL, 64 << 20);
    assert_ok(merge_init(&m, NULL, false, e));
    uint32_t f = frame_of_text(&m.symbols, S("f"), &fault);
    uint32_t g = frame_of_text(&m.symbols, S("g"), &fault);
    uint32_t stack = 0;
    for (int i = 0; i < DEPTH; i++)
        stack = symbols_stack(&m.symbols, stack, i % 1000 ? f : g, &fault);
    assert_int_equal(stack, DEPTH);
    assert_ok(mem_grow(NULL, &m.sums, &m.room, m.symbols.t.stack_count, sizeof *m.sums, e));
    m.sums[stack] = 1;
    m.sums[stack / 2] = 1;
    const str site[] = {S("g"), S("f")};
    assert_ok(tree_build(&a, &m.symbols.t, m.sums, site, 2, &t, e));
    assert_int_equal(t.count, DEPTH + 1);
    assert_int_equal(t.nodes[0].total, 2);
    assert_ok(tree_truncate(&a, &t, 10, &cut, e));
    assert_int_equal(cut.count, DEPTH / 2 + 2);
    assert_ok(tree_bytes(&t, &b, e));
    assert_int_equal(b.n, 3 + 4 * (size_t)DEPTH);
    merge_release(&m);
    buf_release(&b);
    arena_release(&a);
}

static void too_little_memory_is_resource_exhausted(void **state)
{
    (void)state;
    struct arena a;
    struct merge m;
    arena_init(&a, NULL, 1 << 20);
    build(&a, &m, mains, COUNT(mains));
    struct arena small;
    size_t cap = 16;
    bool ok = false;
    for (; !ok; cap += 16) {
        struct tree t;
        err fault = {0};
        arena_init(&small, NULL, cap);
        ok = tree_build(&small, &m.symbols.t, m.sums, NULL, 0, &t, &fault) &&
             tree_truncate(&small, &t, 2, &t, &fault);
        if (!ok) assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
        arena_release(&small);
    }
    assert_true(cap > 500);
    merge_release(&m);
    arena_release(&a);
}

static void totals_past_64_bits_are_out_of_range(void **state)
{
    (void)state;
    const struct {
        const char *name;
        struct text_sum stacks[3];
        bool ok;
    } cases[] = {
        {"root", {{"a", INT64_MAX}, {"b", 1}}, false},
        {"node", {{"a;b", INT64_MAX}, {"a;c", 1}}, false},
        {"self and child", {{"a", INT64_MAX}, {"a;c", 1}}, false},
        {"one node of two rows", {{"a@1", INT64_MAX}, {"a@2", 1}}, false},
        {"downwards", {{"a", INT64_MIN}, {"b", -1}}, false},
        {"just fits", {{"a", INT64_MAX - 1}, {"b", 1}}, true},
        {"the empty stack too", {{"a", INT64_MAX}, {"", 1}}, false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a;
        struct merge m;
        struct tree t;
        err fault = {0};
        arena_init(&a, NULL, 1 << 20);
        assert_ok(merge_init(&m, NULL, false, e));
        assert_ok(sum_stacks(&m, cases[i].stacks, COUNT(cases[i].stacks), e));
        bool ok = tree_build(&a, &m.symbols.t, m.sums, NULL, 0, &t, &fault);
        if (ok != cases[i].ok) fail_msg("%s: %s", cases[i].name, fault.msg);
        if (!ok) assert_int_equal(fault.code, ERR_OUT_OF_RANGE);
        merge_release(&m);
        arena_release(&a);
    }
}

// A decoded table need not be unique: two rows of one string, function, frame and stack.
static void rows_that_occur_twice_are_one_node(void **state)
{
    (void)state;
    str strings[] = {S(""), S("a"), S("b"), S("a"), S("")};
    struct symbol_function functions[] = {{0}, {.name = 1}, {.name = 2}, {.name = 3}, {.name = 4}};
    struct symbol_mapping mappings[] = {{0}};
    struct symbol_frame frames[] = {
        {0}, {.function = 1}, {.function = 2}, {.function = 3}, {.function = 4}};
    struct symbol_stack stacks[] = {{0}, {0, 1}, {0, 3}, {1, 2}, {2, 2}, {2, 4}};
    const struct symbol_table t = {strings, functions, mappings, frames, stacks, 5, 5, 1, 5, 6};
    const int64_t sums[] = {0, 1, 2, 4, 8, 16};
    struct arena a;
    struct tree tree;
    arena_init(&a, NULL, 1 << 20);
    assert_ok(tree_build(&a, &t, sums, NULL, 0, &tree, e));
    assert_true(str_is(text_of_tree(&a, &tree), "a=3 a;[unknown]=16 a;b=12"));
    arena_release(&a);
}

// ---- TREE bytes

static void bytes_are_pre_order_with_siblings_reversed(void **state)
{
    (void)state;
    const struct {
        const char *name;
        struct text_sum stacks[6];
        str bytes;
    } cases[] = {
        {"nothing", {{0}}, S("")},
        {"worked example",
         {{"a;b", 1}, {"a;c", 2}},
         S("\x00\x00\x01\x01"
           "a\x00\x02\x01"
           "c\x02\x00\x01"
           "b\x01\x00")},
        {"deeper",
         {{"a;b;e", 1}, {"a;c", 2}, {"a;c;d", 1}, {"x", 300}},
         S("\x00\x00\x02\x01"
           "x\xac\x02\x00\x01"
           "a\x00\x02\x01"
           "c\x02\x01\x01"
           "d\x01\x00\x01"
           "b\x00\x01\x01"
           "e\x01\x00")},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a;
        struct merge m;
        struct buf b;
        arena_init(&a, NULL, 1 << 20);
        buf_init(&b, NULL, 1000);
        struct tree t = build(&a, &m, cases[i].stacks, COUNT(cases[i].stacks));
        assert_ok(tree_bytes(&t, &b, e));
        if (!str_eq(buf_view(&b), cases[i].bytes)) fail_msg("%s", cases[i].name);
        merge_release(&m);
        buf_release(&b);
        arena_release(&a);
    }
}

static void bytes_that_do_not_fit_are_resource_exhausted(void **state)
{
    (void)state;
    struct arena a;
    struct merge m;
    struct buf b;
    err fault = {0};
    arena_init(&a, NULL, 1 << 20);
    buf_init(&b, NULL, 10);
    struct tree t = build(&a, &m, mains, COUNT(mains));
    assert_false(tree_bytes(&t, &b, &fault));
    assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
    merge_release(&m);
    buf_release(&b);
    arena_release(&a);
}

static bool build_and_cut(void *arg, err *e)
{
    const struct merge *m = arg;
    struct arena a;
    struct tree t;
    struct tree cut;
    struct buf b;
    const str site[] = {S("main")};
    arena_init(&a, NULL, 1 << 20);
    buf_init(&b, NULL, 1000);
    bool ok = tree_build(&a, &m->symbols.t, m->sums, site, 1, &t, e) &&
              tree_truncate(&a, &t, 2, &cut, e) && tree_bytes(&cut, &b, e);
    buf_release(&b);
    arena_release(&a);
    return ok;
}

static void trees_survive_failing_allocations(void **state)
{
    (void)state;
    struct merge m;
    assert_ok(merge_init(&m, NULL, false, e));
    assert_ok(sum_stacks(&m, mains, COUNT(mains), e));
    assert_true(torture(build_and_cut, &m) > 1);
    merge_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_fold_stacks_by_name),
        cmocka_unit_test(a_call_site_keeps_the_stacks_below_it),
        cmocka_unit_test(truncation_keeps_the_largest_nodes_and_the_total),
        cmocka_unit_test(trees_equal_brute_force),
        cmocka_unit_test(a_million_frames_deep_is_a_tree),
        cmocka_unit_test(too_little_memory_is_resource_exhausted),
        cmocka_unit_test(totals_past_64_bits_are_out_of_range),
        cmocka_unit_test(rows_that_occur_twice_are_one_node),
        cmocka_unit_test(bytes_are_pre_order_with_siblings_reversed),
        cmocka_unit_test(bytes_that_do_not_fit_are_resource_exhausted),
        cmocka_unit_test(trees_survive_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
