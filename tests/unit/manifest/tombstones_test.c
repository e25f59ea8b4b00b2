// SPDX-License-Identifier: Apache-2.0
//
// Tombstones in versions: added and ended, once each; which blocks may have what they hide; and
// what is refused because of them.
#include "unit/manifest/bench.h"

#define DAY (BENCH_HOUR / 24 * 24)

static struct manifest_tombstone tombstone(struct bench *b, uint32_t nr, const char *match,
                                           int64_t from_ns, int64_t to_ns)
{
    struct manifest_tombstone t = {.id = bench_id(nr),
                                   .hide = {.from_ns = from_ns, .to_ns = to_ns}};
    assert_ok(selector_parse(&b->arena, str_of(match), &t.hide.selector, e));
    return t;
}

static bool bury(struct bench *b, const struct manifest_tombstone *t, err *e)
{
    return bench_commit(
        b, &(struct manifest_change){.bury = t, .bury_count = 1, .begun_ns = bench_wall()}, e);
}

static struct manifest_tombstone *read_all(struct bench *b, size_t *n)
{
    struct manifest *m = bench_newest(b);
    struct manifest_tombstone *v = NULL;
    assert_ok(manifest_tombstones(m, &b->arena, &v, n, e));
    assert_int_equal(manifest_tombstone_count(m), *n);
    manifest_unref(m);
    return v;
}

static void a_tombstone_stands_until_it_is_ended(void **state)
{
    struct bench b;
    size_t n = 0;
    (void)state;
    bench_begin(&b);
    const char *match = "{service_name=\"shop\",pod!=\"a\",region=~\"eu.*\",zone!~\"x|y\"}";
    const struct manifest_tombstone t = tombstone(&b, 1, match, -1, BENCH_START);
    const struct manifest_tombstone u = tombstone(&b, 2, "{}", BENCH_START - 7, BENCH_START);
    assert_ok(bury(&b, &t, e));
    assert_ok(bury(&b, &t, e));  // its answer was lost: it counts once
    assert_ok(bury(&b, &u, e));
    struct manifest_tombstone *v = read_all(&b, &n);
    assert_int_equal(n, 2);
    assert_true(id128_eq(v[0].id, t.id) && v[0].version == 1 && v[1].version == 2);
    assert_int_equal(v[0].hide.from_ns, -1);
    assert_int_equal(v[0].hide.to_ns, BENCH_START);
    assert_int_equal(v[0].made_ns, bench_wall());
    assert_int_equal(v[0].hide.selector.n, 4);
    assert_int_equal(v[1].hide.selector.n, 0);
    // Another change leaves them.
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(3), NULL, 0);
    assert_ok(bench_add(&b, &leaf, 1, e));
    (void)read_all(&b, &n);
    assert_int_equal(n, 2);
    const struct manifest_change over = {.forget = &t.id,
                                         .forget_count = 1,
                                         .begun_ns = bench_wall()};
    assert_ok(bench_commit(&b, &over, e));
    assert_ok(bench_commit(&b, &over, e));
    v = read_all(&b, &n);
    assert_int_equal(n, 1);
    assert_true(id128_eq(v[0].id, u.id));
    bench_end(&b);
}

static void its_matchers_mean_series_by_their_labels(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    static const label shop[] = {{S("pod"), S("b")},
                                 {S("region"), S("eu-1")},
                                 {S("service_name"), S("shop")}};
    static const struct {
        const char *match;
        bool is;
    } cases[] = {{"{}", true},
                 {"{service_name=\"shop\"}", true},
                 {"{service_name=\"cart\"}", false},
                 {"{pod!=\"a\",region=~\"eu.*\"}", true},
                 {"{pod!=\"b\"}", false},
                 {"{zone=\"\"}", true},  // a label that it has not
                 {"{zone!=\"\"}", false},
                 {"{region!~\"eu.*\"}", false}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct manifest_tombstone t = tombstone(&b, 1, cases[i].match, -1, 1);
        bool is = !cases[i].is;
        assert_ok(hide_is_of(&t.hide, (labels){shop, COUNT(shop)}, &is, e));
        if (is != cases[i].is) fail_msg("%s", cases[i].match);
    }
    bench_end(&b);
}

