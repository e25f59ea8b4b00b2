// SPDX-License-Identifier: Apache-2.0
//
// Levels of flame graphs and diffs are Pyroscope's, and those of random trees can be drawn.
#include "codec/pb.h"
#include "model/flamegraph.h"
#include "unit/model/random.h"
#include "unit/model/stacks.h"

// A FlameGraph or FlameGraphDiff as text: names, then levels between slashes, then the other fields
// by number.
static str text_of_graph(struct arena *a, str bytes)
{
    struct buf names;
    struct buf rest;
    buf_init(&names, NULL, 1 << 22);
    buf_init(&rest, NULL, 1 << 22);
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field == 1) {
            if (names.n) buf_byte(&names, ' ');
            buf_str(&names, r.bytes);
        } else if (r.field == 2) {
            struct pb_reader level = pb_reader(r.bytes);
            buf_z(&rest, " /");
            assert_true(pb_next(&level));
            assert_true(level.field == 1 && level.type == PB_BYTES);
            const uint8_t *at = NULL;
            for (uint64_t v = 0; pb_packed_next(&level, &at, &v);)
                buf_printf(&rest, " %lld", (long long)v);
            assert_false(pb_next(&level));
        } else {
            buf_printf(&rest, " %u=%lld", r.field, (long long)r.number);
        }
    }
    assert_ok(pb_done(&r, e));
    str text = arena_printf(a, "%.*s%.*s", STR(buf_view(&names)), STR(buf_view(&rest)));
    buf_release(&names);
    buf_release(&rest);
    return text;
}

static struct tree build(struct arena *a, struct merge *m, const struct text_sum *v, size_t n)
{
    struct tree t;
    assert_ok(merge_init(m, NULL, false, e));
    assert_ok(sum_stacks(m, v, n, e));
    assert_ok(tree_build(a, &m->symbols.t, m->sums, NULL, 0, &t, e));
    return t;
}

static const struct {
    const char *name;
    struct text_sum stacks[6];
    int64_t max_nodes;
    const char *graph;
} graphs[] = {
    {"no data", {{0}}, 0, "total / 0 0 0 0"},
    {"only the empty stack", {{"", 5}}, 0, "total [unknown] / 0 5 0 0 / 0 5 5 1 3=5 4=5"},
    {"a node below 0 has no width, and its self is exact",
     {{"a", -2}, {"b", 5}},
     0,
     "total b a / 0 3 0 0 / 0 3 5 1 0 0 -2 2 3=3 4=5"},
    {"what has no room in its parent's bar is narrower",
     {{"m;a", -5}, {"m;b", 5}, {"m;b;c", 4}, {"n", 1}},
     0,
     "total n m b c a / 0 5 0 0 / 0 4 0 2 0 1 1 1 / 0 4 5 3 0 0 -5 5 / 4 0 4 4 3=5 4=5"},
    {"what lies above a bar without width is told in that bar",
     {{"m;a;x", -5}, {"m;b", 6}, {"n;y", 4}, {"n;z", -4}, {"m;a;w;v", 1}},
     0,
     "total n z y m b a x w v / 0 2 0 0 / 0 2 0 4 0 0 0 1 / 0 2 6 5 0 0 -4 6 3=2 4=6"},
    {"a total below 0",
     {{"a", -5}, {"b", 2}},
     0,
     "total b a / 0 0 0 0 / 0 0 -5 2 0 0 2 1 3=-3 4=2"},
    {"worked example",
     {{"a;b", 1}, {"a;c", 2}},
     0,
     "total a c b / 0 3 0 0 / 0 3 0 1 / 0 1 1 3 0 2 2 2 3=3 4=2"},
    {"three stacks",
     {{"a;b;e", 1}, {"a;c", 2}, {"a;c;d", 1}},
     0,
     "total a c d b e / 0 4 0 0 / 0 4 0 1 / 0 1 0 4 0 3 2 2 / 0 1 1 5 2 1 1 3 3=4 4=2"},
    {"two roots",
     {{"b", 1}, {"a;x", 2}},
     0,
     "total b a x / 0 3 0 0 / 0 2 0 2 0 1 1 1 / 0 2 2 3 3=3 4=2"},
    {"self comes first",
     {{"a", 5}, {"a;b", 1}},
     0,
     "total a b / 0 6 0 0 / 0 6 5 1 / 5 1 1 2 3=6 4=5"},
    {"one name in two places",
     {{"a;b", 1}, {"b;a", 2}},
     0,
     "total b a / 0 3 0 0 / 0 1 0 2 0 2 0 1 / 0 1 1 1 0 2 2 2 3=3 4=2"},
    {"a function called total",
     {{"total;a", 1}},
     0,
     "total total a / 0 1 0 0 / 0 1 0 1 / 0 1 1 2 3=1 4=1"},
    {"gaps",
     {{"a", 3}, {"b;c", 1}, {"c", 2}, {"d;e", 4}},
     0,
     "total d e c b a / 0 10 0 0 / 0 3 3 5 0 1 0 4 0 2 2 3 0 4 0 1 / 3 1 1 3 2 4 4 2 3=10 4=4"},
    {"truncated",
     {{"a", 5}, {"b", 4}, {"c", 3}, {"d", 2}},
     2,
     "total other b a / 0 14 0 0 / 0 5 5 3 0 4 4 2 0 5 5 1 3=14 4=5"},
};

