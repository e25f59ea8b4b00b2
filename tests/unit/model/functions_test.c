// SPDX-License-Identifier: Apache-2.0
//
// Function tables equal brute force over the stacks.
#include "codec/pb.h"
#include "model/functions.h"
#include "unit/model/random.h"
#include "unit/model/stacks.h"

#define CASE_STACKS 6

static struct tree tree_of(struct arena *a, struct merge *m, const struct text_sum *v, size_t n)
{
    struct tree t;
    assert_ok(merge_init(m, NULL, false, e));
    assert_ok(sum_stacks(m, v, n, e));
    assert_ok(tree_build(a, &m->symbols.t, m->sums, NULL, 0, &t, e));
    return t;
}

// "name numbers..." of each row, then the other fields as "field=number"; messages in brackets.
static void put_table(struct buf *b, str bytes)
{
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (b->n && b->p[b->n - 1] != '[') buf_byte(b, ' ');
        if (r.type != PB_BYTES) {
            buf_printf(b, "%u=%lld", r.field, (long long)r.number);
            continue;
        }
        assert_int_equal(r.field, 1);
        struct pb_reader row = pb_reader(r.bytes);
        int64_t numbers[4] = {0};
        str name = {0};
        while (pb_next(&row)) {
            if (row.field == 1)
                name = row.bytes;
            else
                numbers[row.field - 2] = (int64_t)row.number;
        }
        assert_ok(pb_done(&row, e));
        buf_printf(b, "%.*s:%lld,%lld,%lld,%lld", STR(name), (long long)numbers[0],
                   (long long)numbers[1], (long long)numbers[2], (long long)numbers[3]);
    }
    assert_ok(pb_done(&r, e));
}

static const struct {
    const char *name;
    struct text_sum sides[2][CASE_STACKS];
    uint64_t limit;
    const char *table;
} cases[] = {
    {"nothing", {{{0}}}, 0, ""},
    {"self first, then name",
     {{{"a;b", 1}, {"a;c", 2}, {"d", 1}}},
     0,
     "c:2,2,0,0 b:1,1,0,0 d:1,1,0,0 a:0,3,0,0 2=4 3=4"},
    {"a limit leaves total and number of functions",
     {{{"a;b", 1}, {"a;c", 2}, {"d", 1}}},
     2,
     "c:2,2,0,0 b:1,1,0,0 2=4 3=4"},
    {"recursion counts once a stack",
     {{{"a;b;a;b;a", 5}, {"b;a", 1}, {"a", 1}}},
     0,
     "a:7,7,0,0 b:0,6,0,0 2=7 3=2"},
    {"values below zero", {{{"a;b", -3}, {"a", 1}}}, 0, "a:1,-2,0,0 b:-3,-3,0,0 2=-2 3=2"},
    {"two sides by the larger share",
     {{{"base", 80}, {"both", 20}}, {{"new", 900}, {"both", 100}}},
     0,
     "new:0,0,900,900 base:80,80,0,0 both:20,20,100,100 2=100 3=1000 4=3"},
    {"shares are not rounded",
     {{{"x", INT64_MAX / 2}, {"y", INT64_MAX / 2 + 1}}, {{"z", 1}, {"x", 1}}},
     0,
     "y:4611686018427387904,4611686018427387904,0,0 x:4611686018427387903,4611686018427387903,1,1 "
     "z:0,0,1,1 2=9223372036854775807 3=2 4=3"},
    {"one side has nothing", {{{0}}, {{"b", 1}, {"a;c", 1}}}, 2, "a:0,0,0,1 b:0,0,1,1 3=2 4=3"},
};

static void functions_of_a_tree(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a;
        struct merge m[2];
        struct buf b;
        struct buf text;
        struct tree t[2];
        const struct tree *trees[] = {&t[0], &t[1]};
        struct function_table table;
        arena_init(&a, NULL, 1 << 20);
        buf_init(&b, NULL, 1 << 20);
        buf_init(&text, NULL, 1 << 20);
        bool diff = cases[i].sides[1][0].stack != NULL;
        for (size_t s = 0; s < 2; s++)
            t[s] = tree_of(&a, &m[s], cases[i].sides[s], CASE_STACKS);
        assert_ok(functions_build(&a, trees, diff ? 2 : 1, &table, e));
        functions_put(&table, cases[i].limit, &b);
        put_table(&text, buf_view(&b));
        if (!str_is(buf_view(&text), cases[i].table)) {
            fail_msg("%s: %.*s", cases[i].name, STR(buf_view(&text)));
        }
        merge_release(&m[0]);
        merge_release(&m[1]);
        buf_release(&text);
        buf_release(&b);
        arena_release(&a);
    }
}

// ---- against brute force

#define NAMES  5
#define STACKS 40
#define DEPTH  7

struct sums {
    int64_t self[NAMES];
    int64_t total[NAMES];
};

