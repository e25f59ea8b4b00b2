// SPDX-License-Identifier: Apache-2.0
//
// Sources of several symbol tables merge into one table and one sum for each stack, in any order.
#include "model/merge.h"
#include "model/vector.h"
#include "unit/model/random.h"
#include "unit/model/stacks.h"

// A table with a vector of random stacks of it.
struct source {
    struct symbols symbols;
    struct buf vector;
    int64_t total;
};

static void random_source(struct random *r, struct source *s)
{
    enum {
        MOST = 200
    };
    assert_ok(symbols_init(&s->symbols, NULL, e));
    random_symbols(r, &s->symbols, (int)random_below(r, MOST));
    struct vector_entry v[MOST];
    size_t n = random_below(r, MOST);
    s->total = 0;
    for (size_t i = 0; i < n; i++) {
        v[i] = (struct vector_entry){random_below(r, s->symbols.t.stack_count),
                                     (int64_t)random_below(r, 1000) - 100};
        s->total += v[i].value;
    }
    assert_ok(vector_normalise(v, &n, e));
    buf_init(&s->vector, NULL, 1 << 20);
    vector_encode(v, n, &s->vector);
}

static void source_release(struct source *s)
{
    symbols_release(&s->symbols);
    buf_release(&s->vector);
}

static int64_t total_of(const struct merge *m)
{
    int64_t total = 0;
    for (uint32_t i = 0; i < m->symbols.t.stack_count; i++)
        total += m->sums[i];
    return total;
}

static str tree_text(struct arena *a, const struct merge *m)
{
    struct tree t;
    assert_ok(tree_build(a, &m->symbols.t, m->sums, NULL, 0, &t, e));
    return text_of_tree(a, &t);
}

// Parts in any order, whole or by names only, dense or sparse, through the wire or not: one result.
static void merging_commutes(void **state)
{
    (void)state;
    struct random r = {7};
    for (int round = 0; round < 60; round++) {
        struct arena a;
        struct source s[3];
        struct merge m[4];
        int64_t total = 0;
        arena_init(&a, NULL, 64 << 20);
        for (size_t i = 0; i < COUNT(s); i++) {
            random_source(&r, &s[i]);
            total += s[i].total * (int64_t)(i + 1);
        }
        for (size_t i = 0; i < COUNT(m); i++)
            assert_ok(merge_init(&m[i], NULL, i == 1, e));
        for (size_t i = 0; i < COUNT(s); i++) {
            size_t back = COUNT(s) - 1 - i;
            assert_ok(merge_add(&m[0], &s[i].symbols.t, buf_view(&s[i].vector), (int64_t)i + 1, e));
            assert_ok(merge_add(&m[1], &s[back].symbols.t, buf_view(&s[back].vector),
                                (int64_t)back + 1, e));
            int64_t *dense = ARENA_ARRAY(&a, int64_t, s[back].symbols.t.stack_count);
            assert_ok(vector_add(buf_view(&s[back].vector), (int64_t)back + 1, dense,
                                 s[back].symbols.t.stack_count, e));
            assert_ok(merge_add_sums(&m[2], &s[back].symbols.t, dense, e));
        }
        struct buf symbols;
        struct buf vector;
        struct symbol_table decoded;
        buf_init(&symbols, NULL, 1 << 20);
        buf_init(&vector, NULL, 1 << 20);
        assert_ok(merge_encode(&m[0], &a, &symbols, &vector, NULL, e));
        assert_ok(symbols_decode(&a, buf_view(&symbols), &decoded, e));
        assert_ok(merge_add(&m[3], &decoded, buf_view(&vector), 1, e));
        str wanted = tree_text(&a, &m[0]);
        for (size_t i = 0; i < COUNT(m); i++) {
            assert_true(total_of(&m[i]) == total);
            assert_true(str_eq(tree_text(&a, &m[i]), wanted));
            merge_release(&m[i]);
        }
        buf_release(&symbols);
        buf_release(&vector);
        for (size_t i = 0; i < COUNT(s); i++)
            source_release(&s[i]);
        arena_release(&a);
    }
}

