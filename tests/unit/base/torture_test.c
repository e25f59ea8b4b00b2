// SPDX-License-Identifier: Apache-2.0
//
// Arenas, buffers and tables while their allocations fail one by one.
#include "base/arena.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/map.h"
#include "lib/torture.h"

#define ROWS 1000

// Everything of the room that takes memory, counted against one budget.
struct things {
    struct mem_budget process;
    struct mem_budget budget;
    struct arena arena;
    struct buf buf;
    struct map map;
    uint32_t *rows;
    size_t cap;
    uint32_t n;
    unsigned hooks_run;
};

static void on_release(void *arg)
{
    (*(unsigned *)arg)++;
}

static void begin(void *arg)
{
    struct things *t = arg;
    *t = (struct things){0};
    mem_budget_init(&t->process, "process", NULL, 10 << 20);
    mem_budget_init(&t->budget, "things", &t->process, 0);
    arena_init(&t->arena, &t->budget, 1 << 20);
    buf_init(&t->buf, &t->budget, 1 << 20);
    map_init(&t->map, &t->budget);
}

static bool fill_arena(struct things *t, err *e)
{
    arena_release(&t->arena);
    t->hooks_run = 0;
    size_t cap = 0;
    uint64_t *v = NULL;
    bool hooked = arena_defer(&t->arena, on_release, &t->hooks_run);
    for (size_t i = 0; i < 100; i++) {
        if (!arena_grow(&t->arena, &v, &cap, i + 1, sizeof *v)) break;
        v[i] = i;
    }
    str s = arena_str(&t->arena, S("borrowed"));
    str p = arena_printf(&t->arena, "%d of %s", 7, "many");
    if (!arena_ok(&t->arena, e)) return false;
    assert_true(hooked);
    assert_true(str_eq(s, S("borrowed")));
    assert_true(str_eq(p, S("7 of many")));
    return true;
}

static bool fill_buf(struct things *t, err *e)
{
    buf_clear(&t->buf);
    for (int i = 0; i < ROWS; i++)
        buf_printf(&t->buf, "%d,", i);
    return buf_ok(&t->buf, e);
}

static bool same(const void *ctx, uint32_t row)
{
    return *(const uint32_t *)ctx == row;
}

// Goes on where a failed run stopped, as tables of long life do.
static bool fill_map(struct things *t, err *e)
{
    while (t->n < ROWS) {
        if (!mem_grow(&t->budget, &t->rows, &t->cap, t->n + 1, sizeof *t->rows, e)) return false;
        t->rows[t->n] = t->n;
        if (!map_put(&t->map, hash_bytes(&t->n, sizeof t->n), t->n, e)) return false;
        t->n++;
    }
    return true;
}

static bool fill(void *arg, err *e)
{
    struct things *t = arg;
    return fill_arena(t, e) && fill_buf(t, e) && fill_map(t, e);
}

static void check(void *arg, bool done)
{
    struct things *t = arg;
    assert_int_equal(t->map.count, t->n);
    for (uint32_t i = 0; i < ROWS; i++) {
        assert_int_equal(map_find(&t->map, hash_bytes(&i, sizeof i), same, &i),
                         i < t->n ? i : MAP_NONE);
        if (i < t->n) assert_int_equal(t->rows[i], i);
    }
    if (!done) return;
    assert_int_equal(t->n, ROWS);
    assert_int_equal(t->buf.n, 3890);
    assert_int_equal(t->hooks_run, 0);
}

static void end(void *arg)
{
    struct things *t = arg;
    arena_release(&t->arena);
    assert_int_equal(t->hooks_run, 1);
    buf_release(&t->buf);
    map_release(&t->map);
    mem_free(&t->budget, t->rows, t->cap * sizeof *t->rows);
    assert_int_equal(t->budget.used, 0);
    assert_int_equal(t->process.used, 0);
}

static void arenas_buffers_and_tables_survive(void **state)
{
    (void)state;
    struct things t;
    struct torture_count n = torture_work(&(struct torture_work){
        .name = "base.tables", .begin = begin, .run = fill, .check = check, .end = end, .arg = &t});
    assert_true(n.allocations > 10 && n.failed > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arenas_buffers_and_tables_survive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
