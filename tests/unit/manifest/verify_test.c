// SPDX-License-Identifier: Apache-2.0
//
// Verify: silent about what is right, tells each thing that is not.
#include "unit/manifest/bench.h"

#include <stdio.h>

struct heard {
    char faults[4000];
    char notes[4000];
};

static void hear(void *arg, bool is_fault, const char *text)
{
    struct heard *h = arg;
    char *to = is_fault ? h->faults : h->notes;
    size_t n = strlen(to);
    snprintf(to + n, sizeof h->notes - n, "%s\n", text);
}

static struct manifest_verify verify(struct bench *b, struct heard *h)
{
    *h = (struct heard){0};
    struct manifest_verify v = {.report = hear, .arg = h};
    err e = {0};
    struct manifests *ms = manifests_open(b->store, NULL, bench_wall, &e);
    if (!manifest_verify(ms, &b->r, TENANT, &v, &e)) fail_msg("%s", e.msg);
    manifests_close(ms);
    return v;
}

static void expect(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("'%s' is not in:\n%s", part, text);
}

static void what_is_right_is_not_told(void **state)
{
    struct bench b;
    struct heard h;
    (void)state;
    bench_begin(&b);
    struct segment_name s = bench_segment(BENCH_HOUR, 1, 0);
    bench_write_segment(&b, &s);
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), &s, 1);
    struct manifest_cover cover = {BENCH_HOUR, 1, 1, &leaf.id};
    struct manifest_block parent = bench_block(BLOCK_HOURS, BENCH_HOUR, 1, bench_id(2));
    parent.covers = &cover;
    parent.cover_count = 1;
    assert_int_equal(verify(&b, &h).faults, 0);
    assert_ok(bench_add(&b, &leaf, 1, e));
    assert_ok(bench_add(&b, &parent, 1, e));
    struct manifest_verify v = verify(&b, &h);
    assert_string_equal(h.faults, "");
    assert_string_equal(h.notes, "");
    assert_int_equal(v.versions, 2);
    assert_int_equal(v.pages, 2);
    assert_int_equal(v.blocks, 2);
    assert_int_equal(v.segments, 1);
    struct manifest *m = bench_newest(&b);
    struct manifest_about about;
    struct manifest_page page;
    struct manifest_garbage garbage;
    manifest_tell(m, &about);
    assert_int_equal(about.version, 2);
    assert_int_equal(about.blocks, 2);
    // The second commit took the first one's page along into its object.
    assert_true(manifest_page_at(m, 1, &page) && page.kind == BLOCK_HOURS && page.blocks == 1);
    assert_true(page.at + page.bytes <= page.object_bytes && page.bytes < page.object_bytes);
    assert_false(manifest_page_at(m, 2, &page));
    assert_true(manifest_garbage_at(m, 0, &garbage) && str_starts(garbage.name, S("page/")));
    assert_false(manifest_garbage_at(m, 1, &garbage));
    manifest_unref(m);
    bench_end(&b);
}

static void what_is_wrong_is_told(void **state)
{
    struct bench b;
    struct heard h;
    (void)state;
    bench_begin(&b);
    struct manifest_block v[3];
    for (uint32_t i = 0; i < 3; i++)
        v[i] = bench_leaf(BENCH_HOUR + i, bench_id(i), NULL, 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_ok(bench_add(&b, &v[i], 1, e));
    struct manifest_cover cover = {BENCH_HOUR, 1, 1, &v[2].id};
    struct manifest_block parent = bench_block(BLOCK_HOURS, BENCH_HOUR, 1, bench_id(5));
    parent.covers = &cover;
    parent.cover_count = 1;
    assert_ok(bench_add(&b, &parent, 1, e));
    assert_ok(
        bench_commit(&b, &(struct manifest_change){.remove = &v[2].id, .remove_count = 1}, e));
    struct manifest_block orphan = bench_leaf(BENCH_HOUR, bench_id(9), NULL, 0);
    bench_write_block(&b, &orphan);
    memstore_set(b.store, "v1/bb/acme/raw/x", S("x"));
    memstore_drop(b.store, manifest_block_name(&b.arena, TENANT, &v[0]).p);
    memstore_cut(b.store, manifest_block_name(&b.arena, TENANT, &v[1]).p, 7);
    str second = arena_str(&b.arena, memstore_bytes(b.store, "v1/bb/acme/live/m/0000000000000002"));
    memstore_drop(b.store, "v1/bb/acme/live/m/0000000000000002");
    assert_int_equal(verify(&b, &h).orphans, 1);
    expect(h.faults, "is not there");
    expect(h.faults, "has 7 bytes, the manifest says 1000");
    expect(h.faults, "versions 2 to 2 are not there");
    expect(h.notes, "nobody names it");
    expect(h.notes, "raw/x: not a name of ours");
    expect(h.notes, "sums 1 leaves that were replaced");
    memstore_set(b.store, "v1/bb/acme/live/m/0000000000000002", second);
    memstore_flip(b.store, "v1/bb/acme/live/m/0000000000000001", 14, 1);  // the nonce
    assert_int_equal(verify(&b, &h).faults, 3);
    expect(h.faults, "version 1 of tenant acme: check is");
    // Another one in its place; it has no check, as those of earlier versions.
    memstore_cut(b.store, "v1/bb/acme/live/m/0000000000000001",
                 memstore_bytes(b.store, "v1/bb/acme/live/m/0000000000000001").n - 9);
    assert_int_equal(verify(&b, &h).faults, 3);
    expect(h.faults, "version 2: parent_hash is");
    memstore_cut(b.store, "v1/bb/acme/live/m/0000000000000003", 9);
    (void)verify(&b, &h);
    expect(h.faults, "manifest version 3 of tenant acme");
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_right_is_not_told),
        cmocka_unit_test(what_is_wrong_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
