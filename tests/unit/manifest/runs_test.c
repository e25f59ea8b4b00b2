// SPDX-License-Identifier: Apache-2.0
//
// Runs of cuts are sets of segments: whatever is done with them is what would be done with the
// names one by one.
#include "lib/test.h"
#include "manifest/runs.h"

#include <stdlib.h>

#define HOURS   3
#define STREAMS 3
#define PARTS   2
#define CUTS    24
#define ALL     (HOURS * STREAMS * PARTS * CUTS)
#define BASE    INT64_C(497222)

static uint64_t state_of = 1;

static uint32_t random_below(uint32_t n)
{
    state_of = state_of * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(state_of >> 33) % n;
}

static id128 stream_of(size_t i)
{
    return (id128){{(uint8_t)(10 * i + 1)}};
}

static struct segment_name name_of(size_t i)
{
    return (struct segment_name){.hour = BASE + (int64_t)(i / (STREAMS * PARTS * CUTS)),
                                 .stream = stream_of(i / (PARTS * CUTS) % STREAMS),
                                 .part = (uint32_t)(i / CUTS % PARTS),
                                 .cut = 500 + i % CUTS};
}

// A set of names, at random and in no order, some twice.
static size_t any_set(struct segment_run *v, bool in[ALL])
{
    size_t n = 0;
    uint32_t often = 1 + random_below(4);
    for (size_t i = 0; i < ALL; i++) {
        in[i] = random_below(often) == 0;
        const struct segment_name name = name_of(i);
        for (uint32_t k = in[i] ? 1 + random_below(2) : 0; k-- > 0;) {
            size_t at = random_below((uint32_t)n + 1);
            v[n++] = v[at];
            v[at] = segment_run_of(&name);
        }
    }
    return segment_runs_join(v, n);
}

static void expect_set(const struct segment_run *v, size_t n, const bool in[ALL])
{
    size_t count = 0;
    for (size_t i = 0; i < ALL; i++) {
        const struct segment_name name = name_of(i);
        const struct segment_run one = segment_run_of(&name);
        size_t found = 0;
        for (size_t k = 0; k < n; k++)
            found += segment_runs_meet(&v[k], &one);
        assert_int_equal(found, in[i]);
        count += in[i];
    }
    assert_int_equal(segment_runs_count(v, n), count);
    for (size_t i = 0; i < n; i++) {
        assert_true(segment_run_ok(&v[i]));
        if (i) assert_true(segment_run_follows(&v[i - 1], &v[i]));
    }
}

static void expect_back(struct arena *a, const struct segment_run *v, size_t n)
{
    id128 streams[STREAMS];
    struct buf b;
    size_t count = 0;
    for (size_t i = 0; i < STREAMS; i++)
        streams[i] = stream_of(i);
    buf_init(&b, NULL, 1 << 20);
    segment_runs_put(&b, v, n, BASE - 5, streams, STREAMS);
    str bytes = buf_view(&b);
    struct segment_run *back = ARENA_ARRAY(a, struct segment_run, segment_runs_most(bytes) + 1);
    assert_non_null(back);
    assert_ok(segment_runs_get(bytes, BASE - 5, streams, STREAMS, back, &count, e));
    assert_int_equal(count, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(segment_run_cmp(&v[i], &back[i]), 0);
        assert_int_equal(v[i].cuts, back[i].cuts);
    }
    buf_release(&b);
}

static void sets_are_as_their_names(void **state)
{
    static struct segment_run a[3 * ALL];
    static struct segment_run b[3 * ALL];
    static bool in_a[ALL];
    static bool in_b[ALL];
    struct arena arena;
    (void)state;
    for (int round = 0; round < 200; round++) {
        arena_init(&arena, NULL, (size_t)1 << 24);
        size_t an = any_set(a, in_a);
        size_t bn = any_set(b, in_b);
        expect_set(a, an, in_a);
        expect_back(&arena, a, an);
        bool shared = false;
        for (size_t i = 0; i < ALL; i++) {
            shared = shared || (in_a[i] && in_b[i]);
            in_a[i] = in_a[i] && !in_b[i];
        }
        struct segment_name which = {0};
        assert_int_equal(segment_runs_share(a, an, b, bn, &which), shared);
        size_t n = 0;
        const struct segment_run *left = segment_runs_minus(&arena, a, an, b, bn, &n);
        assert_non_null(left);
        expect_set(left, n, in_a);
        arena_release(&arena);
    }
}

static void the_largest_numbers_are_no_trouble(void **state)
{
    struct segment_run v[3] = {{.hour = 1, .cut = 5, .cuts = UINT32_MAX},
                               {.hour = 1, .cut = 5 + (uint64_t)UINT32_MAX, .cuts = 7},
                               {.hour = 1, .cut = 6, .cuts = 2}};
    struct segment_run beyond = {.cut = UINT64_MAX, .cuts = 1};
    struct segment_run none = {.cut = 4};
    (void)state;
    assert_int_equal(segment_runs_join(v, 3), 2);
    assert_int_equal(v[0].cuts, UINT32_MAX);
    assert_int_equal(v[1].cuts, 7);
    assert_true(segment_run_follows(&v[0], &v[1]));
    assert_false(segment_run_ok(&beyond));
    assert_false(segment_run_ok(&none));
}

static void broken_bytes_are_refused(void **state)
{
    static const struct {
        const char *hex;
        const char *text;
    } cases[] = {
        {"000003", "ends within a number"},
        {"00000380", "ends within a number"},
        {"00020300", "stream is 0 of 2"},
        {"0001030000010300", "stream is 2 of 2"},
        {"0100000300", "part is 0"},
        {"0100ffffffff1f0300", "part is 8589934591"},
        {"000003ffffffff0f", "cuts is 4294967295 and one"},
        {"feffffffffffffffff01000300", "hour is 9223372036854775807 later"},
    };
    const id128 streams[2] = {{{1}}, {{2}}};
    struct arena a;
    (void)state;
    arena_init(&a, NULL, 1 << 20);
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint8_t bytes[32];
        const size_t n = strlen(cases[i].hex) / 2;
        str given = str_make(bytes, n);
        struct segment_run *v = ARENA_ARRAY(&a, struct segment_run, segment_runs_most(given) + 1);
        size_t count = 0;
        err e = {0};
        assert_true(hex_parse(str_of(cases[i].hex), bytes, n));
        assert_false(segment_runs_get(given, 7, streams, 2, v, &count, &e));
        assert_int_equal(e.code, ERR_DATA_LOSS);
        assert_non_null(strstr(e.msg, cases[i].text));
    }
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_are_as_their_names),
        cmocka_unit_test(the_largest_numbers_are_no_trouble),
        cmocka_unit_test(broken_bytes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
