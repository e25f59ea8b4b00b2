// SPDX-License-Identifier: Apache-2.0
//
// Hints change how rows are found, never which.
#include "unit/model/random.h"

static void remap_all(struct random *r, const struct symbol_table *from, struct symbols *to,
                      struct symbols_hints *hints)
{
    struct arena a;
    struct symbols_remap m;
    arena_init(&a, NULL, (size_t)64 << 20);
    assert_ok(symbols_remap_init(&m, &a, from, to, e));
    struct symbol_table before = to->t;
    if (hints) symbols_remap_hint(&m, hints);
    assert_memory_equal(&to->t, &before, sizeof before);  // looks, adds nothing
    for (uint32_t i = 0; i < from->stack_count; i++) {
        err e = {0};
        uint32_t stack = random_below(r, from->stack_count);
        assert_int_not_equal(symbols_remap_stack(&m, stack, &e), MAP_NONE);
    }
    arena_release(&a);
}

static void assert_same(const struct symbol_table *a, const struct symbol_table *b)
{
    assert_int_equal(a->string_count, b->string_count);
    assert_int_equal(a->function_count, b->function_count);
    assert_int_equal(a->mapping_count, b->mapping_count);
    assert_int_equal(a->frame_count, b->frame_count);
    assert_int_equal(a->stack_count, b->stack_count);
    for (uint32_t i = 0; i < a->stack_count; i++) {
        assert_int_equal(a->stacks[i].parent, b->stacks[i].parent);
        assert_int_equal(a->stacks[i].frame, b->stacks[i].frame);
    }
    for (uint32_t i = 0; i < a->frame_count; i++) {
        assert_int_equal(a->frames[i].function, b->frames[i].function);
        assert_int_equal(a->frames[i].line, b->frames[i].line);
        assert_int_equal(a->frames[i].address, b->frames[i].address);
        assert_int_equal(a->frames[i].mapping, b->frames[i].mapping);
        assert_int_equal(a->frames[i].inlined, b->frames[i].inlined);
    }
}

// Rows of `from` that are found in `to` say the same there. The order in which strings become rows
// differs with hints, so that tables are compared by what they say.
static void assert_holds(const struct symbol_table *from, struct symbols *to, uint32_t stack,
                         uint32_t there)
{
    const struct symbol_table *t = &to->t;
    for (; stack != 0; stack = from->stacks[stack].parent, there = t->stacks[there].parent) {
        const struct symbol_frame *f = &from->frames[from->stacks[stack].frame];
        const struct symbol_frame *g = &t->frames[t->stacks[there].frame];
        const struct symbol_function *p = &from->functions[f->function];
        const struct symbol_function *q = &t->functions[g->function];
        assert_true(f->line == g->line && f->address == g->address && f->inlined == g->inlined);
        assert_int_equal(p->start_line, q->start_line);
        assert_true(str_eq(from->strings[p->name], t->strings[q->name]));
        assert_true(str_eq(from->strings[p->system_name], t->strings[q->system_name]));
        assert_true(str_eq(from->strings[p->filename], t->strings[q->filename]));
        const struct symbol_mapping *x = &from->mappings[f->mapping];
        const struct symbol_mapping *y = &t->mappings[g->mapping];
        assert_true(x->start == y->start && x->limit == y->limit && x->flags == y->flags);
        assert_true(str_eq(from->strings[x->filename], t->strings[y->filename]));
    }
    assert_int_equal(there, 0);
}

static void with_hints_the_same_rows_are_found(void **state)
{
    (void)state;
    struct random r = {5};
    struct symbols plain;
    struct symbols hinted;
    struct symbols_hints hints;
    struct mem_budget budget;
    mem_budget_init(&budget, "hints", NULL, 0);
    symbols_hints_init(&hints, &budget);
    assert_ok(symbols_init(&plain, NULL, e));
    assert_ok(symbols_init(&hinted, NULL, e));
    for (int round = 0; round < 60; round++) {
        struct symbols from;
        assert_ok(symbols_init(&from, NULL, e));
        random_symbols(&r, &from, 200);
        struct random same = r;
        remap_all(&same, &from.t, &plain, NULL);
        remap_all(&r, &from.t, &hinted, &hints);
        assert_same(&plain.t, &hinted.t);
        symbols_release(&from);
        if (round == 30) symbols_hints_release(&hints);  // at any time
    }
    symbols_hints_release(&hints);
    assert_int_equal(atomic_load(&budget.used), 0);
    symbols_release(&plain);
    symbols_release(&hinted);
}

static void what_is_found_says_what_was_asked(void **state)
{
    (void)state;
    struct random r = {9};
    struct symbols to;
    struct symbols_hints hints;
    symbols_hints_init(&hints, NULL);
    assert_ok(symbols_init(&to, NULL, e));
    for (int round = 0; round < 40; round++) {
        struct symbols from;
        struct arena a;
        struct symbols_remap m;
        assert_ok(symbols_init(&from, NULL, e));
        random_symbols(&r, &from, 150);
        arena_init(&a, NULL, (size_t)64 << 20);
        assert_ok(symbols_remap_init(&m, &a, &from.t, &to, e));
        symbols_remap_hint(&m, &hints);
        for (uint32_t i = 0; i < from.t.stack_count; i++) {
            err e = {0};
            uint32_t there = symbols_remap_stack(&m, i, &e);
            assert_int_not_equal(there, MAP_NONE);
            assert_holds(&from.t, &to, i, there);
        }
        arena_release(&a);
        symbols_release(&from);
    }
    symbols_hints_release(&hints);
    symbols_release(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_hints_the_same_rows_are_found),
        cmocka_unit_test(what_is_found_says_what_was_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
