// SPDX-License-Identifier: Apache-2.0
//
// Snapshots: LISTs are shared, never with one that had begun before; nobody suffers from others.
#include "lib/await.h"
#include "manifest/manifest_int.h"
#include "unit/manifest/bench.h"

#include <pthread.h>
#include <stdlib.h>

// A door in front of LISTs: who comes waits until the test lets him through.
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static int at_door;  // LISTs that wait
static int let_in;   // that may pass

static enum memstore_fault door(void *arg, const struct memstore_event *ev)
{
    (void)arg;
    if (ev->op != MEMSTORE_LIST) return MEMSTORE_FINE;
    pthread_mutex_lock(&mutex);
    at_door++;
    pthread_cond_broadcast(&moved);
    while (let_in == 0)
        pthread_cond_wait(&moved, &mutex);
    let_in--;
    at_door--;
    pthread_mutex_unlock(&mutex);
    return MEMSTORE_FINE;
}

static void await_at_door(int n)
{
    pthread_mutex_lock(&mutex);
    while (at_door != n)
        pthread_cond_wait(&moved, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void open_door(int n)
{
    pthread_mutex_lock(&mutex);
    let_in += n;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&mutex);
}

struct asker {
    struct bench *b;
    struct req r;
    pthread_t thread;
    _Atomic bool asking;
    bool ok;
    size_t segments;
    err fault;
};

static void *ask(void *arg)
{
    struct asker *a = arg;
    struct snapshot snap;
    atomic_store(&a->asking, true);
    a->ok = snapshot_take(a->b->ms, &a->r, &a->r.arena, TENANT, &snap, &a->fault);
    a->segments = a->ok ? snap.segment_count : 0;
    if (a->ok) snapshot_release(&snap);
    return NULL;
}

static void asker_start(struct asker *a, struct bench *b)
{
    *a = (struct asker){.b = b};
    req_init(&a->r, RANK_PUBLIC, NULL, (size_t)1 << 24, 0);
    assert_int_equal(pthread_create(&a->thread, NULL, ask, a), 0);
    AWAIT(atomic_load(&a->asking));
}

static void asker_end(struct asker *a)
{
    pthread_join(a->thread, NULL);
    req_release(&a->r);
}

// Until so many askers wait for the LIST that comes next.
static unsigned waiting(struct bench *b, struct tenant *t)
{
    lock_take(&b->ms->lock);
    unsigned n = t->waiting ? t->waiting->refs : 0;
    lock_give(&b->ms->lock);
    return n;
}

static void await_waiting(struct bench *b, unsigned n)
{
    err e = {0};
    struct tenant *t = tenant_ref(b->ms, TENANT, &e);
    assert_non_null(t);
    AWAIT(waiting(b, t) == n);
    tenant_unref(b->ms, t);
}

static void who_asks_joins_the_next_list_never_one_that_runs(void **state)
{
    struct bench b;
    struct asker first;
    struct asker later[6];
    (void)state;
    bench_begin(&b);
    struct segment_name s[2] = {bench_segment(BENCH_HOUR, 1, 0), bench_segment(BENCH_HOUR, 2, 0)};
    bench_write_segment(&b, &s[0]);
    memstore_set_hooks(b.store, door, NULL, NULL);
    memstore_reset_totals(b.store);
    asker_start(&first, &b);
    await_at_door(1);
    bench_write_segment(&b, &s[1]);  // who asks now must see it
    for (int i = 0; i < 6; i++)
        asker_start(&later[i], &b);
    await_waiting(&b, 6);
    open_door(1);
    await_at_door(1);
    open_door(10);
    asker_end(&first);
    for (int i = 0; i < 6; i++) {
        asker_end(&later[i]);
        assert_true(later[i].ok);
        assert_int_equal(later[i].segments, 2);
    }
    assert_true(first.ok);
    assert_int_equal(memstore_totals(b.store).ops[MEMSTORE_LIST], 2);
    let_in = 0;
    memstore_set_hooks(b.store, NULL, NULL, NULL);
    bench_end(&b);
}

static void who_goes_away_hurts_nobody(void **state)
{
    struct bench b;
    struct asker v[4];
    (void)state;
    bench_begin(&b);
    struct segment_name s = bench_segment(BENCH_HOUR, 1, 0);
    bench_write_segment(&b, &s);
    memstore_set_hooks(b.store, door, NULL, NULL);
    asker_start(&v[0], &b);
    await_at_door(1);
    for (int i = 1; i < 4; i++)
        asker_start(&v[i], &b);
    await_waiting(&b, 3);
    atomic_store(&v[1].r.canceled, true);  // waits for the next one
    asker_end(&v[1]);
    assert_false(v[1].ok);
    assert_int_equal(v[1].fault.code, ERR_CANCELED);
    atomic_store(&v[0].r.canceled, true);  // makes this one
    open_door(100);
    asker_end(&v[0]);
    for (int i = 2; i < 4; i++) {
        asker_end(&v[i]);
        if (!v[i].ok) fail_msg("%s", v[i].fault.msg);
        assert_int_equal(v[i].segments, 1);
    }
    let_in = 0;
    memstore_set_hooks(b.store, NULL, NULL, NULL);
    bench_end(&b);
}

// Who makes the second LIST is called off inside the store, which then fails.
static enum memstore_fault call_off(void *arg, const struct memstore_event *ev)
{
    int *lists = arg;
    if (ev->op != MEMSTORE_LIST) return MEMSTORE_FINE;
    if (++*lists == 1) return door(NULL, ev);
    if (*lists > 2) return MEMSTORE_FINE;
    atomic_store(&ev->req->canceled, true);
    return MEMSTORE_FAILS;
}

static void the_list_of_a_maker_who_was_called_off_is_made_again(void **state)
{
    struct bench b;
    struct asker v[5];
    int lists = 0;
    int well = 0;
    (void)state;
    bench_begin(&b);
    struct segment_name s = bench_segment(BENCH_HOUR, 1, 0);
    bench_write_segment(&b, &s);
    memstore_set_hooks(b.store, call_off, NULL, &lists);
    asker_start(&v[0], &b);
    await_at_door(1);
    for (int i = 1; i < 5; i++)
        asker_start(&v[i], &b);
    await_waiting(&b, 4);
    open_door(1);
    for (int i = 0; i < 5; i++) {
        asker_end(&v[i]);
        well += v[i].ok && v[i].segments == 1;
        if (!v[i].ok) assert_int_equal(v[i].fault.code, ERR_CANCELED);
    }
    assert_int_equal(well, 4);
    memstore_set_hooks(b.store, NULL, NULL, NULL);
    bench_end(&b);
}

static void a_store_that_fails_is_told_to_all(void **state)
{
    struct bench b;
    struct snapshot snap;
    err fault = {0};
    (void)state;
    bench_begin(&b);
    memstore_fail(b.store, MEMSTORE_LIST, MEMSTORE_FAILS, 1, 1);
    assert_false(snapshot_take(b.ms, &b.r, &b.arena, TENANT, &snap, &fault));
    assert_int_equal(fault.code, ERR_UNAVAILABLE);
    assert_null(snap.manifest);
    assert_ok(snapshot_take(b.ms, &b.r, &b.arena, TENANT, &snap, e));
    snapshot_release(&snap);
    snapshot_release(&snap);
    b.r.deadline_mono_ns = 1;
    assert_false(snapshot_take(b.ms, &b.r, &b.arena, TENANT, &snap, &fault));
    assert_int_equal(fault.code, ERR_DEADLINE_EXCEEDED);
    b.r.deadline_mono_ns = 0;
    bench_end(&b);
}

// ---- many askers and a writer: a segment is seen listed or absorbed, at any time

enum {
    HOURS = 60,
    ASKERS = 4
};

struct crowd {
    struct bench *b;
    _Atomic int made;  // hours whose segment was created
    _Atomic bool over;
};

static void *look_on(void *arg)
{
    struct crowd *c = arg;
    struct req r;
    req_init(&r, RANK_PUBLIC, NULL, (size_t)1 << 28, 0);
    while (!atomic_load(&c->over)) {
        struct snapshot snap;
        err e = {0};
        int made = atomic_load(&c->made);
        if (!snapshot_take(c->b->ms, &r, &r.arena, TENANT, &snap, &e)) fail_msg("%s", e.msg);
        for (int i = 0; i < made; i++) {
            struct segment_name s = bench_segment(BENCH_HOUR + i, 1, 0);
            bool listed = false;
            for (size_t k = 0; k < snap.segment_count; k++)
                listed |= segment_name_cmp(&snap.segments[k].name, &s) == 0;
            bool absorbed = manifest_absorbed(snap.manifest, &s);
            if (listed == absorbed)
                fail_msg("hour %d: listed %d, absorbed %d", i, listed, absorbed);
        }
        snapshot_release(&snap);
        arena_release(&r.arena);
    }
    req_release(&r);
    return NULL;
}

static void each_segment_counts_once_at_any_time(void **state)
{
    struct bench b;
    pthread_t threads[ASKERS];
    (void)state;
    bench_begin(&b);
    struct crowd c = {.b = &b};
    memstore_set_page(b.store, 3);
    for (int i = 0; i < ASKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, look_on, &c), 0);
    for (int i = 0; i < HOURS; i++) {
        struct segment_name s = bench_segment(BENCH_HOUR + i, 1, 0);
        bench_write_segment(&b, &s);
        atomic_store(&c.made, i + 1);
        struct manifest_block leaf = bench_leaf(BENCH_HOUR + i, bench_id((uint32_t)i), &s, 1);
        assert_ok(bench_add(&b, &leaf, 1, e));
        str name = name_segment(&b.arena, TENANT, &s);
        if (i % 2) assert_ok(store_delete(b.store, &b.r, name, e));
    }
    atomic_store(&c.over, true);
    for (int i = 0; i < ASKERS; i++)
        pthread_join(threads[i], NULL);
    bench_end(&b);
}