static void a_source_adds_many_vectors(void **state)
{
    (void)state;
    struct random r = {8};
    struct arena a;
    struct source s;
    struct merge one;
    struct merge two;
    struct merge_source source;
    arena_init(&a, NULL, 1 << 20);
    random_source(&r, &s);
    assert_ok(merge_init(&one, NULL, false, e));
    assert_ok(merge_init(&two, NULL, false, e));
    assert_ok(merge_from(&one, &a, &s.symbols.t, &source, e));
    for (int i = 0; i < 3; i++)
        assert_ok(merge_source_add(&source, buf_view(&s.vector), 1, e));
    assert_ok(merge_add(&two, &s.symbols.t, buf_view(&s.vector), 3, e));
    assert_int_equal(one.symbols.t.stack_count, two.symbols.t.stack_count);
    assert_memory_equal(one.sums, two.sums, one.symbols.t.stack_count * sizeof *one.sums);
    merge_release(&one);
    merge_release(&two);
    source_release(&s);
    arena_release(&a);
}

static void only_stacks_with_a_sum_are_written(void **state)
{
    (void)state;
    struct arena a;
    struct merge m;
    struct buf symbols;
    struct buf vector;
    struct symbol_table t;
    arena_init(&a, NULL, 1 << 20);
    buf_init(&symbols, NULL, 1 << 20);
    buf_init(&vector, NULL, 1 << 20);
    assert_ok(merge_init(&m, NULL, false, e));
    const struct text_sum sums[] = {{"a;b", 1}, {"c", 5}, {"c", -5}, {"", 4}, {"a;d", 2}};
    assert_ok(sum_stacks(&m, sums, COUNT(sums), e));
    assert_ok(merge_encode(&m, &a, &symbols, &vector, NULL, e));
    assert_ok(symbols_decode(&a, buf_view(&symbols), &t, e));
    assert_int_equal(t.stack_count, 4);
    assert_int_equal(t.string_count, 4);
    int64_t dense[4] = {0};
    assert_ok(vector_add(buf_view(&vector), 1, dense, 4, e));
    const int64_t wanted[4] = {4, 0, 1, 2};
    assert_memory_equal(dense, wanted, sizeof wanted);
    merge_release(&m);
    buf_release(&symbols);
    buf_release(&vector);
    arena_release(&a);
}

static void what_does_not_fit_is_an_error(void **state)
{
    (void)state;
    struct merge m;
    struct buf v;
    struct symbols s;
    err fault = {0};
    buf_init(&v, NULL, 1000);
    assert_ok(merge_init(&m, NULL, false, e));
    assert_ok(symbols_init(&s, NULL, e));
    assert_int_equal(stack_of_text(&s, S("a"), &fault), 1);
    vector_encode((struct vector_entry[]){{1, INT64_MAX}}, 1, &v);
    assert_ok(merge_add(&m, &s.t, buf_view(&v), 1, e));
    assert_false(merge_add(&m, &s.t, buf_view(&v), 1, &fault));
    assert_int_equal(fault.code, ERR_OUT_OF_RANGE);
    assert_false(merge_add(&m, &s.t, buf_view(&v), 2, &fault));
    assert_int_equal(fault.code, ERR_OUT_OF_RANGE);
    buf_clear(&v);
    vector_encode((struct vector_entry[]){{2, 1}}, 1, &v);
    assert_false(merge_add(&m, &s.t, buf_view(&v), 1, &fault));
    assert_int_equal(fault.code, ERR_INVALID_ARGUMENT);
    assert_false(merge_add(&m, &s.t, S("\x01"), 1, &fault));
    assert_int_equal(fault.code, ERR_INVALID_ARGUMENT);
    symbols_release(&s);
    merge_release(&m);
    buf_release(&v);
}

static void the_budget_limits_and_is_given_back(void **state)
{
    (void)state;
    struct mem_budget budget;
    struct random r = {9};
    struct source s;
    struct merge m;
    err fault = {0};
    mem_budget_init(&budget, "query", NULL, 2500);
    random_source(&r, &s);
    assert_ok(merge_init(&m, &budget, false, e));
    assert_false(merge_add(&m, &s.symbols.t, buf_view(&s.vector), 1, &fault));
    assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
    merge_release(&m);
    merge_release(&m);
    assert_int_equal(atomic_load(&budget.used), 0);
    source_release(&s);
}

static bool merge_and_encode(void *arg, err *e)
{
    struct source *s = arg;
    struct arena a;
    struct merge m = {0};
    struct buf symbols;
    struct buf vector;
    arena_init(&a, NULL, 1 << 20);
    buf_init(&symbols, NULL, 1 << 20);
    buf_init(&vector, NULL, 1 << 20);
    bool ok = merge_init(&m, NULL, false, e) &&
              merge_add(&m, &s->symbols.t, buf_view(&s->vector), 1, e) &&
              merge_encode(&m, &a, &symbols, &vector, NULL, e);
    merge_release(&m);
    buf_release(&symbols);
    buf_release(&vector);
    arena_release(&a);
    return ok;
}

