// SPDX-License-Identifier: Apache-2.0
//
// Aggregates while their allocations fail one by one, from rows and from bytes.
#include "aggregate/heat.h"
#include "aggregate/label_sets.h"
#include "aggregate/site.h"
#include "aggregate/span_filter.h"
#include "aggregate/totals.h"
#include "lib/torture.h"
#include "model/columns.h"
#include "unit/model/stacks.h"

static const label series[] = {{S_INIT("pod"), S_INIT("a")}, {S_INIT("zone"), S_INIT("z")}};
static const str by_pod = S_INIT("pod");

static bool add_rows(struct torture_bench *b, struct cells *c, err *e)
{
    (void)b;
    struct cells_series s = {.ls = {series, COUNT(series)}};
    for (int64_t i = 0; i < 20; i++) {
        const struct exemplar x = {.time_ns = i, .value = i % 7, .profile.b = {(uint8_t)i}};
        uint32_t row = 0;
        if (!cells_at(c, &s, i / 2, 0, &row, e)) return false;
        cells_add(c, row, i, 1);
        if (!cells_offer(c, &s, row, &x, e) ||
            !cells_annotate(c, row, (label){S("k"), S("v")}, false, e)) {
            return false;
        }
    }
    return true;
}

static bool totals_of_rows_and_bytes(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    struct cells rows;
    struct cells sums;
    cells_init(&rows, &b->arena, &b->budget, &by_pod, 1);
    cells_init(&sums, &b->arena, &b->budget, NULL, 0);
    bool ok = add_rows(b, &rows, e) && cells_finish(&rows, e) &&
              totals_encode(&rows, true, &b->out, 1, e) && buf_ok(&b->out, e);
    str bytes = ok ? arena_str(&b->arena, buf_view(&b->out)) : (str){0};
    if (ok) b->out.n = 0;
    ok = ok && arena_ok(&b->arena, e);
    // Tag and length of the one group: 1 and 2 bytes.
    if (ok) bytes = str_make(bytes.p + 3, bytes.n - 3);
    ok = ok && totals_merge_bytes(&sums, bytes, e) && totals_merge_bytes(&sums, bytes, e) &&
         cells_finish(&sums, e) && totals_encode(&sums, true, &b->out, 1, e) && buf_ok(&b->out, e);
    struct total t;
    ok = ok && totals_show(&sums, &sums.v[0], &t, e);
    cells_release(&rows);
    cells_release(&sums);
    return ok;
}

static bool heat_of_rows(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    static const int64_t bounds[] = {0, 3, 5};
    const struct heat_want w = {.slots = {.step_ns = 4, .count = 3},
                                .kind = EXEMPLAR_PROFILE,
                                .buckets = {.bounds = bounds, .n = 3, .largest = 9},
                                .exemplars = true};
    struct cells_series s = {.ls = {series, COUNT(series)}};
    struct extent extent = {0};
    struct cells c;
    cells_init(&c, &b->arena, &b->budget, NULL, 0);
    bool ok = heat_check(&w, e);
    for (int64_t i = 0; ok && i < 12; i++) {
        const struct exemplar x = {.time_ns = i, .value = i};
        ok = heat_add(&c, &extent, &w, &s, &x, e);
    }
    ok = ok && cells_finish(&c, e) && heat_encode(&c, &b->out, 1, e) && buf_ok(&b->out, e);
    cells_release(&c);
    return ok;
}

static bool call_sites(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    static const str names[] = {S_INIT("main"), S_INIT("work")};
    static const struct vector_entry v[] = {{1, 5}, {2, 7}, {3, -1}};
    struct symbols s;
    struct site site = {.names = names, .n = COUNT(names)};
    struct arena scratch;
    struct wide sum = {0};
    bool any = false;
    arena_init(&scratch, &b->budget, SIZE_MAX);
    bool ok =
        symbols_init(&s, &b->budget, e) && stack_of_text(&s, S("main;work;deep"), e) != MAP_NONE;
    uint32_t *matched = ok ? ARENA_ARRAY(&b->arena, uint32_t, s.t.stack_count) : NULL;
    ok = ok && arena_ok(&b->arena, e);
    if (ok) site_match(&site, &s.t, matched);
    if (ok) columns_encode(v, COUNT(v), &b->out);
    ok = ok && buf_ok(&b->out, e) &&
         site_sum_columns(&site, &scratch, buf_view(&b->out), 2, &sum, &any, e);
    if (ok) assert_true(any && wide_fits(sum) && sum.low == 12);
    arena_release(&scratch);
    symbols_release(&s);
    return ok;
}

static bool sets_and_names(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    struct label_sets sets;
    struct label_sets names;
    label_sets_init(&sets, &b->arena, &b->budget);
    label_sets_init(&names, &b->arena, &b->budget);
    bool ok = true;
    for (size_t i = 0; ok && i < 40; i++) {
        char text[4] = {'a', (char)('a' + i % 20), 0, 0};
        const label l = {str_of(text), S("v")};
        ok = label_sets_add(&sets, (labels){&l, 1}, e) && label_sets_add_name(&names, l.name, e);
    }
    ok = ok && label_sets_merge_name(&names, S("z"), e) &&
         label_sets_merge_bytes(&sets, S("\x0a\x06\x0a\x01z\x12\x01v"), e);
    if (ok) {
        label_sets_finish(&sets);
        label_sets_finish(&names);
        assert_true(sets.n == 21 && names.n == 21);
        label_sets_encode(&sets, &b->out, 1);
        label_sets_encode_names(&names, &b->out, 2);
    }
    label_sets_release(&sets);
    label_sets_release(&names);
    return ok && buf_ok(&b->out, e);
}

static bool filters(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    static const uint64_t spans[] = {3, 1, 2};
    static const id128 ids[] = {{{2}}, {{1}}};
    const struct span_filter in = {.profiles = ids,
                                   .profile_count = 2,
                                   .spans = spans,
                                   .span_count = 3};
    struct span_filter f;
    if (!span_filter_sort(&b->arena, &in, &f, e)) return false;
    assert_true(span_filter_has_profile(&f, ids[0]) && span_filter_has_span(&f, 3, false, ids[0]));
    return true;
}

static void aggregates_fail_only_for_want_of_memory(void **state)
{
    (void)state;
    static const struct torture_maker makers[] = {
        {.name = "totals", .make = totals_of_rows_and_bytes},
        {.name = "heat maps", .make = heat_of_rows},
        {.name = "call sites", .make = call_sites},
        {.name = "label sets", .make = sets_and_names},
        {.name = "filters", .make = filters},
    };
    torture_make_all(makers, COUNT(makers));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aggregates_fail_only_for_want_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
