// SPDX-License-Identifier: Apache-2.0
//
// Data comes back from gzip and zstd; damage, cuts, lies about sizes and lack of memory are told
// apart.
#include "codec/compress.h"
#include "lib/test.h"

typedef bool decompress_fn(str in, struct buf *out, err *e);
typedef bool compress_fn(str in, int level, struct buf *out, err *e);

static const struct {
    const char *name;
    compress_fn *to;
    decompress_fn *from;
    bool (*is)(str s);
} kinds[] = {
    {"gzip", compress_gzip, compress_gunzip, compress_is_gzip},
    {"zstd", compress_zstd, compress_unzstd, compress_is_zstd},
};

// Bytes that compress, but not to nothing.
static struct buf some_bytes(size_t n)
{
    struct buf b;
    buf_init(&b, NULL, n + 64);
    uint32_t x = 1;
    while (b.n < n) {
        x = x * 1664525u + 1013904223u;
        buf_printf(&b, "%u,", x % 1000);
    }
    b.n = n;
    return b;
}

static void there_and_back(size_t k, size_t n)
{
    struct buf data = some_bytes(n);
    struct buf packed;
    struct buf back;
    buf_init(&packed, NULL, SIZE_MAX);
    buf_init(&back, NULL, n + 3);
    buf_z(&back, "abc");  // what was there stays
    assert_ok(kinds[k].to(buf_view(&data), 3, &packed, e));
    assert_true(kinds[k].is(buf_view(&packed)));
    assert_ok(kinds[k].from(buf_view(&packed), &back, e));
    assert_true(str_eq(str_slice(buf_view(&back), 3, back.n), buf_view(&data)));
    buf_release(&data);
    buf_release(&packed);
    buf_release(&back);
}

static void data_comes_back(void **state)
{
    (void)state;
    for (size_t n = 0; n < 3000000; n = n * 7 + 1) {
        there_and_back(0, n);
        there_and_back(1, n);
    }
}

static void output_stops_at_the_cap(void **state)
{
    (void)state;
    static char zeros[1 << 20];
    for (size_t k = 0; k < COUNT(kinds); k++) {
        struct buf packed;
        buf_init(&packed, NULL, SIZE_MAX);
        assert_ok(kinds[k].to(str_make(zeros, sizeof zeros), 3, &packed, e));
        assert_true(packed.n < 5000);
        static const size_t caps[] = {0, 1, 4096, sizeof zeros - 1};
        for (size_t i = 0; i < COUNT(caps); i++) {
            struct buf out;
            buf_init(&out, NULL, caps[i]);
            err why = {0};
            if (kinds[k].from(buf_view(&packed), &out, &why)) fail_msg("%s", kinds[k].name);
            assert_int_equal(why.code, ERR_RESOURCE_EXHAUSTED);
            buf_release(&out);
        }
        struct buf out;
        buf_init(&out, NULL, sizeof zeros);
        assert_ok(kinds[k].from(buf_view(&packed), &out, e));
        buf_release(&out);

        struct mem_budget budget;
        mem_budget_init(&budget, "bodies", NULL, 100000);
        buf_init(&out, &budget, sizeof zeros);
        err why = {0};
        assert_false(kinds[k].from(buf_view(&packed), &out, &why));
        assert_int_equal(why.code, ERR_RESOURCE_EXHAUSTED);
        buf_release(&out);
        buf_release(&packed);
    }
}

static void an_empty_output_fits_into_nothing(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT(kinds); k++) {
        struct buf packed;
        struct buf out;
        buf_init(&packed, NULL, SIZE_MAX);
        buf_init(&out, NULL, 0);
        assert_ok(kinds[k].to((str){0}, 3, &packed, e));
        assert_ok(kinds[k].from(buf_view(&packed), &out, e));
        assert_int_equal(out.n, 0);
        buf_release(&packed);
        buf_release(&out);
    }
}

