// SPDX-License-Identifier: Apache-2.0
//
// Vectors in columns: their bytes, and that every way of adding them gives the sums of a plain
// loop.
#include "lib/arena.h"
#include "model/columns.h"
#include "unit/model/random.h"

#include <stdlib.h>

// ---- bytes; the examples of docs/formats/vector.md
static const struct {
    const char *name;
    struct vector_entry v[3];
    size_t n;
    str bytes;
} examples[] = {
    {"none", {{0, 0}}, 0, S_INIT("\x00\x01")},
    {"stack 0", {{0, 1}}, 1, S_INIT("\x01\x01\x00\x02")},
    {"two", {{2, 1}, {3, 2}}, 2, S_INIT("\x02\x01\x02\x01\x02\x04")},
    {"nanoseconds",
     {{1, 10000000}, {300, 30000000}},
     2,
     S_INIT("\x02\x80\xad\xe2\x04\x01\xab\x02\x02\x06")},
    {"negative", {{1, -6}, {2, 4}}, 2, S_INIT("\x02\x02\x01\x01\x05\x04")},
    {"least", {{1, INT64_MIN}}, 1, S_INIT("\x01\x80\x80\x80\x80\x80\x80\x80\x80\x40\x01\x03")},
};

static str bytes_of(const struct vector_entry *v, size_t n)
{
    struct buf b;
    buf_init(&b, NULL, SIZE_MAX);
    columns_encode(v, n, &b);
    str s = arena_str(&arena, buf_view(&b));
    buf_release(&b);
    return s;
}

static void bytes_are_those_of_the_format(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(examples); i++) {
        struct vector_entry *v = NULL;
        size_t n = 0;
        if (!str_eq(bytes_of(examples[i].v, examples[i].n), examples[i].bytes)) {
            fail_msg("%s: other bytes", examples[i].name);
        }
        assert_ok(columns_entries(&arena, examples[i].bytes, 3, &v, &n, e));
        assert_int_equal(n, examples[i].n);
        for (size_t k = 0; k < n; k++) {
            assert_int_equal(v[k].stack, examples[i].v[k].stack);
            assert_true(v[k].value == examples[i].v[k].value);
        }
    }
}

// ---- against a naive model
#define STACKS 600

static size_t random_entries(struct random *r, struct vector_entry *v)
{
    size_t n = 0;
    uint32_t stack = random_below(r, 3);
    uint32_t gap = random_below(r, 2) ? 3 : 300;
    int bits = (int)random_below(r, 62);
    int64_t unit = random_below(r, 2) ? 1 : 10000000;
    if (bits > 30) unit = 1;
    while (stack < STACKS && random_below(r, 90)) {
        int64_t value = (int64_t)(random_next(r) >> (63 - bits)) - (random_below(r, 3) ? 0 : 5);
        if (value != 0) v[n++] = (struct vector_entry){stack, value * unit};
        stack += 1 + random_below(r, gap);
    }
    return n;
}

static void adding_is_what_a_loop_does(void **state)
{
    (void)state;
    struct random r = {0x1234567};
    for (int round = 0; round < 4000; round++) {
        struct vector_entry v[STACKS];
        int64_t sums[STACKS] = {0};
        int64_t wanted[STACKS] = {0};
        int64_t total = 0;
        int64_t factor = (int64_t)random_below(&r, 7) - 3;
        size_t n = random_entries(&r, v);
        err fault = {0};
        bool fits = true;
        __int128 sum = 0;
        for (size_t i = 0; i < n; i++) {
            sum += v[i].value;
            fits = fits && !__builtin_mul_overflow(v[i].value, factor, &wanted[v[i].stack]);
        }
        str b = bytes_of(v, n);
        str tail = str_make(tail_guard(b.p, b.n), b.n);
        assert_int_equal(columns_add(tail, factor, sums, STACKS, &fault), fits);
        if (fits) assert_memory_equal(sums, wanted, sizeof sums);
        if (!fits) assert_int_equal(fault.code, ERR_OUT_OF_RANGE);
        if (sum >= INT64_MIN && sum <= INT64_MAX) {
            assert_ok(columns_check(tail, STACKS, &total, e));
            assert_true(total == (int64_t)sum);
        }
    }
}

