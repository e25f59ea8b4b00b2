// SPDX-License-Identifier: Apache-2.0
//
// Sizes: compression, caps, memory.
#include "codec/compress.h"
#include "decode/decode.h"
#include "lib/arena.h"
#include "lib/pprof.h"

static const struct decode_options no_options;

// Strings, a type, two functions, one of them with a huge id, their locations, and one sample.
static void build(struct buf *b, bool with_sample)
{
    buf_init(b, NULL, SIZE_MAX / 2);
    const char *strings[] = {"", "cpu", "nanoseconds", "a", "b"};
    for (size_t i = 0; i < COUNT(strings); i++) {
        pp_string(b, strings[i]);
    }
    pp_type(b, 1, 2);
    pp_function(b, UINT64_C(1) << 63, 3, 0);
    pp_function(b, 2, 4, 0);
    pp_place(b, 1, UINT64_C(1) << 63);
    pp_place(b, 2, 2);
    if (with_sample) pp_sample(b, (uint64_t[]){2, 1}, 2, (int64_t[]){5}, 1);
    assert_false(b->failed);
}

static bool decode_into(str bytes, const struct decode_options *o, struct profile **p, err *e)
{
    struct decoded d = {0};
    if (!decode_pprof(&arena, bytes, o, &d, NULL, e)) return false;
    assert_int_equal(d.count, 1);
    *p = d.profiles;
    return true;
}

static struct profile *decoded(struct buf *b)
{
    struct profile *p = NULL;
    assert_ok(decode_into(buf_view(b), &no_options, &p, e));
    assert_non_null(p);
    return p;
}

static void pprof_inflates_what_is_gzip(void **state)
{
    (void)state;
    struct buf b;
    build(&b, true);
    struct buf z;
    buf_init(&z, NULL, 1 << 20);
    assert_ok(compress_gzip(str_make(b.p, 20), 1, &z, e));
    assert_ok(compress_gzip(str_make(b.p + 20, b.n - 20), 6, &z, e));
    struct profile *p = decoded(&z);
    assert_int_equal(p->sample_count, 1);
    assert_int_equal(p->encoded_bytes, b.n);
    for (size_t n = 2; n < z.n; n++) {
        err e = {0};
        if (decode_into(str_make(z.p, n), &no_options, &p, &e)) {
            fail_msg("gzip cut at %zu of %zu is accepted", n, z.n);
        }
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
    }
    buf_z(&z, "garbage");
    err e = {0};
    assert_false(decode_into(buf_view(&z), &no_options, &p, &e));
    assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
    buf_release(&z);
    buf_release(&b);
}

static void pprof_caps_the_size_of_raw_and_inflated_bytes(void **state)
{
    (void)state;
    struct buf b;
    build(&b, true);
    struct buf z;
    buf_init(&z, NULL, 1 << 20);
    assert_ok(compress_gzip(buf_view(&b), 6, &z, e));
    struct decoded d = {0};
    for (int zipped = 0; zipped < 2; zipped++) {
        str bytes = zipped ? buf_view(&z) : buf_view(&b);
        struct decode_options o = {.inflated_max = b.n};
        bool over = true;
        assert_ok(decode_pprof(&arena, bytes, &o, &d, &over, e));
        assert_false(over);
        o.inflated_max = b.n - 1;
        err e = {0};
        assert_false(decode_pprof(&arena, bytes, &o, &d, &over, &e));
        assert_true(over);
        assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    }
    buf_release(&z);
    buf_release(&b);
}

