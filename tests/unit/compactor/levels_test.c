// SPDX-License-Identifier: Apache-2.0
//
// Segments become levels: every node, total and row of every block is what the profiles add up to.
#include "store/origin.h"
#include "unit/compactor/world.h"

static void segments_of_an_hour_become_a_leaf_with_each_row_once(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 1);
    now_ns = slot_start(HOUR_0 + 100, SLOT_HOUR);
    fleet_hour(&w.fleet, HOUR_0 + 1, 300);
    fleet_flush(&w.fleet, w.store, 0, 50);
    assert_true(work_once(&w) > 0);
    assert_int_equal(w.jobs[JOB_LEAF], 1);
    assert_int_equal(check_all(&w, BLOCK_RAW), 1);
    assert_true(w.duplicates > 10);
    world_release(&w);
}

static void hours_days_and_windows_add_up(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 2);
    now_ns = slot_start(HOUR_0 + 29 * 24, SLOT_HOUR);
    for (int64_t day = 0; day < 12; day++) {
        if (day == 9) continue;
        for (int64_t hour = 0; hour < 24; hour += 7)
            fleet_hour(&w.fleet, HOUR_0 + day * 24 + hour, 25);
    }
    fleet_flush(&w.fleet, w.store, 0, 10);
    work_until_done(&w);
    assert_int_equal(w.jobs[JOB_LEAF], 44);
    assert_int_equal(w.jobs[JOB_HOUR], 11);
    // So few rows serve for series themselves; the window has all else that days have.
    assert_int_equal(check_all(&w, BLOCK_RAW), 44);
    assert_int_equal(check_all(&w, BLOCK_HOURS), 11);
    assert_int_equal(count_with_series(&w, BLOCK_HOURS), 0);
    assert_int_equal(check_all(&w, BLOCK_DAYS), 1);
    // Before they go hours and days get the sums of series.
    w.settings.raw_retention = SLOT_DAY;
    work_until_done(&w);
    assert_int_equal(check_all(&w, BLOCK_RAW), 0);
    assert_int_equal(check_all(&w, BLOCK_HOURS), 11);
    assert_int_equal(count_with_series(&w, BLOCK_HOURS), 11);
    assert_int_equal(check_all(&w, BLOCK_DAYS), 12);
    assert_int_equal(count_with_series(&w, BLOCK_DAYS), 11);
    world_release(&w);
}

static void late_rows_become_deltas_which_are_folded(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 3);
    w.settings.fold_interval = SLOT_DAY;
    now_ns = slot_start(HOUR_0 + 49, SLOT_HOUR);
    for (int64_t hour = 0; hour < 4; hour++)
        fleet_hour(&w.fleet, HOUR_0 + hour, 40);
    fleet_flush(&w.fleet, w.store, 0, 20);
    work_until_done(&w);
    assert_int_equal(check_all(&w, BLOCK_RAW), 4);
    assert_int_equal(check_all(&w, BLOCK_HOURS), 1);
    assert_int_equal(check_all(&w, BLOCK_DAYS), 1);
    // New rows of two of the hours, and copies of rows that are in leaves.
    size_t before = w.fleet.n;
    fleet_hour(&w.fleet, HOUR_0 + 1, 10);
    fleet_hour(&w.fleet, HOUR_0 + 2, 10);
    fleet_flush(&w.fleet, w.store, before, 20);
    size_t copy[] = {40, 41, 42};
    fleet_segment(&w.fleet, w.store, copy, 3, true);
    uint64_t duplicates = w.duplicates;
    work_until_done(&w);
    assert_int_equal(w.jobs[JOB_LEAF], 6);
    assert_true(w.duplicates >= duplicates + 3);
    assert_int_equal(w.jobs[JOB_FOLD], 0);
    assert_int_equal(check_all(&w, BLOCK_HOURS), 1);
    // The next night.
    now_ns += SLOT_DAY;
    work_until_done(&w);
    assert_int_equal(w.jobs[JOB_FOLD], 2);
    assert_int_equal(check_all(&w, BLOCK_RAW), 4);
    assert_int_equal(check_all(&w, BLOCK_HOURS), 1);
    assert_int_equal(check_all(&w, BLOCK_DAYS), 1);
    world_release(&w);
}