static void dense_sums_and_vectors_become_the_same(void **state)
{
    (void)state;
    struct random r = {77};
    for (int round = 0; round < 500; round++) {
        struct vector_entry v[STACKS];
        int64_t sums[STACKS] = {0};
        uint32_t map[STACKS];
        struct buf one;
        struct buf two;
        struct buf vector;
        buf_init(&one, NULL, SIZE_MAX);
        buf_init(&two, NULL, SIZE_MAX);
        buf_init(&vector, NULL, SIZE_MAX);
        size_t n = random_entries(&r, v);
        vector_encode(v, n, &vector);
        assert_ok(columns_from_vector(buf_view(&vector), NULL, &arena, &one, e));
        assert_true(str_eq(buf_view(&one), bytes_of(v, n)));
        for (uint32_t i = 0; i < STACKS; i++)
            map[i] = i ? 1 + (i * 7) % (STACKS - 1) : 0;  // 7 and 599 have no common divisor
        for (size_t i = 0; i < n; i++)
            sums[map[v[i].stack]] = v[i].value;
        buf_clear(&one);
        assert_ok(columns_from_vector(buf_view(&vector), map, &arena, &one, e));
        columns_encode_sums(sums, STACKS, &two);
        assert_true(str_eq(buf_view(&one), buf_view(&two)));
        buf_release(&one);
        buf_release(&two);
        buf_release(&vector);
    }
}

static void a_sum_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    static const struct {
        int64_t before;
        int64_t value;
        int64_t factor;
    } cases[] = {{INT64_MAX, 1, 1},  {INT64_MIN, -1, 1},         {1, INT64_MAX, 1},
                 {0, INT64_MIN, -1}, {0, INT64_MAX / 2 + 1, 2},  {63, 63, INT64_MAX / 63},
                 {-1, INT64_MIN, 1}, {INT64_MIN, 10000000, -10}, {INT64_MAX - 126, 127, 1}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        // Long and short, so that each of the ways of adding meets it.
        for (uint32_t place = 0; place < 40; place += 3) {
            struct vector_entry v[40];
            int64_t sums[200] = {0};
            err e = {0};
            for (uint32_t k = 0; k < 40; k++)
                v[k] = (struct vector_entry){k * (1 + (uint32_t)i % 4), k % 3 == 1 ? 1 : 2};
            v[place].value = cases[i].value;
            sums[v[place].stack] = cases[i].before;
            assert_false(columns_add(bytes_of(v, 40), cases[i].factor, sums, 200, &e));
            assert_int_equal(e.code, ERR_OUT_OF_RANGE);
            assert_true(sums[v[place].stack] == cases[i].before);
        }
    }
}

