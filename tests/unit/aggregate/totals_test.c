// SPDX-License-Identifier: Apache-2.0
//
// Totals and heat maps of random rows equal a plain sum, whether rows are added singly, in parts,
// or merged from encoded parts, in any order.
#include "aggregate/heat.h"
#include "aggregate/totals.h"
#include "codec/pb.h"
#include "unit/model/random.h"

#define ROWS 300

static const char *const pods[] = {"a", "b", "c"};
static const char *const zones[] = {"x", "y"};
static const str by_pod = S_INIT("pod");

struct row {
    unsigned pod;
    unsigned zone;
    int64_t time_ns;
    int64_t value;
    id128 id;
    uint64_t span_id;
    unsigned note;  // 0: none
};

static const char *const notes[] = {"", "one", "two", "three"};

static void make_rows(struct random *r, struct row *v)
{
    for (size_t i = 0; i < ROWS; i++) {
        v[i] = (struct row){.pod = random_below(r, COUNT(pods)),
                            .zone = random_below(r, COUNT(zones)),
                            .time_ns = random_below(r, 50),
                            .value = (int64_t)random_below(r, 6) - 2,
                            .span_id = random_below(r, 2),
                            .note = random_below(r, COUNT(notes))};
        // Few ids: the same profile in several series, often with the same value.
        v[i].id.b[0] = (uint8_t)random_below(r, 4);
    }
}

static struct exemplar exemplar_of(const struct row *row)
{
    return (struct exemplar){.profile = row->id,
                             .time_ns = row->time_ns,
                             .value = row->value,
                             .span_id = row->span_id};
}

static const struct points points = {.first_ns = 8, .step_ns = 9, .count = 4};
static const int64_t bounds[] = {-1, 0, 0, 2};
static const struct heat_want want = {.slots = {.first_ns = 8, .step_ns = 9, .count = 4},
                                      .kind = EXEMPLAR_SPAN,
                                      .buckets = {.bounds = bounds, .n = 4, .largest = 2},
                                      .exemplars = true};

struct sums {
    struct cells totals;
    struct cells heat;
    struct extent extent;
};

static void sums_init(struct sums *s, struct arena *a)
{
    *s = (struct sums){0};
    cells_init(&s->totals, a, NULL, &by_pod, 1);
    cells_init(&s->heat, a, NULL, &by_pod, 1);
}

static void sums_finish(struct sums *s)
{
    assert_ok(cells_finish(&s->totals, e));
    assert_ok(cells_finish(&s->heat, e));
    cells_release(&s->totals);
    cells_release(&s->heat);
}

// Rows of each series together, as sources have them; part k gets the rows whose number modulo
// `parts` is k.
static void add_part(struct sums *s, const struct row *rows, size_t parts, size_t part)
{
    for (size_t k = 0; k < COUNT(pods) * COUNT(zones); k++) {
        // Of the caller's memory, gone when the series is done: what stays is copied.
        label ls[] = {{S("pod"), str_of(pods[k / 2])}, {S("zone"), str_of(zones[k % 2])}};
        struct cells_series of_totals = {.ls = {ls, COUNT(ls)}};
        struct cells_series of_heat = of_totals;
        for (size_t i = part; i < ROWS; i += parts) {
            const struct row *row = &rows[i];
            const struct exemplar x = exemplar_of(row);
            char note[8];
            int64_t point = 0;
            uint32_t at = 0;
            if (row->pod != k / 2 || row->zone != k % 2) continue;
            assert_ok(heat_add(&s->heat, &s->extent, &want, &of_heat, &x, e));
            if (!points_at(&points, row->time_ns, &point)) continue;
            assert_ok(cells_at(&s->totals, &of_totals, point, 0, &at, e));
            cells_add(&s->totals, at, row->value, 1);
            assert_ok(cells_offer(&s->totals, &of_totals, at, &x, e));
            snprintf(note, sizeof note, "%s", notes[row->note]);
            label pair = {S("note"), str_of(note)};
            if (row->note) assert_ok(cells_annotate(&s->totals, at, pair, false, e));
        }
        memset(ls, 0, sizeof ls);
    }
}

static int row_order(const struct row *a, const struct row *b)
{
    const struct exemplar x = exemplar_of(a);
    const struct exemplar y = exemplar_of(b);
    return exemplar_order(&x, &y);
}

static void check_exemplar(const struct exemplar *got, const struct row *rows, const bool *in)
{
    const struct row *best = NULL;
    bool both[COUNT(zones)] = {false};
    for (size_t i = 0; i < ROWS; i++) {
        if (in[i] && (!best || row_order(&rows[i], best) < 0)) best = &rows[i];
    }
    assert_non_null(got);
    const struct exemplar x = exemplar_of(best);
    assert_int_equal(exemplar_order(got, &x), 0);
    for (size_t i = 0; i < ROWS; i++) {
        if (in[i] && row_order(&rows[i], best) == 0) both[rows[i].zone] = true;
    }
    // The group's label is not shown; that of the series is, unless two series tie.
    assert_int_equal(got->ls.n, !(both[0] && both[1]));
    if (got->ls.n) assert_true(str_eq(got->ls.v[0].value, str_of(zones[best->zone])));
}