static void packs_are_cut_by_size(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 4);
    w.pack_bytes = 2000;
    now_ns = slot_start(HOUR_0 + 100, SLOT_HOUR);
    for (int64_t hour = 0; hour < 3; hour++)
        fleet_hour(&w.fleet, HOUR_0 + hour, 60);
    fleet_flush(&w.fleet, w.store, 0, 20);
    work_until_done(&w);
    assert_true(check_all(&w, BLOCK_RAW) >= 9);
    assert_true(check_all(&w, BLOCK_HOURS) > 1);
    assert_true(check_all(&w, BLOCK_DAYS) >= 1);
    world_release(&w);
}

// The newest manifest's blocks of a kind that are parts of a service; all parts of each cut are
// there, and none is much larger than a block may be.
static size_t check_parts(struct world *w, enum block_kind kind)
{
    struct req r;
    err fault = {0};
    size_t n = 0;
    size_t count = 0;
    double shares = 0;
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    struct manifest *m = manifest_newest(w->manifests, &r, S(FLEET_TENANT), &fault);
    assert_non_null(m);
    const struct manifest_block *v = manifest_blocks(m, &n);
    for (size_t i = 0; i < n; i++) {
        if (v[i].kind != kind || v[i].parts < 2) continue;
        count++;
        shares += 1.0 / v[i].parts;
    }
    assert_true(shares - (double)(uint64_t)(shares + 0.5) < 1e-6);
    manifest_unref(m);
    req_release(&r);
    return count;
}

static void a_service_that_is_too_large_is_cut_by_its_series(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 8);
    w.pack_bytes = 4000;
    w.settings.fold_interval = SLOT_DAY;
    now_ns = slot_start(HOUR_0 + 100, SLOT_HOUR);
    for (int64_t hour = 0; hour < 3; hour++)
        fleet_hour(&w.fleet, HOUR_0 + hour, 900);
    fleet_flush(&w.fleet, w.store, 0, 200);
    work_until_done(&w);
    size_t raw = check_parts(&w, BLOCK_RAW);
    assert_true(raw >= 9);
    check_all(&w, BLOCK_RAW);
    assert_true(check_parts(&w, BLOCK_HOURS) > 2);
    check_all(&w, BLOCK_HOURS);
    assert_true(check_parts(&w, BLOCK_DAYS) >= 2);
    check_all(&w, BLOCK_DAYS);
    // Late rows and copies; at night all of an hour's rows are cut anew.
    size_t before = w.fleet.n;
    fleet_hour(&w.fleet, HOUR_0 + 1, 60);
    fleet_flush(&w.fleet, w.store, before, 20);
    size_t copy[] = {1000, 1001, 1002};
    fleet_segment(&w.fleet, w.store, copy, 3, true);
    uint64_t duplicates = w.duplicates;
    work_until_done(&w);
    assert_true(w.duplicates >= duplicates + 3);
    now_ns += SLOT_DAY;
    work_until_done(&w);
    assert_true(w.jobs[JOB_FOLD] > 0);
    check_all(&w, BLOCK_RAW);
    check_all(&w, BLOCK_HOURS);
    check_all(&w, BLOCK_DAYS);
    // Larger blocks again: parents of another cut are made of sums of series, or become whole.
    w.pack_bytes = 9000;
    fleet_hour(&w.fleet, HOUR_0 + 5, 900);
    fleet_flush(&w.fleet, w.store, w.fleet.n - 900, 200);
    now_ns += SLOT_DAY;
    work_until_done(&w);
    check_all(&w, BLOCK_RAW);
    check_all(&w, BLOCK_HOURS);
    check_all(&w, BLOCK_DAYS);
    world_release(&w);
}

// A fact of service 0 of which two fit 64 bits together, three do not.
static void add_huge(struct world *w, int64_t hour, int64_t minute)
{
    struct fact *x = fleet_add(&w->fleet, slot_start(hour, SLOT_HOUR) + minute * SLOT_MINUTE);
    x->service = x->type = x->series = 0;
    x->factor = 1;
    x->n = 1;
    x->v[0] = (struct vector_entry){3, INT64_MAX / 5 * 2};
}

// Gaps among the newest manifest's blocks of a kind; all are of service 0 alone.
static size_t count_gaps(struct world *w, enum block_kind kind)
{
    struct req r;
    err fault = {0};
    size_t n = 0;
    size_t count = 0;
    uint32_t pack = block_pack(str_of(fleet_service(0)));
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    struct manifest *m = manifest_newest(w->manifests, &r, S(FLEET_TENANT), &fault);
    assert_non_null(m);
    const struct manifest_block *v = manifest_blocks(m, &n);
    for (size_t i = 0; i < n; i++) {
        if (v[i].kind != kind || v[i].classes || v[i].spared) continue;
        count++;
        assert_int_equal(v[i].pack_lo, pack);
        assert_int_equal(v[i].pack_hi, pack);
    }
    manifest_unref(m);
    req_release(&r);
    return count;
}

