// SPDX-License-Identifier: Apache-2.0
#include "codec/lz4.h"
#include "lib/test.h"

static struct buf words(size_t n)
{
    struct buf b;
    buf_init(&b, NULL, n + 64);
    for (unsigned i = 0; b.n < n; i++)
        buf_printf(&b, "runtime.function_%u ", i * i % 89);
    b.n = n;
    return b;
}

static void what_is_packed_comes_back(void **state)
{
    (void)state;
    for (size_t n = 0; n < 2000000; n = n * 3 + 1) {
        struct buf in = words(n);
        struct buf out;
        struct buf back;
        bool packed = false;
        buf_init(&out, NULL, SIZE_MAX);
        buf_init(&back, NULL, n + 3);
        buf_z(&out, "ab");
        buf_z(&back, "abc");  // what was there stays
        assert_ok(lz4_pack(buf_view(&in), &out, &packed, e));
        if (n > 1000) assert_true(packed && out.n < n * 3 / 4 + 2);
        if (!packed) assert_int_equal(out.n, 2);
        str block = str_slice(buf_view(&out), 2, out.n);
        if (packed) {
            assert_ok(lz4_unpack(block, n, &back, e));
            assert_true(str_eq(str_slice(buf_view(&back), 3, back.n), buf_view(&in)));
            err fault = {0};
            buf_clear(&back);
            assert_false(lz4_unpack(block, n - 1, &back, &fault));
            assert_int_equal(fault.code, ERR_INVALID_ARGUMENT);
            assert_false(lz4_unpack(str_slice(block, 0, block.n - 1), n, &back, &fault));
            assert_int_equal(fault.code, ERR_INVALID_ARGUMENT);
            assert_false(lz4_unpack((str){0}, n, &back, &fault));
            assert_false(lz4_unpack(block, 0, &back, &fault));
            assert_false(lz4_unpack(block, (size_t)1 << 40, &back, &fault));
        }
        buf_release(&in);
        buf_release(&out);
        buf_release(&back);
    }
}

static void noise_is_left_as_it_is(void **state)
{
    (void)state;
    char noise[10000];
    uint64_t x = 7;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (char)((x = x * 6364136223846793005u + 1442695040888963407u) >> 56);
    struct buf out;
    bool packed = true;
    buf_init(&out, NULL, SIZE_MAX);
    assert_ok(lz4_pack(str_make(noise, sizeof noise), &out, &packed, e));
    assert_false(packed);
    assert_int_equal(out.n, 0);
    buf_release(&out);
}

static void caps_hold(void **state)
{
    (void)state;
    struct buf in = words(10000);
    struct buf out;
    bool packed = false;
    err fault = {0};
    buf_init(&out, NULL, 100);
    assert_false(lz4_pack(buf_view(&in), &out, &packed, &fault));
    assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
    buf_release(&out);
    buf_init(&out, NULL, SIZE_MAX);
    assert_ok(lz4_pack(buf_view(&in), &out, &packed, e));
    struct buf back;
    buf_init(&back, NULL, 9999);
    assert_false(lz4_unpack(buf_view(&out), 10000, &back, &fault));
    assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
    buf_release(&out);
    buf_release(&back);
    buf_release(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_packed_comes_back),
        cmocka_unit_test(noise_is_left_as_it_is),
        cmocka_unit_test(caps_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