static void check_totals(const struct sums *s, const struct row *rows)
{
    uint64_t counted = 0;
    const struct cells *c = &s->totals;
    for (uint32_t k = 0; k < c->n; k++) {
        const struct cell *cell = &c->v[k];
        str pod = labels_get(c->groups[cell->group], by_pod);
        bool in[ROWS] = {false};
        bool noted[COUNT(notes)] = {false};
        int64_t sum = 0;
        uint64_t n = 0;
        struct total t;
        for (size_t i = 0; i < ROWS; i++) {
            int64_t end = points.first_ns + cell->point * points.step_ns;
            in[i] = str_is(pod, pods[rows[i].pod]) && rows[i].time_ns <= end &&
                    rows[i].time_ns > end - points.step_ns;
            if (!in[i]) continue;
            sum += rows[i].value;
            noted[rows[i].note] = true;
            n++;
        }
        assert_ok(totals_show(c, cell, &t, e));
        assert_true(t.sum == sum && t.profiles == n && n > 0);
        check_exemplar(t.exemplar, rows, in);
        assert_int_equal(t.annotations.n, noted[1] + noted[2] + noted[3]);
        for (size_t i = 0; i < t.annotations.n; i++) {
            if (i) assert_true(label_order(&t.annotations.v[i - 1], &t.annotations.v[i]) < 0);
        }
        if (k && cell->group == cell[-1].group) assert_true(cell[-1].point < cell->point);
        if (k && cell->group != cell[-1].group) {
            assert_true(labels_cmp(c->groups[cell[-1].group], c->groups[cell->group]) < 0);
        }
        counted += n;
    }
    for (size_t i = 0; i < ROWS; i++)
        counted -= rows[i].time_ns > -1 && rows[i].time_ns <= 35;
    assert_int_equal(counted, 0);
}

static void check_heat(const struct sums *s, const struct row *rows)
{
    uint64_t counted = 0;
    uint64_t all = 0;
    const struct cells *c = &s->heat;
    for (uint32_t k = 0; k < c->n; k++) {
        const struct cell *cell = &c->v[k];
        str pod = labels_get(c->groups[cell->group], by_pod);
        bool in[ROWS] = {false};
        uint64_t n = 0;
        for (size_t i = 0; i < ROWS; i++) {
            int64_t slot = MAX((rows[i].time_ns - 8 + 8) / 9, 0);
            uint32_t bucket = rows[i].value < 0 ? 0 : rows[i].value < 2 ? 2 : 3;
            in[i] = str_is(pod, pods[rows[i].pod]) && rows[i].value >= -1 && rows[i].value <= 2 &&
                    MIN(slot, 3) == cell->point && bucket == cell->bucket;
            n += in[i];
        }
        assert_int_equal(cell->count, n);
        check_exemplar(cells_best(c, cell), rows, in);
        counted += n;
    }
    for (size_t i = 0; i < ROWS; i++)
        all += rows[i].value >= -1 && rows[i].value <= 2;
    assert_int_equal(counted, all);
    assert_true(s->extent.count == all && s->extent.least == -1 && s->extent.largest == 2);
}

// The bytes of a part, its groups one after the other, as fields 1 (totals) and 2 (heat).
static str bytes_of(struct arena *a, const struct row *rows, size_t parts, size_t part)
{
    struct sums s;
    struct buf out;
    sums_init(&s, a);
    add_part(&s, rows, parts, part);
    sums_finish(&s);
    buf_init(&out, NULL, 1 << 20);
    assert_ok(totals_encode(&s.totals, true, &out, 1, e));
    assert_ok(heat_encode(&s.heat, &out, 2, e));
    extent_encode(&s.extent, &out, 3);
    str bytes = arena_str(a, buf_view(&out));
    buf_release(&out);
    return bytes;
}

static bool merge_part(struct sums *s, str bytes, err *e)
{
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        bool ok = r.field != 1 || totals_merge_bytes(&s->totals, r.bytes, e);
        ok = ok && (r.field != 2 || heat_merge_bytes(&s->heat, r.bytes, e));
        if (!ok || (r.field == 3 && !extent_merge_bytes(&s->extent, r.bytes, e))) return false;
    }
    return pb_done(&r, e);
}

static void rows_and_parts_add_up_to_the_same_in_any_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct random r = {seed};
        struct row rows[ROWS];
        struct arena a;
        struct sums s;
        size_t parts = 1 + random_below(&r, 5);
        size_t first = random_below(&r, (uint32_t)parts);
        make_rows(&r, rows);
        arena_init(&a, NULL, SIZE_MAX);
        sums_init(&s, &a);
        for (size_t i = 0; i < parts; i++) {
            size_t part = (first + i) % parts;
            if (random_below(&r, 2)) {
                add_part(&s, rows, parts, part);
            } else {
                assert_ok(merge_part(&s, bytes_of(&a, rows, parts, part), e));
            }
        }
        sums_finish(&s);
        check_totals(&s, rows);
        check_heat(&s, rows);
        arena_release(&a);
    }
}