// ---- how many pages of a LIST a snapshot takes

static uint64_t pages_of_snapshot(struct bench *b, uint64_t version, size_t segments)
{
    struct snapshot snap;
    memstore_reset_totals(b->store);
    assert_ok(snapshot_take(b->ms, &b->r, &b->arena, TENANT, &snap, e));
    assert_int_equal(manifest_version(snap.manifest), version);
    assert_int_equal(snap.segment_count, segments);
    snapshot_release(&snap);
    return memstore_totals(b->store).ops[MEMSTORE_LIST];
}

// The newest version as that one; all before it are there.
static void age(struct bench *b, uint64_t version)
{
    struct manifest *m = bench_newest(b);
    struct manifest copy = *m;
    struct buf bytes;
    buf_init(&bytes, NULL, 1 << 20);
    for (copy.version++; copy.version < version; copy.version++)
        memstore_set(b->store, name_root(&b->arena, TENANT, copy.version).p, S("old"));
    root_print(&copy, &bytes);
    memstore_set(b->store, name_root(&b->arena, TENANT, version).p, buf_view(&bytes));
    buf_release(&bytes);
    manifest_unref(m);
}

static void old_versions_are_passed_over(void **state)
{
    struct bench b;
    err fault = {0};
    (void)state;
    bench_begin(&b);
    for (uint64_t cut = 1; cut <= 100; cut++) {
        struct segment_name s = bench_segment(BENCH_HOUR, cut, 0);
        bench_write_segment(&b, &s);
    }
    struct manifest_block leaf = bench_leaf(BENCH_HOUR - 1, bench_id(1), NULL, 0);
    assert_ok(bench_add(&b, &leaf, 1, e));
    assert_int_equal(pages_of_snapshot(&b, 1, 100), 1);
    age(&b, 4320);
    const uint64_t first = pages_of_snapshot(&b, 4320, 100);  // the known one is the oldest
    const uint64_t known = pages_of_snapshot(&b, 4320, 100);
    print_message("%d live keys: %d pages of a LIST, %d where no version is known\n", 4320 + 100,
                  (int)known, (int)first);
    assert_int_equal(first, 5);
    assert_int_equal(known, 2);
    assert_int_equal(manifests_rest(b.ms, 0), 1);
    assert_int_equal(pages_of_snapshot(&b, 4320, 100), 2);

    // What others commit is seen.
    struct manifests *other = manifests_open(b.store, NULL, bench_wall, &fault);
    assert_non_null(other);
    for (uint32_t i = 0; i < 3; i++) {
        struct manifest_block next = bench_leaf(BENCH_HOUR - 2, bench_id(2 + i), NULL, 0);
        const struct manifest_change c = {.add = &next, .add_count = 1, .begun_ns = bench_wall()};
        bench_write_block(&b, &next);
        assert_ok(manifest_commit(other, &b.r, TENANT, &c, NULL, e));
    }
    manifests_close(other);
    assert_int_equal(pages_of_snapshot(&b, 4323, 100), 2);

    // As the sweep leaves it, and where the known one is gone with all that came after it.
    for (uint64_t v = 1; v < 4323 - 64; v++)
        memstore_drop(b.store, name_root(&b.arena, TENANT, v).p);
    assert_int_equal(pages_of_snapshot(&b, 4323, 100), 1);
    bench_end(&b);
}