static void merging_survives_failing_allocations(void **state)
{
    (void)state;
    struct random r = {10};
    struct source s;
    random_source(&r, &s);
    assert_true(torture(merge_and_encode, &s) > 20);
    source_release(&s);
}

// Stacks a, b and c with these sums, in this order of adding.
static void add_three(struct merge *m, const int64_t sums[3], const int order[3])
{
    static const char *const names[] = {"main;a", "main;b", "main;c"};
    struct symbols s;
    assert_ok(symbols_init(&s, NULL, e));
    for (int k = 0; k < 3; k++) {
        int i = order[k];
        struct wide v[8] = {0};
        uint32_t row = stack_of_text(&s, str_of(names[i]), &(err){0});
        assert_true(row < COUNT(v));
        wide_add(&v[row], sums[i]);
        assert_ok(merge_add_wide(m, &s.t, v, e));
    }
    symbols_release(&s);
}

// Only the last sums decide what fits: neither the order in which parts come, nor another node on
// their way, changes it.
static void a_wide_merge_fits_by_its_last_sums_in_any_order(void **state)
{
    (void)state;
    static const int orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {0, 2, 1}};
    static const struct {
        int64_t sums[3];
        bool fits;
        struct wide total;
    } cases[] = {
        {{INT64_MAX, 10, -100}, true, {INT64_MAX - 90, 0}},
        {{INT64_MIN, -1, 2}, true, {INT64_MIN + 1, 0}},
        {{INT64_MAX, 1, 0}, false, {INT64_MIN, 1}},
        {{INT64_MIN, -1, 0}, false, {INT64_MAX, -1}},
        {{INT64_MAX, INT64_MAX, INT64_MAX}, false, {INT64_MAX - 2, 1}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        for (size_t o = 0; o < COUNT(orders); o++) {
            struct merge m;
            struct merge other;
            struct arena a;
            struct symbol_table from;
            struct buf parts[3];
            bool fits = false;
            struct wide total = {0};
            arena_init(&a, NULL, 1 << 20);
            assert_ok(merge_init(&m, NULL, true, e));
            assert_ok(merge_init(&other, NULL, true, e));
            m.wide = other.wide = true;
            add_three(&m, cases[i].sums, orders[o]);
            assert_ok(merge_fits(&m, &fits, &total, e));
            assert_true(fits == cases[i].fits && wide_cmp(total, cases[i].total) == 0);
            if (fits) {
                struct tree t;
                assert_ok(tree_build(&a, &m.symbols.t, m.sums, NULL, 0, &t, e));
                assert_true(t.nodes[0].total == total.low);
            }
            for (size_t k = 0; k < COUNT(parts); k++)
                buf_init(&parts[k], NULL, 1 << 20);
            add_three(&m, cases[i].sums, orders[o]);  // twice, so that stacks carry too
            assert_ok(merge_encode(&m, &a, &parts[0], &parts[1], &parts[2], e));
            assert_ok(symbols_decode(&a, buf_view(&parts[0]), &from, e));
            assert_ok(
                merge_add_encoded(&other, &from, buf_view(&parts[1]), buf_view(&parts[2]), e));
            assert_ok(merge_unite(&other, &m, e));
            assert_ok(merge_fits(&other, &fits, &total, e));
            struct wide want = {0};
            for (int k = 0; k < 4; k++)
                wide_unite(&want, cases[i].total);
            assert_true(!fits && wide_cmp(total, want) == 0);
            for (size_t k = 0; k < COUNT(parts); k++)
                buf_release(&parts[k]);
            merge_release(&m);
            merge_release(&other);
            arena_release(&a);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merging_commutes),
        cmocka_unit_test(a_source_adds_many_vectors),
        cmocka_unit_test(only_stacks_with_a_sum_are_written),
        cmocka_unit_test(what_does_not_fit_is_an_error),
        cmocka_unit_test(the_budget_limits_and_is_given_back),
        cmocka_unit_test(merging_survives_failing_allocations),
        cmocka_unit_test(a_wide_merge_fits_by_its_last_sums_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
