// SPDX-License-Identifier: Apache-2.0
//
// Changes: each lands exactly once, whatever the store says and whoever else writes.
#include "unit/manifest/bench.h"

#include <pthread.h>
#include <stdlib.h>

static void expect(struct bench *b, const struct manifest_change *c, enum err_code code,
                   const char *text)
{
    err e = {0};
    bool ok = bench_commit(b, c, &e);
    if (ok && code == ERR_OK) return;
    if (ok || e.code != code || !strstr(e.msg, text))
        fail_msg("%s: %s; expected %s: %s", ok ? "landed" : err_name(e.code), e.msg, err_name(code),
                 text);
}

static void only_what_lives_is_replaced(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct segment_name s = bench_segment(BENCH_HOUR, 1, 0);
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), &s, 1);
    struct manifest_block next = bench_leaf(BENCH_HOUR, bench_id(2), &s, 1);
    struct manifest_block third = bench_leaf(BENCH_HOUR, bench_id(3), &s, 1);
    struct manifest_block last = bench_leaf(BENCH_HOUR, bench_id(4), NULL, 0);
    assert_ok(bench_add(&b, &leaf, 1, e));
    expect(&b, &(struct manifest_change){.add = &next, .add_count = 1}, ERR_ABORTED,
           "was absorbed by leaf");
    expect(&b,
           &(struct manifest_change){
               .add = &next, .add_count = 1, .remove = &third.id, .remove_count = 1},
           ERR_ABORTED, "is not live");
    expect(&b,
           &(struct manifest_change){
               .add = &last, .add_count = 1, .needs = &third.id, .need_count = 1},
           ERR_ABORTED, "needed block");
    expect(&b,
           &(struct manifest_change){
               .add = &next, .add_count = 1, .remove = &leaf.id, .remove_count = 1},
           ERR_OK, "");
    expect(&b,
           &(struct manifest_change){
               .add = &third, .add_count = 1, .remove = &leaf.id, .remove_count = 1},
           ERR_ABORTED, "is not live");
    expect(&b,
           &(struct manifest_change){
               .add = &leaf, .add_count = 1, .remove = &next.id, .remove_count = 1},
           ERR_ABORTED, "was removed before");
    expect(&b, &(struct manifest_change){.expire = &next.id, .expire_count = 1}, ERR_OK, "");
    expect(&b, &(struct manifest_change){.expire = &next.id, .expire_count = 1}, ERR_ABORTED,
           "is not live");
    expect(&b, &(struct manifest_change){.add = &third, .add_count = 1}, ERR_ABORTED,
           "was absorbed by leaf");
    expect(
        &b,
        &(struct manifest_change){.add = &last, .add_count = 1, .needs = &next.id, .need_count = 1},
        ERR_OK, "");
    struct manifest *m = bench_newest(&b);
    assert_int_equal(manifest_version(m), 4);
    assert_true(manifest_counts(m, next.id));
    assert_null(manifest_find(m, next.id));
    assert_true(manifest_absorbed(m, &s));
    manifest_unref(m);
    bench_end(&b);
}

static void a_leaf_without_successor_keeps_its_segments_absorbed(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct segment_name s[2] = {bench_segment(BENCH_HOUR, 1, 0), bench_segment(BENCH_HOUR, 2, 0)};
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), s, 2);
    struct manifest_block half = bench_leaf(BENCH_HOUR, bench_id(2), s, 1);
    assert_ok(bench_add(&b, &leaf, 1, e));
    expect(&b,
           &(struct manifest_change){
               .add = &half, .add_count = 1, .remove = &leaf.id, .remove_count = 1},
           ERR_OK, "");
    struct manifest *m = bench_newest(&b);
    assert_true(manifest_absorbed(m, &s[0]));
    assert_true(manifest_absorbed(m, &s[1]));
    assert_false(manifest_counts(m, leaf.id));
    manifest_unref(m);
    bench_end(&b);
}

