// SPDX-License-Identifier: Apache-2.0
//
// Sweeps: what the newest version does not name goes in time, what it names stays.
#include "unit/manifest/bench.h"

#include <pthread.h>
#include <stdlib.h>

#define DAYS (24 * BENCH_HOURS)

static struct manifest_sweep usual(void)
{
    return (struct manifest_sweep){
        .segment_grace_ns = 2 * BENCH_HOURS,
        .garbage_grace_ns = 2 * BENCH_HOURS,
        .version_age_ns = 24 * BENCH_HOURS,
        .versions = 64,
        .orphan_age_ns = 48 * BENCH_HOURS,
    };
}

static struct manifest_sweep sweep(struct bench *b)
{
    struct manifest_sweep s = usual();
    err e = {0};
    if (!bench_sweep(b, &s, &e)) fail_msg("%s: %s", err_name(e.code), e.msg);
    return s;
}

// What may go was seen before.
static struct manifest_sweep sweep_once(struct bench *b)
{
    struct manifest_sweep s = usual();
    s.seen = &b->seen;
    assert_ok(manifest_sweep(b->ms, &b->r, TENANT, &s, e));
    return s;
}

static void advance(int64_t ns)
{
    atomic_fetch_add(&bench_now, ns);
}

static bool has_segment(struct bench *b, const struct segment_name *s)
{
    return memstore_has(b->store, name_segment(&b->arena, TENANT, s).p);
}

static bool has_block(struct bench *b, const struct manifest_block *v)
{
    return memstore_has(b->store, manifest_block_name(&b->arena, TENANT, v).p);
}

static void absorbed_segments_go_after_their_grace(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct segment_name s[2] = {bench_segment(BENCH_HOUR, 1, 0), bench_segment(BENCH_HOUR, 2, 0)};
    bench_write_segment(&b, &s[0]);
    bench_write_segment(&b, &s[1]);
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), s, 1);
    assert_ok(bench_add(&b, &leaf, 1, e));
    advance(2 * BENCH_HOURS - 1);
    assert_int_equal(sweep(&b).segments_deleted, 0);
    advance(1);
    assert_int_equal(sweep(&b).segments_deleted, 1);
    assert_false(has_segment(&b, &s[0]));
    assert_true(has_segment(&b, &s[1]));
    assert_true(has_block(&b, &leaf));
    struct manifest *m = bench_newest(&b);
    assert_int_equal(manifest_version(m), 1);  // nothing to forget yet
    assert_true(manifest_absorbed(m, &s[0]));
    manifest_unref(m);
    bench_end(&b);
}

static void garbage_goes_after_its_grace_and_is_forgotten(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct manifest_block old = bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0);
    struct manifest_block new = bench_leaf(BENCH_HOUR, bench_id(2), NULL, 0);
    assert_ok(bench_add(&b, &old, 1, e));
    bench_write_block(&b, &new);
    assert_ok(bench_commit(&b,
                           &(struct manifest_change){
                               .add = &new, .add_count = 1, .remove = &old.id, .remove_count = 1},
                           e));
    advance(2 * BENCH_HOURS - 1);
    struct manifest_sweep s = sweep(&b);
    assert_int_equal(s.blocks_deleted + s.pages_deleted, 0);
    advance(1);
    s = sweep(&b);
    assert_int_equal(s.blocks_deleted, 1);
    assert_int_equal(s.pages_deleted, 1);
    assert_false(has_block(&b, &old));
    assert_true(has_block(&b, &new));
    s = sweep(&b);
    assert_int_equal(s.blocks_deleted + s.pages_deleted, 0);
    struct manifest *m = bench_newest(&b);
    assert_int_equal(manifest_version(m), 3);
    manifest_unref(m);
    bench_end(&b);
}

