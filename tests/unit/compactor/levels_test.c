// SPDX-License-Identifier: Apache-2.0
//
// Segments become levels: every node, total and row of every block is what the profiles add up to.
#include "unit/compactor/fleet.h"

static int64_t now_ns;
static int64_t virtual_now(void)
{
    return now_ns;
}

#define DAY_0  (INT64_C(28) * 725)  // the first day of a window
#define HOUR_0 (DAY_0 * 24)

struct world {
    struct fleet fleet;
    struct store *store;
    struct manifests *manifests;
    struct plan_settings settings;
    char scratch[64];
    uint64_t pack_bytes;
    size_t jobs[JOB_KINDS];
    uint64_t duplicates;
    size_t files;
    size_t memory;
};

static const struct plan_settings at_once = {0};

static void world_init(struct world *w, uint64_t seed)
{
    *w = (struct world){.settings = at_once, .store = memstore_open()};
    fleet_init(&w->fleet, seed);
    snprintf(w->scratch, sizeof w->scratch, "/tmp/flametree-levels-%d", (int)getpid());
    err fault = {0};
    w->manifests = manifests_open(w->store, &w->fleet.memory, virtual_now, &fault);
    assert_non_null(w->manifests);
}

static void world_release(struct world *w)
{
    manifests_close(w->manifests);
    store_close(w->store);
    fleet_release(&w->fleet);
    rmdir(w->scratch);
}

static bool leaf_counts(void *arg, id128 leaf)
{
    return manifest_counts(arg, leaf);
}

// One plan and its jobs; how many were done.
static size_t work_once(struct world *w)
{
    struct req r;
    struct snapshot snap;
    struct plan plan;
    struct mem_budget memory;
    size_t done = 0;
    mem_budget_init(&memory, "compactor", NULL, w->memory);
    req_init(&r, RANK_DUTY, NULL, 256 << 20, 0);
    assert_ok(snapshot_take(w->manifests, &r, &r.arena, S(FLEET_TENANT), &snap, e));
    struct plan_state state = {.segments = snap.segments,
                               .segment_count = snap.segment_count,
                               .counts = leaf_counts,
                               .arg = snap.manifest,
                               .now_ns = now_ns};
    state.blocks = manifest_blocks(snap.manifest, &state.block_count);
    assert_ok(plan_make(&r.arena, &state, &w->settings, &plan, e));
    const struct job_bench bench = {.manifests = w->manifests,
                                    .store = w->store,
                                    .memory = &memory,
                                    .scratch = w->scratch,
                                    .tenant = S(FLEET_TENANT),
                                    .pack_bytes = w->pack_bytes,
                                    .begun_ns = now_ns,
                                    .wall_ns = virtual_now};
    for (size_t i = 0; i < plan.n; i++) {
        struct job_report report;
        err fault = {0};
        now_ns += 1000000;
        if (!job_run(&bench, &r, &plan.jobs[i], &report, &fault)) {
            if (fault.code != ERR_ABORTED) fail_msg("%s", fault.msg);
            continue;
        }
        w->jobs[plan.jobs[i].kind]++;
        w->duplicates += report.duplicates;
        w->files += report.files;
        done++;
    }
    snapshot_release(&snap);
    req_release(&r);
    assert_int_equal(memory.used, 0);
    return done;
}

static void settle(struct world *w)
{
    for (int i = 0; work_once(w); i++)
        assert_true(i < 50);
}

// Every live block against the facts of its hours.
static size_t check_all(struct world *w, enum block_kind kind)
{
    struct req r;
    err fault = {0};
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    struct manifest *m = manifest_newest(w->manifests, &r, S(FLEET_TENANT), &fault);
    assert_non_null(m);
    size_t n = 0;
    size_t count = 0;
    const struct manifest_block *v = manifest_blocks(m, &n);
    for (size_t i = 0; i < n; i++) {
        if (v[i].kind != kind) continue;
        count++;
        bool *within = calloc(w->fleet.n + 1, 1);
        for (size_t k = 0; k < w->fleet.n; k++) {
            const struct fact *x = &w->fleet.facts[k];
            int64_t hour = slot_of(x->time_ns, SLOT_HOUR);
            uint32_t pack = block_pack(str_of(fleet_service(x->service)));
            within[k] = hour >= v[i].from_hour && hour < v[i].from_hour + v[i].hours &&
                        pack >= v[i].pack_lo && pack <= v[i].pack_hi;
        }
        check_block(&w->fleet, w->store, v[i].name, v[i].bytes, within);
        free(within);
    }
    manifest_let_go(m);
    req_release(&r);
    return count;
}

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
    settle(&w);
    assert_int_equal(w.jobs[JOB_LEAF], 44);
    assert_int_equal(w.jobs[JOB_HOUR], 44);
    assert_int_equal(check_all(&w, BLOCK_RAW), 44);
    assert_int_equal(check_all(&w, BLOCK_HOURS), 11);
    assert_int_equal(check_all(&w, BLOCK_DAYS), 12);
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
    settle(&w);
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
    settle(&w);
    assert_int_equal(w.jobs[JOB_LEAF], 6);
    assert_true(w.duplicates >= duplicates + 3);
    assert_int_equal(w.jobs[JOB_FOLD], 0);
    assert_int_equal(check_all(&w, BLOCK_HOURS), 1);
    // The next night.
    now_ns += SLOT_DAY;
    settle(&w);
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
    w.pack_bytes = 1000;
    now_ns = slot_start(HOUR_0 + 100, SLOT_HOUR);
    for (int64_t hour = 0; hour < 3; hour++)
        fleet_hour(&w.fleet, HOUR_0 + hour, 60);
    fleet_flush(&w.fleet, w.store, 0, 20);
    settle(&w);
    assert_int_equal(check_all(&w, BLOCK_RAW), 9);
    assert_true(check_all(&w, BLOCK_HOURS) > 1);
    assert_true(check_all(&w, BLOCK_DAYS) >= 1);
    world_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_of_an_hour_become_a_leaf_with_each_row_once),
        cmocka_unit_test(hours_days_and_windows_add_up),
        cmocka_unit_test(late_rows_become_deltas_which_are_folded),
        cmocka_unit_test(packs_are_cut_by_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
