// SPDX-License-Identifier: Apache-2.0
//
// Spans come back from their frame, and a filter contains every span that was put into it.
#include "block/reader.h"
#include "block/spans.h"
#include "lib/arena.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t seed = 7;

static uint64_t number(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed * 0x2545f4914f6cdd1du;
}

struct row {
    const struct block_span *v;
    size_t n;
};

static struct row random_row(uint32_t most)
{
    struct row row = {.n = most ? number() % (most + 1) : 0};
    struct block_span *v = ARENA_ARRAY(&arena, struct block_span, row.n);
    for (size_t i = 0; i < row.n; i++) {
        v[i].span_id = number();
        v[i].has_trace = number() % 3 != 0;
        if (v[i].has_trace) v[i].trace.b[number() % 16] = (uint8_t)number();
        v[i].vector = arena_printf(&arena, "%.*s", (int)(number() % 20), "a vector, as it seems");
    }
    row.v = v;
    return row;
}

// Contents of a frame of these rows.
static str framed(struct block_spans *s, const struct row *rows, size_t n)
{
    struct buf out;
    buf_init(&out, NULL, SIZE_MAX);
    for (size_t i = 0; i < n; i++)
        assert_ok(block_spans_row(s, rows[i].v, rows[i].n, e));
    size_t bytes = block_spans_bytes(s);
    assert_ok(block_spans_frame(s, &out, e));
    assert_int_equal(out.n, bytes);
    assert_int_equal(block_spans_bytes(s), 0);
    str copy = arena_str(&arena, buf_view(&out));
    buf_release(&out);
    return copy;
}

static str filters(struct block_spans *s)
{
    struct buf out;
    buf_init(&out, NULL, SIZE_MAX);
    assert_ok(block_spans_blooms(s, &out, e));
    str copy = arena_str(&arena, buf_view(&out));
    buf_release(&out);
    return copy;
}

static void check_rows(str contents, const struct row *rows, size_t n)
{
    struct block_row_spans *back = NULL;
    const uint8_t *guarded = tail_guard(contents.p, contents.n);
    assert_ok(block_spans_parse(&arena, str_make(guarded, contents.n), n, &back, e));
    for (size_t r = 0; r < n; r++) {
        assert_int_equal(back[r].n, rows[r].n);
        for (size_t i = 0; i < rows[r].n; i++) {
            const struct block_span *is = &back[r].v[i];
            const struct block_span *was = &rows[r].v[i];
            assert_true(is->span_id == was->span_id);
            assert_int_equal(is->has_trace, was->has_trace);
            assert_true(id128_eq(is->trace, was->trace));
            assert_true(str_eq(is->vector, was->vector));
        }
    }
}

static void spans_come_back_and_filters_know_them(void **state)
{
    (void)state;
    enum {
        FRAMES = 40,
        ROWS = 50
    };
    struct block_spans s;
    struct row rows[FRAMES][ROWS];
    uint32_t frames = 0;
    block_spans_init(&s, NULL);
    for (uint32_t f = 0; f < FRAMES; f++) {
        for (uint32_t r = 0; r < ROWS; r++)
            rows[frames][r] = random_row(f % 4 * 3);
        str contents = framed(&s, rows[frames], ROWS);
        assert_int_equal(contents.n == 0, f % 4 == 0);
        if (f % 4 == 0) continue;
        check_rows(contents, rows[frames], ROWS);
        frames++;
    }
    str bytes = filters(&s);
    assert_int_equal(filters(&s).n, 0);
    const struct block_blooms *b = NULL;
    const uint8_t *guarded = tail_guard(bytes.p, bytes.n);
    assert_ok(block_blooms_parse(&arena, str_make(guarded, bytes.n), frames, &b, e));
    for (uint32_t f = 0; f < frames; f++) {
        for (uint32_t r = 0; r < ROWS; r++) {
            for (size_t i = 0; i < rows[f][r].n; i++) {
                const struct block_span *v = &rows[f][r].v[i];
                assert_true(block_bloom_may_have_span(b, f, v->span_id));
                assert_true(!v->has_trace || block_bloom_may_have_trace(b, f, v->trace));
            }
        }
    }
    block_spans_release(&s);
    block_spans_release(&s);
}

// One frame of n spans, each of its own trace or all of one.
static void check_filter(size_t n, bool one_trace)
{
    struct block_spans s;
    struct block_span *v = ARENA_ARRAY(&arena, struct block_span, n);
    block_spans_init(&s, NULL);
    for (size_t i = 0; i < n; i++) {
        v[i].span_id = number();
        v[i].has_trace = true;
        uint64_t part = one_trace ? 5 : number();
        memcpy(v[i].trace.b, &part, sizeof part);
    }
    struct row row = {v, n};
    framed(&s, &row, 1);
    str bytes = filters(&s);
    const struct block_blooms *b = NULL;
    assert_ok(block_blooms_parse(&arena, bytes, 1, &b, e));
    for (size_t i = 0; i < n; i++) {
        assert_true(block_bloom_may_have_span(b, 0, v[i].span_id));
        assert_true(block_bloom_may_have_trace(b, 0, v[i].trace));
    }
    int false_ones = 0;
    for (int i = 0; i < 100000; i++)
        false_ones += block_bloom_may_have_span(b, 0, number());
    printf("%zu spans, %s: filter of %zu bytes, %.3f %% false\n", n,
           one_trace ? "one trace" : "each its trace", bytes.n, false_ones / 1000.0);
    size_t distinct = one_trace ? n + 1 : 2 * n;
    assert_true(bytes.n <= distinct * 3 / 2 + 32 + 5);
    block_spans_release(&s);
}