static void leaves_of_other_packs_share_a_segment(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct segment_name s = bench_segment(BENCH_HOUR, 1, 0);
    struct manifest_block v[3];
    for (uint32_t i = 0; i < 3; i++)
        v[i] = bench_leaf(BENCH_HOUR, bench_id(i + 1), &s, 1);
    v[0].pack_hi = 0x7fffffff;
    v[1].pack_lo = 0x80000000;
    v[2].pack_lo = 0xf0000000;
    expect(&b, &(struct manifest_change){.add = v + 1, .add_count = 2}, ERR_INVALID_ARGUMENT,
           "packs overlap");
    assert_ok(bench_add(&b, v, 2, e));
    expect(&b, &(struct manifest_change){.add = v + 2, .add_count = 1}, ERR_ABORTED,
           "was absorbed by leaf");
    bench_end(&b);
}

static void jobs_older_than_an_hour_do_not_commit(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0);
    struct manifest_change c = {.add = &leaf, .add_count = 1, .begun_ns = BENCH_START};
    atomic_store(&bench_now, BENCH_START + BENCH_HOURS + 1);
    expect(&b, &c, ERR_ABORTED, "3600 s ago");
    assert_int_equal(memstore_count(b.store, "v1/bb/acme/live/m/"), 0);
    atomic_store(&bench_now, BENCH_START + BENCH_HOURS);
    c.begun_boot_ns = bench_boot();
    atomic_store(&bench_slept, BENCH_HOURS + 1);  // and the clock on the wall was set back
    expect(&b, &c, ERR_ABORTED, "3600 s ago");
    atomic_store(&bench_slept, BENCH_HOURS);
    expect(&b, &c, ERR_OK, "");
    // Longer ones say how long they may take.
    struct manifest_block late = bench_leaf(BENCH_HOUR + 1, bench_id(2), NULL, 0);
    c = (struct manifest_change){.add = &late,
                                 .add_count = 1,
                                 .begun_ns = BENCH_START,
                                 .age_max_ns = 24 * BENCH_HOURS};
    atomic_store(&bench_now, BENCH_START + 24 * BENCH_HOURS + 1);
    expect(&b, &c, ERR_ABORTED, "86400 s ago");
    atomic_store(&bench_now, BENCH_START + 23 * BENCH_HOURS);
    expect(&b, &c, ERR_OK, "");
    bench_end(&b);
}

static void a_block_that_is_gone_is_not_named(void **state)
{
    struct bench b;
    err e = {0};
    (void)state;
    bench_begin(&b);
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0);
    struct manifest_change c = {.add = &leaf, .add_count = 1, .begun_ns = bench_wall()};
    assert_false(manifest_commit(b.ms, &b.r, TENANT, &c, NULL, &e));
    assert_int_equal(e.code, ERR_ABORTED);
    assert_non_null(strstr(e.msg, "is gone before a version names it"));
    bench_write_block(&b, &leaf);
    memstore_cut(b.store, manifest_block_name(&b.arena, TENANT, &leaf).p, 999);
    e = (err){0};
    assert_false(manifest_commit(b.ms, &b.r, TENANT, &c, NULL, &e));
    assert_int_equal(e.code, ERR_DATA_LOSS);
    assert_non_null(strstr(e.msg, "has 999 bytes, 1000 were written"));
    assert_int_equal(memstore_count(b.store, "v1/bb/acme/live/m/"), 0);
    bench_end(&b);
}

static void a_clock_that_was_ahead_is_not_followed(void **state)
{
    static const struct {
        int64_t ahead;
        int64_t want;  // made_ns of the next version, after BENCH_START
    } cases[] = {{BENCH_HOURS / 2, BENCH_HOURS / 2}, {BENCH_HOURS * 100, 0}};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bench b;
        struct manifest_about about;
        bench_begin(&b);
        struct manifest_block first = bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0);
        struct manifest_block second = bench_leaf(BENCH_HOUR, bench_id(2), NULL, 0);
        atomic_fetch_add(&bench_now, cases[i].ahead);
        assert_ok(bench_add(&b, &first, 1, e));
        atomic_store(&bench_now, BENCH_START);
        assert_ok(bench_add(&b, &second, 1, e));
        struct manifest *m = bench_newest(&b);
        manifest_tell(m, &about);
        assert_true(about.made_ns == BENCH_START + cases[i].want);
        manifest_unref(m);
        bench_end(&b);
    }
}

