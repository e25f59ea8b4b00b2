// SPDX-License-Identifier: Apache-2.0
#include "querier/merge/merged.h"
#include "unit/querier/heads.h"

#include <stdio.h>

static const struct head_row left_rows[] = {
    {"t", "service_name=demo,pod=a", 10, {{"main;a", 1, 0}, {"main;b", 2, 0}}, 1},
    {"t", "service_name=demo,pod=b", 20, {{"main;a", 4, 0}, {"", 8, 0}}, 2},
};
static const struct head_row right_rows[] = {
    {"t", "service_name=demo,pod=a", 15, {{"init", 16, 0}, {"main;b", 32, 0}}, 3},
    {"t", "service_name=other", 30, {{"main;a", 64, 0}}, 4},
};
static const struct head heads[] = {
    {.member = "one", .rows = left_rows, .row_count = COUNT(left_rows), .stream = 1},
    {.member = "two", .rows = right_rows, .row_count = COUNT(right_rows), .stream = 2},
};

static Flametree__V1__WantTree tree = FLAMETREE__V1__WANT_TREE__INIT;
static Flametree__V1__WantTotals totals = FLAMETREE__V1__WANT_TOTALS__INIT;
static Flametree__V1__WantLabels sets = FLAMETREE__V1__WANT_LABELS__INIT;
static Flametree__V1__WantStats stats = FLAMETREE__V1__WANT_STATS__INIT;
static char pod[] = "pod";
static char *group_by[] = {pod};

// The Partial of a head for everything at once, in the arena.
static str partial(struct arena *a, const struct head *h)
{
    static Flametree__V1__HeadReadRequest m = FLAMETREE__V1__HEAD_READ_REQUEST__INIT;
    totals.first_ns = 10;
    totals.step_ns = 10;
    totals.points = 3;
    totals.n_group_by = 1;
    totals.group_by = group_by;
    m.from_ns = 0;
    m.to_ns = 100;
    m.tree = &tree;
    m.totals = &totals;
    m.labels = &sets;
    m.stats = &stats;
    const struct head_query q = {.arena = a, .m = &m, .tenant = S("t")};
    struct buf out;
    buf_init(&out, NULL, 1 << 20);
    head_put_tree(h, &q, &out);
    head_put_totals(h, &q, &out);
    head_put_sets(h, &q, &out);
    head_put_stats(h, &q, &out);
    str bytes = arena_str(a, buf_view(&out));
    buf_release(&out);
    return bytes;
}

static int64_t sum_of(const struct merged *m, const char *stack)
{
    const struct symbol_table *t = &m->stacks.symbols.t;
    int64_t sum = 0;
    for (uint32_t i = 0; i < t->stack_count; i++) {
        char text[64] = "";
        for (uint32_t at = i; at; at = t->stacks[at].parent) {
            char before[64];
            str name = symbols_frame_name(t, t->stacks[at].frame);
            int n = snprintf(before, sizeof before, "%.*s%s%s", STR(name), *text ? ";" : "", text);
            assert_true(n < (int)sizeof before);
            memcpy(text, before, sizeof text);
        }
        if (strcmp(text, stack) == 0) sum += m->stacks.sums[i];
    }
    return sum;
}

static void check(const struct merged *m)
{
    static const struct {
        const char *stack;
        int64_t sum;
    } stacks[] = {{"main;a", 69}, {"main;b", 34}, {"init", 16}, {"", 8}, {"main", 0}};
    for (size_t i = 0; i < COUNT(stacks); i++) {
        if (sum_of(m, stacks[i].stack) != stacks[i].sum) fail_msg("stack '%s'", stacks[i].stack);
    }
    assert_int_equal(m->sets.n, 3);
    assert_true(str_is(labels_get(m->sets.v[0], S("pod")), "a"));
    assert_true(str_is(labels_get(m->sets.v[2], S("service_name")), "other"));
    assert_int_equal(m->there.profiles, 4);
    assert_true(m->there.oldest_ns == 10 && m->there.newest_ns == 30);

    assert_int_equal(m->totals.group_count, 3);
    assert_int_equal(m->totals.n, 4);
    for (size_t i = 0; i < m->totals.n; i++) {
        const struct cell *t = &m->totals.v[i];
        str name = labels_get(m->totals.groups[t->group], S("pod"));
        bool ok = false;
        if (str_is(name, "a") && t->point == 0) ok = t->sum == 3 && t->count == 1;
        if (str_is(name, "a") && t->point == 1) ok = t->sum == 48 && t->count == 1;
        if (str_is(name, "b")) ok = t->point == 1 && t->sum == 12;
        if (name.n == 0) ok = t->point == 2 && t->sum == 64;
        if (!ok) fail_msg("total of '%.*s' at %lld", STR(name), (long long)t->point);
        if (i) assert_true(t[-1].group < t->group || t[-1].point < t->point);
    }
}

static void partials_add_up_in_any_order(void **state)
{
    (void)state;
    for (unsigned full = 0; full < 2; full++) {
        for (unsigned first = 0; first < 2; first++) {
            struct arena a;
            arena_init(&a, NULL, 1 << 24);
            struct merged m;
            assert_ok(merged_init(&m, NULL, 1 << 24, full, e));
            assert_ok(merged_add(&m, partial(&a, &heads[first]), e));
            assert_ok(merged_add(&m, partial(&a, &heads[!first]), e));
            assert_ok(merged_finish(&m, e));
            check(&m);
            merged_release(&m);
            arena_release(&a);
        }
    }
}