static void a_filter_never_misses(void **state)
{
    (void)state;
    check_filter(1, true);
    check_filter(100, false);
    check_filter(20000, false);
    check_filter(20000, true);
}

static const char one_span[] = "\x01\x01\x01"
                               "abcdefgh"
                               "0123456789abcdef"
                               "\x02"
                               "vv";

static void damage_of_spans_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *bytes;
        size_t size;
        uint64_t rows;
        const char *says;
    } cases[] = {
        {"nothing", "", 0, 1, "number is cut off"},
        {"many rows", one_span, sizeof one_span - 1, 1000, "more than there are bytes"},
        {"rows like sand", one_span, sizeof one_span - 1, UINT64_MAX, "more than there are bytes"},
        {"many spans",
         "\x09\x09\x01"
         "abcdefgh\x02vv",
         14, 1, "more than there are bytes"},
        {"spans of nobody",
         "\x01\x00\x00"
         "abcdefgh\x00",
         12, 1, "fewer than there are"},
        {"spans twice",
         "\x01\x02\x00"
         "abcdefgh\x00",
         12, 1, "more than there are"},
        {"a flag of 2",
         "\x01\x01\x02"
         "abcdefgh\x00",
         12, 1, "neither with nor"},
        {"half a trace",
         "\x01\x01\x01"
         "abcdefgh01234567",
         19, 1, "traces are cut off"},
        {"no size",
         "\x01\x01\x01"
         "abcdefgh0123456789abcdef",
         27, 1, "sizes are cut off"},
        {"half a vector", one_span, sizeof one_span - 2, 1, "vectors are cut off"},
        {"a byte after it", one_span, sizeof one_span, 1, "not as many bytes"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct block_row_spans *rows = NULL;
        err e = {0};
        const uint8_t *bytes = tail_guard(cases[i].bytes, cases[i].size);
        str contents = str_make(bytes, cases[i].size);
        if (block_spans_parse(&arena, contents, cases[i].rows, &rows, &e)) {
            fail_msg("%s: parsed", cases[i].name);
        }
        if (e.code != ERR_DATA_LOSS || !strstr(e.msg, cases[i].says)) {
            fail_msg("%s: %s: %s", cases[i].name, err_name(e.code), e.msg);
        }
    }
}

static void damage_of_filters_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *bytes;
        size_t size;
        uint32_t frames;
        const char *says;
    } cases[] = {
        {"nothing", "", 0, 1, "fewer than frames"},
        {"many frames", "\x01\x01", 2, UINT32_MAX, "fewer than frames"},
        {"sizes cut off", "\x81\x80", 2, 2, "sizes are cut off"},
        {"no blocks", "\x00", 1, 1, "without blocks"},
        {"half a block",
         "\x01"
         "0123456789abcdef",
         17, 1, "cut off"},
        {"many blocks",
         "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
         "0123456789abcdef0123456789abcdef",
         42, 1, "cut off"},
        {"a byte more",
         "\x01"
         "0123456789abcdef0123456789abcdef",
         34, 1, "not as many bytes"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct block_blooms *b = NULL;
        err e = {0};
        const uint8_t *bytes = tail_guard(cases[i].bytes, cases[i].size);
        str contents = str_make(bytes, cases[i].size);
        if (block_blooms_parse(&arena, contents, cases[i].frames, &b, &e)) {
            fail_msg("%s: parsed", cases[i].name);
        }
        if (e.code != ERR_DATA_LOSS || !strstr(e.msg, cases[i].says)) {
            fail_msg("%s: %s: %s", cases[i].name, err_name(e.code), e.msg);
        }
    }
}

static void what_is_cut_off_is_damage(void **state)
{
    (void)state;
    struct block_spans s;
    struct row rows[20];
    block_spans_init(&s, NULL);
    for (size_t i = 0; i < COUNT(rows); i++)
        rows[i] = random_row(4);
    str contents = framed(&s, rows, COUNT(rows));
    for (size_t n = 0; n < contents.n; n++) {
        struct block_row_spans *back = NULL;
        err e = {0};
        str part = str_make(tail_guard(contents.p, n), n);
        assert_false(block_spans_parse(&arena, part, COUNT(rows), &back, &e));
        assert_int_equal(e.code, ERR_DATA_LOSS);
    }
    block_spans_release(&s);
}

static void a_budget_ends_it(void **state)
{
    (void)state;
    struct mem_budget budget;
    struct block_spans s;
    err e = {0};
    mem_budget_init(&budget, "spans", NULL, 10000);
    block_spans_init(&s, &budget);
    bool ok = true;
    for (int i = 0; i < 1000 && ok; i++) {
        struct row row = random_row(50);
        ok = block_spans_row(&s, row.v, row.n, &e);
    }
    assert_false(ok);
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    block_spans_release(&s);
    assert_int_equal(budget.used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(spans_come_back_and_filters_know_them),
        ARENA_TEST(a_filter_never_misses),
        ARENA_TEST(damage_of_spans_is_told),
        ARENA_TEST(damage_of_filters_is_told),
        ARENA_TEST(what_is_cut_off_is_damage),
        ARENA_TEST(a_budget_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
