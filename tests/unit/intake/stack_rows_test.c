// SPDX-License-Identifier: Apache-2.0
//
// Profiles over one table that has rows of earlier ones: what stack_rows_find finds is what
// stack_rows_row alone would give, it adds nothing, and it finds all that is there.
#include "intake/stack_rows.h"
#include "lib/test.h"

#define FUNCTIONS 20u
#define LOCATIONS 40u
#define SAMPLES   70u
#define DEPTH     30u
#define LINES_MAX 4u

static uint64_t dice;

static uint32_t roll(uint32_t n)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(dice >> 33) % n;
}

// A profile whose functions, locations and stacks are drawn from `variety` names.
static struct profile *draw(struct arena *a, uint32_t variety)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h",
                                        "i", "j", "k", "l", "m", "n", "o", "p"};
    struct profile *p = ARENA_NEW(a, struct profile);
    p->functions = ARENA_ARRAY(a, struct profile_function, FUNCTIONS);
    p->locations = ARENA_ARRAY(a, struct profile_location, LOCATIONS);
    p->lines = ARENA_ARRAY(a, struct profile_line, (size_t)LOCATIONS * LINES_MAX);
    p->mappings = ARENA_ARRAY(a, struct profile_mapping, 1);
    p->samples = ARENA_ARRAY(a, struct profile_sample, SAMPLES);
    p->stack_locations = ARENA_ARRAY(a, uint32_t, (size_t)SAMPLES * DEPTH);
    p->mapping_count = 1;
    p->mappings[0].filename = S("binary");
    for (; p->function_count < FUNCTIONS; p->function_count++) {
        struct profile_function *f = &p->functions[p->function_count];
        f->name = f->system_name = str_of(names[roll(variety)]);
        f->filename = str_of(names[roll(2)]);
        f->start_line = roll(2);
    }
    for (; p->location_count < LOCATIONS; p->location_count++) {
        struct profile_location *l = &p->locations[p->location_count];
        l->first_line = p->line_count;
        l->line_count = roll(5) ? 1 : roll(LINES_MAX + 1);
        l->mapping = roll(4) ? 0 : PROFILE_NONE;
        l->address = l->line_count ? 0 : roll(3);  // without either it says nothing: frame 0
        for (uint32_t k = 0; k < l->line_count; k++)
            p->lines[p->line_count++] = (struct profile_line){roll(FUNCTIONS), roll(3)};
    }
    for (; p->sample_count < SAMPLES; p->sample_count++) {
        struct profile_sample *x = &p->samples[p->sample_count];
        x->first_location = p->stack_location_count;
        x->location_count = roll(DEPTH + 1);
        bool repeats = p->sample_count > 0 && roll(3);  // the root end of the sample before
        uint32_t shared = repeats ? MIN(x[-1].location_count, x->location_count) : 0;
        uint32_t *leaf = p->stack_locations + x->first_location;
        for (uint32_t i = 0; i < x->location_count; i++) {
            uint32_t from_root = x->location_count - 1 - i;
            leaf[i] = from_root < shared / 2 ? leaf[-1 - (int64_t)from_root] : roll(LOCATIONS);
        }
        p->stack_location_count += x->location_count;
    }
    return p;
}

struct bed {
    struct symbols table;
    struct symbols_hints hints;
};

static void bed_new(struct bed *b)
{
    assert_ok(symbols_init(&b->table, NULL, e));
    symbols_hints_init(&b->hints, NULL);
}

static void bed_free(struct bed *b)
{
    symbols_hints_release(&b->hints);
    symbols_release(&b->table);
}

static const uint32_t *all_samples(void)
{
    static uint32_t v[SAMPLES];
    for (uint32_t i = 0; i < SAMPLES; i++)
        v[i] = i;
    return v;
}

// The rows of all samples; `find` beforehand.
static void rows_of(struct bed *b, const struct profile *p, bool find, uint32_t *rows)
{
    struct arena a;
    struct stack_rows s;
    arena_init(&a, NULL, SIZE_MAX / 2);
    assert_ok(stack_rows_init(&s, &a, p, &b->table, &b->hints, e));
    if (find) stack_rows_find(&s, all_samples(), SAMPLES);
    err e = {0};
    for (uint32_t i = 0; i < SAMPLES; i++) {
        rows[i] = stack_rows_row(&s, i, &e);
        if (rows[i] == MAP_NONE) fail_msg("%s", e.msg);
    }
    arena_release(&a);
}

// Is the stack of this row, from its leaf to its root, that of the sample?
static void check_stack(const struct symbol_table *t, const struct profile *p,
                        const struct profile_sample *x, uint32_t row)
{
    for (uint32_t i = 0; i < x->location_count; i++) {
        const struct profile_location *l = &p->locations[p->stack_locations[x->first_location + i]];
        for (uint32_t k = 0; k < l->line_count; k++) {
            const struct profile_line *line = &p->lines[l->first_line + k];
            const struct symbol_frame *f = &t->frames[t->stacks[row].frame];
            const struct symbol_function *g = &t->functions[f->function];
            const struct profile_function *want = &p->functions[line->function];
            assert_true(row != 0);
            assert_true(str_eq(t->strings[g->name], want->name));
            assert_true(str_eq(t->strings[g->filename], want->filename));
            assert_int_equal(g->start_line, want->start_line);
            assert_int_equal(f->line, line->line);
            assert_int_equal(f->inlined, k + 1 < l->line_count);
            row = t->stacks[row].parent;
        }
        bool bare = l->line_count == 0 && (l->address || l->mapping == 0);
        if (!bare) continue;
        assert_int_equal(t->frames[t->stacks[row].frame].address, l->address);
        row = t->stacks[row].parent;
    }
    assert_int_equal(row, 0);
}