static void wrong_blocks_are_refused(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct segment_name s = bench_segment(BENCH_HOUR, 1, 0);
    struct segment_name two[2] = {s, s};
    struct manifest_cover beyond = {.hour = BENCH_HOUR - BENCH_HOUR % 24 + 24, .hours = 1};
    struct manifest_block good = bench_leaf(BENCH_HOUR, bench_id(1), &s, 1);
    struct manifest_block day =
        bench_block(BLOCK_HOURS, BENCH_HOUR - BENCH_HOUR % 24, 24, bench_id(2));
    struct {
        const char *text;
        struct manifest_block block;
    } cases[12];
    for (size_t i = 0; i < COUNT(cases); i++)
        cases[i].block = good;
    cases[0].text = "kind is 1";
    cases[0].block.kind = BLOCK_SEGMENT;
    cases[1].text = "from_hour is -1";
    cases[1].block.from_hour = -1;
    cases[2].text = "hours is 0";
    cases[2].block.hours = 0;
    cases[3].text = "hours is 673";
    cases[3].block.hours = 673;
    cases[4].text = "another window";
    cases[4].block.hours = 24;
    cases[5].text = "pack_lo";
    cases[5].block.pack_lo = 1;
    cases[5].block.pack_hi = 0;
    cases[6].text = "classes is 0";
    cases[6].block.classes = 0;
    cases[6].block.kind = BLOCK_RAW;
    cases[7].text = "last_ns";
    cases[7].block.last_ns = cases[7].block.first_ns - 1;
    cases[8].text = "are not within";
    cases[8].block.first_ns--;
    cases[9].text = "bytes is 0";
    cases[9].block.bytes = 0;
    cases[10].text = "sources are not in order";
    const struct segment_run backwards[2] = {segment_run_of(&two[0]), segment_run_of(&two[1])};
    cases[10].block.sources = backwards;
    cases[10].block.source_count = 2;
    cases[11].text = "cover 0";
    cases[11].block = day;
    cases[11].block.covers = &beyond;
    cases[11].block.cover_count = 1;
    for (size_t i = 0; i < COUNT(cases); i++)
        expect(&b, &(struct manifest_change){.add = &cases[i].block, .add_count = 1},
               ERR_INVALID_ARGUMENT, cases[i].text);
    struct manifest_block twice[2] = {day, day};
    expect(&b, &(struct manifest_change){.add = twice, .add_count = 2}, ERR_INVALID_ARGUMENT,
           "added twice");
    assert_int_equal(memstore_count(b.store, "v1/bb/acme/live/m/"), 0);
    assert_int_equal(memstore_count(b.store, "v1/bb/acme/page/"), 0);
    err e = {0};
    assert_false(manifest_commit(b.ms, &b.r, S("a/b"), &(struct manifest_change){0}, NULL, &e));
    assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
    bench_end(&b);
}

// ---- creations that fail, or land all the same

static enum memstore_fault fault_of_roots;
static int faults_left;

static enum memstore_fault hurt_roots(void *arg, const struct memstore_event *ev)
{
    (void)arg;
    if (ev->op != MEMSTORE_CREATE || !str_contains(ev->name, S("/live/m/")) || faults_left == 0)
        return MEMSTORE_FINE;
    faults_left--;
    return fault_of_roots;
}

static void a_root_that_landed_is_known_as_ours(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    memstore_set_hooks(b.store, hurt_roots, NULL, NULL);
    for (uint32_t i = 0; i < 4; i++) {
        struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(i), NULL, 0);
        fault_of_roots = i % 2 ? MEMSTORE_LANDS : MEMSTORE_FAILS;
        faults_left = i < 2 ? 1 : 3;
        assert_ok(bench_add(&b, &leaf, 1, e));
    }
    struct manifest *m = bench_newest(&b);
    assert_int_equal(manifest_version(m), 4);
    manifest_unref(m);
    bench_end(&b);
}

static void a_change_that_is_tried_again_lands_once(void **state)
{
    struct bench b;
    err e = {0};
    (void)state;
    bench_begin(&b);
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0);
    memstore_set_hooks(b.store, hurt_roots, NULL, NULL);
    fault_of_roots = MEMSTORE_ABORTS;
    faults_left = 1;
    memstore_fail(b.store, MEMSTORE_READ, MEMSTORE_FAILS, 2, UINT64_MAX);  // 1: the leaf is there
    assert_false(bench_add(&b, &leaf, 1, &e));
    assert_int_equal(e.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(e.msg, "may have been created"));
    memstore_heal(b.store);
    struct manifest_change c = {.add = &leaf, .add_count = 1};
    expect(&b, &c, ERR_OK, "");
    struct manifest *m = bench_newest(&b);
    assert_int_equal(manifest_version(m), 1);
    manifest_unref(m);
    bench_end(&b);
}