static void several_members_are_one_stream(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT(kinds); k++) {
        struct buf packed;
        struct buf out;
        buf_init(&packed, NULL, SIZE_MAX);
        buf_init(&out, NULL, 1000);
        assert_ok(kinds[k].to(S("one "), 3, &packed, e));
        assert_ok(kinds[k].to((str){0}, 3, &packed, e));
        assert_ok(kinds[k].to(S("two"), 3, &packed, e));
        assert_ok(kinds[k].from(buf_view(&packed), &out, e));
        assert_true(str_is(buf_view(&out), "one two"));
        buf_byte(&packed, 0);
        buf_clear(&out);
        err why = {0};
        assert_false(kinds[k].from(buf_view(&packed), &out, &why));
        assert_int_equal(why.code, ERR_INVALID_ARGUMENT);
        buf_release(&packed);
        buf_release(&out);
    }
}

static void damage_and_cuts_are_invalid(void **state)
{
    (void)state;
    struct buf data = some_bytes(2000);
    for (size_t k = 0; k < COUNT(kinds); k++) {
        struct buf packed;
        buf_init(&packed, NULL, SIZE_MAX);
        assert_ok(kinds[k].to(buf_view(&data), 3, &packed, e));
        for (size_t cut = 0; cut < packed.n; cut++) {
            struct buf out;
            buf_init(&out, NULL, 1 << 20);
            const uint8_t *p = tail_guard(packed.p, cut);
            err why = {0};
            if (kinds[k].from(str_make(p, cut), &out, &why)) fail_msg("%s %zu", kinds[k].name, cut);
            assert_int_equal(why.code, ERR_INVALID_ARGUMENT);
            buf_release(&out);
        }
        struct buf out;
        buf_init(&out, NULL, 1 << 20);
        packed.p[packed.n / 2] ^= 0x55;
        err why = {0};
        bool ok = kinds[k].from(buf_view(&packed), &out, &why);
        assert_true(!ok || !str_eq(buf_view(&out), buf_view(&data)));
        if (k == 0) assert_false(ok);  // gzip has a checksum
        buf_release(&out);
        buf_release(&packed);
    }
    buf_release(&data);
}

// A header with every optional part: extra bytes, name, comment and a checksum over all of it.
static void a_checksum_of_a_gzip_header_is_checked(void **state)
{
    (void)state;
    static const char sound[] = "\x1f\x8b\x08\x1e\0\0\0\0\0\x03"
                                "\x02\0xy"
                                "name\0"
                                "note\0"
                                "\x40\xfd"
                                "\xcb\xcf\x4b\x05\x00\xf1\x86\x6c\x7a\x03\0\0\0";
    enum {
        HEADER = 26
    };
    for (size_t wrong = 0; wrong <= HEADER; wrong++) {
        char bytes[sizeof sound - 1];
        struct buf out;
        buf_init(&out, NULL, 100);
        memcpy(bytes, sound, sizeof bytes);
        if (wrong < HEADER) bytes[wrong] ^= 0x20;
        err why = {0};
        bool ok = compress_gunzip(str_make(bytes, sizeof bytes), &out, &why);
        if (ok != (wrong == HEADER)) fail_msg("byte %zu: %s", wrong, why.msg);
        if (ok) assert_true(str_is(buf_view(&out), "one"));
        buf_release(&out);
    }
}

static void a_lie_about_the_size_is_survived(void **state)
{
    (void)state;
    struct buf packed;
    buf_init(&packed, NULL, SIZE_MAX);
    assert_ok(compress_gzip(S("hello"), 6, &packed, e));
    memset(packed.p + packed.n - 4, 0xff, 4);
    struct mem_budget budget;
    mem_budget_init(&budget, "bodies", NULL, 0);
    struct buf out;
    buf_init(&out, &budget, SIZE_MAX);
    err why = {0};
    assert_false(compress_gunzip(buf_view(&packed), &out, &why));
    assert_int_equal(why.code, ERR_INVALID_ARGUMENT);
    assert_true(budget.peak < 100000);
    buf_release(&out);
    buf_release(&packed);
}

static void a_huge_zstd_window_is_refused(void **state)
{
    (void)state;
    // a frame that asks for a window of 128 MB and holds one empty raw block
    str frame = S("\x28\xb5\x2f\xfd\x00\x88\x01\x00\x00");
    struct buf out;
    buf_init(&out, NULL, 1 << 20);
    err why = {0};
    assert_false(compress_unzstd(frame, &out, &why));
    assert_int_equal(why.code, ERR_INVALID_ARGUMENT);
    str modest = S("\x28\xb5\x2f\xfd\x00\x58\x01\x00\x00");
    assert_ok(compress_unzstd(modest, &out, e));
    buf_release(&out);
}