// Only two different demands of one label exclude each other for certain.
static void a_question_may_meet_it_unless_both_demand_another_value(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    static const struct {
        const char *match;
        const char *asked;
        bool may;
    } cases[] = {
        {"{pod=\"a\"}", "{pod=\"a\",zone=\"x\"}", true}, {"{pod=\"a\"}", "{pod=\"b\"}", false},
        {"{pod=\"a\"}", "{zone=\"b\"}", true},           {"{pod!=\"a\"}", "{pod=\"b\"}", true},
        {"{pod=\"a\"}", "{pod!=\"b\"}", true},           {"{pod=~\"a|b\"}", "{pod=\"b\"}", true},
        {"{pod!~\"a\"}", "{pod=\"b\"}", true},           {"{}", "{pod=\"b\"}", true}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct manifest_tombstone t = tombstone(&b, 1, cases[i].match, -1, 1);
        struct selector asked = {0};
        assert_ok(selector_parse(&b.arena, str_of(cases[i].asked), &asked, e));
        if (hide_may_meet(&t.hide, &asked) != cases[i].may)
            fail_msg("%s, asked %s", cases[i].match, cases[i].asked);
    }
    bench_end(&b);
}

static void a_block_may_have_what_is_hidden_unless_it_was_written_since(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    const int64_t hour_ns = DAY * BENCH_HOURS;  // when the day begins
    struct manifest_tombstone t = tombstone(&b, 1, "{}", hour_ns, hour_ns + BENCH_HOURS);
    t.version = 7;
    struct manifest_block leaf = bench_leaf(DAY, bench_id(2), NULL, 0);
    leaf.first_ns = hour_ns + 10;
    leaf.last_ns = hour_ns + 20;
    assert_true(manifest_is_hiding(&t, &leaf));
    leaf.as_of = 6;
    assert_true(manifest_is_hiding(&t, &leaf));
    leaf.as_of = 7;
    assert_false(manifest_is_hiding(&t, &leaf));
    leaf.as_of = 0;
    leaf.first_ns = leaf.last_ns = 0;  // it has no profiles
    assert_false(manifest_is_hiding(&t, &leaf));
    leaf.first_ns = leaf.last_ns = hour_ns;  // (from, to]
    assert_false(manifest_is_hiding(&t, &leaf));
    leaf.last_ns = hour_ns + 1;
    assert_true(manifest_is_hiding(&t, &leaf));
    // Only where the service that it names may be.
    struct manifest_tombstone shop = tombstone(&b, 3, "{service_name=\"shop\"}", -1, BENCH_START);
    shop.version = 7;
    leaf.pack_lo = leaf.pack_hi = block_pack(S("shop"));
    assert_true(manifest_is_hiding(&shop, &leaf));
    leaf.pack_lo = leaf.pack_hi = block_pack(S("shop")) + 1;
    assert_false(manifest_is_hiding(&shop, &leaf));
    // A border within a millisecond of a parent's lies on it.
    struct manifest_block before = bench_block(BLOCK_HOURS, DAY - 1, 1, bench_id(4));
    before.first_ns = before.last_ns = hour_ns;
    t.hide.from_ns = hour_ns - 1;
    assert_false(manifest_is_hiding(&t, &before));
    t.hide.from_ns = hour_ns - 2 * NS_PER_MS;
    assert_true(manifest_is_hiding(&t, &before));
    bench_end(&b);
}

// A leaf of an hour whose sums a day has.
static void begin_day(struct bench *b, struct manifest_block v[2])
{
    static id128 ids[1];
    static struct manifest_cover cover;
    bench_begin(b);
    ids[0] = bench_id(10);
    cover = (struct manifest_cover){.hour = DAY, .hours = 24, .leaf_count = 1, .leaves = ids};
    v[0] = bench_leaf(DAY, bench_id(10), NULL, 0);
    v[1] = bench_block(BLOCK_DAYS, DAY, 24, bench_id(11));
    v[0].first_ns = v[1].first_ns = DAY * BENCH_HOURS + 5;
    v[0].last_ns = v[1].last_ns = DAY * BENCH_HOURS + 50;
    v[1].covers = &cover;
    v[1].cover_count = 1;
    assert_ok(bench_add(b, v, 2, e));
}

static bool expire(struct bench *b, const struct manifest_block *leaf, err *e)
{
    return bench_commit(b,
                        &(struct manifest_change){.expire = &leaf->id,
                                                  .expire_count = 1,
                                                  .begun_ns = bench_wall()},
                        e);
}

