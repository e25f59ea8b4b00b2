// SPDX-License-Identifier: Apache-2.0
//
// Stores that fail and compactors that race: afterwards every level is right, and nothing is left
// that nothing names.
#include "sys/thread.h"
#include "unit/compactor/world.h"

static void fill(struct world *w)
{
    now_ns = slot_start(HOUR_0 + 24 * 29, SLOT_HOUR);
    for (int64_t day = 0; day < 3; day++) {
        fleet_hour(&w->fleet, HOUR_0 + day * 24 + 3, 12);
        fleet_hour(&w->fleet, HOUR_0 + day * 24 + 4, 12);
    }
    fleet_flush(&w->fleet, w->store, 0, 6);
}

// The segments are gone, and of blocks there are just those that are live.
static void sweep_all(struct world *w)
{
    struct req r;
    err fault = {0};
    struct sweep_seen seen;
    sweep_seen_init(&seen, NULL);
    now_ns += 60 * SLOT_HOUR;
    req_init(&r, RANK_DUTY, NULL, 64 << 20, 0);
    for (int i = 0; i < 4; i++) {
        struct manifest_sweep s = {.seen = &seen,
                                   .segment_grace_ns = SLOT_HOUR,
                                   .garbage_grace_ns = SLOT_HOUR,
                                   .version_age_ns = SLOT_HOUR,
                                   .versions = 1,
                                   .orphan_age_ns = SLOT_HOUR};
        assert_ok(manifest_sweep(w->manifests, &r, S(FLEET_TENANT), &s, e));
        now_ns += 2 * SLOT_HOUR;
    }
    sweep_seen_release(&seen);
    struct manifest *m = manifest_newest(w->manifests, &r, S(FLEET_TENANT), &fault);
    assert_non_null(m);
    size_t n = 0;
    manifest_blocks(m, &n);
    size_t found = 0;
    static const char *const kinds[] = {"raw/", "h/", "d/"};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        char prefix[128];
        snprintf(prefix, sizeof prefix, "%.*s%s", STR(name_of_tenant(&r.arena, S(FLEET_TENANT))),
                 kinds[i]);
        found += memstore_count(w->store, prefix);
    }
    assert_int_equal(found, n);
    char segments[128];
    snprintf(segments, sizeof segments, "%.*s", STR(name_segments(&r.arena, S(FLEET_TENANT))));
    assert_int_equal(memstore_count(w->store, segments), 0);
    manifest_unref(m);
    req_release(&r);
}

// Days without series are in the window; with them, once rows are gone, beside it.
static void check_levels(struct world *w)
{
    bool gone = w->settings.raw_retention > 0;
    assert_int_equal(check_all(w, BLOCK_RAW), gone ? 0 : w->settings.day_leaf_bytes ? 3 : 6);
    assert_int_equal(check_all(w, BLOCK_HOURS), 3);
    assert_int_equal(check_all(w, BLOCK_DAYS), gone ? 4 : 1);
}

static void any_operation_of_the_store_may_fail(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum memstore_op op;
        enum memstore_fault fault;
        uint64_t step;
    } cases[] = {
        {"creation fails", MEMSTORE_CREATE, MEMSTORE_FAILS, 3},
        {"creation lands and is not told", MEMSTORE_CREATE, MEMSTORE_LANDS, 3},
        {"creation is refused as too large", MEMSTORE_CREATE, MEMSTORE_TOO_LARGE, 3},
        {"read fails", MEMSTORE_READ, MEMSTORE_FAILS, 37},
        {"read is cut short", MEMSTORE_READ, MEMSTORE_SHORT, 37},
        {"read is wrong", MEMSTORE_READ, MEMSTORE_FLIPS, 37},
        {"read denies that there is an object", MEMSTORE_READ, MEMSTORE_FORGETS, 37},
        {"list fails", MEMSTORE_LIST, MEMSTORE_FAILS, 5},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t failed = 0;
        unsigned unmet = 0;
        for (uint64_t nth = 1; unmet < 4 && nth < 16 * cases[i].step; nth += cases[i].step) {
            struct world w;
            world_init(&w, 7 + nth);
            fill(&w);
            w.settings.day_leaf_bytes = nth % 2 ? 1 << 20 : 0;  // every second with leaves of days
            w.may_fail = true;
            memstore_fail(w.store, cases[i].op, cases[i].fault, nth, 1);
            for (int k = 0; k < 20; k++)
                work_once(&w);
            failed += w.failed > 0;
            unmet = w.failed ? 0 : unmet + 1;  // the last operations were met
            w.may_fail = false;
            memstore_heal(w.store);
            work_until_done(&w);
            check_levels(&w);
            sweep_all(&w);
            check_levels(&w);
            w.settings.raw_retention = SLOT_DAY;
            work_until_done(&w);
            check_levels(&w);
            world_release(&w);
        }
        print_message("%s: %zu runs failed\n", cases[i].name, failed);
    }
}

static bool takes_nothing(struct store_upload *u, str bytes, err *e)
{
    (void)u;
    (void)bytes;
    return err_set(e, ERR_OUT_OF_RANGE, "the test's object is too large for the store");
}

// No sum is: then a service would lose its sums, and be told to send other values.
static void a_block_that_is_too_large_for_the_store_is_no_sum_that_is_too_large(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 13);
    fill(&w);
    const struct store_kind *kind = w.store->kind;
    struct store_kind narrow = *kind;
    narrow.write = takes_nothing;
    for (int level = 0; level < 2; level++) {  // leaves, hours
        w.may_fail = true;
        w.failed = 0;
        w.store->kind = &narrow;
        (void)work_once(&w);
        w.store->kind = kind;
        assert_true(w.failed > 0);
        assert_int_equal(w.fault.code, ERR_UNAVAILABLE);
        w.may_fail = false;
        assert_true(work_once(&w) > 0);
    }
    work_until_done(&w);
    check_levels(&w);
    world_release(&w);
}