static void a_service_with_sums_beyond_64_bits_is_left_out_of_what_is_wider(void **state)
{
    static const struct {
        const char *name;
        int64_t hours[3];   // of three huge values
        size_t gaps[2];     // of hours, of days
        size_t parents[2];  // other blocks: of hours, of days: those that the window has not
    } cases[] = {
        {"in an hour", {1, 1, 1}, {1, 2}, {4, 4}},
        {"in a day", {1, 2, 5}, {0, 2}, {3, 4}},
        {"in a week", {1, 25, 49}, {0, 0}, {3, 4}},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct world w;
        print_message("  %s\n", cases[i].name);
        world_init(&w, 9);
        w.settings.fold_interval = w.settings.pack_interval = SLOT_DAY;
        // All days lie in one week.
        int64_t first = (HOUR_0 / 168 + 1) * 168;
        now_ns = slot_start(first + 40 * 24, SLOT_HOUR);
        for (int64_t hour = 0; hour < 6; hour++)
            fleet_hour(&w.fleet, first + hour, 20);
        fleet_hour(&w.fleet, first + 26, 20);
        fleet_hour(&w.fleet, first + 50, 20);
        for (int64_t k = 0; k < 3; k++)
            add_huge(&w, first + cases[i].hours[k], 2 + 20 * k);
        fleet_flush(&w.fleet, w.store, 0, 200);
        work_until_done(&w);
        assert_int_equal(w.failed, 0);
        assert_int_equal(count_gaps(&w, BLOCK_HOURS), cases[i].gaps[0]);
        assert_int_equal(count_gaps(&w, BLOCK_DAYS), cases[i].gaps[1]);
        check_all(&w, BLOCK_RAW);
        assert_int_equal(check_all(&w, BLOCK_HOURS), cases[i].parents[0]);
        // (What is wider than a day is not checked where it does not fit.)
        if (i < 2) assert_int_equal(check_all(&w, BLOCK_DAYS), cases[i].parents[1]);
        now_ns += 3 * SLOT_DAY;
        assert_int_equal(work_once(&w), 0);
        // Rows that nothing else has the sums of stay.
        w.settings.raw_retention = SLOT_DAY;
        work_until_done(&w);
        assert_int_equal(check_all(&w, BLOCK_RAW), cases[i].gaps[1] ? 6 : 0);
        world_release(&w);
    }
}

// Whether the newest manifest has exactly these counts of blocks.
static void check_counts(struct world *w, size_t raw, size_t hours, size_t days)
{
    assert_int_equal(check_all(w, BLOCK_RAW), raw);
    assert_int_equal(check_all(w, BLOCK_HOURS), hours);
    assert_int_equal(check_all(w, BLOCK_DAYS), days);
}

static void leaves_of_a_complete_day_become_one(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 5);
    w.settings.day_leaf_bytes = 1 << 20;
    w.settings.day_delay = 2 * SLOT_HOUR;
    now_ns = slot_start(HOUR_0 + 23, SLOT_HOUR);
    for (int64_t hour = 3; hour < 22; hour += 3)
        fleet_hour(&w.fleet, HOUR_0 + hour, 30);
    fleet_flush(&w.fleet, w.store, 0, 20);
    work_until_done(&w);
    check_counts(&w, 7, 1, 0);
    // What was made of the hours goes with them.
    now_ns = slot_start(HOUR_0 + 26, SLOT_HOUR);
    work_until_done(&w);
    assert_int_equal(w.jobs[JOB_FOLD], 1);
    check_counts(&w, 1, 1, 1);
    assert_int_equal(count_spared(&w), 1);
    size_t jobs = w.jobs[JOB_HOUR] + w.jobs[JOB_DAY] + w.jobs[JOB_FOLD];
    now_ns += 3 * SLOT_DAY;
    work_until_done(&w);
    assert_int_equal(w.jobs[JOB_HOUR] + w.jobs[JOB_DAY] + w.jobs[JOB_FOLD], jobs);
    world_release(&w);
}