static void a_leaf_with_deleted_profiles_does_not_expire(void **state)
{
    struct bench b;
    struct manifest_block v[2];
    err fault = {0};
    (void)state;
    begin_day(&b, v);
    const int64_t noon = (DAY + 12) * BENCH_HOURS;
    const struct manifest_tombstone t = tombstone(&b, 1, "{pod=\"a\"}", -1, noon);
    assert_ok(bury(&b, &t, e));
    assert_false(expire(&b, &v[0], &fault));
    assert_int_equal(fault.code, ERR_ABORTED);
    assert_non_null(strstr(fault.msg, "were deleted"));
    // Written anew as of a version that has it, it may.
    struct manifest_block clean = v[0];
    clean.id = bench_id(12);
    clean.as_of = 2;
    bench_write_block(&b, &clean);
    const struct manifest_change c = {.add = &clean,
                                      .add_count = 1,
                                      .remove = &v[0].id,
                                      .remove_count = 1,
                                      .begun_ns = bench_wall()};
    assert_ok(bench_commit(&b, &c, e));
    assert_ok(expire(&b, &clean, e));
    bench_end(&b);
}

// What its day has of them can be erased without it.
static void a_leaf_of_a_day_that_is_deleted_whole_expires(void **state)
{
    struct bench b;
    struct manifest_block v[2];
    (void)state;
    begin_day(&b, v);
    const struct manifest_tombstone t =
        tombstone(&b, 1, "{pod=\"a\"}", -1, (DAY + 24) * BENCH_HOURS);
    assert_ok(bury(&b, &t, e));
    assert_ok(expire(&b, &v[0], e));
    bench_end(&b);
}

static void a_day_whose_leaf_expired_is_deleted_whole_or_not_at_all(void **state)
{
    struct bench b;
    struct manifest_block v[2];
    const int64_t from = DAY * BENCH_HOURS;
    const int64_t to = from + 24 * BENCH_HOURS;
    (void)state;
    begin_day(&b, v);
    assert_ok(expire(&b, &v[0], e));
    const struct {
        int64_t from_ns;
        int64_t to_ns;
        bool may;
    } cases[] = {{-1, to, true},
                 {from, to, true},
                 {from + NS_PER_MS, to - NS_PER_MS, true},
                 {from + 2 * NS_PER_MS, to, false},
                 {from, to - 2 * NS_PER_MS, false},
                 {-1, from + NS_PER_MS, true},  // of the day before
                 {-1, from + 2 * NS_PER_MS, false},
                 {to - 1, to + 1, true}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        err e = {0};
        const struct manifest_tombstone t =
            tombstone(&b, 20 + (uint32_t)i, "{pod=\"a\"}", cases[i].from_ns, cases[i].to_ns);
        if (bury(&b, &t, &e) != cases[i].may ||
            (!cases[i].may && e.code != ERR_FAILED_PRECONDITION))
            fail_msg("case %zu: %s", i, e.msg);
    }
    bench_end(&b);
}

static void there_are_not_too_many(void **state)
{
    struct bench b;
    err fault = {0};
    (void)state;
    bench_begin(&b);
    for (uint32_t i = 0; i < 256; i++) {
        const struct manifest_tombstone t = tombstone(&b, i + 1, "{}", -1, BENCH_START);
        assert_ok(bury(&b, &t, e));
    }
    const struct manifest_tombstone t = tombstone(&b, 999, "{}", -1, BENCH_START);
    assert_false(bury(&b, &t, &fault));
    assert_int_equal(fault.code, ERR_FAILED_PRECONDITION);
    bench_end(&b);
}

// ---- deletions that ended, for imports

static struct segment_name import_piece(int64_t hour, uint8_t piece, uint64_t generation)
{
    const uint8_t hash[STREAM_IMPORT_HASH] = {piece};
    return (struct segment_name){hour, stream_of_import(hash), generation, 0};
}

static void end_tombstone(struct bench *b, id128 id)
{
    const struct manifest_change over = {.forget = &id,
                                         .forget_count = 1,
                                         .begun_ns = bench_wall()};
    assert_ok(bench_commit(b, &over, e));
}

static size_t ended(struct bench *b, struct manifest_tombstone **v)
{
    size_t n = 0;
    struct manifest *m = bench_newest(b);
    assert_ok(manifest_ended(m, &b->arena, v, &n, e));
    manifest_unref(m);
    return n;
}