static void versions_go_when_they_are_old_and_many_follow(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    for (uint32_t i = 0; i < 100; i++) {
        struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(i), NULL, 0);
        assert_ok(bench_add(&b, &leaf, 1, e));
        advance(BENCH_HOURS / 2);
    }
    // version n was made at n / 2 h; now it is 50 h
    struct manifest_sweep s = sweep(&b);
    size_t left = memstore_count(b.store, "v1/bb/acme/live/m/");
    assert_int_equal(s.roots_deleted, 101 - 64);  // the sweep committed one more
    assert_int_equal(left, 64);
    s = usual();
    s.versions = 1;
    assert_ok(bench_sweep(&b, &s, e));
    assert_int_equal(memstore_count(b.store, "v1/bb/acme/live/m/"), 48);
    advance(30 * DAYS);
    assert_int_equal(sweep(&b).roots_deleted, 0);
    struct manifest *m = bench_newest(&b);
    size_t n = 0;
    (void)manifest_blocks(m, &n);
    assert_int_equal(n, 100);
    manifest_unref(m);
    bench_end(&b);
}

static void what_nobody_named_goes_after_two_days(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct manifest_block orphan[3] = {
        bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0),
        bench_block(BLOCK_HOURS, BENCH_HOUR, 1, bench_id(2)),
        bench_block(BLOCK_DAYS, BENCH_HOUR - BENCH_HOUR % 24, 24, bench_id(3)),
    };
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(4), NULL, 0);
    for (int i = 0; i < 3; i++)
        bench_write_block(&b, &orphan[i]);
    str page = name_page(&b.arena, TENANT, bench_id(5));
    memstore_set(b.store, page.p, S("page"));
    memstore_set(b.store, "v1/bb/acme/raw/notes.txt", S("not ours"));
    assert_ok(bench_add(&b, &leaf, 1, e));
    advance(2 * DAYS - 1);
    assert_int_equal(sweep(&b).orphans_deleted, 0);
    advance(1);
    struct manifest_sweep s = usual();
    s.orphan_age_ns = 0;
    assert_ok(bench_sweep(&b, &s, e));
    assert_int_equal(s.orphans_deleted, 0);
    assert_int_equal(sweep(&b).orphans_deleted, 4);
    assert_true(has_block(&b, &leaf));
    assert_true(memstore_has(b.store, "v1/bb/acme/raw/notes.txt"));
    bench_end(&b);
}

static void a_tenant_without_versions_keeps_what_is_young(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct segment_name s = bench_segment(BENCH_HOUR, 1, 0);
    struct manifest_block orphan = bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0);
    bench_write_segment(&b, &s);
    bench_write_block(&b, &orphan);
    assert_int_equal(sweep(&b).orphans_deleted, 0);
    advance(2 * DAYS);
    assert_int_equal(sweep(&b).orphans_deleted, 1);
    assert_true(has_segment(&b, &s));
    assert_int_equal(memstore_count(b.store, ""), 1);
    bench_end(&b);
}

// ---- clocks that are days apart

static struct manifest_sweep sweep_after(struct bench *b, int64_t boot_ns)
{
    atomic_fetch_add(&bench_slept, boot_ns);
    return sweep_once(b);
}

static void new_blocks_of_a_clock_that_is_days_behind_stay(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct manifest_block first = bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0);
    assert_ok(bench_add(&b, &first, 1, e));
    (void)sweep_once(&b);
    // Its name says that it is three days old, and it was made a moment ago.
    struct manifest_block fresh = bench_leaf(BENCH_HOUR, bench_id(2), NULL, 0);
    bench_write_block(&b, &fresh);
    advance(3 * DAYS);
    struct manifest_sweep s = sweep_once(&b);
    assert_int_equal(s.orphans_deleted, 0);
    assert_int_equal(s.waiting, 1);
    s = sweep_after(&b, 25 * BENCH_HOURS);
    assert_int_equal(s.orphans_deleted, 0);
    assert_true(has_block(&b, &fresh));
    s = sweep_after(&b, 1 * BENCH_HOURS);
    assert_int_equal(s.orphans_deleted, 1);
    assert_true(has_block(&b, &first));
    bench_end(&b);
}

