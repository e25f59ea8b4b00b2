// SPDX-License-Identifier: Apache-2.0
//
// Vectors have the bytes of docs/formats/vector.md, and sums are exact or out of range.
#include "lib/test.h"
#include "model/vector.h"

static uint64_t seed = 0x9e3779b97f4a7c15u;

static uint64_t next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static str encode(struct buf *b, const struct vector_entry *v, size_t n)
{
    buf_clear(b);
    vector_encode(v, n, b);
    assert_false(b->failed);
    return buf_view(b);
}

static const struct {
    const char *name;
    struct vector_entry in[6];
    size_t n;
    struct vector_entry out[6];
    size_t out_n;
} sums[] = {
    {"empty", {{0}}, 0, {{0}}, 0},
    {"one", {{5, 7}}, 1, {{5, 7}}, 1},
    {"sorted", {{0, 1}, {2, 3}}, 2, {{0, 1}, {2, 3}}, 2},
    {"unsorted", {{9, 1}, {2, 3}, {4, 5}}, 3, {{2, 3}, {4, 5}, {9, 1}}, 3},
    {"equal stacks", {{3, 1}, {1, 2}, {3, 4}, {1, 8}}, 4, {{1, 10}, {3, 5}}, 2},
    {"zeros", {{3, 0}, {1, 2}, {2, 5}, {2, -5}}, 4, {{1, 2}}, 1},
    {"largest ids",
     {{UINT32_MAX, 1}, {0, 2}, {UINT32_MAX - 1, 3}},
     3,
     {{0, 2}, {UINT32_MAX - 1, 3}, {UINT32_MAX, 1}},
     3},
    {"extremes cancel", {{1, INT64_MAX}, {1, INT64_MIN}, {1, 1}}, 3, {{0}}, 0},
};

static void normalising_sorts_adds_and_drops_zeros(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(sums); i++) {
        struct vector_entry v[6];
        memcpy(v, sums[i].in, sizeof v);
        size_t n = sums[i].n;
        assert_ok(vector_normalise(v, &n, e));
        if (n != sums[i].out_n) fail_msg("%s: %zu entries", sums[i].name, n);
        for (size_t k = 0; k < n; k++) {
            if (v[k].stack != sums[i].out[k].stack || v[k].value != sums[i].out[k].value) {
                fail_msg("%s: entry %zu", sums[i].name, k);
            }
        }
    }
}

static void a_sum_past_64_bits_is_out_of_range(void **state)
{
    (void)state;
    struct vector_entry v[] = {{7, INT64_MAX}, {3, 1}, {7, 1}};
    size_t n = COUNT(v);
    err e = {0};
    assert_false(vector_normalise(v, &n, &e));
    assert_int_equal(e.code, ERR_OUT_OF_RANGE);
    assert_string_equal(e.msg, "the sum of stack 7 does not fit 64 bits");
}

// Ids from few bits and from many, so that every depth of the sort has work.
static void normalising_equals_adding_densely(void **state)
{
    (void)state;
    enum {
        N = 3000,
        IDS = 4096
    };
    static struct vector_entry v[N];
    static int64_t dense[IDS];
    for (int round = 0; round < 40; round++) {
        uint32_t scale = round % 2 ? 1 : 1048573;
        uint32_t ids = round < 20 ? IDS : 64;
        memset(dense, 0, sizeof dense);
        size_t n = next() % N;
        for (size_t i = 0; i < n; i++) {
            uint32_t id = (uint32_t)(next() % ids);
            v[i] = (struct vector_entry){id * scale, (int64_t)(next() % 100) - 50};
            dense[id] += v[i].value;
        }
        assert_ok(vector_normalise(v, &n, e));
        size_t at = 0;
        for (uint32_t id = 0; id < IDS; id++) {
            if (dense[id] == 0) continue;
            assert_true(at < n && v[at].stack == id * scale && v[at].value == dense[id]);
            at++;
        }
        assert_int_equal(at, n);
    }
}

static const struct {
    const char *name;
    struct vector_entry v[4];
    size_t n;
    str bytes;
} forms[] = {
    {"empty", {{0}}, 0, S_INIT("\x00\x01")},
    {"stack 0", {{0, 1}}, 1, S_INIT("\x01\x01\x00\x02")},
    {"worked example", {{2, 1}, {3, 2}}, 2, S_INIT("\x02\x01\x02\x02\x01\x04")},
    {"divisor",
     {{1, 10000000}, {300, 30000000}},
     2,
     S_INIT("\x02\x80\xad\xe2\x04\x01\x02\xab\x02\x06")},
    {"negative", {{1, -6}, {2, 4}}, 2, S_INIT("\x02\x02\x01\x05\x01\x04")},
    {"only the least value",
     {{1, INT64_MIN}},
     1,
     S_INIT("\x01\x80\x80\x80\x80\x80\x80\x80\x80\x40\x01\x03")},
    {"least and more",
     {{1, INT64_MIN}, {2, 4}},
     2,
     S_INIT("\x02\x04\x01\xff\xff\xff\xff\xff\xff\xff\xff\x3f\x01\x02")},
    {"greatest value",
     {{UINT32_MAX, INT64_MAX}},
     1,
     S_INIT("\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f\xff\xff\xff\xff\x0f\x02")},
};