static void pprof_stops_a_bomb_at_the_cap(void **state)
{
    (void)state;
    struct buf zeros;
    buf_init(&zeros, NULL, 64 << 20);
    char *room = buf_reserve(&zeros, 32 << 20);
    assert_non_null(room);
    memset(room, 0, 32 << 20);
    zeros.n = 32 << 20;
    struct buf z;
    buf_init(&z, NULL, 1 << 20);
    assert_ok(compress_gzip(buf_view(&zeros), 6, &z, e));
    assert_true(z.n < 100000);
    struct mem_budget budget;
    mem_budget_init(&budget, "test", NULL, 0);
    struct arena a;
    arena_init(&a, &budget, 64 << 20);
    struct decode_options o = {.inflated_max = 1 << 20};
    struct decoded d = {0};
    bool over = false;
    err e = {0};
    assert_false(decode_pprof(&a, buf_view(&z), &o, &d, &over, &e));
    assert_true(over);
    assert_true(budget.peak <= 2 << 20);
    arena_release(&a);
    assert_int_equal(budget.used, 0);
    buf_release(&z);
    buf_release(&zeros);
}

// Two bytes a sample and two bytes a type must not make room for their product.
static void pprof_makes_no_room_for_values_that_cannot_be(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, SIZE_MAX / 2);
    pp_string(&b, "");
    for (int i = 0; i < 100000; i++) {
        pb_put_bytes(&b, 1, (str){0});
        pb_put_bytes(&b, 2, (str){0});
    }
    struct arena a;
    arena_init(&a, NULL, 16 << 20);
    struct decoded d = {0};
    err e = {0};
    assert_false(decode_pprof(&a, buf_view(&b), &no_options, &d, NULL, &e));
    assert_string_equal(e.msg, "sample value length mismatch");
    arena_release(&a);
    buf_release(&b);
}

static void pprof_reads_a_stack_of_a_million(void **state)
{
    (void)state;
    struct buf b;
    build(&b, false);
    size_t m = pb_begin(&b, 2);
    size_t inner = pb_begin(&b, 1);
    for (int i = 0; i < 1000000; i++) {
        pb_put_varint(&b, 1 + (uint64_t)i % 2);
    }
    pb_end(&b, inner);
    pb_put_u64(&b, 2, 1);
    pb_end(&b, m);
    struct profile *p = decoded(&b);
    assert_int_equal(p->samples[0].location_count, 1000000);
    buf_release(&b);
}

static void pprof_stops_at_the_arenas_cap(void **state)
{
    (void)state;
    struct buf b;
    build(&b, true);
    for (int i = 0; i < 1000000; i++) {
        pp_string(&b, "");
    }
    struct arena a;
    arena_init(&a, NULL, 8 << 20);
    struct decoded d = {0};
    err e = {0};
    assert_false(decode_pprof(&a, buf_view(&b), &no_options, &d, NULL, &e));
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    arena_release(&a);
    buf_release(&b);
}

static bool decode_all(void *arg, err *e)
{
    struct buf *b = arg;
    struct mem_budget budget;
    mem_budget_init(&budget, "test", NULL, 0);
    struct arena a;
    arena_init(&a, &budget, 1 << 20);
    struct decoded d = {0};
    bool ok = decode_pprof(&a, buf_view(b), &no_options, &d, NULL, e);
    arena_release(&a);
    assert_int_equal(budget.used, 0);
    return ok;
}

static void pprof_fails_cleanly_without_memory(void **state)
{
    (void)state;
    struct buf b;
    build(&b, true);
    struct buf z;
    buf_init(&z, NULL, 1 << 20);
    assert_ok(compress_gzip(buf_view(&b), 6, &z, e));
    assert_true(torture(decode_all, &z) > 2);
    buf_release(&z);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(pprof_inflates_what_is_gzip),
        ARENA_TEST(pprof_caps_the_size_of_raw_and_inflated_bytes),
        ARENA_TEST(pprof_stops_a_bomb_at_the_cap),
        ARENA_TEST(pprof_makes_no_room_for_values_that_cannot_be),
        ARENA_TEST(pprof_reads_a_stack_of_a_million),
        ARENA_TEST(pprof_stops_at_the_arenas_cap),
        ARENA_TEST(pprof_fails_cleanly_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
