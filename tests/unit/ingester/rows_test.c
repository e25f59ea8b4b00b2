// SPDX-License-Identifier: Apache-2.0
#include "facts.h"
#include "ingester/head/ids.h"
#include "ingester/head/rows.h"
#include "model/slot.h"

#include <stdlib.h>

static void put(struct rows *r, int64_t time_ns, struct cut *cut)
{
    struct row row = {.time_ns = time_ns, .total = time_ns, .cut = cut};
    assert_ok(rows_promise(r, NULL, 1, e));
    memcpy(row.id.b, &time_ns, sizeof time_ns);
    rows_put(r, row);
}

// Sum of times in (after, until], by search.
static int64_t sum_within(const struct rows *r, int64_t after, int64_t until)
{
    int64_t sum = 0;
    struct rows_cursor c = rows_within(r, after, until);
    for (const struct row *row; (row = rows_next(&c));) {
        assert_true(row_within(row, after, until));
        sum += row->time_ns;
    }
    return sum;
}

static void rows_are_found_by_time_in_any_order_of_arrival(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int kind;
    } cases[] = {{"in order", 0}, {"backwards", 1}, {"any order", 2}, {"late now and then", 3}};
    for (size_t c = 0; c < COUNT(cases); c++) {
        struct rows r = {0};
        struct dice d = {c};
        int64_t times[3000];
        for (int i = 0; i < (int)COUNT(times); i++) {
            int64_t t = i * 10;
            if (cases[c].kind == 1) t = -t;
            if (cases[c].kind == 2 || (cases[c].kind == 3 && roll(&d, 7) == 0))
                t = (int64_t)roll(&d, 30000);
            times[i] = t;
            put(&r, t, NULL);
            assert_true(r.late_n < 64 + r.n / 8);
            for (size_t k = 1; i % 100 == 0 && k < r.n; k++)
                assert_true(r.v[k - 1].time_ns <= r.v[k].time_ns);
        }
        assert_int_equal(rows_count(&r), COUNT(times));
        for (int q = 0; q < 50; q++) {
            int64_t after = (int64_t)roll(&d, 40000) - 30000;
            int64_t until = after + (int64_t)roll(&d, 20000) - 100;
            int64_t sum = 0;
            for (size_t i = 0; i < COUNT(times); i++)
                sum += times[i] > after && times[i] <= until ? times[i] : 0;
            if (sum_within(&r, after, until) != sum) fail_msg("%s", cases[c].name);
        }
        rows_release(&r, NULL);
    }
}

static bool is_of(const void *cut, const struct row *row)
{
    return row->cut == cut;
}

// All that go, in runs; how many.
static size_t take_out(struct rows *r, struct mem_budget *b, const struct cut *cut)
{
    struct rows_gap gap;
    size_t removed = 0;
    bool done = false;
    while (!done) {
        struct rows_run run = {.left = 64};
        done = rows_thin(r, b, &gap, is_of, cut, &run);
        removed += run.removed;
        rows_waste_free(b, run.waste);
    }
    return removed;
}

static void a_dropped_cut_gives_its_memory_back(void **state)
{
    (void)state;
    struct mem_budget b;
    struct rows r = {0};
    struct cut *cuts = mem_must(2 * sizeof *cuts);
    mem_budget_init(&b, "rows", NULL, 0);
    struct dice d = {9};
    for (int i = 0; i < 1000; i++) {
        struct row row = {.time_ns = (int64_t)roll(&d, 5000), .cut = &cuts[i % 10 == 0]};
        assert_ok(rows_promise(&r, &b, 1, e));
        assert_ok((row.vector = payload_new(&b, S("abc"), e)) != NULL);
        if (i % 3 == 0) assert_ok((row.spans = row_spans_new(&b, 2, 5, e)) != NULL);
        rows_put(&r, row);
    }
    size_t before = atomic_load(&b.used);
    assert_int_equal(take_out(&r, &b, &cuts[0]), 900);
    assert_int_equal(rows_count(&r), 100);
    assert_true(atomic_load(&b.used) < before / 2);
    for (size_t i = 1; i < r.n; i++)
        assert_true(r.v[i - 1].time_ns <= r.v[i].time_ns);
    assert_int_equal(take_out(&r, &b, &cuts[1]), 100);
    mem_must_free(cuts);
    assert_int_equal(atomic_load(&b.used), 0);
    rows_release(&r, &b);
}

static int64_t sum_of(const struct rows *r, const struct cut *cut)
{
    int64_t sum = 0;
    struct rows_cursor c = rows_within(r, INT64_MIN, INT64_MAX);
    for (const struct row *row; (row = rows_next(&c));)
        sum += row->cut == cut ? row->time_ns : 0;
    return sum;
}