// From its first sweep on our clock is days ahead, no version is new enough to show that, and a
// block is old as soon as it is there: only our sight keeps it until its job may commit no more.
static void a_block_of_a_running_job_stays_however_short_the_age_of_orphans_is(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct manifest_block first = bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0);
    assert_ok(bench_add(&b, &first, 1, e));
    struct manifest_block made = bench_leaf(BENCH_HOUR, bench_id(2), NULL, 0);
    struct manifest_block left = bench_leaf(BENCH_HOUR, bench_id(3), NULL, 0);
    bench_write_block(&b, &made);
    bench_write_block(&b, &left);
    int64_t begun = bench_boot();
    advance(3 * DAYS);
    for (int hour = 0; hour <= 4; hour++) {
        struct manifest_sweep s = usual();
        s.seen = &b.seen;
        s.orphan_age_ns = NS_PER_MS;
        assert_ok(manifest_sweep(b.ms, &b.r, TENANT, &s, e));
        assert_int_equal(s.orphans_deleted, 0);
        assert_int_equal(s.waiting, 2);
        if (hour < 4) atomic_fetch_add(&bench_slept, BENCH_HOURS);
    }
    struct manifest_change c = {.add = &made,
                                .add_count = 1,
                                .begun_ns = bench_wall(),
                                .begun_boot_ns = begun + 3 * DAYS,
                                .age_max_ns = 4 * BENCH_HOURS};
    assert_ok(manifest_commit(b.ms, &b.r, TENANT, &c, NULL, e));
    atomic_fetch_add(&bench_slept, 2 * BENCH_HOURS);
    struct manifest_sweep s = usual();
    s.seen = &b.seen;
    s.orphan_age_ns = NS_PER_MS;
    assert_ok(manifest_sweep(b.ms, &b.r, TENANT, &s, e));
    assert_int_equal(s.orphans_deleted, 1);
    assert_true(has_block(&b, &made) && !has_block(&b, &left));
    bench_end(&b);
}

static void what_readers_need_stays_for_its_grace_whatever_clocks_say(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct segment_name s = bench_segment(BENCH_HOUR, 1, 0);
    struct manifest_block old = bench_leaf(BENCH_HOUR, bench_id(1), &s, 1);
    struct manifest_block new = bench_leaf(BENCH_HOUR, bench_id(2), &s, 1);
    bench_write_segment(&b, &s);
    assert_ok(bench_add(&b, &old, 1, e));
    assert_ok(bench_commit(&b,
                           &(struct manifest_change){
                               .add = &new, .add_count = 1, .remove = &old.id, .remove_count = 1},
                           e));
    advance(3 * DAYS);  // for a sweeper whose clock is ahead
    struct manifest_sweep w = sweep_once(&b);
    assert_int_equal(w.segments_deleted + w.blocks_deleted + w.pages_deleted, 0);
    w = sweep_after(&b, 2 * BENCH_HOURS - 1);
    assert_int_equal(w.segments_deleted + w.blocks_deleted + w.pages_deleted, 0);
    assert_true(has_segment(&b, &s) && has_block(&b, &old));
    w = sweep_after(&b, 1);
    assert_int_equal(w.segments_deleted, 1);
    assert_int_equal(w.blocks_deleted, 1);
    bench_end(&b);
}

static void orphans_stay_while_clocks_are_apart(void **state)
{
    static const struct {
        const char *name;
        int64_t ahead;  // of who commits, of ours
        bool held;
    } cases[] = {{"days ahead", 3 * DAYS, true},
                 {"an hour ahead", BENCH_HOURS, false},
                 {"days behind", -3 * DAYS, true},
                 {"an hour behind", -BENCH_HOURS, false}};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bench b;
        print_message("%s\n", cases[i].name);
        bench_begin(&b);
        struct manifest_block orphan = bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0);
        bench_write_block(&b, &orphan);
        advance(9 * DAYS);
        struct manifest_sweep s = sweep_once(&b);
        assert_int_equal(s.waiting, 1);
        advance(BENCH_HOURS);
        advance(cases[i].ahead);
        struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(2), NULL, 0);
        assert_ok(bench_add(&b, &leaf, 1, e));
        advance(-cases[i].ahead);
        atomic_fetch_add(&bench_slept, 26 * BENCH_HOURS);
        advance(cases[i].held ? BENCH_HOURS : 0);
        s = sweep_once(&b);
        if (cases[i].ahead < 0) {
            // The version may be as old as it says: it was made at any time since the last sweep,
            // which is some hours ago. Three days are more.
            assert_int_equal(s.apart_ns != 0, cases[i].held);
        } else {
            assert_int_equal(s.apart_ns > 0, cases[i].held);
        }
        assert_int_equal(s.orphans_deleted, cases[i].held ? 0 : 1);
        s = sweep_after(&b, BENCH_HOURS);  // and as long as nobody says otherwise
        assert_int_equal(s.apart_ns != 0, cases[i].held);
        bench_end(&b);
    }
}

