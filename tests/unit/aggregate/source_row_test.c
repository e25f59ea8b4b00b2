// SPDX-License-Identifier: Apache-2.0
//
// Of a row, totals and heat maps take the value, the annotations, and the profile or its spans as
// exemplars, as was asked for: from vectors and from columns alike, with a call site and without.
#include "aggregate/heat.h"
#include "aggregate/totals.h"
#include "lib/arena.h"
#include "model/columns.h"
#include "unit/model/stacks.h"

#define SPANS 3

static const str call_site = S_INIT("main");

struct world {
    struct symbols symbols;
    uint32_t matched[8];
    struct arena scratch;
    struct buf vectors[1 + SPANS];  // of the row, then of its spans
    struct site site;
    struct source_row row;
};

// The span of id 0 is of a trace but of no span. That of id 5 does not lie under main.
static const uint64_t span_ids[SPANS] = {0, 5, 6};
static const struct {
    int64_t work;
    int64_t init;
} values[1 + SPANS] = {{3, 4}, {9, 9}, {0, 4}, {2, 0}};

static void span_of(const void *row, uint32_t i, struct exemplar *x, str *vector)
{
    const struct world *w = row;
    x->span_id = span_ids[i];
    *vector = buf_view(&w->vectors[1 + i]);
}

static label note_of(const void *row, uint32_t i)
{
    (void)row;
    return i ? (label){S("k"), S("two")} : (label){S("k"), S("one")};
}

static const struct row_source source = {.span = span_of, .note = note_of, .notes_last = true};

static void begin(struct world *w, bool columns, bool with_site)
{
    err ignored = {0};
    *w = (struct world){.site.names = &call_site, .site.n = with_site};
    assert_ok(symbols_init(&w->symbols, NULL, e));
    arena_init(&w->scratch, NULL, SIZE_MAX);
    const uint32_t work = stack_of_text(&w->symbols, S("main;work"), &ignored);
    const uint32_t init = stack_of_text(&w->symbols, S("init"), &ignored);
    assert_true(work < init && init < COUNT(w->matched));
    for (size_t i = 0; i < COUNT(values); i++) {
        struct vector_entry v[2];
        size_t n = 0;
        if (values[i].work) v[n++] = (struct vector_entry){work, values[i].work};
        if (values[i].init) v[n++] = (struct vector_entry){init, values[i].init};
        buf_init(&w->vectors[i], NULL, SIZE_MAX);
        if (columns)
            columns_encode(v, n, &w->vectors[i]);
        else
            vector_encode(v, n, &w->vectors[i]);
    }
    w->site.stacks = w->symbols.t.stack_count;
    if (with_site) {
        w->site.stacks = 0;
        site_match(&w->site, &w->symbols.t, w->matched);
    }
    w->row = (struct source_row){.source = &source,
                                 .row = w,
                                 .site = &w->site,
                                 .scratch = columns ? &w->scratch : NULL,
                                 .time_ns = 7,
                                 .total = 70,
                                 .vector = buf_view(&w->vectors[0]),
                                 .factor = 10,
                                 .spans = SPANS,
                                 .notes = 2};
}

static void end(struct world *w)
{
    for (size_t i = 0; i < COUNT(w->vectors); i++)
        buf_release(&w->vectors[i]);
    symbols_release(&w->symbols);
    arena_release(&w->scratch);
}

