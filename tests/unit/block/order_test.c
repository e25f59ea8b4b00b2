// SPDX-License-Identifier: Apache-2.0
//
// Symbols in the order of a block: only used rows, stacks depth first, siblings as they were.
#include "block/order.h"
#include "lib/arena.h"
#include "unit/model/random.h"
#include "unit/model/stacks.h"

static str frame_text(const struct symbol_table *t, uint32_t stack)
{
    return symbols_frame_name(t, t->stacks[stack].frame);
}

static void siblings_keep_their_order(void **state)
{
    (void)state;
    struct symbols s;
    struct symbol_table t = {0};
    uint32_t map[16] = {0};
    static const char *const texts[] = {"a;x", "b", "a;w", "b;y", "a;x;z"};
    static const char *const wanted[] = {"", "a", "x", "z", "w", "b", "y"};
    assert_ok(symbols_init(&s, NULL, e));
    for (size_t i = 0; i < COUNT(texts); i++) {
        err e = {0};
        assert_int_not_equal(stack_of_text(&s, str_of(texts[i]), &e), MAP_NONE);
    }
    assert_false(block_is_ordered(&s.t));
    assert_ok(block_order(&arena, &s.t, NULL, &t, map, e));
    assert_true(block_is_ordered(&t));
    assert_int_equal(t.stack_count, COUNT(wanted));
    for (uint32_t i = 1; i < t.stack_count; i++)
        assert_true(str_is(frame_text(&t, i), wanted[i]));
    symbols_release(&s);
}

static bool is_below(const struct symbol_table *t, uint32_t stack, uint32_t above)
{
    while (stack > above)
        stack = t->stacks[stack].parent;
    return stack == above;
}

// What lies under a stack is a run of rows; found by definition, for each pair.
static void check_runs(const struct symbol_table *t)
{
    for (uint32_t above = 1; above < t->stack_count; above++) {
        uint32_t end = above + 1;
        while (end < t->stack_count && is_below(t, end, above))
            end++;
        for (uint32_t i = end; i < t->stack_count; i++)
            assert_false(is_below(t, i, above));
    }
}

static void check_copy(const struct symbol_table *t, const bool *used,
                       const struct symbol_table *out, const uint32_t *map)
{
    uint32_t kept = 0;
    bool *named = ARENA_ARRAY(&arena, bool, out->frame_count);
    for (uint32_t i = 1; i < t->stack_count; i++) {
        assert_true(map[i] != 0 || !used[i]);
        if (!map[i]) continue;
        kept++;
        const struct symbol_stack *s = &out->stacks[map[i]];
        assert_int_equal(s->parent, map[t->stacks[i].parent]);
        const struct symbol_frame *f = &t->frames[t->stacks[i].frame];
        const struct symbol_frame *g = &out->frames[s->frame];
        named[s->frame] = true;
        assert_true(f->line == g->line && f->address == g->address && f->inlined == g->inlined);
        assert_true(str_eq(t->strings[t->functions[f->function].name],
                           out->strings[out->functions[g->function].name]));
        assert_true(str_eq(t->strings[t->mappings[f->mapping].filename],
                           out->strings[out->mappings[g->mapping].filename]));
        assert_true(t->mappings[f->mapping].limit == out->mappings[g->mapping].limit);
    }
    assert_int_equal(kept + 1, out->stack_count);
    for (uint32_t i = 1; i < out->frame_count; i++)
        assert_true(named[i]);
}

static void only_what_is_used_is_kept_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 60; seed++) {
        struct random r = {seed * 0x9e3779b97f4a7c15u};
        struct symbols s;
        struct symbol_table t = {0};
        assert_ok(symbols_init(&s, NULL, e));
        random_symbols(&r, &s, (int)random_below(&r, 150));
        uint32_t *map = ARENA_ARRAY(&arena, uint32_t, s.t.stack_count);
        bool *used = ARENA_ARRAY(&arena, bool, s.t.stack_count);
        bool *marked = ARENA_ARRAY(&arena, bool, s.t.stack_count);
        for (uint32_t i = 1; i < s.t.stack_count; i++)
            used[i] = marked[i] = random_below(&r, 4) == 0;
        symbols_mark_ancestors(&s.t, marked);
        assert_ok(block_order(&arena, &s.t, used, &t, map, e));
        assert_true(block_is_ordered(&t));
        for (uint32_t i = 1; i < s.t.stack_count; i++)
            assert_int_equal(map[i] != 0, marked[i]);
        check_runs(&t);
        check_copy(&s.t, used, &t, map);
        for (uint32_t i = 1; i < s.t.stack_count; i++) {
            for (uint32_t k = i + 1; k < s.t.stack_count; k++) {
                bool siblings = map[i] && map[k] && s.t.stacks[i].parent == s.t.stacks[k].parent;
                if (siblings) assert_true(map[i] < map[k]);
            }
        }
        symbols_release(&s);
    }
}

// Ordered already: nothing moves.
static void an_ordered_table_stays(void **state)
{
    (void)state;
    struct random r = {5};
    struct symbols s;
    struct symbol_table one = {0};
    struct symbol_table two = {0};
    assert_ok(symbols_init(&s, NULL, e));
    random_symbols(&r, &s, 200);
    uint32_t *map = ARENA_ARRAY(&arena, uint32_t, s.t.stack_count);
    assert_ok(block_order(&arena, &s.t, NULL, &one, map, e));
    assert_ok(block_order(&arena, &one, NULL, &two, map, e));
    for (uint32_t i = 0; i < one.stack_count; i++)
        assert_int_equal(map[i], i);
    assert_memory_equal(one.stacks, two.stacks, one.stack_count * sizeof *one.stacks);
    symbols_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(siblings_keep_their_order),
        ARENA_TEST(only_what_is_used_is_kept_in_order),
        ARENA_TEST(an_ordered_table_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