static enum memstore_fault slow(void *arg, const struct memstore_event *ev)
{
    (void)arg;
    (void)ev;
    nanosleep(&(struct timespec){.tv_nsec = NS_PER_MS}, NULL);
    return MEMSTORE_FINE;
}

static void a_slow_store_costs_time_only(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 11);
    fill(&w);
    memstore_set_hooks(w.store, slow, NULL, NULL);
    work_until_done(&w);
    check_levels(&w);
    assert_int_equal(w.failed, 0);
    sweep_all(&w);
    check_levels(&w);
    world_release(&w);
}

// ---- roots that land although the store says something else

struct doubt {
    enum memstore_fault fault;
    char root[256];  // whose creation met it; nobody can read it as long as `hidden`
    bool hidden;
};

static enum memstore_fault doubtful(void *arg, const struct memstore_event *ev)
{
    struct doubt *d = arg;
    bool root = str_contains(ev->name, S("/live/m/"));
    if (ev->op == MEMSTORE_READ && d->hidden && str_is(ev->name, d->root)) return MEMSTORE_FAILS;
    if (ev->op != MEMSTORE_CREATE || !root || d->root[0]) return MEMSTORE_FINE;
    snprintf(d->root, sizeof d->root, "%.*s", STR(ev->name));
    return d->fault;
}

// How many blocks the newest version names; each of them is there.
static size_t check_named(struct world *w)
{
    struct req r;
    err fault = {0};
    size_t n = 0;
    req_init(&r, RANK_DUTY, NULL, 64 << 20, 0);
    struct manifest *m = manifest_newest(w->manifests, &r, S(FLEET_TENANT), &fault);
    if (!m) fail_msg("%s", fault.msg);
    const struct manifest_block *v = manifest_blocks(m, &n);
    for (size_t i = 0; i < n; i++) {
        char name[NAME_MAX_BYTES];
        snprintf(name, sizeof name, "%.*s", STR(v[i].name));
        if (!memstore_has(w->store, name)) fail_msg("%s is named, and was deleted", name);
    }
    manifest_unref(m);
    req_release(&r);
    return n;
}

static void a_root_that_landed_untold_keeps_its_blocks(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum memstore_fault fault;
    } cases[] = {{"aborted", MEMSTORE_ABORTS},
                 {"deadline exceeded", MEMSTORE_EXPIRES},
                 {"unavailable", MEMSTORE_LANDS}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        for (int hidden = 0; hidden < 2; hidden++) {
            struct world w;
            struct doubt d = {.fault = cases[i].fault, .hidden = hidden};
            print_message("%s, %s be read back\n", cases[i].name, hidden ? "cannot" : "can");
            world_init(&w, 21);
            fill(&w);
            w.may_fail = true;
            memstore_set_hooks(w.store, doubtful, NULL, &d);
            work_once(&w);
            assert_true(d.root[0] && memstore_has(w.store, d.root));
            memstore_set_hooks(w.store, NULL, NULL, NULL);
            assert_true(check_named(&w) > 0);
            w.may_fail = false;
            work_until_done(&w);
            check_levels(&w);
            sweep_all(&w);
            check_levels(&w);
            world_release(&w);
        }
    }
}

// ---- races

struct racer {
    struct world *w;
    struct world own;
    pthread_t thread;
};

static void *race(void *arg)
{
    struct racer *me = arg;
    int idle = 0;
    while (idle < 3) {
        if (work_once(&me->own))
            idle = 0;
        else
            idle++;
    }
    return NULL;
}

static void two_compactors_absorb_each_segment_once(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct world w;
        struct racer v[2];
        err fault = {0};
        world_init(&w, 100 + seed);
        fill(&w);
        w.settings.day_leaf_bytes = seed % 2 ? 1 << 20 : 0;
        for (size_t i = 0; i < COUNT(v); i++) {
            v[i] = (struct racer){.w = &w, .own = {.settings = w.settings, .may_fail = true}};
            v[i].own.store = memstore_again(w.store);
            snprintf(v[i].own.scratch, sizeof v[i].own.scratch, "%s", w.scratch);
            v[i].own.manifests = manifests_open(v[i].own.store, NULL, virtual_now, &fault);
            assert_non_null(v[i].own.manifests);
        }
        for (size_t i = 0; i < COUNT(v); i++)
            assert_ok(thread_start(&v[i].thread, "racer", race, &v[i], e));
        for (size_t i = 0; i < COUNT(v); i++)
            thread_join(v[i].thread);
        size_t leaves = 0;
        size_t folds = 0;
        for (size_t i = 0; i < COUNT(v); i++) {
            if (v[i].own.fault.code) fail_msg("%s", v[i].own.fault.msg);
            leaves += v[i].own.jobs[JOB_LEAF];
            folds += v[i].own.jobs[JOB_FOLD];
            manifests_close(v[i].own.manifests);
            store_close(v[i].own.store);
        }
        assert_int_equal(leaves, 6);
        assert_true(folds >= (seed % 2 ? 3 : 0));
        work_until_done(&w);
        check_levels(&w);
        sweep_all(&w);
        world_release(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_operation_of_the_store_may_fail),
        cmocka_unit_test(a_block_that_is_too_large_for_the_store_is_no_sum_that_is_too_large),
        cmocka_unit_test(a_slow_store_costs_time_only),
        cmocka_unit_test(a_root_that_landed_untold_keeps_its_blocks),
        cmocka_unit_test(two_compactors_absorb_each_segment_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