static void levels_are_those_of_pyroscope(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(graphs); i++) {
        struct arena a;
        struct merge m;
        struct buf b;
        arena_init(&a, NULL, 1 << 20);
        buf_init(&b, NULL, 10000);
        struct tree t = build(&a, &m, graphs[i].stacks, COUNT(graphs[i].stacks));
        assert_ok(tree_truncate(&a, &t, graphs[i].max_nodes, &t, e));
        assert_ok(tree_flamegraph(&a, &t, &b, e));
        str text = text_of_graph(&a, buf_view(&b));
        if (!str_is(text, graphs[i].graph)) fail_msg("%s: %.*s", graphs[i].name, STR(text));
        merge_release(&m);
        buf_release(&b);
        arena_release(&a);
    }
}

static const struct {
    const char *name;
    struct text_sum left[4];
    struct text_sum right[4];
    int64_t max_nodes;
    const char *graph;
} diffs[] = {
    {"nothing", {{0}}, {{0}}, 0, "total / 0 0 0 0 0 0 0"},
    {"same shape",
     {{"a;b", 1}, {"a;c", 2}},
     {{"a;b", 4}, {"a;c", 8}},
     0,
     "total a c b / 0 3 0 0 12 0 0 / 0 3 0 0 12 0 1 / 0 1 1 0 4 4 3 0 2 2 0 8 8 2 "
     "3=15 4=8 5=3 6=12"},
    {"different shape",
     {{"a;b", 1}, {"a;c", 2}, {"a;e", 3}},
     {{"a;b", 4}, {"a;d", 8}, {"a;e", 12}},
     0,
     "total a e d c b / 0 6 0 0 24 0 0 / 0 6 0 0 24 0 1 / "
     "0 1 1 0 4 4 5 0 2 2 0 0 0 4 0 0 0 0 8 8 3 0 3 3 0 12 12 2 3=30 4=12 5=6 6=24"},
    {"disjoint roots",
     {{"a;b", 1}},
     {{"x;y", 2}},
     0,
     "total x y a b / 0 1 0 0 2 0 0 / 0 1 0 0 0 0 3 0 0 0 0 2 0 1 / "
     "0 1 1 0 0 0 4 0 0 0 0 2 2 2 3=3 4=2 5=1 6=2"},
    {"nothing on the right",
     {{"a;b", 3}},
     {{0}},
     0,
     "total a b / 0 3 0 0 0 0 0 / 0 3 0 0 0 0 1 / 0 3 3 0 0 0 2 3=3 4=3 5=3"},
    {"nothing on the left",
     {{0}},
     {{"a", 3}},
     0,
     "total a / 0 0 0 0 3 0 0 / 0 0 0 0 3 3 1 3=3 4=3 6=3"},
    {"truncated by the larger side",
     {{"a", 5}, {"b", 1}, {"c", 2}},
     {{"b", 6}, {"c", 1}, {"d", 3}},
     2,
     "total other b a / 0 8 0 0 10 0 0 / 0 5 5 0 0 0 3 0 1 1 0 6 6 2 0 2 2 0 4 4 1 "
     "3=18 4=6 5=8 6=10"},
    {"the union counts",
     {{"a", 1}},
     {{"b", 2}},
     1,
     "total other b / 0 1 0 0 2 0 0 / 0 0 0 0 2 2 2 0 1 1 0 0 0 1 3=3 4=2 5=1 6=2"},
};

