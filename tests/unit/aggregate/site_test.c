// SPDX-License-Identifier: Apache-2.0
//
// What lies under a call site counts, in a table that grows too, and its sum is refused only for
// its size.
#include "aggregate/site.h"
#include "model/columns.h"
#include "unit/model/stacks.h"

static const char *const stacks[] = {"main", "main;work", "main;work;deep",
                                     "init", "init;work", ""};

struct world {
    struct symbols s;
    uint32_t row[COUNT(stacks)];
    uint32_t matched[32];
    struct arena scratch;
};

static void begin(struct world *w)
{
    assert_ok(symbols_init(&w->s, NULL, e));
    for (size_t i = 0; i < COUNT(stacks); i++) {
        err e = {0};
        w->row[i] = stack_of_text(&w->s, str_of(stacks[i]), &e);
        assert_int_not_equal(w->row[i], MAP_NONE);
    }
    assert_true(w->s.t.stack_count <= COUNT(w->matched));
    arena_init(&w->scratch, NULL, SIZE_MAX);
}

static void end(struct world *w)
{
    symbols_release(&w->s);
    arena_release(&w->scratch);
}

// Both forms of the same entries; they must agree in all that they say.
static bool sum(struct world *w, const struct site *site, const struct vector_entry *v, size_t n,
                int64_t factor, struct wide *value, bool *any, err *why)
{
    struct vector_entry sorted[COUNT(stacks)];
    struct buf vector;
    struct buf columns;
    struct wide other = {0};
    bool other_any = false;
    err other_e = {0};
    memcpy(sorted, v, n * sizeof *v);
    assert_ok(vector_normalise(sorted, &n, e));
    buf_init(&vector, NULL, 1000);
    buf_init(&columns, NULL, 1000);
    vector_encode(sorted, n, &vector);
    columns_encode(sorted, n, &columns);
    bool ok = site_sum_vector(site, buf_view(&vector), factor, value, any, why);
    bool other_ok = site_sum_columns(site, &w->scratch, buf_view(&columns), factor, &other,
                                     &other_any, &other_e);
    assert_int_equal(ok, other_ok);
    if (ok) assert_true(wide_cmp(*value, other) == 0 && *any == other_any);
    if (!ok) assert_int_equal(why->code, other_e.code);
    buf_release(&vector);
    buf_release(&columns);
    return ok;
}

static void what_lies_under_a_call_site_counts(void **state)
{
    (void)state;
    static const str names[] = {S_INIT("main"), S_INIT("work")};
    static const str nowhere = S_INIT("work");
    static const struct {
        const str *names;
        size_t n;
        int64_t want;
        bool any;
    } cases[] = {{names, 0, 111111, true},
                 {names, 1, 111, true},
                 {names, 2, 110, true},
                 {&nowhere, 1, 0, false}};
    struct world w = {0};
    struct vector_entry v[COUNT(stacks)];
    begin(&w);
    int64_t value = 1;
    for (size_t i = 0; i < COUNT(stacks); i++, value *= 10)
        v[i] = (struct vector_entry){w.row[i], value};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct site site = {.names = cases[i].names, .n = cases[i].n};
        struct wide got = {0};
        bool any = false;
        if (site.n) site_match(&site, &w.s.t, w.matched);
        site.stacks = w.s.t.stack_count;
        assert_ok(sum(&w, &site, v, COUNT(v), -3, &got, &any, e));
        assert_true(wide_fits(got));
        assert_int_equal(got.low, -3 * cases[i].want);
        assert_int_equal(any, cases[i].any);
    }
    end(&w);
}

static void a_table_that_grows_is_matched_on(void **state)
{
    (void)state;
    static const str names[] = {S_INIT("main"), S_INIT("work")};
    struct world w = {0};
    struct site site = {.names = names, .n = 2};
    err why = {0};
    struct wide got = {0};
    bool any = false;
    begin(&w);
    site_match(&site, &w.s.t, w.matched);
    uint32_t before = site.stacks;
    uint32_t row = stack_of_text(&w.s, S("main;work;late"), &why);
    const struct vector_entry v = {row, 5};
    // A vector that names what was not looked at is never taken for one that is not there.
    assert_int_equal(row, before);
    assert_false(sum(&w, &site, &v, 1, 1, &got, &any, &why));
    assert_int_equal(why.code, ERR_DATA_LOSS);
    site_match(&site, &w.s.t, w.matched);
    assert_ok(sum(&w, &site, &v, 1, 1, &got, &any, e));
    assert_true(any && wide_fits(got) && got.low == 5);
    end(&w);
}

static void the_value_of_a_part_may_exceed_64_bits_and_says_so_whatever_the_order(void **state)
{
    (void)state;
    static const int64_t parts[][3] = {{INT64_MAX, 1, -1}, {INT64_MIN, -1, 1}};
    static const int64_t factors[] = {1, 2, -1, 0};
    struct world w = {0};
    begin(&w);
    const struct site all = {.stacks = w.s.t.stack_count};
    for (size_t i = 0; i < COUNT(parts); i++) {
        for (size_t f = 0; f < COUNT(factors); f++) {
            struct vector_entry v[3];
            struct wide got = {0};
            bool any = false;
            for (size_t k = 0; k < 3; k++)
                v[k] = (struct vector_entry){w.row[k], parts[i][k]};
            __int128 want = (__int128)parts[i][0] * factors[f];
            bool fits = want >= INT64_MIN && want <= INT64_MAX;
            assert_ok(sum(&w, &all, v, 3, factors[f], &got, &any, e));
            assert_int_equal(wide_fits(got), fits);
            assert_true((__int128)got.carry * ((__int128)1 << 64) + got.low == want);
        }
    }
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lies_under_a_call_site_counts),
        cmocka_unit_test(a_table_that_grows_is_matched_on),
        cmocka_unit_test(the_value_of_a_part_may_exceed_64_bits_and_says_so_whatever_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
