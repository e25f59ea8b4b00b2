// SPDX-License-Identifier: Apache-2.0
#include "lib/torture.h"
#include "unit/block/model_read.h"
#include "unit/block/read_all.h"

static struct model *some_model(enum block_kind kind)
{
    struct random r = {0xabc + kind};
    struct model_size z = {.services = 2,
                           .types = 2,
                           .keys = 3,
                           .rows = 20,
                           .stacks = 40,
                           .entries = 10,
                           .spans = true};
    return model_make(&r, kind, &z);
}

static bool write_block(struct torture_bench *b, void *arg, err *e)
{
    struct block_written written = {0};
    return model_write(arg, &b->budget, &b->out, &written, e);
}

static bool read_bytes(struct torture_bench *b, void *arg, err *e)
{
    if (!read_block(&b->arena, *(str *)arg, e)) return false;
    buf_z(&b->out, "all");
    return true;
}

static bool order_symbols(struct torture_bench *b, void *arg, err *e)
{
    const struct symbol_table *t = arg;
    struct symbol_table out = {0};
    uint32_t *map = ARENA_ARRAY(&b->arena, uint32_t, t->stack_count);
    if (!map) return arena_ok(&b->arena, e);
    if (!block_order(&b->arena, t, NULL, &out, map, e)) return false;
    buf_put(&b->out, map, t->stack_count * sizeof *map);
    return true;
}

static void a_block_survives(void **state)
{
    (void)state;
    static const char *const names[] = {"", "segment", "raw", "hours", "days"};
    for (enum block_kind kind = BLOCK_RAW; kind <= BLOCK_HOURS; kind++) {
        struct model *m = some_model(kind);
        struct block_written written = {0};
        struct buf out;
        buf_init(&out, NULL, SIZE_MAX);
        assert_ok(model_write(m, NULL, &out, &written, e));
        str bytes = buf_view(&out);
        const struct torture_maker makers[] = {
            {.name = names[kind], .make = write_block, .arg = m, .most = 150},
            {.name = "reading", .make = read_bytes, .arg = &bytes, .most = 150},
        };
        torture_make_all(makers, COUNT(makers));
        buf_release(&out);
    }
}

static void order_survives(void **state)
{
    (void)state;
    struct random r = {99};
    struct symbols s;
    assert_ok(symbols_init(&s, NULL, e));
    random_symbols(&r, &s, 100);
    const struct torture_maker maker = {"order", .make = order_symbols, .arg = &s.t};
    torture_make_all(&maker, 1);
    symbols_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(a_block_survives),
        ARENA_TEST(order_survives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