// The answer to the creation of a root finds no memory, nor does that to the read that would tell;
// and the root appears later than that.
struct late_root {
    struct bench *b;
    char name[128];
    char bytes[4096];
    size_t n;
};

static enum memstore_fault starve_roots(void *arg, const struct memstore_event *ev)
{
    struct late_root *l = arg;
    if (l->n || !str_contains(ev->name, S("/live/m/"))) return MEMSTORE_FINE;
    return ev->op == MEMSTORE_CREATE || ev->op == MEMSTORE_READ ? MEMSTORE_STARVES : MEMSTORE_FINE;
}

static enum memstore_fault hide_root(void *arg, const struct memstore_event *ev)
{
    struct late_root *l = arg;
    if (l->n || ev->op != MEMSTORE_READ || !str_contains(ev->name, S("/live/m/")))
        return MEMSTORE_FINE;
    snprintf(l->name, sizeof l->name, "%.*s", STR(ev->name));
    str bytes = memstore_bytes(l->b->store, l->name);
    assert_in_range(bytes.n, 1, sizeof l->bytes);
    memcpy(l->bytes, bytes.p, bytes.n);
    l->n = bytes.n;
    memstore_drop(l->b->store, l->name);
    atomic_fetch_add(&bench_now, 2 * BENCH_HOURS);  // too late for another try
    return MEMSTORE_FINE;
}

static void a_root_of_unknown_outcome_is_never_called_refused(void **state)
{
    struct bench b;
    err e = {0};
    (void)state;
    bench_begin(&b);
    struct late_root l = {.b = &b};
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0);
    memstore_set_hooks(b.store, starve_roots, hide_root, &l);
    assert_false(bench_add(&b, &leaf, 1, &e));
    assert_true(l.n > 0);
    assert_int_equal(e.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(e.msg, "may have been created"));
    memstore_set(b.store, l.name, str_make(l.bytes, l.n));
    struct manifest *m = bench_newest(&b);
    assert_non_null(manifest_find(m, leaf.id));
    manifest_unref(m);
    bench_end(&b);
}

static void a_store_that_stays_away_is_told(void **state)
{
    struct bench b;
    err e = {0};
    (void)state;
    for (int large = 0; large < 2; large++) {  // it is away, or takes no object of this size
        enum memstore_fault fault = large ? MEMSTORE_TOO_LARGE : MEMSTORE_FAILS;
        bench_begin(&b);
        struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0);
        memstore_fail(b.store, MEMSTORE_CREATE, fault, 2, UINT64_MAX);  // after the block
        assert_false(bench_add(&b, &leaf, 1, &e));
        assert_int_equal(e.code, ERR_UNAVAILABLE);
        memstore_heal(b.store);
        memstore_fail(b.store, MEMSTORE_CREATE, fault, 2, UINT64_MAX);  // after the page
        struct manifest_change c = {.add = &leaf, .add_count = 1};
        expect(&b, &c, ERR_UNAVAILABLE, "manifest root");
        memstore_heal(b.store);
        expect(&b, &c, ERR_OK, "");
        bench_end(&b);
    }
}

// Another writer's version between our reading and our root.
struct rival {
    struct bench *b;
    struct manifest_change change;
    int at;
};

static enum memstore_fault be_first(void *arg, const struct memstore_event *ev)
{
    struct rival *v = arg;
    if (ev->op != MEMSTORE_CREATE || !str_contains(ev->name, S("/live/m/")) || v->at-- != 0)
        return MEMSTORE_FINE;
    err e = {0};
    if (!bench_commit(v->b, &v->change, &e)) fail_msg("rival: %s", e.msg);
    return MEMSTORE_FINE;
}