static void the_bytes_are_those_of_the_format(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, 1000);
    for (size_t i = 0; i < COUNT(forms); i++) {
        str got = encode(&b, forms[i].v, forms[i].n);
        if (!str_eq(got, forms[i].bytes)) fail_msg("%s", forms[i].name);
        struct vector_reader r;
        struct vector_entry v;
        assert_ok(vector_open(&r, str_make(tail_guard(got.p, got.n), got.n), e));
        for (size_t k = 0; k < forms[i].n; k++) {
            assert_true(vector_next(&r, &v));
            assert_int_equal(v.stack, forms[i].v[k].stack);
            assert_true(v.value == forms[i].v[k].value);
        }
        assert_false(vector_next(&r, &v));
        assert_ok(vector_done(&r, e));
    }
    buf_release(&b);
}

static const struct {
    const char *name;
    str bytes;
    const char *message;
    enum err_code code;
} bad[] = {
    {"nothing", S_INIT(""), "0 bytes end in its head", ERR_INVALID_ARGUMENT},
    {"no divisor", S_INIT("\x00"), "1 bytes end in its head", ERR_INVALID_ARGUMENT},
    {"divisor 0", S_INIT("\x00\x00"), "divisor 0", ERR_INVALID_ARGUMENT},
    {"divisor 2^63", S_INIT("\x00\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), "is not a positive",
     ERR_INVALID_ARGUMENT},
    {"more entries than bytes", S_INIT("\x02\x01\x01\x02\x01"), "2 entries do not fit 5 bytes",
     ERR_INVALID_ARGUMENT},
    {"2^64 - 1 entries", S_INIT("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01\x01\x02"),
     "do not fit", ERR_INVALID_ARGUMENT},
    {"cut in an entry", S_INIT("\x01\x01\x01\x80"), "is cut off", ERR_INVALID_ARGUMENT},
    {"bytes after the end", S_INIT("\x01\x01\x01\x02\x00"), "bytes follow", ERR_INVALID_ARGUMENT},
    {"bytes after nothing", S_INIT("\x00\x01\x00"), "bytes follow", ERR_INVALID_ARGUMENT},
    {"zero value", S_INIT("\x01\x01\x01\x00"), "a value is zero", ERR_INVALID_ARGUMENT},
    {"equal stacks", S_INIT("\x02\x01\x01\x02\x00\x02"), "do not ascend", ERR_INVALID_ARGUMENT},
    {"stack past 32 bits", S_INIT("\x02\x01\x01\x02\xff\xff\xff\xff\x0f\x02"), "32 bits",
     ERR_INVALID_ARGUMENT},
    {"delta past 64 bits", S_INIT("\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\x02"),
     "is no varint", ERR_INVALID_ARGUMENT},
    {"stack past the table", S_INIT("\x01\x01\x0a\x02"), "stack 10 is not below 10",
     ERR_INVALID_ARGUMENT},
    {"value past 64 bits", S_INIT("\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x01\x04"),
     "a value does not fit", ERR_INVALID_ARGUMENT},
    {"total past 64 bits", S_INIT("\x02\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x01\x02\x01\x02"),
     "total does not fit", ERR_OUT_OF_RANGE},
};

static void bad_bytes_are_refused_by_check_and_add(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        str bytes = str_make(tail_guard(bad[i].bytes.p, bad[i].bytes.n), bad[i].bytes.n);
        err e = {0};
        int64_t total = 0;
        int64_t dense[10] = {0};
        if (vector_check(bytes, 10, &total, &e)) fail_msg("%s: accepted", bad[i].name);
        if (e.code != bad[i].code || !strstr(e.msg, bad[i].message)) {
            fail_msg("%s: %s", bad[i].name, e.msg);
        }
        if (bad[i].code == ERR_OUT_OF_RANGE) continue;  // single sums do fit
        e = (err){0};
        if (vector_add(bytes, 1, dense, 10, &e)) fail_msg("%s: added", bad[i].name);
        if (!strstr(e.msg, bad[i].message)) fail_msg("%s: added: %s", bad[i].name, e.msg);
    }
}