static void diffs_are_those_of_pyroscope(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(diffs); i++) {
        struct arena a;
        struct merge m;
        struct merge n;
        struct buf b;
        arena_init(&a, NULL, 1 << 20);
        buf_init(&b, NULL, 10000);
        struct tree left = build(&a, &m, diffs[i].left, COUNT(diffs[i].left));
        struct tree right = build(&a, &n, diffs[i].right, COUNT(diffs[i].right));
        assert_ok(tree_flamegraph_diff(&a, &left, &right, diffs[i].max_nodes, NULL, &b, e));
        str text = text_of_graph(&a, buf_view(&b));
        if (!str_is(text, diffs[i].graph)) fail_msg("%s: %.*s", diffs[i].name, STR(text));
        merge_release(&m);
        merge_release(&n);
        buf_release(&b);
        arena_release(&a);
    }
}

// ---- what clients do: bars back to a tree

struct seen {
    int64_t from;
    int64_t to;
    int64_t inner;  // from here on children may lie
};

// Every bar lies within a bar of the level above, right of its self; totals of each level shrink.
static void assert_drawable(str bytes, int64_t total)
{
    enum {
        MOST = 4000
    };
    static struct seen above[MOST];
    static struct seen here[MOST];
    size_t above_count = 0;
    size_t depth = 0;
    int64_t selfs = 0;
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field != 2) continue;
        struct pb_reader level = pb_reader(r.bytes);
        assert_true(pb_next(&level));
        size_t count = 0;
        size_t parent = 0;
        int64_t end = 0;
        uint64_t v[4];
        const uint8_t *at = NULL;
        while (pb_packed_next(&level, &at, &v[0])) {
            for (size_t i = 1; i < 4; i++)
                assert_true(pb_packed_next(&level, &at, &v[i]));
            assert_true(count < MOST);
            int64_t from = end + (int64_t)v[0];
            end = from + (int64_t)v[1];
            here[count++] = (struct seen){from, end, from + (int64_t)v[2]};
            selfs += (int64_t)v[2];
            if (depth == 0) continue;
            while (parent < above_count && above[parent].to < end)
                parent++;
            assert_true(parent < above_count && above[parent].inner <= from);
        }
        memcpy(above, here, count * sizeof *here);
        above_count = count;
        depth++;
    }
    assert_true(selfs == total);
}