// The format of the newest root: its first field.
static int format_of_newest(struct bench *b)
{
    struct manifest *m = bench_newest(b);
    str name = name_root(&b->arena, manifest_tenant(m), manifest_version(m));
    manifest_unref(m);
    str bytes = memstore_bytes(b->store, name.p);
    assert_int_equal(bytes.p[0], 1 << 3);
    return bytes.p[1];
}

static void what_ended_is_remembered_where_rows_were_imported(void **state)
{
    struct bench b;
    struct manifest_tombstone *v = NULL;
    struct segment_name piece = import_piece(BENCH_HOUR, 1, 0);
    (void)state;
    bench_begin(&b);
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), &piece, 1);
    assert_ok(bench_add(&b, &leaf, 1, e));
    int64_t start = BENCH_HOUR * BENCH_HOURS;
    const struct manifest_tombstone none = tombstone(&b, 11, "{}", -1, start);
    const struct manifest_tombstone some = tombstone(&b, 12, "{pod=~\"a|b\"}", start, start + 1);
    assert_ok(bury(&b, &none, e));
    assert_ok(bury(&b, &some, e));
    end_tombstone(&b, none.id);
    assert_int_equal(ended(&b, &v), 0);
    assert_in_range(format_of_newest(&b), 1, 2);
    end_tombstone(&b, some.id);
    assert_int_equal(ended(&b, &v), 1);
    assert_int_equal(format_of_newest(&b), 3);
    assert_true(id128_eq(v->id, some.id) && v->version == 3 && v->ended_version == 5);
    assert_int_equal(v->ended_ns, bench_wall());
    assert_int_equal(v->hide.from_ns, start);
    assert_true(str_is(v->hide.selector.v[0].value, "a|b"));
    // Other changes hand it on, and the leaf may go.
    const struct manifest_change go = {.expire = &leaf.id,
                                       .expire_count = 1,
                                       .begun_ns = bench_wall()};
    assert_ok(bench_commit(&b, &go, e));
    assert_int_equal(ended(&b, &v), 1);
    // Of a tenant that is closed nothing is left.
    struct manifest_tombstone closed;
    assert_ok(manifest_close(b.ms, &b.r, TENANT, &closed, e));
    assert_int_equal(ended(&b, &v), 0);
    bench_end(&b);
}

static void the_last_256_of_400_days_are_remembered(void **state)
{
    struct bench b;
    struct manifest_tombstone *v = NULL;
    struct segment_name piece = import_piece(BENCH_HOUR, 1, 0);
    (void)state;
    bench_begin(&b);
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), &piece, 1);
    assert_ok(bench_add(&b, &leaf, 1, e));
    for (uint32_t i = 0; i < 258; i++) {
        const struct manifest_tombstone t = tombstone(&b, 1000 + i, "{}", -1, BENCH_START);
        assert_ok(bury(&b, &t, e));
        end_tombstone(&b, t.id);
    }
    assert_int_equal(ended(&b, &v), 256);
    assert_true(id128_eq(v[0].id, bench_id(1002)) && id128_eq(v[255].id, bench_id(1257)));
    bench_now += 399 * 24 * BENCH_HOURS;
    const struct manifest_tombstone t = tombstone(&b, 2000, "{}", -1, BENCH_START);
    assert_ok(bury(&b, &t, e));
    assert_int_equal(ended(&b, &v), 256);
    bench_now += 24 * BENCH_HOURS;
    end_tombstone(&b, t.id);
    assert_int_equal(ended(&b, &v), 1);
    bench_end(&b);
}

static void a_change_may_ask_for_calm(void **state)
{
    struct bench b;
    err fault = {0};
    struct segment_name piece = import_piece(BENCH_HOUR, 1, 0);
    (void)state;
    bench_begin(&b);
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), &piece, 1);
    assert_ok(bench_add(&b, &leaf, 1, e));
    const struct manifest_tombstone t = tombstone(&b, 11, "{}", -1, BENCH_START);
    assert_ok(bury(&b, &t, e));  // version 2
    struct segment_name more = import_piece(BENCH_HOUR, 2, 0);
    struct manifest_block other = bench_leaf(BENCH_HOUR, bench_id(2), &more, 1);
    struct manifest_change c = {.add = &other, .add_count = 1, .begun_ns = bench_wall()};
    c.calm = 2;
    assert_false(bench_commit(&b, &c, &fault));
    assert_int_equal(fault.code, ERR_ABORTED);
    end_tombstone(&b, t.id);  // version 3: it is not there any more, but it was
    assert_false(bench_commit(&b, &c, &fault));
    c.calm = 3;
    assert_false(bench_commit(&b, &c, &fault));
    c.calm = 4;
    assert_ok(bench_commit(&b, &c, e));
    bench_end(&b);
}

