// SPDX-License-Identifier: Apache-2.0
//
// Tables of names: the stacks of many blocks by the names of their frames.
#include "lib/arena.h"
#include "querier/block/block_names.h"
#include "unit/model/stacks.h"

#define LARGE 70000u

// A table whose stacks are the functions [from, from + n) under "main".
static void table_make(struct symbols *s, uint32_t from, uint32_t n)
{
    assert_ok(symbols_init(s, NULL, e));
    uint32_t root = 0;
    assert_ok((root = stack_of_text(s, S("main"), e)) != MAP_NONE);
    for (uint32_t i = 0; i < n; i++) {
        char name[16];
        int len = snprintf(name, sizeof name, "f%u", from + i);
        uint32_t frame = 0;
        uint32_t stack = 0;
        assert_ok((frame = frame_of_text(s, str_make(name, (size_t)len), e)) != MAP_NONE);
        assert_ok((stack = symbols_stack(s, root, frame, e)) != MAP_NONE);
    }
}

// Adds 1 for each stack of a table that was mapped, by its map.
static void sum_up(int64_t **sums, size_t *room, const uint32_t *map, uint32_t stacks,
                   uint32_t rows)
{
    assert_ok(mem_grow(NULL, sums, room, rows, sizeof **sums, e));
    for (uint32_t i = 1; i < stacks; i++) {
        assert_true(map[i] < rows);
        (*sums)[map[i]]++;
    }
}

static int64_t value_of(struct merge *m, const char *stack)
{
    uint32_t row = 0;
    assert_ok((row = stack_of_text(&m->symbols, str_of(stack), e)) != MAP_NONE);
    return row < m->room ? m->sums[row] : 0;
}

static void tables_of_one_service_share_rows(void **state)
{
    (void)state;
    struct mem_budget memory;
    struct symbols tables[3];
    struct block_names *names[3];
    uint32_t *map = NULL;
    uint32_t rows = 0;
    int64_t *sums = NULL;
    size_t room = 0;
    struct merge m;
    mem_budget_init(&memory, "names", NULL, 0);
    struct block_names_set *set = block_names_set_new(&memory);
    for (uint32_t i = 0; i < 3; i++) {
        table_make(&tables[i], 10 * i, 20);
        assert_ok((names[i] = block_names_map(set, S("api"), &arena, &tables[i].t, &map, &rows,
                                              e)) != NULL);
        assert_ptr_equal(names[i], names[0]);
        sum_up(&sums, &room, map, tables[i].t.stack_count, rows);
    }
    assert_int_equal(rows, 1 + 1 + 40);
    assert_ok(merge_init(&m, NULL, true, e));
    assert_ok(block_names_add(names[0], &m, &sums, &room, e));
    assert_int_equal(value_of(&m, "main"), 3);
    assert_int_equal(value_of(&m, "main;f5"), 1);
    assert_int_equal(value_of(&m, "main;f15"), 2);
    assert_int_equal(value_of(&m, "main;f39"), 1);
    merge_release(&m);
    mem_free(NULL, sums, room * sizeof *sums);

    struct block_names *other = NULL;
    assert_ok((other = block_names_map(set, S("db"), &arena, &tables[0].t, &map, &rows, e)) !=
              NULL);
    assert_ptr_not_equal(other, names[0]);
    block_names_unref(other);
    for (size_t i = 0; i < 3; i++) {
        block_names_unref(names[i]);
        symbols_release(&tables[i]);
    }
    assert_int_equal(memory.used, 0);
    block_names_set_free(set);
}

static void a_table_that_became_too_large_takes_no_newcomers(void **state)
{
    (void)state;
    struct symbols large;
    struct symbols small;
    uint32_t *map = NULL;
    uint32_t rows = 0;
    struct block_names_set *set = block_names_set_new(NULL);
    struct block_names *v[4];
    table_make(&large, 0, LARGE);
    table_make(&small, LARGE, 50);
    const struct symbols *in[] = {&large, &large, &small, &small};
    for (size_t i = 0; i < COUNT(in); i++) {
        assert_ok((v[i] = block_names_map(set, S("api"), &arena, &in[i]->t, &map, &rows, e)) !=
                  NULL);
        assert_int_equal(rows, in[i]->t.stack_count);
    }
    assert_ptr_equal(v[0], v[1]);
    assert_ptr_not_equal(v[1], v[2]);
    assert_ptr_equal(v[2], v[3]);
    for (size_t i = 0; i < COUNT(in); i++)
        block_names_unref(v[i]);
    block_names_set_free(set);
    symbols_release(&large);
    symbols_release(&small);
}

struct tight {
    const struct symbols *table;
};

static bool map_once(void *arg, err *e)
{
    const struct tight *t = arg;
    struct mem_budget memory;
    struct arena a;
    uint32_t *map = NULL;
    uint32_t rows = 0;
    mem_budget_init(&memory, "names", NULL, 0);
    arena_init(&a, &memory, SIZE_MAX);
    struct block_names_set *set = block_names_set_new(&memory);
    struct block_names *n = block_names_map(set, S("api"), &a, &t->table->t, &map, &rows, e);
    block_names_unref(n);
    block_names_set_free(set);
    arena_release(&a);
    assert_int_equal(memory.used, 0);
    return n != NULL;
}

static void without_memory_there_is_no_map_and_nothing_stays(void **state)
{
    (void)state;
    struct symbols s;
    table_make(&s, 0, 200);
    struct tight t = {&s};
    assert_true(torture(map_once, &t) > 0);
    symbols_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(tables_of_one_service_share_rows),
        ARENA_TEST(a_table_that_became_too_large_takes_no_newcomers),
        ARENA_TEST(without_memory_there_is_no_map_and_nothing_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