static void the_same_partial_twice_doubles_sums_and_keeps_sets(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 24);
    struct merged m;
    assert_ok(merged_init(&m, NULL, 0, false, e));
    str bytes = partial(&a, &heads[0]);
    assert_ok(merged_add(&m, bytes, e));
    assert_ok(merged_add(&m, bytes, e));
    assert_ok(merged_finish(&m, e));
    assert_true(sum_of(&m, "main;a") == 10);
    assert_int_equal(m.sets.n, 2);
    assert_int_equal(m.totals.n, 2);
    assert_true(m.totals.v[0].sum == 6 && m.totals.v[0].count == 2);
    merged_release(&m);
    arena_release(&a);
}

static void nothing_merges_to_nothing(void **state)
{
    (void)state;
    struct merged m;
    assert_ok(merged_init(&m, NULL, 1 << 20, false, e));
    assert_ok(merged_add(&m, (str){0}, e));
    assert_ok(merged_finish(&m, e));
    assert_int_equal(m.sets.n, 0);
    assert_int_equal(m.totals.n, 0);
    assert_int_equal(m.there.profiles, 0);
    assert_true(m.stacks.sums[0] == 0);
    merged_release(&m);
    merged_release(&m);
}

static void sums_beyond_64_bits_are_refused(void **state)
{
    (void)state;
    static const struct head_row rows[] = {
        {"t", "service_name=demo", 10, {{"a", INT64_MAX, 0}}, 1},
    };
    const struct head h = {.member = "one", .rows = rows, .row_count = 1, .stream = 1};
    struct arena a;
    arena_init(&a, NULL, 1 << 24);
    struct merged m;
    assert_ok(merged_init(&m, NULL, 0, false, e));
    assert_ok(merged_add(&m, partial(&a, &h), e));
    err e = {0};
    assert_false(merged_add(&m, partial(&a, &h), &e));
    assert_int_equal(e.code, ERR_OUT_OF_RANGE);
    merged_release(&m);
    arena_release(&a);
}

static void limit_of_a_query_is_named(void **state)
{
    (void)state;
    struct mem_budget process;
    mem_budget_init(&process, "process", NULL, 0);
    static struct head_row rows[1000];
    for (size_t i = 0; i < COUNT(rows); i++) {
        static char text[COUNT(rows)][32];
        snprintf(text[i], sizeof text[i], "pod=%zu", i);
        rows[i] = (struct head_row){"t", text[i], 10, {{"a", 1, 0}}, 1};
    }
    const struct head h = {.member = "one", .rows = rows, .row_count = 200, .stream = 1};
    struct arena a;
    arena_init(&a, NULL, 1 << 26);
    struct merged m;
    assert_ok(merged_init(&m, &process, 16 << 10, false, e));
    err e = {0};
    bool ok = true;
    for (int i = 0; ok && i < 10; i++)
        ok = merged_add(&m, partial(&a, &h), &e);
    assert_false(ok);
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.msg, "querier.query_memory"));
    merged_release(&m);
    assert_int_equal(process.used, 0);
    arena_release(&a);
}

static void damaged_partials_are_an_internal_fault(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 26);
    str whole = partial(&a, &heads[0]);
    size_t refused = 0;
    for (size_t n = 0; n <= whole.n; n++) {
        struct merged m;
        assert_ok(merged_init(&m, NULL, 0, false, e));
        err fault = {0};
        const uint8_t *cut = tail_guard(whole.p, n);
        if (!merged_add(&m, str_make(cut, n), &fault)) {
            assert_int_equal(fault.code, ERR_INTERNAL);
            refused++;
        } else {
            assert_ok(merged_finish(&m, e));
        }
        merged_release(&m);
    }
    assert_true(refused > whole.n / 2);
    arena_release(&a);
}

static void flipped_bits_are_refused_or_merged(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 26);
    str whole = partial(&a, &heads[0]);
    char *copy = (char *)(uintptr_t)tail_guard(whole.p, whole.n);
    for (size_t i = 0; i < whole.n * 8; i++) {
        copy[i / 8] ^= (char)(1 << i % 8);
        struct merged m;
        assert_ok(merged_init(&m, NULL, 1 << 20, false, e));
        err fault = {0};
        bool ok = merged_add(&m, str_make(copy, whole.n), &fault) && merged_finish(&m, &fault);
        if (!ok && fault.code != ERR_INTERNAL && fault.code != ERR_OUT_OF_RANGE) {
            fail_msg("bit %zu: %s", i, fault.msg);
        }
        merged_release(&m);
        copy[i / 8] ^= (char)(1 << i % 8);
    }
    arena_release(&a);
}

static bool merge_all(void *arg, err *e)
{
    const str *bytes = arg;
    struct merged m;
    bool ok = merged_init(&m, NULL, 0, true, e) && merged_add(&m, bytes[0], e) &&
              merged_add(&m, bytes[1], e) && merged_finish(&m, e);
    merged_release(&m);
    return ok;
}

static void merging_survives_any_failed_allocation(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 24);
    str bytes[2] = {partial(&a, &heads[0]), partial(&a, &heads[1])};
    assert_true(torture(merge_all, bytes) > 10);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partials_add_up_in_any_order),
        cmocka_unit_test(the_same_partial_twice_doubles_sums_and_keeps_sets),
        cmocka_unit_test(nothing_merges_to_nothing),
        cmocka_unit_test(sums_beyond_64_bits_are_refused),
        cmocka_unit_test(limit_of_a_query_is_named),
        cmocka_unit_test(damaged_partials_are_an_internal_fault),
        cmocka_unit_test(flipped_bits_are_refused_or_merged),
        cmocka_unit_test(merging_survives_any_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
