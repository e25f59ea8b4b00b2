// SPDX-License-Identifier: Apache-2.0
//
// Blocks that were cut, flipped or claim what they have not: refused by name, or read as if nothing
// had happened where the bit does not matter.
#include "base/hash.h"
#include "unit/block/model_read.h"
#include "unit/block/read_all.h"

static struct buf block;

static struct model *small_block(enum block_kind kind)
{
    struct random r = {0x5eed + kind};
    struct model_size z = {
        .services = 1, .types = 1, .keys = 1, .rows = 4, .stacks = 6, .entries = 4, .spans = true};
    struct model *m = model_make(&r, kind, &z);
    struct block_written written = {0};
    buf_init(&block, NULL, SIZE_MAX);
    assert_ok(model_write(m, NULL, &block, &written, e));
    return m;
}

// Of a copy that ends where its memory ends: a sanitizer sees who reads on.
static bool is_read(str bytes, err *e)
{
    struct arena a;
    arena_init(&a, NULL, (size_t)16 << 20);
    char *copy = malloc(bytes.n + 1);
    assert_non_null(copy);
    memcpy(copy + 1, bytes.p, bytes.n);
    bool ok = read_block(&a, str_make(copy + 1, bytes.n), e);
    arena_release(&a);
    free(copy);
    return ok;
}

static void every_flipped_bit_is_found(void **state)
{
    (void)state;
    for (enum block_kind kind = BLOCK_RAW; kind <= BLOCK_HOURS; kind++) {
        small_block(kind);
        err e = {0};
        assert_true(is_read(buf_view(&block), &e));
        for (size_t i = 0; i < block.n * 8; i++) {
            err fault = {0};
            block.p[i / 8] = (char)(block.p[i / 8] ^ 1 << i % 8);
            if (is_read(buf_view(&block), &fault)) fail_msg("bit %zu of byte %zu", i % 8, i / 8);
            assert_int_equal(fault.code, ERR_DATA_LOSS);
            block.p[i / 8] = (char)(block.p[i / 8] ^ 1 << i % 8);
        }
        buf_release(&block);
    }
}

static void every_cut_is_found(void **state)
{
    (void)state;
    small_block(BLOCK_RAW);
    for (size_t n = 0; n < block.n; n++) {
        err fault = {0};
        assert_false(is_read(str_make(block.p, n), &fault));
        assert_int_equal(fault.code, ERR_DATA_LOSS);
        assert_false(is_read(str_slice(buf_view(&block), n + 1, block.n), &fault));
        assert_int_equal(fault.code, ERR_DATA_LOSS);
    }
    buf_release(&block);
}

// ---- the trailer
static void put32(char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (char)(v >> (8 * i));
}

static const struct {
    const char *name;
    int at;
    uint32_t value;
    enum err_code code;
    const char *message;
} trailers[] = {
    {"version 1", 20, 1, ERR_FAILED_PRECONDITION,
     "the block has format version 1, this program reads versions 2 to 6"},
    {"far footer", 4, 1, ERR_DATA_LOSS, "the footer is not before it"},
    {"footer too long", 8, UINT32_MAX, ERR_DATA_LOSS, "the footer is not before it"},
    {"raw too large", 12, UINT32_MAX, ERR_DATA_LOSS, "the footer is not before it"},
};

static void trailers_are_checked(void **state)
{
    (void)state;
    small_block(BLOCK_RAW);
    for (size_t i = 0; i < COUNT(trailers); i++) {
        struct block_extent x = {0};
        err e = {0};
        char t[BLOCK_TRAILER];
        memcpy(t, block.p + block.n - BLOCK_TRAILER, sizeof t);
        put32(t + trailers[i].at, trailers[i].value);
        put32(t + 24, crc32c(0, t, 24));
        assert_false(block_trailer(str_make(t, sizeof t), block.n, &x, &e));
        if (e.code != trailers[i].code || !strstr(e.msg, trailers[i].message)) {
            fail_msg("%s: %s", trailers[i].name, e.msg);
        }
    }
    buf_release(&block);
}

static void what_is_no_block_is_told(void **state)
{
    (void)state;
    struct block_extent x = {0};
    err e = {0};
    char zeros[64] = {0};
    assert_false(block_trailer(str_make(zeros, 31), 31, &x, &e));
    assert_non_null(strstr(e.msg, "this is no block: it has 31 bytes"));
    assert_false(block_trailer(str_make(zeros, 64), 64, &x, &e));
    assert_non_null(strstr(e.msg, "it does not end with FTBL"));
}

// A section of few bytes that claims to be many takes no memory.
static void claims_cost_nothing(void **state)
{
    (void)state;
    struct arena a;
    struct buf packed;
    str out = {0};
    err e = {0};
    arena_init(&a, NULL, (size_t)1 << 30);
    buf_init(&packed, NULL, SIZE_MAX);
    static const char frame[] = "\x28\xb5\x2f\xfd\x04\x00\x01\x00\x00\x99\xe9\xd8\x51";
    struct block_extent x = {.stored = sizeof frame - 1,
                             .raw = 1000,
                             .crc = crc32c(0, frame, sizeof frame - 1),
                             .packed = true};
    assert_false(block_section(&a, &x, str_make(frame, sizeof frame - 1), "index", &out, &e));
    assert_int_equal(e.code, ERR_DATA_LOSS);
    assert_non_null(strstr(e.msg, "index at 0: "));
    assert_true(a.reserved <= (size_t)1 << 20);
    buf_release(&packed);
    arena_release(&a);
}

// A checksum says that bytes are as they were written, not that their writer was right. Readers
// look at the slot behind a total's, which must be a time.
static void a_slot_of_totals_beyond_all_times_is_damage(void **state)
{
    (void)state;
    // One part of one total: its slot, the same for all; a sum of 0; one profile.
    static const char *const frames[] = {
        "\x01\x01\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x01\x02",  // INT64_MAX
        "\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x01\x02",  // INT64_MIN
    };
    for (size_t i = 0; i < COUNT(frames); i++) {
        struct arena a;
        struct block_total *v = NULL;
        err e = {0};
        arena_init(&a, NULL, (size_t)1 << 20);
        assert_false(block_totals_parse(&a, str_make(frames[i], 15), 1, &v, &e));
        assert_int_equal(e.code, ERR_DATA_LOSS);
        assert_non_null(strstr(e.msg, "a slot of totals is of no time"));
        arena_release(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(every_flipped_bit_is_found),
        ARENA_TEST(every_cut_is_found),
        ARENA_TEST(trailers_are_checked),
        ARENA_TEST(what_is_no_block_is_told),
        ARENA_TEST(claims_cost_nothing),
        ARENA_TEST(a_slot_of_totals_beyond_all_times_is_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