// ---- what pages forget

static uint64_t page_bytes(struct bench *b)
{
    return memstore_size(b->store, "v1/bb/acme/page/");
}

static void sources_are_forgotten_once_their_segments_are_gone(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct segment_name s[2] = {bench_segment(BENCH_HOUR, 1, 0), bench_segment(BENCH_HOUR, 2, 0)};
    for (int i = 0; i < 2; i++)
        bench_write_segment(&b, &s[i]);
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), s, 2);
    assert_ok(bench_add(&b, &leaf, 1, e));
    uint64_t before = page_bytes(&b);
    advance(7 * DAYS);
    // the store does not delete: the segments stay, and so do the names
    memstore_fail(b.store, MEMSTORE_DELETE, MEMSTORE_FAILS, 1, UINT64_MAX);
    struct manifest_sweep w = usual();
    err fault = {0};
    assert_false(bench_sweep(&b, &w, &fault));
    assert_int_equal(fault.code, ERR_UNAVAILABLE);
    memstore_heal(b.store);
    assert_int_equal(sweep_once(&b).segments_deleted, 2);
    struct manifest *m = bench_newest(&b);
    assert_true(manifest_absorbed(m, &s[0]));
    manifest_unref(m);
    (void)sweep(&b);  // now they were not listed
    m = bench_newest(&b);
    assert_false(manifest_absorbed(m, &s[0]));
    assert_non_null(manifest_find(m, leaf.id));
    assert_int_equal(manifest_find(m, leaf.id)->source_count, 0);
    manifest_unref(m);
    advance(2 * BENCH_HOURS);
    assert_int_equal(sweep(&b).pages_deleted, 1);
    assert_true(page_bytes(&b) < before);
    uint64_t version = manifest_version(m = bench_newest(&b));
    manifest_unref(m);
    (void)sweep(&b);
    assert_int_equal(manifest_version(m = bench_newest(&b)), version);
    manifest_unref(m);
    bench_end(&b);
}

static void imports_are_remembered_for_400_days(void **state)
{
    struct bench b;
    uint64_t generation = 0;
    (void)state;
    bench_begin(&b);
    const uint8_t hash[STREAM_IMPORT_HASH] = {1, 2, 3};
    struct segment_name s[2] = {{BENCH_HOUR, stream_of_import(hash), 0, 0},
                                bench_segment(BENCH_HOUR, 2, 0)};
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), s, 2);
    assert_true(stream_is_import(s[0].stream) && !stream_is_import(s[1].stream));
    assert_ok(bench_add(&b, &leaf, 1, e));
    advance(8 * DAYS);
    (void)sweep(&b);
    struct manifest *m = bench_newest(&b);
    assert_true(manifest_absorbed(m, &s[0]));
    assert_false(manifest_absorbed(m, &s[1]));
    assert_false(manifest_import_expired(m, BENCH_HOUR, &generation));
    manifest_unref(m);

    // It expires, and is remembered still: the same import again is refused.
    struct manifest_change go = {.expire = &leaf.id, .expire_count = 1};
    assert_ok(bench_commit(&b, &go, e));
    advance(399 * DAYS);
    (void)sweep(&b);
    m = bench_newest(&b);
    assert_true(manifest_absorbed(m, &s[0]));
    assert_true(manifest_import_expired(m, BENCH_HOUR, &generation));
    assert_false(manifest_import_expired(m, BENCH_HOUR - 1, &generation));
    assert_false(manifest_import_expired(m, BENCH_HOUR + 1, &generation));
    manifest_unref(m);
    struct manifest_block again = bench_leaf(BENCH_HOUR, bench_id(2), s, 1);
    err fault = {0};
    assert_false(bench_add(&b, &again, 1, &fault));
    assert_int_equal(fault.code, ERR_ABORTED);

    advance(2 * DAYS);
    (void)sweep(&b);
    m = bench_newest(&b);
    assert_false(manifest_absorbed(m, &s[0]));
    assert_false(manifest_import_expired(m, BENCH_HOUR, &generation));
    manifest_unref(m);
    bench_end(&b);
}