static void add_random_stack(struct random *r, struct merge *m, struct sums *sums)
{
    char text[2 * DEPTH + 1] = {0};
    bool seen[NAMES] = {0};
    size_t depth = 1 + random_next(r) % DEPTH;
    int64_t value = (int64_t)(random_next(r) % 1000) - 100;
    size_t last = 0;
    for (size_t i = 0; i < depth; i++) {
        last = random_next(r) % NAMES;
        text[2 * i] = (char)('a' + last);
        text[2 * i + 1] = i + 1 < depth ? ';' : 0;
        seen[last] = true;
    }
    sums->self[last] += value;
    for (size_t k = 0; k < NAMES; k++)
        sums->total[k] += seen[k] ? value : 0;
    assert_ok(sum_stack(m, str_of(text), value, e));
}

static void functions_equal_brute_force_over_the_stacks(void **state)
{
    (void)state;
    struct random r = {4711};
    for (int round = 0; round < 200; round++) {
        struct arena a;
        struct merge m[2];
        struct tree t[2];
        struct sums sums[2] = {0};
        const struct tree *trees[] = {&t[0], &t[1]};
        arena_init(&a, NULL, 1 << 20);
        for (size_t s = 0; s < 2; s++) {
            assert_ok(merge_init(&m[s], NULL, false, e));
            for (size_t i = 0; i < STACKS; i++)
                add_random_stack(&r, &m[s], &sums[s]);
            assert_ok(tree_build(&a, &m[s].symbols.t, m[s].sums, NULL, 0, &t[s], e));
        }
        for (size_t sides = 1; sides <= 2; sides++) {
            struct function_table table;
            assert_ok(functions_build(&a, trees, sides, &table, e));
            for (size_t i = 0; i < table.count; i++) {
                size_t k = (size_t)(table.rows[i].name.p[0] - 'a');
                for (size_t s = 0; s < sides; s++) {
                    assert_int_equal(table.rows[i].self[s], sums[s].self[k]);
                    assert_int_equal(table.rows[i].total[s], sums[s].total[k]);
                }
            }
        }
        merge_release(&m[0]);
        merge_release(&m[1]);
        arena_release(&a);
    }
}

static void a_sum_beyond_int64_is_cut_and_told(void **state)
{
    (void)state;
    struct arena a;
    struct function_table table;
    arena_init(&a, NULL, 1 << 20);
    // The tree's own totals fit, for its roots balance each other.
    struct tree_node nodes[] = {
        {.first_child = 1},
        {.name = S("a"),
         .self = INT64_MAX,
         .total = INT64_MAX,
         .first_child = 2,
         .next_sibling = 3},
        {.name = S("x"), .parent = 1},
        {.name = S("b"), .self = 0, .total = 1, .first_child = 4},
        {.name = S("a"), .self = 1, .total = 1, .parent = 3},
    };
    const struct tree t = {.nodes = nodes, .count = COUNT(nodes)};
    const struct tree *trees[] = {&t};
    assert_ok(functions_build(&a, trees, 1, &table, e));
    assert_true(table.clipped && str_is(table.rows[0].name, "a"));
    assert_true(table.rows[0].self[0] == INT64_MAX && table.rows[0].total[0] == INT64_MAX);
    // A sum that leaves 64 bits on its way and comes back is exact.
    nodes[4].self = nodes[4].total = 5;
    struct tree_node more[COUNT(nodes) + 1];
    memcpy(more, nodes, sizeof nodes);
    more[4].next_sibling = COUNT(nodes);
    more[COUNT(nodes)] = (struct tree_node){.name = S("a"), .self = -7, .total = -7, .parent = 3};
    const struct tree back = {.nodes = more, .count = COUNT(more)};
    const struct tree *second[] = {&back};
    assert_ok(functions_build(&a, second, 1, &table, e));
    assert_true(!table.clipped && table.rows[0].self[0] == INT64_MAX - 2);
    arena_release(&a);
}

static void functions_stay_within_the_arena(void **state)
{
    (void)state;
    struct arena a;
    struct merge m;
    const struct text_sum v[] = {{"a;b;c", 1}, {"a;d", 2}};
    arena_init(&a, NULL, 1 << 20);
    struct tree t = tree_of(&a, &m, v, COUNT(v));
    const struct tree *trees[] = {&t};
    bool ok = false;
    for (size_t cap = 0; !ok; cap += 16) {
        struct arena small;
        struct function_table table;
        err e = {0};
        assert_true(cap < 1 << 14);
        arena_init(&small, NULL, cap);
        ok = functions_build(&small, trees, 1, &table, &e);
        if (!ok) assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
        arena_release(&small);
    }
    merge_release(&m);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_a_tree),
        cmocka_unit_test(functions_equal_brute_force_over_the_stacks),
        cmocka_unit_test(a_sum_beyond_int64_is_cut_and_told),
        cmocka_unit_test(functions_stay_within_the_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
