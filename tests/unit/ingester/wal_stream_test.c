// SPDX-License-Identifier: Apache-2.0
//
// The log goes from one stream to the next.
#include "ingester/log/wal_int.h"
#include "sys/clock.h"
#include "sys/file.h"
#include "whole.h"

#include <unistd.h>

static char dir[DIR_MAX];
static struct wal *w;

static struct wal *reopen(bool begin)
{
    const struct wal_options o = {.dir = dir,
                                  .owner = "ingester-0",
                                  .buffers = 4 << 20,
                                  .cut_bytes = 1 << 20,
                                  .cut_age_ns = 600 * NS_PER_S,
                                  .keep_ns = 31 * 86400 * NS_PER_S};
    struct cut *cuts[64];
    assert_ok((w = wal_open(&o, e)) != NULL);
    size_t n = wal_cuts(w, cuts, COUNT(cuts));
    for (size_t i = 0; i < n; i++)
        cuts[i]->read_seq = cuts[i]->last_seq;
    if (begin) assert_ok(wal_begin(w, e));
    return w;
}

static int set_up(void **state)
{
    (void)state;
    dir_new(dir);
    reopen(true);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    wal_drain(w);
    wal_close(w);
    dir_remove(dir);
    return 0;
}

static struct wal_place append(const char *rows)
{
    struct wal_place place;
    struct wal_item item = {.rows = str_of(rows), .count = 1};
    assert_ok(wal_append(w, S("t"), &item, 1, &place, e));
    cut_note(place.cut, 3600 * NS_PER_S * 7 + 1);
    wal_unpin(w, place.cut);
    return place;
}

static id128 open_stream(void)
{
    struct wal_place place;
    assert_ok(wal_position(w, &place, e));
    return place.stream;
}

static id128 plan(void)
{
    id128 stream;
    assert_ok(wal_plan_stream(w, &stream, e));
    return stream;
}

static size_t serves(struct wal_served v[8])
{
    size_t n = wal_serves(w, v, 8);
    assert_in_range(n, 0, 8);
    return n;
}

static void the_next_cut_begins_in_the_stream_that_was_offered(void **state)
{
    (void)state;
    struct wal_served v[8];
    id128 first = open_stream();
    assert_int_equal(append("a").last_seq, 1);
    assert_int_equal(append("b").last_seq, 2);
    id128 second = plan();
    assert_true(id128_eq(plan(), second));  // there is one already
    assert_true(memcmp(&second, &first, sizeof first) > 0);
    assert_int_equal(serves(v), 2);
    assert_true(v[0].open && v[0].held && v[0].oldest_ns == 3600 * NS_PER_S * 7);
    assert_true(v[1].planned && !v[1].held && v[1].oldest_ns == 0);
    assert_true(id128_eq(v[1].stream, second));
    wal_offer_stream(w, first);  // not the planned one
    wal_offer_stream(w, second);
    assert_true(id128_eq(append("c").stream, first));  // its cut is open
    assert_ok(wal_cut_now(w, e));
    assert_true(id128_eq(open_stream(), first));
    struct wal_place d = append("d");
    assert_true(id128_eq(d.stream, second) && d.last_seq == 1 && d.cut->number == 1);
    assert_true(id128_eq(open_stream(), second));
    assert_int_equal(serves(v), 2);
    assert_true(!v[0].open && v[0].held && v[1].open && !v[1].planned);
    assert_true(id128_eq(wal_begun(w), first));
    // The first one goes with its last cut.
    struct cut *cuts[8];
    assert_int_equal(wal_cuts(w, cuts, 8), 2);
    assert_ok(wal_drop(w, cuts[0], e));
    assert_int_equal(serves(v), 1);
    assert_true(id128_eq(v[0].stream, second));
}

static void without_an_open_cut_it_begins_at_once(void **state)
{
    (void)state;
    struct wal_served v[8];
    id128 first = open_stream();
    id128 second = plan();
    wal_offer_stream(w, second);
    assert_true(id128_eq(open_stream(), second));
    assert_int_equal(serves(v), 1);  // the first one had nothing
    append("a");
    assert_ok(wal_cut_now(w, e));
    id128 third = plan();
    wal_offer_stream(w, third);
    assert_true(id128_eq(open_stream(), third));
    assert_int_equal(serves(v), 2);
    assert_false(id128_eq(first, third));
}

static void a_plan_that_is_given_up_is_never_begun(void **state)
{
    (void)state;
    struct wal_served v[8];
    append("a");
    id128 second = plan();
    wal_offer_stream(w, second);
    wal_unplan_stream(w, second);
    assert_int_equal(serves(v), 1);
    assert_ok(wal_cut_now(w, e));
    assert_false(id128_eq(append("b").stream, second));
    assert_false(id128_eq(plan(), second));
}

static void a_start_finds_streams_and_forgets_the_planned_one(void **state)
{
    (void)state;
    struct wal_served v[8];
    struct wal_stream streams[8];
    id128 first = append("a").stream;
    wal_offer_stream(w, plan());
    assert_ok(wal_cut_now(w, e));
    id128 second = append("b").stream;
    (void)plan();
    wal_drain(w);
    wal_close(w);
    reopen(false);
    assert_int_equal(wal_streams(w, streams, 8), 2);
    assert_true(id128_eq(streams[0].id, first) && id128_eq(streams[1].id, second));
    assert_int_equal(serves(v), 2);
    assert_true(v[0].held && v[1].held && !v[1].open);
    assert_ok(wal_begin(w, e));
    assert_int_equal(serves(v), 3);
    assert_int_equal(wal_list_cuts(w, NULL, 0), 2);
}

// Without the row of its last cut only the second mark tells where a stream ended.
static void the_end_of_a_former_stream_is_marked(void **state)
{
    (void)state;
    char path[DIR_PATH_MAX];
    struct wal_cut cuts[8];
    id128 first = append("a").stream;
    append("b");
    append("c");
    wal_offer_stream(w, plan());
    assert_ok(wal_cut_now(w, e));
    append("d");
    wal_tick(w);
    disk_mark(w);
    // The last entry and the row are lost, as by damage.
    struct cut *v[8];
    char key[8];
    char row[META_KEY];
    assert_int_equal(wal_cuts(w, v, 8), 2);
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    key_print(3, key);
    rocksdb_writebatch_delete_cf(batch, v[0]->family, key, sizeof key);
    meta_cut_key(first, 1, row);
    rocksdb_writebatch_delete_cf(batch, w->db.meta, row, strlen(row));
    assert_ok(db_write(&w->db, batch, true, e));
    rocksdb_writebatch_destroy(batch);
    wal_drain(w);
    wal_close(w);
    reopen(false);
    assert_int_equal(wal_list_cuts(w, cuts, 8), 2);
    assert_int_equal(cuts[0].cut->last_seq, 3);
    wal_close(w);
    // Without that mark nobody knows.
    assert_int_equal(unlink(dir_path(path, dir, "ENDED")), 0);
    reopen(true);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(the_next_cut_begins_in_the_stream_that_was_offered),
        CASE(without_an_open_cut_it_begins_at_once),
        CASE(a_plan_that_is_given_up_is_never_begun),
        CASE(a_start_finds_streams_and_forgets_the_planned_one),
        CASE(the_end_of_a_former_stream_is_marked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