static void a_lost_race_is_run_again(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct segment_name s[2] = {bench_segment(BENCH_HOUR, 1, 0), bench_segment(BENCH_HOUR, 2, 0)};
    struct manifest_block ours = bench_leaf(BENCH_HOUR, bench_id(1), &s[0], 1);
    struct manifest_block theirs = bench_leaf(BENCH_HOUR, bench_id(2), &s[1], 1);
    struct manifest_block other = bench_leaf(BENCH_HOUR + 240, bench_id(3), NULL, 0);
    struct rival v = {&b, {.add = &theirs, .add_count = 1}, 0};
    memstore_set_hooks(b.store, be_first, NULL, &v);
    struct manifest_block both[2] = {ours, other};
    assert_ok(bench_add(&b, both, 2, e));
    struct manifest *m = bench_newest(&b);
    assert_int_equal(manifest_version(m), 2);
    assert_non_null(manifest_find(m, ours.id));
    assert_non_null(manifest_find(m, theirs.id));
    assert_non_null(manifest_find(m, other.id));
    manifest_unref(m);
    // theirs, and two of ours: the page of the other day was not written twice
    assert_int_equal(memstore_count(b.store, "v1/bb/acme/page/"), 3);
    bench_end(&b);
}

// Hours go by between our LIST and our root: others commit twice, and the first of their versions,
// which has the number that ours will have, is swept.
static enum memstore_fault stand_still(void *arg, const struct memstore_event *ev)
{
    struct rival *v = arg;
    if (ev->op != MEMSTORE_CREATE || !str_contains(ev->name, S("/live/m/")) || v->at-- != 0)
        return MEMSTORE_FINE;
    err e = {0};
    struct manifest_block later = bench_leaf(BENCH_HOUR + 480, bench_id(8), NULL, 0);
    if (!bench_commit(v->b, &v->change, &e) || !bench_add(v->b, &later, 1, &e))
        fail_msg("rival: %s", e.msg);
    memstore_drop(v->b->store, ev->name.p);
    atomic_fetch_add(&bench_slept, 3 * BENCH_HOURS);
    return MEMSTORE_FINE;
}

static void a_root_in_the_place_of_a_swept_one_does_not_count(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct manifest_block ours = bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0);
    struct manifest_block theirs = bench_leaf(BENCH_HOUR + 240, bench_id(2), NULL, 0);
    struct rival v = {&b, {.add = &theirs, .add_count = 1}, 0};
    memstore_set_hooks(b.store, stand_still, NULL, &v);
    assert_ok(bench_add(&b, &ours, 1, e));
    struct manifest *m = bench_newest(&b);
    assert_int_equal(manifest_version(m), 3);
    assert_non_null(manifest_find(m, ours.id));
    assert_non_null(manifest_find(m, theirs.id));
    manifest_unref(m);
    bench_end(&b);
}

static void a_race_for_the_same_segments_is_lost_for_good(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct segment_name s = bench_segment(BENCH_HOUR, 1, 0);
    struct manifest_block ours = bench_leaf(BENCH_HOUR, bench_id(1), &s, 1);
    struct manifest_block theirs = bench_leaf(BENCH_HOUR, bench_id(2), &s, 1);
    struct rival v = {&b, {.add = &theirs, .add_count = 1}, 0};
    memstore_set_hooks(b.store, be_first, NULL, &v);
    expect(&b, &(struct manifest_change){.add = &ours, .add_count = 1}, ERR_ABORTED,
           "was absorbed by leaf");
    struct manifest *m = bench_newest(&b);
    assert_null(manifest_find(m, ours.id));
    assert_non_null(manifest_find(m, theirs.id));
    manifest_unref(m);
    bench_end(&b);
}

// ---- many writers, a store that fails every few operations

enum {
    WRITERS = 6,
    ROUNDS = 20
};

struct writer {
    struct bench *b;
    struct manifests *ms;  // one for every two writers
    uint32_t nr;
    bool won[ROUNDS];
};

static atomic_uint operations;

static enum memstore_fault now_and_then(void *arg, const struct memstore_event *ev)
{
    (void)arg;
    unsigned n = atomic_fetch_add(&operations, 1);
    if (ev->op == MEMSTORE_CREATE && n % 7 == 3) return MEMSTORE_LANDS;
    if (n % 11 == 5) return MEMSTORE_FAILS;
    return MEMSTORE_FINE;
}

static id128 id_of(uint32_t writer, uint32_t round, bool contended)
{
    return bench_id(writer * 1000 + round * 2 + contended);
}

