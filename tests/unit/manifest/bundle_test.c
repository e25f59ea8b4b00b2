// SPDX-License-Identifier: Apache-2.0
//
// Bundles: pages of a version share few objects, and each is written seldom.
#include "base/hash.h"
#include "codec/pb.h"
#include "manifest/manifest_commit_int.h"
#include "unit/manifest/bench.h"

// ---- the choice alone

#define REFS 600

struct plan {
    struct page_ref refs[REFS];
    size_t n;
    uint32_t objects;
    uint64_t written;
};

static size_t count_objects(const struct page_ref *v, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        bool again = false;
        for (size_t k = 0; k < i; k++)
            again |= id128_eq(v[i].id, v[k].id);
        count += !again;
    }
    return count;
}

// What a commit does that writes these pages (rows of refs) anew with these bytes each.
static void commit_plan(struct plan *p, const size_t *rows, size_t n, uint64_t bytes)
{
    struct arena a;
    struct page_ref rest[REFS];
    size_t at[REFS];
    bool moves[REFS];
    size_t count = 0;
    arena_init(&a, NULL, 1 << 20);
    for (size_t i = 0; i < p->n; i++) {
        bool fresh = false;
        for (size_t k = 0; k < n; k++)
            fresh |= rows[k] == i;
        if (!fresh && p->refs[i].bytes) {
            at[count] = i;
            rest[count++] = p->refs[i];
        }
    }
    assert_true(bundle_choose(&a, rest, count, n * bytes, moves));
    id128 id = bench_id(++p->objects);
    uint64_t total = 0;
    for (size_t k = 0; k < n; k++) {
        p->refs[rows[k]].bytes = bytes;
        p->refs[rows[k]].id = id;
        total += bytes;
    }
    for (size_t i = 0; i < count; i++) {
        if (!moves[i]) continue;
        p->refs[at[i]].id = id;
        total += rest[i].bytes;
    }
    for (size_t i = 0; i < p->n; i++)
        if (id128_eq(p->refs[i].id, id)) p->refs[i].object_bytes = total;
    p->written += total;
    arena_release(&a);
}

// A year: each day has pages of raw blocks and of hours, which each of its 24 commits writes anew.
static void a_year_of_pages_lies_in_few_objects(void **state)
{
    static struct plan p;
    (void)state;
    p.n = REFS;
    uint64_t fresh = 0;
    size_t most = 0;
    for (size_t day = 0; day < REFS / 2; day++) {
        for (int hour = 0; hour < 24; hour++) {
            const size_t rows[2] = {2 * day, 2 * day + 1};
            commit_plan(&p, rows, 2, 1000 + (uint64_t)hour * 400);
            fresh += 2 * (1000 + (uint64_t)hour * 400);
        }
        struct page_ref live[REFS];
        memcpy(live, p.refs, sizeof live);
        most = MAX(most, count_objects(live, 2 * day + 2));
    }
    // 600 pages of 10 KB each are 6 MB: halved nine times that is the floor.
    assert_in_range(most, 2, 11);
    assert_in_range(p.written / fresh, 1, 3);
}

static void what_does_not_change_anything_moves_nothing(void **state)
{
    (void)state;
    struct arena a;
    struct page_ref v[3] = {{.id = bench_id(1), .bytes = 10, .object_bytes = 10},
                            {.id = bench_id(2), .bytes = 20, .object_bytes = 20},
                            {.id = bench_id(3), .bytes = 9 << 20, .object_bytes = 9 << 20}};
    bool moves[3] = {true, true, true};
    arena_init(&a, NULL, 1 << 20);
    assert_true(bundle_choose(&a, v, 3, 0, moves));
    assert_false(moves[0] || moves[1] || moves[2]);
    assert_true(bundle_choose(&a, v, 3, 5, moves));
    assert_true(moves[0] && moves[1] && !moves[2]);
    // more than a bundle may have
    assert_true(bundle_choose(&a, v, 3, 8 << 20, moves));
    assert_false(moves[0] || moves[1] || moves[2]);
    assert_true(bundle_choose(&a, v, 0, 5, moves));
    arena_release(&a);
}

// Half of a large object is of pages that changed since: the other half is taken along.
static void an_object_with_much_waste_is_taken_along(void **state)
{
    (void)state;
    struct arena a;
    struct page_ref v[2] = {{.id = bench_id(1), .bytes = 1 << 20, .object_bytes = 3 << 20},
                            {.id = bench_id(2), .bytes = 1 << 20, .object_bytes = 2 << 20}};
    bool moves[2];
    arena_init(&a, NULL, 1 << 20);
    assert_true(bundle_choose(&a, v, 2, 100, moves));
    assert_true(moves[0] && moves[1]);  // the second one since the first is there by then
    v[0].object_bytes = 2 << 20;
    assert_true(bundle_choose(&a, v, 2, 100, moves));
    assert_false(moves[0] || moves[1]);
    arena_release(&a);
}