static void a_store_that_was_put_back_is_listed_to_its_end(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct manifest_block leaf = bench_leaf(BENCH_HOUR - 1, bench_id(1), NULL, 0);
    assert_ok(bench_add(&b, &leaf, 1, e));
    age(&b, 2500);
    age(&b, 3500);
    assert_int_equal(pages_of_snapshot(&b, 3500, 0), 3);
    assert_int_equal(pages_of_snapshot(&b, 3500, 0), 2);
    struct buf old;
    buf_init(&old, NULL, 1 << 20);
    struct manifest *m = bench_newest(&b);
    struct manifest copy = *m;
    copy.version = 2500;
    root_print(&copy, &old);
    manifest_unref(m);
    memstore_set(b.store, name_root(&b.arena, TENANT, 2500).p, buf_view(&old));
    buf_release(&old);
    for (uint64_t v = 2501; v <= 3500; v++)
        memstore_drop(b.store, name_root(&b.arena, TENANT, v).p);
    (void)pages_of_snapshot(&b, 2500, 0);
    bench_end(&b);
}

// Something on the way keeps answers. What it shows is whole, and not what there is.
static void an_old_list_is_noticed_by_who_knows_a_newer_version(void **state)
{
    struct bench b;
    struct snapshot s;
    err why = {0};
    (void)state;
    bench_begin(&b);
    struct manifest_block leaf = bench_leaf(BENCH_HOUR - 1, bench_id(1), NULL, 0);
    struct manifest_block next = bench_leaf(BENCH_HOUR - 2, bench_id(2), NULL, 0);
    assert_ok(bench_add(&b, &leaf, 1, e));
    memstore_remember(b.store);
    assert_ok(bench_add(&b, &next, 1, e));
    manifest_unref(bench_newest(&b));
    memstore_fail(b.store, MEMSTORE_LIST, MEMSTORE_OLD, 1, 1);
    assert_false(snapshot_take(b.ms, &b.r, &b.arena, TENANT, &s, &why));
    assert_int_equal(why.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(why.msg, "a list lacks"));
    // This one lists from the known version on, then all.
    memstore_fail(b.store, MEMSTORE_LIST, MEMSTORE_OLD, 1, 2);
    assert_null(manifest_newest(b.ms, &b.r, TENANT, &why));
    assert_int_equal(why.code, ERR_UNAVAILABLE);
    struct manifest *m = bench_newest(&b);
    assert_int_equal(manifest_version(m), 2);
    manifest_unref(m);
    assert_ok(snapshot_take(b.ms, &b.r, &b.arena, TENANT, &s, e));
    snapshot_release(&s);
    bench_end(&b);
}

static void many_segments_take_a_page_a_thousand(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    for (uint64_t cut = 0; cut < 2500; cut++) {
        struct segment_name s = bench_segment(BENCH_HOUR, cut, 0);
        bench_write_segment(&b, &s);
    }
    struct manifest_block leaf = bench_leaf(BENCH_HOUR - 1, bench_id(1), NULL, 0);
    assert_ok(bench_add(&b, &leaf, 1, e));
    age(&b, 400);
    assert_int_equal(pages_of_snapshot(&b, 400, 2500), 3);
    assert_int_equal(pages_of_snapshot(&b, 400, 2500), 3);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asks_joins_the_next_list_never_one_that_runs),
        cmocka_unit_test(who_goes_away_hurts_nobody),
        cmocka_unit_test(the_list_of_a_maker_who_was_called_off_is_made_again),
        cmocka_unit_test(a_store_that_fails_is_told_to_all),
        cmocka_unit_test(old_versions_are_passed_over),
        cmocka_unit_test(a_store_that_was_put_back_is_listed_to_its_end),
        cmocka_unit_test(an_old_list_is_noticed_by_who_knows_a_newer_version),
        cmocka_unit_test(many_segments_take_a_page_a_thousand),
        cmocka_unit_test(each_segment_counts_once_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