static void a_change_that_needs_all_leaves_knows_all_leaves(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct manifest_block v[3] = {bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0),
                                  bench_leaf(BENCH_HOUR + 1, bench_id(2), NULL, 0),
                                  bench_leaf(BENCH_HOUR, bench_id(3), NULL, 0)};
    assert_ok(bench_add(&b, v, 2, e));
    struct manifest_change c = {.add = &v[2], .add_count = 1, .needs_all = true};
    err fault = {0};
    assert_false(bench_commit(&b, &c, &fault));
    assert_int_equal(fault.code, ERR_ABORTED);
    c.needs = &v[1].id;
    c.need_count = 1;
    fault = (err){0};
    assert_false(bench_commit(&b, &c, &fault));
    assert_int_equal(fault.code, ERR_ABORTED);
    c.needs = &v[0].id;
    assert_ok(bench_commit(&b, &c, e));
    bench_end(&b);
}

static void expired_leaves_count_as_long_as_a_parent_names_them(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0);
    struct manifest_cover cover = {BENCH_HOUR, 1, 1, &leaf.id};
    struct manifest_block parent = bench_block(BLOCK_HOURS, BENCH_HOUR, 1, bench_id(2));
    parent.covers = &cover;
    parent.cover_count = 1;
    assert_ok(bench_add(&b, &leaf, 1, e));
    assert_ok(bench_add(&b, &parent, 1, e));
    assert_ok(
        bench_commit(&b, &(struct manifest_change){.expire = &leaf.id, .expire_count = 1}, e));
    advance(20 * DAYS);
    (void)sweep(&b);
    assert_false(has_block(&b, &leaf));
    struct manifest *m = bench_newest(&b);
    assert_true(manifest_counts(m, leaf.id));
    const struct manifest_block *p = manifest_find(m, parent.id);
    assert_int_equal(p->cover_count, 1);
    assert_true(id128_eq(p->covers[0].leaves[0], leaf.id));
    manifest_unref(m);
    assert_ok(
        bench_commit(&b, &(struct manifest_change){.expire = &parent.id, .expire_count = 1}, e));
    (void)sweep(&b);
    m = bench_newest(&b);
    assert_false(manifest_counts(m, leaf.id));
    manifest_unref(m);
    advance(3 * DAYS);
    (void)sweep(&b);
    assert_int_equal(memstore_count(b.store, "v1/bb/acme/page/"), 0);
    bench_end(&b);
}

// ---- ended anywhere, and beside commits

static enum memstore_fault die_at(void *arg, const struct memstore_event *ev)
{
    int *at = arg;
    (void)ev;
    if (*at > 0) --*at;
    return *at == 0 ? MEMSTORE_FAILS : MEMSTORE_FINE;
}

static char *live_names(struct bench *b)
{
    return memstore_names(b->store, "v1/bb/acme/raw/");
}

static void a_sweep_that_was_ended_anywhere_is_finished_by_the_next(void **state)
{
    char *want = NULL;
    (void)state;
    for (int end = 0; end < 100; end++) {
        struct bench b;
        bench_begin(&b);
        struct segment_name s = bench_segment(BENCH_HOUR, 1, 0);
        struct manifest_block old[3];
        for (uint32_t i = 0; i < 3; i++)
            old[i] = bench_leaf(BENCH_HOUR + 24 * i, bench_id(i), i ? NULL : &s, i == 0);
        struct manifest_block new = bench_leaf(BENCH_HOUR, bench_id(8), &s, 1);
        struct manifest_block orphan = bench_leaf(BENCH_HOUR, bench_id(9), NULL, 0);
        bench_write_segment(&b, &s);
        bench_write_block(&b, &orphan);
        assert_ok(bench_add(&b, old, 3, e));
        bench_write_block(&b, &new);
        id128 gone[2] = {old[0].id, old[1].id};
        assert_ok(bench_commit(&b,
                               &(struct manifest_change){
                                   .add = &new, .add_count = 1, .remove = gone, .remove_count = 2},
                               e));
        advance(3 * DAYS);
        int at = end;
        struct manifest_sweep w = usual();
        err fault = {0};
        memstore_set_hooks(b.store, die_at, NULL, &at);
        bool ok = end == 0 || bench_sweep(&b, &w, &fault);
        memstore_set_hooks(b.store, NULL, NULL, NULL);
        bool over = end > 0 && ok;
        (void)sweep(&b);
        (void)sweep(&b);
        char *names = live_names(&b);
        if (!want) want = names;
        assert_string_equal(names, want);
        assert_int_equal(memstore_count(b.store, "v1/bb/acme/live/a/"), 0);
        assert_int_equal(memstore_count(b.store, "v1/bb/acme/page/"), 1);
        if (names != want) free(names);
        bench_end(&b);
        if (over) {
            print_message("%d operations\n", end - 1);
            free(want);
            return;
        }
    }
    fail_msg("a sweep without end");
}