static bool gunzip_once(void *arg, err *e)
{
    struct buf *packed = arg;
    struct buf out;
    buf_init(&out, NULL, 1 << 20);
    bool ok = compress_gunzip(buf_view(packed), &out, e);
    buf_release(&out);
    return ok;
}

static void zstd_fills_room_that_was_made(void **state)
{
    (void)state;
    struct buf packed;
    char out[12];
    err why = {0};
    buf_init(&packed, NULL, SIZE_MAX);
    assert_ok(compress_zstd(S("hello "), 3, &packed, e));
    assert_ok(compress_zstd(S("world"), 3, &packed, e));
    assert_ok(compress_unzstd_to(buf_view(&packed), out, 11, e));
    assert_memory_equal(out, "hello world", 11);
    assert_false(compress_unzstd_to(buf_view(&packed), out, 12, &why));
    assert_non_null(strstr(why.msg, "zstd data has 11 bytes instead of 12"));
    assert_false(compress_unzstd_to(buf_view(&packed), out, 10, &why));
    assert_int_equal(why.code, ERR_INVALID_ARGUMENT);
    assert_false(compress_unzstd_to(str_make(packed.p, packed.n - 1), out, 11, &why));
    assert_false(compress_unzstd_to(S("none"), out, 4, &why));
    buf_release(&packed);
}

static void a_kept_compressor_gives_what_a_fresh_one_gives(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 700, 3, 70000, 700, 12};
    struct compressor z = {0};
    for (size_t i = 0; i < 100 * COUNT(sizes); i++) {
        struct buf plain = some_bytes(sizes[i % COUNT(sizes)]);
        struct buf kept;
        struct buf fresh;
        buf_init(&kept, NULL, SIZE_MAX);
        buf_init(&fresh, NULL, SIZE_MAX);
        assert_ok(compressor_zstd(&z, buf_view(&plain), 1 + (int)(i % 3), &kept, e));
        assert_ok(compress_zstd(buf_view(&plain), 1 + (int)(i % 3), &fresh, e));
        assert_true(str_eq(buf_view(&kept), buf_view(&fresh)));
        buf_release(&fresh);
        buf_release(&kept);
        buf_release(&plain);
    }
    assert_int_equal(z.made, 1);
    compressor_release(&z);
}

static void a_kept_compressor_gives_much_memory_back(void **state)
{
    (void)state;
    struct compressor z = {0};
    struct buf plain = some_bytes((size_t)4 << 20);
    struct buf packed;
    buf_init(&packed, NULL, SIZE_MAX);
    assert_ok(compressor_zstd(&z, buf_view(&plain), 9, &packed, e));
    assert_null(z.context);
    assert_ok(compressor_zstd(&z, S("some more"), 9, &packed, e));
    assert_non_null(z.context);
    assert_int_equal(z.made, 2);
    compressor_release(&z);
    compressor_release(&z);
    buf_release(&packed);
    buf_release(&plain);
}

static void inflating_survives_malloc_failures(void **state)
{
    (void)state;
    static char zeros[100000];
    struct buf packed;
    buf_init(&packed, NULL, SIZE_MAX);
    assert_ok(compress_gzip(str_make(zeros, sizeof zeros), 6, &packed, e));
    assert_true(torture(gunzip_once, &packed) >= 2);
    buf_release(&packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_comes_back),
        cmocka_unit_test(output_stops_at_the_cap),
        cmocka_unit_test(an_empty_output_fits_into_nothing),
        cmocka_unit_test(several_members_are_one_stream),
        cmocka_unit_test(damage_and_cuts_are_invalid),
        cmocka_unit_test(a_checksum_of_a_gzip_header_is_checked),
        cmocka_unit_test(a_lie_about_the_size_is_survived),
        cmocka_unit_test(a_huge_zstd_window_is_refused),
        cmocka_unit_test(zstd_fills_room_that_was_made),
        cmocka_unit_test(a_kept_compressor_gives_what_a_fresh_one_gives),
        cmocka_unit_test(a_kept_compressor_gives_much_memory_back),
        cmocka_unit_test(inflating_survives_malloc_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