static void an_import_is_known_by_its_stream_and_generation(void **state)
{
    struct bench b;
    uint64_t generation = 9;
    struct segment_name s[3] = {import_piece(BENCH_HOUR, 1, 0), import_piece(BENCH_HOUR, 1, 7),
                                import_piece(BENCH_HOUR, 2, 5)};
    (void)state;
    bench_begin(&b);
    struct manifest *m = bench_newest(&b);
    assert_int_equal(manifest_import_of(m, BENCH_HOUR, s->stream, &generation), IMPORT_NEVER);
    assert_int_equal(generation, 0);
    manifest_unref(m);
    struct manifest_block one = bench_leaf(BENCH_HOUR, bench_id(1), s, 1);
    struct manifest_block two = bench_leaf(BENCH_HOUR, bench_id(2), s + 1, 1);
    assert_ok(bench_add(&b, &one, 1, e));
    struct manifest_block three = bench_leaf(BENCH_HOUR, bench_id(3), s + 2, 1);
    assert_ok(bench_add(&b, &two, 1, e));
    assert_ok(bench_add(&b, &three, 1, e));
    m = bench_newest(&b);
    assert_int_equal(manifest_import_of(m, BENCH_HOUR, s->stream, &generation), IMPORT_HELD);
    assert_int_equal(generation, 7);
    assert_int_equal(manifest_import_of(m, BENCH_HOUR + 1, s->stream, &generation), IMPORT_NEVER);
    assert_false(manifest_import_expired(m, BENCH_HOUR, &generation));
    manifest_unref(m);
    // Two leaves go because all of their rows were deleted, the other one in its time.
    const id128 both[] = {two.id, three.id};
    const struct manifest_change gone = {.remove = both,
                                         .remove_count = 2,
                                         .begun_ns = bench_wall()};
    assert_ok(bench_commit(&b, &gone, e));
    m = bench_newest(&b);
    assert_int_equal(manifest_import_of(m, BENCH_HOUR, s->stream, &generation), IMPORT_HELD);
    assert_int_equal(generation, 7);
    assert_int_equal(manifest_import_of(m, BENCH_HOUR, s[2].stream, &generation), IMPORT_ERASED);
    assert_int_equal(generation, 5);
    assert_false(manifest_import_expired(m, BENCH_HOUR, &generation));
    manifest_unref(m);
    const struct manifest_change old = {.expire = &one.id,
                                        .expire_count = 1,
                                        .begun_ns = bench_wall()};
    assert_ok(bench_commit(&b, &old, e));
    m = bench_newest(&b);
    assert_int_equal(manifest_import_of(m, BENCH_HOUR, s->stream, &generation), IMPORT_HELD);
    assert_true(manifest_import_expired(m, BENCH_HOUR, &generation));
    assert_int_equal(generation, 0);
    manifest_unref(m);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tombstone_stands_until_it_is_ended),
        cmocka_unit_test(its_matchers_mean_series_by_their_labels),
        cmocka_unit_test(a_question_may_meet_it_unless_both_demand_another_value),
        cmocka_unit_test(a_block_may_have_what_is_hidden_unless_it_was_written_since),
        cmocka_unit_test(a_leaf_with_deleted_profiles_does_not_expire),
        cmocka_unit_test(a_leaf_of_a_day_that_is_deleted_whole_expires),
        cmocka_unit_test(a_day_whose_leaf_expired_is_deleted_whole_or_not_at_all),
        cmocka_unit_test(there_are_not_too_many),
        cmocka_unit_test(what_ended_is_remembered_where_rows_were_imported),
        cmocka_unit_test(the_last_256_of_400_days_are_remembered),
        cmocka_unit_test(a_change_may_ask_for_calm),
        cmocka_unit_test(an_import_is_known_by_its_stream_and_generation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