static bool note_clipped(void *arg, labels group, size_t cells, err *e)
{
    (void)e;
    size_t *seen = arg;
    assert_int_equal(group.n, 0);
    *seen += cells;
    return true;
}

// Sums of -5 and of less than int64 holds, as two cells that another node gets.
static void a_sum_beyond_64_bits_spoils_its_own_point_only(void **state)
{
    (void)state;
    struct arena a;
    struct cells c[2];
    struct buf out;
    struct total t;
    size_t seen = 0;
    err why = {0};
    arena_init(&a, NULL, SIZE_MAX);
    buf_init(&out, NULL, 1000);
    for (size_t i = 0; i < COUNT(c); i++)
        cells_init(&c[i], &a, NULL, NULL, 0);
    for (int64_t point = 17; point < 19; point++) {
        struct cells_series s = {0};
        uint32_t row = 0;
        assert_ok(cells_at(&c[0], &s, point, 0, &row, e));
        cells_add(&c[0], row, INT64_MIN, 1);
        cells_add(&c[0], row, -6, 1);
        if (point == 18) cells_add(&c[0], row, INT64_MAX, 1);  // it comes back
        if (point == 18) cells_add(&c[0], row, 2, 1);
    }
    assert_ok(cells_finish(&c[0], e));
    assert_false(totals_encode(&c[0], false, &out, 1, &why));
    assert_int_equal(why.code, ERR_OUT_OF_RANGE);
    assert_non_null(strstr(why.msg, "point 17"));
    out.n = 0;
    assert_ok(totals_encode(&c[0], true, &out, 1, e));
    str group = str_make(out.p + 2, out.n - 2);  // without tag and length
    assert_ok(totals_merge_bytes(&c[1], group, e));
    assert_ok(cells_finish(&c[1], e));
    assert_int_equal(c[1].n, 2);
    assert_true(c[1].v[0].carry == -1 && c[1].v[0].count == 2);
    assert_true(c[1].v[1].carry == 0 && c[1].v[1].sum == -5 && c[1].v[1].count == 4);
    assert_ok(totals_show(&c[1], &c[1].v[0], &t, e));
    assert_true(t.sum == INT64_MIN);
    assert_ok(cells_clip(&c[1], note_clipped, &seen, e));
    assert_int_equal(seen, 1);
    assert_true(c[1].v[0].carry == 0 && c[1].v[0].sum == INT64_MIN && c[1].v[1].sum == -5);
    for (size_t i = 0; i < COUNT(c); i++)
        cells_release(&c[i]);
    buf_release(&out);
    arena_release(&a);
}

static void damaged_parts_are_refused_or_added(void **state)
{
    (void)state;
    struct random r = {7};
    struct row rows[ROWS];
    struct arena a;
    make_rows(&r, rows);
    arena_init(&a, NULL, SIZE_MAX);
    str whole = bytes_of(&a, rows, 20, 0);
    char *copy = (char *)(uintptr_t)tail_guard(whole.p, whole.n);
    for (size_t i = 0; i < whole.n * 8; i++) {
        struct arena b;
        struct sums s;
        err why = {0};
        arena_init(&b, NULL, 1 << 22);
        sums_init(&s, &b);
        copy[i / 8] ^= (char)(1 << i % 8);
        if (!merge_part(&s, str_make(copy, whole.n), &why)) {
            assert_true(why.code == ERR_INVALID_ARGUMENT || why.code == ERR_OUT_OF_RANGE);
        }
        copy[i / 8] ^= (char)(1 << i % 8);
        sums_finish(&s);
        arena_release(&b);
    }
    arena_release(&a);
}

static void what_cannot_be_counted_is_refused(void **state)
{
    (void)state;
    static const int64_t down[] = {2, 1};
    const struct heat_want bad[] = {
        {.kind = EXEMPLAR_NONE},
        {.kind = (enum exemplar_kind)3},
        {.kind = EXEMPLAR_SPAN, .buckets = {.bounds = bounds, .n = 1}, .slots = {.count = 1}},
        {.kind = EXEMPLAR_SPAN, .buckets = {.bounds = bounds, .n = 1}, .slots = {.step_ns = 1}},
        {.kind = EXEMPLAR_SPAN,
         .buckets = {.bounds = down, .n = 2},
         .slots = {.step_ns = 1, .count = 1}}};
    for (size_t i = 0; i < COUNT(bad); i++) {
        err why = {0};
        assert_false(heat_check(&bad[i], &why));
        assert_int_equal(why.code, ERR_INVALID_ARGUMENT);
    }
    err why = {0};
    assert_false(totals_check(&(struct totals_want){.points = 1}, &why));
    assert_int_equal(why.code, ERR_INVALID_ARGUMENT);
    const struct totals_want kind = {.step_ns = 1, .exemplars = (enum exemplar_kind)3};
    assert_false(totals_check(&kind, &why));
    assert_ok(heat_check(&want, e));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_parts_add_up_to_the_same_in_any_order),
        cmocka_unit_test(a_sum_beyond_64_bits_spoils_its_own_point_only),
        cmocka_unit_test(damaged_parts_are_refused_or_added),
        cmocka_unit_test(what_cannot_be_counted_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