// Of each frame of a service's vectors in which hours the rows are that have them: at most one.
static void check_frames(const struct block_source *b, const struct block_service_ref *service)
{
    struct arena a;
    struct symbol_table symbols;
    struct block_index x;
    arena_init(&a, NULL, SIZE_MAX);
    assert_ok(block_source_service(&a, b, service, &symbols, &x, e));
    int64_t *hours = calloc(x.vectors.n, sizeof *hours);
    for (uint32_t i = 0; i < x.heads.n; i++) {
        const struct block_extent at[] = {x.heads.v[i].extent, x.details.v[i].extent};
        str contents[COUNT(at)];
        struct block_heads heads;
        struct block_details details;
        assert_ok(block_source_sections(&a, b, at, COUNT(at), contents, e));
        assert_ok(block_heads_parse(&a, contents[0], x.heads.v[i].count, &heads, e));
        assert_ok(block_details_parse(&a, contents[1], &heads, &details, e));
        for (uint64_t row = 0; row < heads.n; row++) {
            int64_t hour = slot_of(heads.times[row], SLOT_HOUR);
            const struct block_frame *f = block_frame_of(&x.vectors, details.vectors[row]);
            assert_non_null(f);
            int64_t *has = &hours[f - x.vectors.v];
            assert_true(*has == 0 || *has == hour);
            *has = hour;
        }
    }
    assert_true(x.vectors.n >= 3);
    free(hours);
    arena_release(&a);
}

static void an_hour_of_a_day_is_read_without_the_vectors_of_others(void **state)
{
    (void)state;
    struct world w;
    struct req r;
    struct arena a;
    err fault = {0};
    size_t n = 0;
    world_init(&w, 11);
    w.settings.day_leaf_bytes = 16 << 20;
    now_ns = slot_start(HOUR_0 + 49, SLOT_HOUR);
    for (int64_t hour = 0; hour < 3; hour++)
        fleet_hour(&w.fleet, HOUR_0 + 7 * hour, 24000);
    fleet_flush(&w.fleet, w.store, 0, 8000);
    work_until_done(&w);
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    arena_init(&a, NULL, SIZE_MAX);
    struct manifest *m = manifest_newest(w.manifests, &r, S(FLEET_TENANT), &fault);
    assert_non_null(m);
    const struct manifest_block *v = manifest_blocks(m, &n);
    size_t leaves = 0;
    for (size_t i = 0; i < n; i++) {
        struct block_source b;
        if (v[i].kind != BLOCK_RAW) continue;
        leaves++;
        assert_int_equal(v[i].hours, 24);
        assert_ok(block_source_open(&a, store_origin(w.store, &r), v[i].name, v[i].bytes, &b, e));
        for (uint32_t k = 0; k < b.footer.service_count; k++)
            check_frames(&b, &b.footer.services[k]);
    }
    assert_int_equal(leaves, 1);
    manifest_unref(m);
    arena_release(&a);
    req_release(&r);
    world_release(&w);
}

// Bytes of the newest manifest's blocks of a kind.
static uint64_t bytes_of(struct world *w, enum block_kind kind)
{
    struct req r;
    err fault = {0};
    size_t n = 0;
    uint64_t bytes = 0;
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    struct manifest *m = manifest_newest(w->manifests, &r, S(FLEET_TENANT), &fault);
    assert_non_null(m);
    const struct manifest_block *v = manifest_blocks(m, &n);
    for (size_t i = 0; i < n; i++)
        bytes += v[i].kind == kind ? v[i].bytes : 0;
    manifest_unref(m);
    req_release(&r);
    return bytes;
}