struct sweeper {
    struct manifests *ms;
    _Atomic bool *over;
};

static void *sweep_on(void *arg)
{
    struct sweeper *v = arg;
    struct req r;
    struct sweep_seen seen;
    sweep_seen_init(&seen, NULL);
    req_init(&r, RANK_DUTY, NULL, (size_t)1 << 28, 0);
    while (!atomic_load(v->over)) {
        struct manifest_sweep s = usual();
        s.garbage_grace_ns = 0;
        s.segment_grace_ns = 0;
        // Of the age that versions have before they go, none is left here. A commit that is held up
        // must not find the number of its version free again: it sees fewer than 64 others go by.
        s.versions = 64;
        s.version_age_ns = 0;
        s.seen = &seen;
        err e = {0};
        // a page may go while it is read: two hours of grace are none here
        if (!manifest_sweep(v->ms, &r, TENANT, &s, &e) && e.code != ERR_DATA_LOSS &&
            e.code != ERR_ABORTED)
            fail_msg("%s: %s", err_name(e.code), e.msg);
        arena_release(&r.arena);
    }
    sweep_seen_release(&seen);
    req_release(&r);
    return NULL;
}

static void sweeps_and_commits_do_not_hurt_each_other(void **state)
{
    struct bench b;
    pthread_t threads[2];
    struct sweeper v[2];
    _Atomic bool over = false;
    struct manifest_block last = {0};
    (void)state;
    bench_begin(&b);
    for (int i = 0; i < 2; i++) {
        v[i] = (struct sweeper){b.ms, &over};
        assert_int_equal(pthread_create(&threads[i], NULL, sweep_on, &v[i]), 0);
    }
    for (uint32_t i = 0; i < 80; i++) {
        struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(i), NULL, 0);
        struct manifest_change c = {.add = &leaf,
                                    .add_count = 1,
                                    .remove = &last.id,
                                    .remove_count = i > 0,
                                    .begun_ns = bench_wall()};
        bench_write_block(&b, &leaf);
        for (;;) {
            err e = {0};
            if (manifest_commit(b.ms, &b.r, TENANT, &c, NULL, &e)) break;
            if (e.code != ERR_DATA_LOSS && !strstr(e.msg, "came first")) fail_msg("%s", e.msg);
        }
        last = leaf;
    }
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    struct manifest *m = bench_newest(&b);
    size_t n = 0;
    const struct manifest_block *blocks = manifest_blocks(m, &n);
    assert_int_equal(n, 1);
    assert_true(id128_eq(blocks[0].id, last.id));
    assert_true(memstore_has(b.store, arena_str(&b.arena, blocks[0].name).p));
    manifest_unref(m);
    advance(3 * DAYS);
    (void)sweep(&b);
    (void)sweep(&b);
    assert_int_equal(memstore_count(b.store, "v1/bb/acme/raw/"), 1);
    assert_int_equal(memstore_count(b.store, "v1/bb/acme/page/"), 1);
    bench_end(&b);
}

// ---- tenants and the cluster

