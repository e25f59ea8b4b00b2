// SPDX-License-Identifier: Apache-2.0
#include "facts.h"
#include "ingester/head/index.h"
#include "lib/selector.h"

#include <stdio.h>

#define SETS 600

// Few values, so that sets repeat; every name may be missing.
static labels some_labels(struct arena *a, struct dice *d)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    label *v = ARENA_ARRAY(a, label, 5);
    size_t n = 0;
    for (size_t i = 0; i < COUNT(names); i++) {
        if (roll(d, 4) == 0) continue;
        v[n++] = (label){str_of(names[i]), arena_printf(a, "v%u", (unsigned)roll(d, 2 + 5 * i))};
    }
    if (n == 0) v[n++] = (label){S("e"), S("e")};
    return (labels){v, n};
}

static void some_selector(struct arena *a, struct dice *d, struct selector *sel)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    static const char *const values[] = {"",     "v0", "v1", "v10", "x",
                                         "v1.*", ".+", ".*", "|v2", "v[2-4]"};
    for (uint64_t n = roll(d, 4); n > 0; n--) {
        enum matcher_op op = (enum matcher_op)roll(d, 4);
        str name = str_of(names[roll(d, COUNT(names))]);
        assert_ok(selector_add(a, sel, op, name, str_of(values[roll(d, COUNT(values))]), e));
    }
}

static void selected_series_are_those_that_match(void **state)
{
    (void)state;
    struct arena a;
    struct index x;
    struct dice d = {11};
    labels sets[SETS];
    uint32_t rows[SETS];
    arena_init(&a, NULL, SIZE_MAX);
    index_init(&x, NULL);
    for (size_t i = 0; i < SETS; i++) {
        sets[i] = some_labels(&a, &d);
        rows[i] = index_series(&x, sets[i], labels_fingerprint(sets[i]), &(err){0});
        assert_true(rows[i] < x.series_count);
        label room[5];
        assert_true(labels_eq(index_labels(&x, rows[i], room), sets[i]));
        for (size_t k = 0; k < i; k++)
            assert_int_equal(rows[i] == rows[k], labels_eq(sets[i], sets[k]));
    }
    for (int q = 0; q < 400; q++) {
        struct selector sel = {0};
        struct index_set set;
        some_selector(&a, &d, &sel);
        assert_ok(index_select(&x, &a, &sel, &set, e));
        for (size_t i = 0; i < SETS; i++)
            assert_int_equal(index_set_has(&set, rows[i]), selector_matches(&sel, sets[i]));
        if (x.series_count % 64) assert_int_equal(set.words[set.n - 1] >> (x.series_count % 64), 0);
    }
    index_release(&x);
    arena_release(&a);
}

static void equal_fingerprints_are_told_apart(void **state)
{
    (void)state;
    struct index x;
    const label one[] = {{S("a"), S("1")}};
    const label two[] = {{S("a"), S("2")}};
    index_init(&x, NULL);
    uint32_t first = index_series(&x, (labels){one, 1}, 5, &(err){0});
    uint32_t second = index_series(&x, (labels){two, 1}, 5, &(err){0});
    assert_int_not_equal(first, second);
    assert_int_equal(index_series(&x, (labels){one, 1}, 5, &(err){0}), first);
    assert_int_equal(index_series(&x, (labels){two, 1}, 5, &(err){0}), second);
    index_release(&x);
}

static void failed_allocations_leave_a_whole_index(void **state)
{
    (void)state;
    struct arena a;
    struct dice d = {3};
    struct mem_budget b;
    labels ls[12];
    arena_init(&a, NULL, SIZE_MAX);
    mem_budget_init(&b, "index", NULL, 0);
    for (size_t i = 0; i < COUNT(ls); i++)
        ls[i] = some_labels(&a, &d);
    for (int n = 1;; n++) {
        struct index x;
        err fault = {0};
        uint32_t rows[COUNT(ls)];
        index_init(&x, &b);
        mem_fail_at(n);
        bool ok = true;
        for (size_t i = 0; i < COUNT(ls); i++) {
            rows[i] = index_series(&x, ls[i], labels_fingerprint(ls[i]), &fault);
            ok = ok && rows[i] != MAP_NONE;
        }
        bool fired = mem_fault_fired();
        mem_fail_at(0);
        assert_int_equal(ok, !fired);
        if (!ok) assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
        for (size_t i = 0; i < COUNT(ls); i++) {  // the failed one comes in now
            label room[5];
            uint32_t row = index_series(&x, ls[i], labels_fingerprint(ls[i]), &fault);
            if (rows[i] != MAP_NONE) assert_int_equal(row, rows[i]);
            assert_true(labels_eq(index_labels(&x, row, room), ls[i]));
        }
        index_release(&x);
        assert_int_equal(atomic_load(&b.used), 0);
        if (!fired) break;
    }
    arena_release(&a);
}

static bool refuse(const void *arg, err *e)
{
    (void)arg;
    return err_set(e, ERR_DEADLINE_EXCEEDED, "late");
}

static void a_selection_over_many_values_asks_whether_to_go_on(void **state)
{
    (void)state;
    struct arena a;
    struct index x;
    char value[16];
    arena_init(&a, NULL, SIZE_MAX);
    index_init(&x, NULL);
    for (int i = 0; i < 3000; i++) {
        snprintf(value, sizeof value, "v%d", i);
        const label l = {S("a"), str_of(value)};
        const labels ls = {&l, 1};
        assert_true(index_series(&x, ls, labels_fingerprint(ls), &(err){0}) != MAP_NONE);
    }
    struct selector sel = {0};
    struct index_set set;
    assert_ok(selector_add(&a, &sel, MATCH_NEQ, S("a"), S(""), e));
    assert_ok(selector_add(&a, &sel, MATCH_RE, S("a"), S("v.*7"), e));
    assert_ok(index_select(&x, &a, &sel, &set, e));
    const struct selector_most most = {.alive = refuse};
    sel.most = &most;
    err e = {0};
    assert_false(index_select(&x, &a, &sel, &set, &e));
    assert_int_equal(e.code, ERR_DEADLINE_EXCEEDED);
    index_release(&x);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(selected_series_are_those_that_match),
        cmocka_unit_test(a_selection_over_many_values_asks_whether_to_go_on),
        cmocka_unit_test(equal_fingerprints_are_told_apart),
        cmocka_unit_test(failed_allocations_leave_a_whole_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