// A day of few rows: what rows serve for as well is not there. One of many: sums are.
static void sums_that_are_no_fewer_bytes_than_rows_are_not_written(void **state)
{
    static const struct {
        int hours;
        size_t rows;  // an hour
        bool spared;
    } cases[] = {{24, 12, true}, {24, 30, true}, {2, 6000, false}};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct world w;
        world_init(&w, 12);
        w.settings.day_leaf_bytes = 64 << 20;
        now_ns = slot_start(HOUR_0 + 49, SLOT_HOUR);
        for (int hour = 0; hour < cases[i].hours; hour++)
            fleet_hour(&w.fleet, HOUR_0 + hour, cases[i].rows);
        fleet_flush(&w.fleet, w.store, 0, 4000);
        work_until_done(&w);
        if (cases[i].spared) check_counts(&w, 1, 1, 1);
        uint64_t raw = bytes_of(&w, BLOCK_RAW);
        uint64_t hours = bytes_of(&w, BLOCK_HOURS);
        uint64_t days = bytes_of(&w, BLOCK_DAYS);
        print_message("%zu rows: %llu bytes, hours %llu, the day %llu\n",
                      cases[i].rows * (size_t)cases[i].hours, (unsigned long long)raw,
                      (unsigned long long)hours, (unsigned long long)days);
        // As the objects have it.
        err fault = {0};
        manifests_close(w.manifests);
        w.manifests = manifests_open(w.store, &w.fleet.memory, virtual_now, &fault);
        assert_non_null(w.manifests);
        assert_int_equal(count_spared(&w), cases[i].spared);
        assert_int_equal(count_with_series(&w, BLOCK_HOURS), !cases[i].spared);
        assert_int_equal(count_with_series(&w, BLOCK_DAYS), !cases[i].spared);
        assert_true(cases[i].spared ? hours < 400 : 2 * hours <= raw);
        assert_true(days < raw);
        world_release(&w);
    }
}

static void late_rows_join_the_leaf_of_their_day_at_night(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 6);
    w.settings.day_leaf_bytes = 1 << 20;
    w.settings.fold_interval = SLOT_DAY;
    now_ns = slot_start(HOUR_0 + 49, SLOT_HOUR);
    for (int64_t hour = 0; hour < 4; hour++)
        fleet_hour(&w.fleet, HOUR_0 + 2 * hour, 40);
    fleet_flush(&w.fleet, w.store, 0, 20);
    work_until_done(&w);
    assert_int_equal(w.jobs[JOB_FOLD], 1);
    assert_int_equal(w.jobs[JOB_HOUR], 1);
    check_counts(&w, 1, 1, 1);
    // Hours that the leaf has rows of, one that it has none of, and copies.
    size_t before = w.fleet.n;
    fleet_hour(&w.fleet, HOUR_0 + 2, 10);
    fleet_hour(&w.fleet, HOUR_0 + 3, 10);
    fleet_flush(&w.fleet, w.store, before, 20);
    size_t copy[] = {40, 41, 42};
    fleet_segment(&w.fleet, w.store, copy, 3, true);
    uint64_t duplicates = w.duplicates;
    work_until_done(&w);
    assert_true(w.duplicates >= duplicates + 3);
    assert_int_equal(w.jobs[JOB_FOLD], 1);
    assert_int_equal(check_all(&w, BLOCK_HOURS), 1);
    now_ns += SLOT_DAY;
    work_until_done(&w);
    assert_int_equal(w.jobs[JOB_FOLD], 2);
    check_counts(&w, 1, 1, 1);
    // Rows go once the day has them.
    assert_int_equal(count_spared(&w), 1);
    w.settings.raw_retention = SLOT_DAY;
    work_until_done(&w);
    check_counts(&w, 0, 1, 1);
    assert_int_equal(count_spared(&w), 0);
    assert_int_equal(count_with_series(&w, BLOCK_HOURS), 1);
    world_release(&w);
}

static void leaves_of_a_day_that_are_large_stay(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 7);
    w.settings.day_leaf_bytes = 1000;
    now_ns = slot_start(HOUR_0 + 49, SLOT_HOUR);
    for (int64_t hour = 0; hour < 4; hour++)
        fleet_hour(&w.fleet, HOUR_0 + hour, 40);
    fleet_flush(&w.fleet, w.store, 0, 20);
    work_until_done(&w);
    assert_int_equal(w.jobs[JOB_FOLD], 0);
    check_counts(&w, 4, 1, 1);
    world_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_of_an_hour_become_a_leaf_with_each_row_once),
        cmocka_unit_test(hours_days_and_windows_add_up),
        cmocka_unit_test(late_rows_become_deltas_which_are_folded),
        cmocka_unit_test(packs_are_cut_by_size),
        cmocka_unit_test(a_service_that_is_too_large_is_cut_by_its_series),
        cmocka_unit_test(a_service_with_sums_beyond_64_bits_is_left_out_of_what_is_wider),
        cmocka_unit_test(leaves_of_a_complete_day_become_one),
        cmocka_unit_test(an_hour_of_a_day_is_read_without_the_vectors_of_others),
        cmocka_unit_test(sums_that_are_no_fewer_bytes_than_rows_are_not_written),
        cmocka_unit_test(late_rows_join_the_leaf_of_their_day_at_night),
        cmocka_unit_test(leaves_of_a_day_that_are_large_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