static void tenants_are_noted_once(void **state)
{
    struct bench b;
    str *v = NULL;
    size_t n = 0;
    (void)state;
    bench_begin(&b);
    for (int i = 0; i < 3; i++) {
        assert_ok(tenants_note(b.ms, &b.r, S("b"), e));
        assert_ok(tenants_note(b.ms, &b.r, S("a.b!"), e));
    }
    assert_int_equal(memstore_totals(b.store).ops[MEMSTORE_CREATE], 2);
    memstore_set(b.store, "v1/tenants/not/ours", S(""));
    memstore_set(b.store, "v1/tenants/not~ours", S(""));
    assert_ok(tenants_list(b.ms, &b.r, &b.arena, &v, &n, e));
    assert_int_equal(n, 2);
    assert_true(str_is(v[0], "a.b!") && str_is(v[1], "b"));
    err fault = {0};
    assert_false(tenants_note(b.ms, &b.r, S(".."), &fault));
    memstore_fail(b.store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, 1);
    assert_false(tenants_note(b.ms, &b.r, S("c"), &fault));
    assert_ok(tenants_note(b.ms, &b.r, S("c"), e));
    bench_end(&b);
}

static void the_cluster_is_claimed_once(void **state)
{
    struct bench b;
    id128 first = {0};
    id128 second = {0};
    err fault = {0};
    (void)state;
    bench_begin(&b);
    assert_ok(cluster_claim(b.store, &b.r, NULL, &first, e));
    assert_ok(cluster_claim(b.store, &b.r, NULL, &second, e));
    assert_true(id128_eq(first, second));
    assert_ok(cluster_claim(b.store, &b.r, &first, &second, e));
    second.b[15] ^= 1;
    id128 other = second;
    assert_false(cluster_claim(b.store, &b.r, &other, &second, &fault));
    assert_int_equal(fault.code, ERR_NOT_FOUND);
    memstore_set(b.store, "v1/cluster",
                 S("\x08\x02\x12\x10"
                   "0123456789abcdef"));
    assert_false(cluster_claim(b.store, &b.r, NULL, &first, &fault));
    assert_int_equal(fault.code, ERR_FAILED_PRECONDITION);
    memstore_set(b.store, "v1/cluster", S("\x08\x01\x12\x01x"));
    assert_false(cluster_claim(b.store, &b.r, NULL, &first, &fault));
    assert_int_equal(fault.code, ERR_DATA_LOSS);
    memstore_set(b.store, "v1/cluster", S("\xff"));
    assert_false(cluster_claim(b.store, &b.r, NULL, &first, &fault));
    assert_int_equal(fault.code, ERR_DATA_LOSS);
    memstore_drop(b.store, "v1/cluster");
    for (int i = 0; i < 2; i++) {  // an empty store is refused and stays empty
        assert_false(cluster_claim(b.store, &b.r, &other, &second, &fault));
        assert_int_equal(fault.code, ERR_NOT_FOUND);
    }
    memstore_fail(b.store, MEMSTORE_CREATE, MEMSTORE_LANDS, 1, 1);
    assert_false(cluster_claim(b.store, &b.r, NULL, &first, &fault));
    assert_ok(cluster_claim(b.store, &b.r, NULL, &first, e));
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absorbed_segments_go_after_their_grace),
        cmocka_unit_test(garbage_goes_after_its_grace_and_is_forgotten),
        cmocka_unit_test(versions_go_when_they_are_old_and_many_follow),
        cmocka_unit_test(what_nobody_named_goes_after_two_days),
        cmocka_unit_test(a_tenant_without_versions_keeps_what_is_young),
        cmocka_unit_test(new_blocks_of_a_clock_that_is_days_behind_stay),
        cmocka_unit_test(a_block_of_a_running_job_stays_however_short_the_age_of_orphans_is),
        cmocka_unit_test(what_readers_need_stays_for_its_grace_whatever_clocks_say),
        cmocka_unit_test(orphans_stay_while_clocks_are_apart),
        cmocka_unit_test(sources_are_forgotten_once_their_segments_are_gone),
        cmocka_unit_test(imports_are_remembered_for_400_days),
        cmocka_unit_test(a_change_that_needs_all_leaves_knows_all_leaves),
        cmocka_unit_test(expired_leaves_count_as_long_as_a_parent_names_them),
        cmocka_unit_test(a_sweep_that_was_ended_anywhere_is_finished_by_the_next),
        cmocka_unit_test(sweeps_and_commits_do_not_hurt_each_other),
        cmocka_unit_test(tenants_are_noted_once),
        cmocka_unit_test(the_cluster_is_claimed_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
