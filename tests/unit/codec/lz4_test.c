// SPDX-License-Identifier: Apache-2.0
//
// LZ4 blocks come back, alone and against a base, and stay within their room.
#include "codec/lz4.h"
#include "lib/test.h"

#include <lz4.h>

static struct buf words(size_t n)
{
    struct buf b;
    buf_init(&b, NULL, n + 64);
    for (unsigned i = 0; b.n < n; i++)
        buf_printf(&b, "runtime.function_%u ", i * i % 89);
    b.n = n;
    return b;
}

// As earlier programs packed it; base empty: without one.
static struct buf packed(str in, str base)
{
    struct buf out;
    LZ4_stream_t *stream = LZ4_createStream();
    int room = LZ4_compressBound((int)in.n);
    buf_init(&out, NULL, SIZE_MAX);
    char *to = buf_reserve(&out, (size_t)room);
    assert_non_null(to);
    (void)LZ4_loadDict(stream, base.p, (int)base.n);
    int n = LZ4_compress_fast_continue(stream, in.p, to, (int)in.n, room, 1);
    LZ4_freeStream(stream);
    assert_true(n > 0);
    out.n = (size_t)n;
    return out;
}

static void what_is_packed_comes_back(void **state)
{
    (void)state;
    for (size_t n = 1; n < 2000000; n = n * 3 + 1) {
        struct buf in = words(n);
        for (int with = 0; with < 2; with++) {
            str base = with ? str_slice(buf_view(&in), n / 2, n / 2 + LZ4_BASE_MAX) : (str){0};
            struct buf block = packed(buf_view(&in), base);
            struct buf back;
            err fault = {0};
            buf_init(&back, NULL, n + 3);
            buf_z(&back, "abc");  // what was there stays
            assert_ok(lz4_unpack_against(base, buf_view(&block), n, &back, e));
            assert_true(str_eq(str_slice(buf_view(&back), 3, back.n), buf_view(&in)));
            buf_clear(&back);
            if (!with) assert_ok(lz4_unpack(buf_view(&block), n, &back, e));
            buf_clear(&back);
            assert_false(lz4_unpack_against(base, buf_view(&block), n - 1, &back, &fault));
            assert_int_equal(fault.code, ERR_INVALID_ARGUMENT);
            assert_false(lz4_unpack_against(base, str_slice(buf_view(&block), 0, block.n - 1), n,
                                            &back, &fault));
            assert_int_equal(fault.code, ERR_INVALID_ARGUMENT);
            assert_false(lz4_unpack((str){0}, n, &back, &fault));
            assert_false(lz4_unpack(buf_view(&block), 0, &back, &fault));
            assert_false(lz4_unpack(buf_view(&block), (size_t)1 << 40, &back, &fault));
            buf_release(&block);
            buf_release(&back);
        }
        buf_release(&in);
    }
}

static void caps_hold(void **state)
{
    (void)state;
    struct buf in = words(10000);
    struct buf block = packed(buf_view(&in), (str){0});
    struct buf back;
    err fault = {0};
    buf_init(&back, NULL, 9999);
    assert_false(lz4_unpack(buf_view(&block), 10000, &back, &fault));
    assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
    buf_release(&block);
    buf_release(&back);
    buf_release(&in);
}

static void what_we_pack_fills_its_room(void **state)
{
    (void)state;
    for (size_t n = 1; n < 200000; n = n * 3 + 1) {
        struct buf in = words(n);
        struct buf block;
        struct buf again;
        char *to = mem_must(n + 1);
        err fault = {0};
        buf_init(&block, NULL, SIZE_MAX);
        buf_init(&again, NULL, SIZE_MAX);
        buf_z(&block, "abc");  // what was there stays
        assert_ok(lz4_pack(buf_view(&in), &block, e));
        assert_ok(lz4_pack(buf_view(&in), &again, e));
        str made = str_slice(buf_view(&block), 3, block.n);
        assert_true(str_eq(made, buf_view(&again)));
        assert_ok(lz4_unpack_to(made, to, n, e));
        assert_memory_equal(to, in.p, n);
        assert_false(lz4_unpack_to(made, to, n + 1, &fault));
        assert_int_equal(fault.code, ERR_INVALID_ARGUMENT);
        assert_false(lz4_unpack_to(str_slice(made, 0, made.n - 1), to, n, &fault));
        assert_int_equal(fault.code, ERR_INVALID_ARGUMENT);
        mem_must_free(to);
        buf_release(&again);
        buf_release(&block);
        buf_release(&in);
    }
}

static void packing_stops_at_the_cap(void **state)
{
    (void)state;
    struct buf in = words(10000);
    struct buf block;
    err fault = {0};
    buf_init(&block, NULL, 20);
    assert_false(lz4_pack(buf_view(&in), &block, &fault));
    assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
    buf_release(&block);
    buf_release(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_packed_comes_back),
        cmocka_unit_test(caps_hold),
        cmocka_unit_test(what_we_pack_fills_its_room),
        cmocka_unit_test(packing_stops_at_the_cap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
