// SPDX-License-Identifier: Apache-2.0
//
// Random blocks of every kind are read as they were written.
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

// So much that there are several frames of everything.
static void frames_follow_one_another(void **state)
{
    (void)state;
    static const struct {
        enum block_kind kind;
        struct model_size size;
    } large[] = {
        {BLOCK_RAW, {1, 1, 4, 5000, 3000, 150, 0, true}},
        {BLOCK_HOURS, {1, 1, 60, 0, 300, 10, 1440, false}},
        {BLOCK_DAYS, {1, 3, 1, 0, 8000, 9000, 0, false}},
    };
    uint32_t most[4] = {0};
    for (size_t i = 0; i < COUNT(large); i++) {
        struct random r = {0xfee1 + i};
        struct model *m = model_make(&r, large[i].kind, &large[i].size);
        struct buf out;
        struct block_written written = {0};
        struct model_block b = {0};
        struct block_index x = {0};
        buf_init(&out, NULL, SIZE_MAX);
        assert_ok(model_write(m, NULL, &out, &written, e));
        model_same(m, buf_view(&out));
        model_open(buf_view(&out), &b);
        const struct block_service_ref *s = &b.footer.services[0];
        assert_ok(block_index_parse(&arena, model_section(b.bytes, &s->index), s, &x, e));
        uint32_t all = 0;
        for (uint32_t k = 0; k < x.nodes_at.n; k++)
            all += x.nodes_at.v[k].extent.at >= s->all.at;
        assert_true((s->all.stored != 0) == (all == 1));
        assert_true((s->totals.stored != 0) == (x.totals.n == 1));
        most[0] = MAX(most[0], x.heads.n);
        most[1] = MAX(most[1], x.vectors.n);
        most[2] = MAX(most[2], x.totals.n);
        most[3] = MAX(most[3], all);
        buf_release(&out);
    }
    for (size_t i = 0; i < COUNT(most); i++)
        assert_true(most[i] > 1);
}

// A column in which all rows have the usual number is left out, and the other ones stay.
static void numbers_that_all_rows_share_come_back(void **state)
{
    (void)state;
    static const struct {
        int64_t duration_ns;
        int64_t period;
        int64_t factor;
    } cases[] = {
        {0, 0, 1}, {0, 0, 3}, {0, 100, 1}, {0, 100, 3}, {5, 0, 1}, {5, 0, 3}, {5, 100, 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct model_size z = {.services = 1, .types = 1, .keys = 3, .rows = 20, .stacks = 9};
        struct random r = {0xfee1 + i};
        struct model *m = model_make(&r, BLOCK_RAW, &z);
        struct model_service *s = &m->services[0];
        struct buf out;
        struct block_written written = {0};
        uint32_t rows = 0;
        for (uint32_t k = 0; k < s->key_count; k++) {
            for (uint32_t j = 0; j < s->keys[k].row_count; j++, rows++) {
                struct block_row *row = &s->keys[k].rows[j];
                row->duration_ns = cases[i].duration_ns;
                row->period = cases[i].period;
                row->factor = cases[i].factor;
                row->total = s->vector_totals[row->vector] * row->factor;
            }
        }
        assert_true(rows > 0);
        buf_init(&out, NULL, SIZE_MAX);
        assert_ok(model_write(m, NULL, &out, &written, e));
        model_same(m, buf_view(&out));
        buf_release(&out);
        arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(what_is_written_is_read),
        ARENA_TEST(frames_follow_one_another),
        ARENA_TEST(numbers_that_all_rows_share_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