// ---- what is refused
static const struct {
    const char *name;
    str bytes;
    const char *message;
} faults[] = {
    {"empty", S_INIT(""), "0 bytes end in the head"},
    {"no divisor", S_INIT("\x00"), "1 bytes end in the head"},
    {"divisor 0", S_INIT("\x00\x00"), "divisor 0 is not a positive int64"},
    {"divisor 2^63", S_INIT("\x00\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), "is not a positive"},
    {"too few bytes", S_INIT("\x02\x01\x01\x01\x02"), "2 entries do not fit 5 bytes"},
    {"stacks cut off", S_INIT("\x02\x01\x80\x80\x80\x02"), "the stacks are cut off"},
    {"values cut off", S_INIT("\x02\x01\x80\x00\x01\x02"), "an entry is cut off"},
    {"more than there are", S_INIT("\x01\x01\x01\x02\x00"), "bytes follow the last entry"},
    {"stacks do not ascend", S_INIT("\x02\x01\x01\x00\x02\x02"), "stacks do not ascend"},
    {"value 0", S_INIT("\x02\x01\x01\x01\x02\x00"), "a value is zero"},
    {"stack of 33 bits", S_INIT("\x02\x01\x01\xff\xff\xff\xff\x0f\x02\x02"),
     "a stack does not fit 32 bits"},
    {"value of 65 bits", S_INIT("\x01\x02\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
     "a value does not fit 64 bits"},
    {"no varint", S_INIT("\x01\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"),
     "an entry is cut off or is no varint"},
    {"stack too large", S_INIT("\x01\x01\x64\x02"), "stack 100 is not below 100"},
};

static void malformed_bytes_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(faults); i++) {
        const char *name = faults[i].name;
        str b = faults[i].bytes;
        b = str_make(tail_guard(b.p, b.n), b.n);
        int64_t sums[100] = {0};
        int64_t total = 0;
        struct vector_entry *v = NULL;
        size_t n = 0;
        err check = {0};
        err add = {0};
        err list = {0};
        if (columns_check(b, 100, &total, &check)) fail_msg("%s: passes", name);
        if (columns_add(b, 1, sums, 100, &add)) fail_msg("%s: is added", name);
        if (!strstr(check.msg, faults[i].message)) fail_msg("%s: %s", name, check.msg);
        if (!strstr(add.msg, faults[i].message)) fail_msg("%s: %s", name, add.msg);
        bool whole = columns_entries(&arena, b, 100, &v, &n, &list);
        assert_int_equal(whole, strcmp(name, "stack too large") == 0);
    }
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    struct vector_entry v[20];
    for (uint32_t i = 0; i < 20; i++)
        v[i] = (struct vector_entry){i * i * i, (int64_t)(i + 1) * 7919};
    str whole = bytes_of(v, 20);
    for (size_t n = 0; n < whole.n; n++) {
        int64_t total = 0;
        err e = {0};
        str cut = str_make(tail_guard(whole.p, n), n);
        assert_false(columns_check(cut, UINT32_MAX, &total, &e));
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
    }
}

// Every way of adding, over vectors of short and long numbers with a byte changed or the end cut
// off, takes and refuses what reading them entry by entry does.
static void damaged_bytes_are_added_as_they_are_read(void **state)
{
    (void)state;
    struct random r = {0x51ee9};
    for (int round = 0; round < 20000; round++) {
        struct vector_entry v[60];
        struct vector_entry *list = NULL;
        int64_t sums[4096] = {0};
        int64_t wanted[4096] = {0};
        size_t n = 0;
        size_t count = random_below(&r, 60);
        uint32_t stack = random_below(&r, 2);
        uint32_t gap = random_below(&r, 2) ? 1 : 68;
        uint32_t bits = 1 + random_below(&r, 30);
        for (size_t i = 0; i < count; i++, stack += 1 + random_below(&r, gap)) {
            int64_t size = (int64_t)(random_next(&r) >> (63 - random_below(&r, bits)));
            v[i] = (struct vector_entry){stack, (size | 1) * (random_below(&r, 4) ? 1 : -1)};
        }
        str b = bytes_of(v, count);
        char copy[1024];
        assert_true(b.n <= sizeof copy);
        memcpy(copy, b.p, b.n);
        char *damaged = &copy[random_below(&r, (uint32_t)b.n)];
        if (random_below(&r, 2)) *damaged = (char)(*damaged ^ 1 << random_below(&r, 8));
        b = str_make(copy, random_below(&r, 4) ? b.n : random_below(&r, (uint32_t)b.n + 1));
        b = str_make(tail_guard(b.p, b.n), b.n);
        err ignored = {0};
        int64_t unit = random_below(&r, 2) ? 1 : (int64_t)1 << 35;  // the second not in fours
        bool ok = columns_entries(&arena, b, 60, &list, &n, &ignored);
        for (size_t i = 0; ok && i < n; i++) {
            ok = list[i].stack < COUNT(sums) &&
                 !__builtin_mul_overflow(list[i].value, unit, &wanted[list[i].stack]);
        }
        assert_int_equal(columns_add(b, unit, sums, COUNT(sums), &ignored), ok);
        if (ok) assert_memory_equal(sums, wanted, sizeof sums);
    }
}

static void there_are_not_more_than_asked_for(void **state)
{
    (void)state;
    struct vector_entry *v = NULL;
    size_t n = 0;
    err e = {0};
    assert_false(columns_entries(&arena, S("\x02\x01\x02\x01\x02\x04"), 1, &v, &n, &e));
    assert_non_null(strstr(e.msg, "2 entries, of which at most 1"));
}

static void a_stack_that_was_left_out_is_missed(void **state)
{
    (void)state;
    static const uint32_t map[] = {0, 1, 0, 2};
    struct buf out;
    err e = {0};
    buf_init(&out, NULL, SIZE_MAX);
    assert_false(columns_from_vector(S("\x02\x01\x02\x02\x01\x04"), map, &arena, &out, &e));
    assert_non_null(strstr(e.msg, "stack 2 has no other number"));
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(bytes_are_those_of_the_format),
        ARENA_TEST(adding_is_what_a_loop_does),
        ARENA_TEST(dense_sums_and_vectors_become_the_same),
        ARENA_TEST(a_sum_that_does_not_fit_is_refused),
        ARENA_TEST(malformed_bytes_are_refused),
        ARENA_TEST(every_cut_is_refused),
        ARENA_TEST(damaged_bytes_are_added_as_they_are_read),
        ARENA_TEST(there_are_not_more_than_asked_for),
        ARENA_TEST(a_stack_that_was_left_out_is_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