static void totals_take_what_was_asked_for(void **state)
{
    (void)state;
    static const struct {
        bool with_site;
        enum exemplar_kind exemplars;
        int64_t sum;
        int64_t shown;  // value of the exemplar
        uint64_t span_id;
    } cases[] = {
        {false, EXEMPLAR_NONE, 70, 0, 0},    {false, EXEMPLAR_PROFILE, 70, 70, 0},
        {false, EXEMPLAR_SPAN, 70, 4, 5},    {true, EXEMPLAR_NONE, 30, 0, 0},
        {true, EXEMPLAR_PROFILE, 30, 30, 0}, {true, EXEMPLAR_SPAN, 30, 2, 6},
    };
    for (size_t i = 0; i < 2 * COUNT(cases); i++) {
        const struct totals_want want = {.first_ns = 1,
                                         .step_ns = 2,
                                         .points = 8,
                                         .exemplars = cases[i / 2].exemplars};
        struct cells_series s = {0};
        struct cells cells;
        struct total t;
        struct world w;
        begin(&w, i % 2, cases[i / 2].with_site);
        cells_init(&cells, &arena, NULL, NULL, 0);
        assert_ok(totals_add_row(&cells, &want, &s, &w.row, e));
        assert_ok(cells_finish(&cells, e));
        assert_int_equal(cells.n, 1);
        assert_ok(totals_show(&cells, &cells.v[0], &t, e));
        assert_int_equal(t.point, 3);
        assert_int_equal(t.sum, cases[i / 2].sum);
        assert_int_equal(t.profiles, 1);
        assert_int_equal(t.annotations.n, 2);
        assert_int_equal(t.exemplar != NULL, want.exemplars != EXEMPLAR_NONE);
        if (t.exemplar) {
            assert_int_equal(t.exemplar->value, cases[i / 2].shown);
            assert_int_equal(t.exemplar->span_id, cases[i / 2].span_id);
            assert_int_equal(t.exemplar->time_ns, 7);
        }
        cells_release(&cells);
        end(&w);
    }
}

// [7, 17) over points that end at 5, 9, 13, 17: as a profile it is of one of them.
static void a_row_that_is_spread_counts_as_one_profile(void **state)
{
    (void)state;
    static const int64_t wanted[] = {14, 28, 28};  // of 70
    const struct totals_want want = {
        .first_ns = 5, .step_ns = 4, .points = 4, .spread = true, .exemplars = EXEMPLAR_PROFILE};
    struct cells_series s = {0};
    struct cells cells;
    struct world w;
    begin(&w, 0, false);
    w.row.duration_ns = 10;
    cells_init(&cells, &arena, NULL, NULL, 0);
    assert_ok(totals_add_row(&cells, &want, &s, &w.row, e));
    assert_ok(cells_finish(&cells, e));
    assert_int_equal(cells.n, COUNT(wanted));
    for (uint32_t i = 0; i < COUNT(wanted); i++) {
        struct total t;
        assert_ok(totals_show(&cells, &cells.v[i], &t, e));
        assert_int_equal(t.point, i + 1);
        assert_int_equal(t.sum, wanted[i]);
        assert_int_equal(t.profiles, i == 0);
        assert_int_equal(t.annotations.n, i == 0 ? 2 : 0);
        assert_int_equal(t.exemplar != NULL, i == 0);
        if (t.exemplar) assert_int_equal(t.exemplar->value, 70);
    }
    cells_release(&cells);
    end(&w);
}

static void a_row_behind_the_last_point_is_left_out(void **state)
{
    (void)state;
    const struct totals_want want = {.first_ns = 5, .step_ns = 1, .points = 2};
    struct cells_series s = {0};
    struct cells cells;
    struct world w;
    begin(&w, 0, false);
    cells_init(&cells, &arena, NULL, NULL, 0);
    assert_ok(totals_add_row(&cells, &want, &s, &w.row, e));
    assert_int_equal(cells.n, 0);
    cells_release(&cells);
    end(&w);
}

static void heat_maps_count_the_profile_or_its_spans(void **state)
{
    (void)state;
    for (int columns = 0; columns < 2; columns++) {
        struct extent profiles = {0};
        struct extent spans = {0};
        struct heat_want want = {.kind = EXEMPLAR_PROFILE};
        struct cells_series s = {0};
        struct cells cells;
        struct world w;
        begin(&w, columns, false);
        cells_init(&cells, &arena, NULL, NULL, 0);
        assert_ok(heat_add_row(&cells, &profiles, &want, &s, &w.row, e));
        want.kind = EXEMPLAR_SPAN;
        assert_ok(heat_add_row(&cells, &spans, &want, &s, &w.row, e));
        assert_int_equal(profiles.count, 1);
        assert_int_equal(profiles.largest, 70);
        assert_int_equal(spans.count, 2);
        assert_int_equal(spans.least, 2);
        assert_int_equal(spans.largest, 4);
        cells_release(&cells);
        end(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(totals_take_what_was_asked_for),
        ARENA_TEST(a_row_that_is_spread_counts_as_one_profile),
        ARENA_TEST(a_row_behind_the_last_point_is_left_out),
        ARENA_TEST(heat_maps_count_the_profile_or_its_spans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