// ---- commits

static size_t objects_of(const struct manifest *m)
{
    return count_objects(m->refs_of, m->page_count);
}

// What a process reads that knows nothing of the tenant yet; *ms is the caller's to close.
static struct manifest *read_anew(struct bench *b, struct manifests **ms)
{
    err fault = {0};
    *ms = manifests_open(b->store, &b->budget, bench_wall, &fault);
    struct manifest *m = manifest_newest(*ms, &b->r, TENANT, &fault);
    if (!m) fail_msg("%s", fault.msg);
    return m;
}

// Days come one after the other, and now and then an old one changes.
static void whatever_is_committed_is_read_of_few_objects(void **state)
{
    enum {
        DAYS = 120
    };
    struct bench b;
    uint32_t id = 0;
    (void)state;
    bench_begin(&b);
    for (int64_t day = 0; day < DAYS; day++) {
        struct manifest_block leaf = bench_leaf(BENCH_HOUR + 24 * day, bench_id(++id), NULL, 0);
        assert_ok(bench_add(&b, &leaf, 1, e));
        if (day % 4) continue;
        int64_t old = day * 7 % (day + 1);
        leaf = bench_leaf(BENCH_HOUR + 24 * old + 1, bench_id(++id), NULL, 0);
        assert_ok(bench_add(&b, &leaf, 1, e));
    }
    size_t blocks = 0;
    struct manifests *ms = NULL;
    struct manifest *m = read_anew(&b, &ms);
    assert_int_equal(m->page_count, DAYS);
    (void)manifest_blocks(m, &blocks);
    assert_int_equal(blocks, id);
    assert_in_range(objects_of(m), 1, 3);
    // Each object is garbage or has a page of the version; none is both.
    assert_int_equal(memstore_count(b.store, "v1/bb/acme/page/"), objects_of(m) + m->garbage_count);
    manifest_unref(m);
    manifests_close(ms);
    struct manifest_verify v = {0};
    assert_ok(manifest_verify(b.ms, &b.r, TENANT, &v, e));
    assert_int_equal(v.faults, 0);
    assert_int_equal(v.orphans, 0);
    bench_end(&b);
}

// A page that another program wrote in another form stays where it is, byte for byte.
static void a_page_in_another_form_is_not_moved(void **state)
{
    struct bench b;
    struct buf page;
    struct buf root;
    (void)state;
    bench_begin(&b);
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0);
    assert_ok(bench_add(&b, &leaf, 1, e));
    struct manifest *m = bench_newest(&b);
    const struct page_ref was = m->refs_of[0];
    struct page_ref ref = was;
    buf_init(&page, NULL, 1 << 20);
    buf_init(&root, NULL, 1 << 20);
    str name = name_page(&b.arena, TENANT, was.id);
    const char *name_z = arena_printf(&b.arena, "%.*s", STR(name)).p;
    buf_str(&page, memstore_bytes(b.store, name_z));
    pb_put_u64_opt(&page, 99, 1);  // a field of a newer program
    ref.bytes = ref.object_bytes = page.n;
    ref.hash = hash_str(buf_view(&page));
    m->refs_of[0] = ref;
    root_print(m, &root);
    memstore_set(b.store, name_z, buf_view(&page));
    memstore_set(b.store, "v1/bb/acme/live/m/0000000000000001", buf_view(&root));
    m->refs_of[0] = was;
    manifest_unref(m);
    manifests_forget(b.ms, TENANT);

    struct manifest_block other = bench_leaf(BENCH_HOUR + 24, bench_id(2), NULL, 0);
    assert_ok(bench_add(&b, &other, 1, e));
    struct manifests *ms = NULL;
    m = read_anew(&b, &ms);
    assert_int_equal(m->page_count, 2);
    assert_true(id128_eq(m->refs_of[0].id, was.id) && m->refs_of[0].hash == ref.hash);
    assert_false(id128_eq(m->refs_of[1].id, was.id));
    assert_int_equal(m->garbage_count, 0);
    manifest_unref(m);
    manifests_close(ms);
    buf_release(&page);
    buf_release(&root);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_year_of_pages_lies_in_few_objects),
        cmocka_unit_test(what_does_not_change_anything_moves_nothing),
        cmocka_unit_test(an_object_with_much_waste_is_taken_along),
        cmocka_unit_test(whatever_is_committed_is_read_of_few_objects),
        cmocka_unit_test(a_page_in_another_form_is_not_moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
