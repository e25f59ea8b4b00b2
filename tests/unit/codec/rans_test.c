// SPDX-License-Identifier: Apache-2.0
//
// Numbers come back from their code, which is about as long as their entropy; damage ends reading.
#include "codec/rans.h"
#include "lib/arena.h"

#define CONTEXTS 5

static const uint8_t kinds[CONTEXTS] = {0, 0, 0, 1, 1};

static uint64_t seed;

static uint64_t random_next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

// How numbers of a load are drawn.
static uint64_t draw(int load, size_t i)
{
    switch (load) {
    case 0:
        return 0;
    case 1:
        return i % 7 == 0;
    case 2:
        return random_next() % 10;
    case 3:
        return random_next() >> (random_next() % 64);
    default:
        return (uint64_t)__builtin_ctzll(random_next() | 1u << 20);
    }
}

static void encode(const uint64_t *v, const uint8_t *context, size_t n, struct buf *out)
{
    struct rans_writer x;
    buf_init(out, NULL, SIZE_MAX);
    assert_ok(rans_begin(&x, &arena, NULL, n, e));
    for (size_t i = 0; i < n; i++)
        rans_put(&x, context[i], v[i]);
    assert_ok(rans_end(&x, &arena, kinds, CONTEXTS, out, e));
    rans_release(&x);
}

static void what_is_put_is_got(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 3, 100, 20000};
    for (int load = 0; load < 5; load++) {
        for (size_t s = 0; s < COUNT(sizes); s++) {
            size_t n = sizes[s];
            uint64_t *v = ARENA_ARRAY(&arena, uint64_t, n);
            uint8_t *context = arena_new(&arena, n);
            struct buf out;
            struct rans_reader r;
            seed = 88172645463325252u + (uint64_t)load;
            for (size_t i = 0; i < n; i++) {
                v[i] = draw(load, i);
                context[i] = (uint8_t)(random_next() % (1 + (uint64_t)load));
            }
            encode(v, context, n, &out);
            assert_true(rans_open(&r, &arena, str_make(tail_guard(out.p, out.n), out.n), CONTEXTS));
            assert_false(r.bad);
            for (size_t i = 0; i < n; i++) {
                uint64_t got = rans_get(&r, context[i]);
                if (got != v[i]) fail_msg("load %d of %zu: number %zu is another", load, n, i);
            }
            assert_true(rans_done(&r));
            buf_release(&out);
        }
    }
}

// 20,000 numbers of which the i-th has probability 2^-i: two bits each; and of which all are known:
// nothing but the head.
static void numbers_cost_their_entropy(void **state)
{
    (void)state;
    enum {
        N = 20000
    };
    uint64_t *v = ARENA_ARRAY(&arena, uint64_t, N);
    uint8_t *context = arena_new(&arena, N);
    struct buf out;
    seed = 1234567;
    for (size_t i = 0; i < N; i++)
        v[i] = draw(4, i);
    encode(v, context, N, &out);
    if (out.n > N * 2 / 8 * 102 / 100 || out.n < N * 2 / 8 * 98 / 100)
        fail_msg("%zu bytes instead of %d", out.n, N * 2 / 8);
    buf_release(&out);
    memset(v, 0, N * sizeof *v);
    encode(v, context, N, &out);
    assert_true(out.n <= 16);
    buf_release(&out);
}

// Numbers of two contexts of one kind that are alike share a table, of two kinds never.
static void contexts_that_are_alike_share_a_table(void **state)
{
    (void)state;
    enum {
        N = 400
    };
    uint64_t *v = ARENA_ARRAY(&arena, uint64_t, N);
    uint8_t *context = arena_new(&arena, N);
    size_t sizes[2];
    for (int two_kinds = 0; two_kinds < 2; two_kinds++) {
        struct buf out;
        seed = 99;
        for (size_t i = 0; i < N; i++) {
            v[i] = draw(4, i);
            context[i] = (uint8_t)(two_kinds ? 2 + i % 2 : i % 2);
        }
        encode(v, context, N, &out);
        sizes[two_kinds] = out.n;
        buf_release(&out);
    }
    assert_true(sizes[0] + 4 <= sizes[1]);
}

// Flipped bits and cuts: numbers, or what is bad is told; nothing is read outside.
static void damage_is_survived(void **state)
{
    (void)state;
    enum {
        N = 300
    };
    uint64_t v[N];
    uint8_t context[N];
    struct buf out;
    size_t told = 0;
    seed = 4711;
    for (size_t i = 0; i < N; i++) {
        v[i] = draw(3, i);
        context[i] = (uint8_t)(i % CONTEXTS);
    }
    encode(v, context, N, &out);
    for (size_t bit = 0; bit < 8 * out.n; bit++) {
        struct arena a;
        struct rans_reader r;
        bool same = true;
        uint8_t *bytes = mem_try(out.n);
        assert_non_null(bytes);
        memcpy(bytes, out.p, out.n);
        bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        arena_init(&a, NULL, SIZE_MAX);
        assert_true(rans_open(&r, &a, str_make(bytes, out.n), CONTEXTS));
        for (size_t i = 0; i < N && !rans_is_bad(&r); i++)
            same = rans_get(&r, context[i]) == v[i] && same;
        told += !rans_done(&r) || !same;
        arena_release(&a);
        mem_try_free(bytes);
    }
    assert_true(told >
                8 * out.n * 9 / 10);  // else it was a bit that fills up a byte, or a like table
    for (size_t n = 0; n < out.n; n++) {
        struct rans_reader r;
        assert_true(rans_open(&r, &arena, str_make(tail_guard(out.p, n), n), CONTEXTS));
        for (size_t i = 0; i < N && !rans_is_bad(&r); i++)
            (void)rans_get(&r, context[i]);
        assert_false(rans_done(&r));
    }
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(what_is_put_is_got),
        ARENA_TEST(numbers_cost_their_entropy),
        ARENA_TEST(contexts_that_are_alike_share_a_table),
        ARENA_TEST(damage_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
