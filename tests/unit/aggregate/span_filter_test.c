// SPDX-License-Identifier: Apache-2.0
//
// A filter selects the profiles, spans and traces that are in its lists, by a table.
#include "aggregate/span_filter.h"
#include "unit/model/random.h"

#define MOST 12

static id128 id_of(uint32_t n)
{
    // The first byte differs least, so that order is by all of them.
    return (id128){.b = {(uint8_t)(n % 2), [15] = (uint8_t)(n * 37)}};
}

static bool among(const id128 *v, size_t n, id128 id)
{
    for (size_t i = 0; i < n; i++) {
        if (id128_eq(v[i], id)) return true;
    }
    return false;
}

static void a_filter_asks_for_what_is_in_its_lists(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 300; seed++) {
        struct random r = {seed};
        struct arena a;
        id128 profiles[MOST];
        id128 traces[MOST];
        uint64_t spans[MOST];
        struct span_filter f = {.profiles = profiles,
                                .profile_count = random_below(&r, MOST),
                                .spans = spans,
                                .span_count = random_below(&r, MOST),
                                .traces = traces,
                                .trace_count = random_below(&r, MOST)};
        for (size_t i = 0; i < MOST; i++) {
            profiles[i] = id_of(random_below(&r, 20));
            traces[i] = id_of(random_below(&r, 20));
            spans[i] = random_below(&r, 20);  // 0 among them
        }
        if (seed % 3 == 0) f.span_count = 0;
        if (seed % 5 == 0) f.trace_count = 0;
        struct span_filter got;
        arena_init(&a, NULL, SIZE_MAX);
        assert_ok(span_filter_sort(&a, &f, &got, e));
        assert_int_equal(span_filter_is_of_spans(&got), f.span_count || f.trace_count);
        for (uint32_t id = 0; id < 20; id++) {
            assert_int_equal(span_filter_has_profile(&got, id_of(id)),
                             f.profile_count == 0 || among(profiles, f.profile_count, id_of(id)));
            for (uint32_t trace = 0; trace < 20; trace++) {
                bool has_trace = random_below(&r, 4) > 0;
                bool span_asked = f.span_count == 0;
                for (size_t i = 0; i < f.span_count && id; i++)
                    span_asked = span_asked || spans[i] == id;
                bool want =
                    span_asked && (f.trace_count == 0 ||
                                   (has_trace && among(traces, f.trace_count, id_of(trace))));
                assert_int_equal(span_filter_has_span(&got, id, has_trace, id_of(trace)), want);
            }
        }
        arena_release(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_filter_asks_for_what_is_in_its_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
