// SPDX-License-Identifier: Apache-2.0
#include "unit/block/model_read.h"

static void what_is_written_is_read(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct random r = {seed * 0x9e3779b97f4a7c15u};
        struct model_size z = {.services = random_below(&r, 4),
                               .types = 1 + random_below(&r, 3),
                               .keys = random_below(&r, 8),
                               .rows = random_below(&r, 30),
                               .stacks = random_below(&r, 60),
                               .entries = 40,
                               .spans = random_below(&r, 2)};
        enum block_kind kind = (enum block_kind)(1 + random_below(&r, 4));
        struct model *m = model_make(&r, kind, &z);
        struct buf out;
        struct block_written written = {0};
        buf_init(&out, NULL, SIZE_MAX);
        assert_ok(model_write(m, NULL, &out, &written, e));
        assert_int_equal(written.bytes, out.n);
        model_same(m, buf_view(&out));
        buf_release(&out);
        arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(what_is_written_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