static void rows_are_the_same_with_and_without(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct bed with;
        struct bed without;
        struct arena a;
        uint32_t one[SAMPLES];
        uint32_t two[SAMPLES];
        arena_init(&a, NULL, SIZE_MAX / 2);
        bed_new(&with);
        bed_new(&without);
        dice = seed;
        for (uint32_t round = 0; round < 6; round++) {
            const struct profile *p = draw(&a, 2 + (uint32_t)seed % 15);
            rows_of(&with, p, true, one);
            rows_of(&without, p, false, two);
            assert_memory_equal(one, two, sizeof one);
            for (uint32_t i = 0; i < SAMPLES; i++)
                check_stack(&with.table.t, p, &p->samples[i], one[i]);
        }
        assert_int_equal(with.table.t.stack_count, without.table.t.stack_count);
        bed_free(&with);
        bed_free(&without);
        arena_release(&a);
    }
}

// Of a profile that was there before all rows are found, and of any nothing is added.
static void it_finds_all_and_adds_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct bed b;
        struct arena a;
        struct stack_rows s;
        uint32_t rows[SAMPLES];
        arena_init(&a, NULL, SIZE_MAX / 2);
        bed_new(&b);
        dice = seed;
        const struct profile *known = draw(&a, 16);
        const struct profile *half = draw(&a, 16);
        rows_of(&b, known, false, rows);
        struct symbol_counts before = symbols_counts(&b.table.t);
        assert_ok(stack_rows_init(&s, &a, half, &b.table, &b.hints, e));
        stack_rows_find(&s, all_samples(), SAMPLES);
        struct symbol_counts after = symbols_counts(&b.table.t);
        assert_int_equal(after.stacks, before.stacks);
        assert_int_equal(after.frames, before.frames);
        assert_int_equal(after.functions, before.functions);
        rows_of(&b, half, false, rows);  // names now lead to other functions than `known` has
        rows_of(&b, known, false, rows);
        struct symbol_counts settled = symbols_counts(&b.table.t);
        rows_of(&b, known, true, rows);
        after = symbols_counts(&b.table.t);
        assert_int_equal(after.stacks, settled.stacks);
        bed_free(&b);
        arena_release(&a);
    }
}

// One function a name, so that hints are right: then no stack is left to be asked for one by one.
static void all_that_is_known_is_found(void **state)
{
    (void)state;
    struct bed b;
    struct arena a;
    struct stack_rows s;
    uint32_t rows[SAMPLES];
    arena_init(&a, NULL, SIZE_MAX / 2);
    bed_new(&b);
    dice = 7;
    struct profile *p = draw(&a, 16);
    for (uint32_t i = 0; i < FUNCTIONS; i++) {
        p->functions[i].name = p->functions[i].system_name = arena_printf(&a, "f%u", i);
        p->functions[i].filename = S("file");
        p->functions[i].start_line = 1;
    }
    for (uint32_t i = 0; i < LOCATIONS; i++) {  // one without lines is not looked for
        struct profile_location *l = &p->locations[i];
        if (l->line_count > 0) continue;
        *l = p->locations[(i + 1) % LOCATIONS];
        if (l->line_count == 0) l->line_count = 1;
    }
    rows_of(&b, p, false, rows);
    assert_ok(stack_rows_init(&s, &a, p, &b.table, &b.hints, e));
    stack_rows_find(&s, all_samples(), SAMPLES);
    for (uint32_t i = 0; i < SAMPLES; i++)
        assert_int_equal(s.rows[i], rows[i] + 1);
    bed_free(&b);
    arena_release(&a);
}

// Deeper than what walks side by side: found one by one.
static void deep_stacks_are_not_walked(void **state)
{
    (void)state;
    struct bed b;
    struct arena a;
    struct stack_rows s;
    uint32_t rows[SAMPLES];
    uint32_t again[SAMPLES];
    arena_init(&a, NULL, SIZE_MAX / 2);
    bed_new(&b);
    dice = 11;
    struct profile *p = draw(&a, 16);
    uint32_t n = 5000;
    p->stack_locations = ARENA_ARRAY(&a, uint32_t, (size_t)n + p->stack_location_count);
    for (uint32_t i = 0; i < n + p->stack_location_count; i++)
        p->stack_locations[i] = roll(LOCATIONS);
    p->samples[3].location_count = n;
    rows_of(&b, p, false, rows);
    assert_ok(stack_rows_init(&s, &a, p, &b.table, &b.hints, e));
    assert_null(s.paths);
    rows_of(&b, p, true, again);
    assert_memory_equal(rows, again, sizeof rows);
    bed_free(&b);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_the_same_with_and_without),
        cmocka_unit_test(it_finds_all_and_adds_nothing),
        cmocka_unit_test(all_that_is_known_is_found),
        cmocka_unit_test(deep_stacks_are_not_walked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