// Long enough that most entries take the quick way; compared entry by entry with the reader.
static void adding_equals_reading_and_adding(void **state)
{
    (void)state;
    enum {
        IDS = 500
    };
    struct buf b;
    buf_init(&b, NULL, 100000);
    for (int round = 0; round < 300; round++) {
        struct vector_entry v[IDS];
        size_t n = 0;
        int64_t dense[IDS] = {0};
        int64_t wanted[IDS] = {0};
        int64_t scale = round % 3 == 0 ? 10000000 : 1;
        int64_t factor = (int64_t)(next() % 7) - 3;
        int64_t total = 0;
        for (uint32_t id = 0; id < IDS; id++) {
            wanted[id] = dense[id] = (int64_t)(next() % 100);
            if (next() % 4) continue;
            int64_t value = (int64_t)(next() >> (20 + next() % 44)) * (next() % 2 ? 1 : -1) / scale;
            if (value == 0) value = 1;
            v[n++] = (struct vector_entry){id, value * scale};
            wanted[id] += value * scale * factor;
            total += value * scale;
        }
        str bytes = encode(&b, v, n);
        bytes = str_make(tail_guard(bytes.p, bytes.n), bytes.n);
        int64_t checked = 0;
        assert_ok(vector_check(bytes, IDS, &checked, e));
        assert_true(checked == total);
        assert_ok(vector_add(bytes, factor, dense, IDS, e));
        assert_memory_equal(dense, wanted, sizeof dense);
    }
    buf_release(&b);
}

static const struct {
    const char *name;
    int64_t value;
    int64_t factor;
    int64_t before;
    int64_t after;  // if ok
    bool ok;
} products[] = {
    {"to the greatest", INT64_MAX, 1, 0, INT64_MAX, true},
    {"past the greatest", INT64_MAX, 1, 1, 0, false},
    {"to the least", INT64_MIN, 1, 0, INT64_MIN, true},
    {"negated", INT64_MAX, -1, 0, -INT64_MAX, true},
    {"the least negated", INT64_MIN, -1, 0, 0, false},
    {"divisor times factor is 2^63", -((int64_t)1 << 62), 2, 0, INT64_MIN, true},
    {"the same upwards", (int64_t)1 << 62, 2, 0, 0, false},
    {"factor 0", INT64_MAX, 0, 5, 5, true},
    {"too large a factor", 3, INT64_MAX / 2, 0, 0, false},
};

static void products_are_exact_or_out_of_range(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, 1000);
    for (size_t i = 0; i < COUNT(products); i++) {
        int64_t dense[40] = {0};
        dense[3] = products[i].before;
        struct vector_entry v = {3, products[i].value};
        err e = {0};
        bool ok = vector_add(encode(&b, &v, 1), products[i].factor, dense, 40, &e);
        if (ok != products[i].ok) fail_msg("%s: %s", products[i].name, e.msg);
        if (ok && dense[3] != products[i].after) fail_msg("%s: wrong sum", products[i].name);
        if (!ok) assert_int_equal(e.code, ERR_OUT_OF_RANGE);
    }
    buf_release(&b);
}

static void every_cut_of_a_vector_is_refused(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, 1000);
    struct vector_entry v[30];
    for (uint32_t i = 0; i < COUNT(v); i++)
        v[i] = (struct vector_entry){i * 200, 1 + (int64_t)i * 100};
    str bytes = encode(&b, v, COUNT(v));
    int64_t dense[6000] = {0};
    for (size_t n = 0; n < bytes.n; n++) {
        err e = {0};
        int64_t total = 0;
        str cut = str_make(tail_guard(bytes.p, n), n);
        assert_false(vector_check(cut, 6000, &total, &e));
        assert_false(vector_add(cut, 1, dense, 6000, &e));
    }
    buf_release(&b);
}

static void dense_sums_encode_like_their_entries(void **state)
{
    (void)state;
    struct buf one;
    struct buf two;
    buf_init(&one, NULL, 1000);
    buf_init(&two, NULL, 1000);
    const int64_t dense[] = {0, 6, 0, 0, -9, 3};
    const uint32_t ids[] = {0, 1, 0, 0, 2, 7};
    vector_encode_sums(dense, COUNT(dense), NULL, &one);
    assert_true(
        str_eq(buf_view(&one), encode(&two, (struct vector_entry[]){{1, 6}, {4, -9}, {5, 3}}, 3)));
    buf_clear(&one);
    vector_encode_sums(dense, COUNT(dense), ids, &one);
    assert_true(
        str_eq(buf_view(&one), encode(&two, (struct vector_entry[]){{1, 6}, {2, -9}, {7, 3}}, 3)));
    buf_clear(&one);
    vector_encode_sums(dense, 1, NULL, &one);
    assert_true(str_eq(buf_view(&one), encode(&two, NULL, 0)));
    buf_release(&one);
    buf_release(&two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normalising_sorts_adds_and_drops_zeros),
        cmocka_unit_test(a_sum_past_64_bits_is_out_of_range),
        cmocka_unit_test(normalising_equals_adding_densely),
        cmocka_unit_test(the_bytes_are_those_of_the_format),
        cmocka_unit_test(bad_bytes_are_refused_by_check_and_add),
        cmocka_unit_test(adding_equals_reading_and_adding),
        cmocka_unit_test(products_are_exact_or_out_of_range),
        cmocka_unit_test(every_cut_of_a_vector_is_refused),
        cmocka_unit_test(dense_sums_encode_like_their_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