// Until it is known what became of it.
static bool insist(struct writer *w, struct req *r, const struct manifest_block *leaf)
{
    static char zeros[1000];
    struct manifest_change c = {.add = leaf, .add_count = 1, .begun_ns = bench_wall()};
    str name = manifest_block_name(&r->arena, TENANT, leaf);
    memstore_set(w->b->store, name.p, str_make(zeros, sizeof zeros));
    for (;;) {
        err e = {0};
        if (manifest_commit(w->ms, r, TENANT, &c, NULL, &e)) return true;
        if (e.code == ERR_ABORTED && strstr(e.msg, "absorbed")) return false;
        if (e.code != ERR_UNAVAILABLE && e.code != ERR_ABORTED) fail_msg("%s", e.msg);
    }
}

static void *write_all(void *arg)
{
    struct writer *w = arg;
    struct req r;
    req_init(&r, RANK_DUTY, NULL, (size_t)1 << 30, 0);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        int64_t hour = BENCH_HOUR + 24 * (i % 3);
        struct segment_name own = bench_segment(hour, 100 + i, w->nr);
        struct segment_name all = bench_segment(hour, i, 0);
        struct manifest_block mine = bench_leaf(hour, id_of(w->nr, i, false), &own, 1);
        struct manifest_block ours = bench_leaf(hour, id_of(w->nr, i, true), &all, 1);
        if (!insist(w, &r, &mine)) fail_msg("writer %u lost its own segment %u", w->nr, i);
        w->won[i] = insist(w, &r, &ours);
    }
    req_release(&r);
    return NULL;
}

static void every_change_lands_exactly_once(void **state)
{
    struct bench b;
    struct writer w[WRITERS] = {{0}};
    struct store *stores[WRITERS];
    pthread_t threads[WRITERS];
    err fault = {0};
    (void)state;
    bench_begin(&b);
    for (uint32_t i = 0; i < WRITERS; i++) {
        stores[i] = memstore_again(b.store);
        memstore_set_hooks(stores[i], now_and_then, NULL, NULL);
        w[i] = (struct writer){.b = &b, .nr = i};
        w[i].ms = i % 2 ? w[i - 1].ms : manifests_open(stores[i], &b.budget, bench_wall, &fault);
        assert_non_null(w[i].ms);
    }
    for (uint32_t i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_all, &w[i]), 0);
    for (uint32_t i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    struct manifest *m = bench_newest(&b);
    size_t n = 0;
    (void)manifest_blocks(m, &n);
    assert_int_equal(n, WRITERS * ROUNDS + ROUNDS);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        unsigned winners = 0;
        for (uint32_t k = 0; k < WRITERS; k++) {
            assert_non_null(manifest_find(m, id_of(k, i, false)));
            assert_int_equal(manifest_find(m, id_of(k, i, true)) != NULL, w[k].won[i]);
            winners += w[k].won[i];
        }
        assert_int_equal(winners, 1);
    }
    assert_int_equal(manifest_version(m), n);
    manifest_unref(m);
    for (uint32_t i = 0; i < WRITERS; i++) {
        if (i % 2 == 0) manifests_close(w[i].ms);
    }
    for (uint32_t i = 0; i < WRITERS; i++)
        store_close(stores[i]);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_lives_is_replaced),
        cmocka_unit_test(a_leaf_without_successor_keeps_its_segments_absorbed),
        cmocka_unit_test(leaves_of_other_packs_share_a_segment),
        cmocka_unit_test(a_block_that_is_gone_is_not_named),
        cmocka_unit_test(jobs_older_than_an_hour_do_not_commit),
        cmocka_unit_test(a_clock_that_was_ahead_is_not_followed),
        cmocka_unit_test(wrong_blocks_are_refused),
        cmocka_unit_test(a_root_that_landed_is_known_as_ours),
        cmocka_unit_test(a_change_that_is_tried_again_lands_once),
        cmocka_unit_test(a_root_of_unknown_outcome_is_never_called_refused),
        cmocka_unit_test(a_store_that_stays_away_is_told),
        cmocka_unit_test(a_lost_race_is_run_again),
        cmocka_unit_test(a_root_in_the_place_of_a_swept_one_does_not_count),
        cmocka_unit_test(a_race_for_the_same_segments_is_lost_for_good),
        cmocka_unit_test(every_change_lands_exactly_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