// Between two runs rows come and are looked for.
static void a_cut_leaves_in_runs(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct mem_budget b;
        struct rows r = {0};
        struct rows_gap gap;
        struct cut *cuts = mem_must(3 * sizeof *cuts);
        struct dice d = {seed};
        mem_budget_init(&b, "rows", NULL, 0);
        int64_t want[3] = {0};
        size_t counts[3] = {0};
        size_t gone = 0;
        bool done = false;
        for (int i = 0; i < 1500 || !done; i++) {
            // The cut that leaves is closed: it gets none any more.
            size_t k = i < 1500 ? (size_t)roll(&d, 3) : 1 + (size_t)roll(&d, 2);
            int64_t t = i + (roll(&d, 5) == 0 ? -(int64_t)roll(&d, 900) : 0);
            struct row row = {.time_ns = t, .cut = &cuts[k]};
            assert_ok(rows_promise(&r, &b, 1, e));
            assert_ok((row.vector = payload_new(&b, S("abc"), e)) != NULL);
            rows_put(&r, row);
            want[k] += t;
            counts[k]++;
            if (i < 1499) continue;
            size_t run = 1 + (size_t)roll(&d, 40);
            struct rows_run now = {.left = run};
            size_t before = rows_count(&r);
            done = rows_thin(&r, &b, &gap, is_of, &cuts[0], &now);
            assert_true(now.left <= run && now.removed <= run - now.left);
            assert_true(done || now.left == 0);
            assert_int_equal(rows_count(&r), before - now.removed);
            size_t used = atomic_load(&b.used);
            rows_waste_free(&b, now.waste);  // what goes is not freed before
            assert_true(now.removed == 0 || atomic_load(&b.used) < used);
            gone += now.removed;
            assert_int_equal(sum_of(&r, &cuts[1]), want[1]);
            assert_int_equal(sum_of(&r, &cuts[2]), want[2]);
            int64_t after = (int64_t)roll(&d, 2000) - 500;
            (void)sum_within(&r, after, after + (int64_t)roll(&d, 1000));
        }
        assert_int_equal(gone, counts[0]);
        assert_int_equal(rows_count(&r), counts[1] + counts[2]);
        assert_int_equal(sum_of(&r, &cuts[0]), 0);
        rows_release(&r, &b);
        assert_int_equal(atomic_load(&b.used), 0);
        mem_must_free(cuts);
    }
}

static void promises_that_fail_change_nothing(void **state)
{
    (void)state;
    struct mem_budget b;
    struct rows r = {0};
    struct ids s = {0};
    err fault = {0};
    mem_budget_init(&b, "rows", NULL, 4096);
    assert_ok(rows_promise(&r, &b, 8, e));
    assert_false(rows_promise(&r, &b, 1000, &fault));
    assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
    assert_int_equal(r.promised, 8);
    rows_forgive(&r, 8);
    assert_false(ids_promise(&s, &b, 1000, &fault));
    assert_int_equal(s.promised, 0);
    rows_release(&r, &b);
    ids_release(&s, &b);
    assert_int_equal(atomic_load(&b.used), 0);
}

static void ids_are_known_by_series(void **state)
{
    (void)state;
    struct ids s = {0};
    struct dice d = {1};
    id128 ids[500];
    for (size_t i = 0; i < COUNT(ids); i++) {
        for (size_t k = 0; k < 16; k++)
            ids[i].b[k] = (uint8_t)roll(&d, 256);
        assert_ok(ids_promise(&s, NULL, 2, e));
        assert_true(ids_put(&s, 7, ids[i]));
        assert_false(ids_put(&s, 7, ids[i]));
    }
    for (size_t i = 0; i < COUNT(ids); i++) {
        assert_true(ids_has(&s, 7, ids[i]));
        assert_false(ids_has(&s, 8, ids[i]));
    }
    assert_int_equal(s.promised, 0);
    for (size_t i = 0; i < COUNT(ids); i += 2)
        ids_remove(&s, 7, ids[i]);
    for (size_t i = 0; i < COUNT(ids); i++)
        assert_int_equal(ids_has(&s, 7, ids[i]), i % 2);
    ids_release(&s, NULL);
}

static void hours_of_a_cut_are_its_slots(void **state)
{
    (void)state;
    const int64_t h = INT64_C(3600000000000);
    static const struct {
        int64_t time;
        int64_t hour;
    } cases[] = {{1, 0},
                 {0, -1},
                 {-1, -1},
                 {INT64_C(3600000000000), 0},
                 {INT64_C(3600000000001), 1},
                 {INT64_MIN, -2562048}};
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(slot_of(cases[i].time, SLOT_HOUR), cases[i].hour);
    struct cut c = {.number = 1};
    int64_t out[100];
    lock_init(&c.lock, LOCK_CUT);
    for (int64_t i = 10; i > 0; i--) {
        cut_note(&c, i * 2 * h);
        cut_note(&c, i * 2 * h);
    }
    assert_int_equal(cut_hours_within(&c, 3, 9, out, 100), 4);  // 3 5 7 9
    assert_int_equal(out[0], 3);
    assert_int_equal(out[3], 9);
    assert_int_equal(cut_hours_within(&c, 3, 9, out, 2), 2);
    for (int64_t i = 0; i < 50; i++)
        cut_note(&c, i * h);
    assert_int_equal(cut_hours_within(&c, -100, 100, out, 100), 50);  // -1 .. 48, all of them
    assert_int_equal(out[0], -1);
    assert_int_equal(out[49], 48);
    lock_release(&c.lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_found_by_time_in_any_order_of_arrival),
        cmocka_unit_test(a_dropped_cut_gives_its_memory_back),
        cmocka_unit_test(a_cut_leaves_in_runs),
        cmocka_unit_test(promises_that_fail_change_nothing),
        cmocka_unit_test(ids_are_known_by_series),
        cmocka_unit_test(hours_of_a_cut_are_its_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