static void every_graph_can_be_drawn(void **state)
{
    (void)state;
    struct random r = {21};
    for (int round = 0; round < 40; round++) {
        struct arena a;
        struct merge m;
        struct tree t;
        struct buf b;
        arena_init(&a, NULL, 1 << 24);
        buf_init(&b, NULL, 1 << 20);
        assert_ok(merge_init(&m, NULL, false, e));
        random_symbols(&r, &m.symbols, 500);
        uint32_t count = m.symbols.t.stack_count;
        assert_ok(mem_grow(NULL, &m.sums, &m.room, count, sizeof *m.sums, e));
        for (uint32_t i = 0; i < count; i++)
            m.sums[i] = random_below(&r, 2) ? random_below(&r, 1000) : 0;
        assert_ok(tree_build(&a, &m.symbols.t, m.sums, NULL, 0, &t, e));
        const int64_t limits[] = {0, 1, 5, 50, 200};
        for (size_t i = 0; i < COUNT(limits); i++) {
            struct tree cut;
            assert_ok(tree_truncate(&a, &t, limits[i], &cut, e));
            buf_clear(&b);
            assert_ok(tree_flamegraph(&a, &cut, &b, e));
            assert_drawable(buf_view(&b), t.nodes[0].total);
        }
        // A tree against itself has the same bars on both sides.
        struct buf diff;
        buf_init(&diff, NULL, 1 << 20);
        assert_ok(tree_flamegraph_diff(&a, &t, &t, 0, NULL, &diff, e));
        struct pb_reader one = pb_reader(buf_view(&diff));
        while (pb_next(&one)) {
            if (one.field != 2) continue;
            struct pb_reader level = pb_reader(one.bytes);
            assert_true(pb_next(&level));
            uint64_t v[7];
            const uint8_t *at = NULL;
            while (pb_packed_next(&level, &at, &v[0])) {
                for (size_t i = 1; i < 7; i++)
                    assert_true(pb_packed_next(&level, &at, &v[i]));
                assert_true(v[0] == v[3] && v[1] == v[4] && v[2] == v[5]);
            }
        }
        buf_release(&diff);
        merge_release(&m);
        buf_release(&b);
        arena_release(&a);
    }
}

static void a_comparison_whose_sides_fit_is_drawn_though_their_sum_does_not(void **state)
{
    (void)state;
    struct arena a;
    struct merge m;
    struct buf b;
    arena_init(&a, NULL, 1 << 20);
    buf_init(&b, NULL, 10000);
    struct tree t = build(&a, &m, &(struct text_sum){"a", INT64_MAX}, 1);
    assert_ok(tree_flamegraph_diff(&a, &t, &t, 0, NULL, &b, e));
    struct pb_reader r = pb_reader(buf_view(&b));
    int64_t total = 0;
    while (pb_next(&r)) {
        if (r.field == 3) total = (int64_t)r.number;
    }
    assert_true(total == INT64_MAX);  // the nearest; leftTicks and rightTicks are exact
    merge_release(&m);
    buf_release(&b);
    arena_release(&a);
}

static const struct text_sum some[] = {{"a;b;e", 1}, {"a;c", 2}, {"a;c;d", 1}, {"x", 9}};

static bool draw(void *arg, err *e)
{
    const struct merge *m = arg;
    struct arena a;
    struct tree t;
    struct buf b;
    arena_init(&a, NULL, 1 << 20);
    buf_init(&b, NULL, 10000);
    bool ok = tree_build(&a, &m->symbols.t, m->sums, NULL, 0, &t, e) &&
              tree_flamegraph(&a, &t, &b, e) && tree_flamegraph_diff(&a, &t, &t, 2, NULL, &b, e);
    buf_release(&b);
    arena_release(&a);
    return ok;
}

static void drawing_survives_failing_allocations_and_small_caps(void **state)
{
    (void)state;
    struct merge m;
    assert_ok(merge_init(&m, NULL, false, e));
    assert_ok(sum_stacks(&m, some, COUNT(some), e));
    assert_true(torture(draw, &m) > 1);
    struct arena a;
    struct tree t;
    arena_init(&a, NULL, 1 << 20);
    assert_ok(tree_build(&a, &m.symbols.t, m.sums, NULL, 0, &t, e));
    bool ok = false;
    for (size_t cap = 16; !ok; cap += 16) {
        struct arena small;
        struct buf b;
        err fault = {0};
        arena_init(&small, NULL, cap);
        buf_init(&b, NULL, cap);
        ok = tree_flamegraph(&small, &t, &b, &fault) &&
             tree_flamegraph_diff(&small, &t, &t, 2, NULL, &b, &fault);
        if (!ok) assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
        buf_release(&b);
        arena_release(&small);
    }
    merge_release(&m);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_are_those_of_pyroscope),
        cmocka_unit_test(diffs_are_those_of_pyroscope),
        cmocka_unit_test(every_graph_can_be_drawn),
        cmocka_unit_test(a_comparison_whose_sides_fit_is_drawn_though_their_sum_does_not),
        cmocka_unit_test(drawing_survives_failing_allocations_and_small_caps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
