// SPDX-License-Identifier: Apache-2.0
#include "cluster/node.h"
#include "ingester/head/recent_ids.h"
#include "ingester/known_ids.h"
#include "lib/dir.h"
#include "lib/memstore.h"
#include "lib/test.h"
#include "manifest/names.h"
#include "manifest/stream.h"
#include "sys/clock.h"
#include "sys/file.h"

#define MINUTE (60 * NS_PER_S)

static struct store *store;
static struct req r;
static char dir[DIR_MAX];
static struct known_ids ids;
static const struct node_identity me = {.node = {"ingester-1", 10}, .boot = {{1}}};

static int set_up(void **state)
{
    (void)state;
    store = memstore_open();
    req_init(&r, RANK_DUTY, NULL, 1 << 22, 0);
    dir_new(dir);
    known_ids_init(&ids, dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    known_ids_release(&ids);
    dir_remove(dir);
    req_release(&r);
    store_close(store);
    return 0;
}

static void start_again(void)
{
    known_ids_release(&ids);
    known_ids_init(&ids, dir);
}

static void settle(struct registered_stream *v, size_t n)
{
    const struct registered list = {.v = v, .n = n};
    assert_ok(known_ids_settle(&ids, store, &r, &list, &me, e));
}

static void put_tenant(void)
{
    bool existed = false;
    assert_ok(store_put(store, &r, name_tenant(&r.arena, S("t")), (str){0}, &existed, e));
}

static const char *path(void)
{
    static char text[DIR_PATH_MAX];
    return dir_path(text, dir, "ingester/past/known");
}

static void write_since(int64_t since_ns)
{
    char text[64];
    char past[DIR_PATH_MAX];
    snprintf(text, sizeof text, "%lld\n", (long long)since_ns);
    assert_ok(dir_make(dir_path(past, dir, "ingester/past"), e));
    assert_ok(file_write(path(), str_of(text), e));
}

static bool any(void)
{
    return known_ids_may_repeat(&ids, INT64_MIN, 0);
}

static void before_it_is_decided_all_may_be_repeated(void **state)
{
    (void)state;
    assert_true(any() && known_ids_may_repeat(&ids, INT64_MAX, 0));
    settle(NULL, 0);  // the log was not read yet: nothing is decided
    assert_true(any() && !file_exists(path()));
}

static void in_an_empty_store_there_is_nothing_to_repeat(void **state)
{
    (void)state;
    struct registered_stream others[] = {{.node = S("ingester-2"), .boot = {{7}}},
                                         {.node = me.node, .boot = me.boot}};
    known_ids_read(&ids, NULL);
    settle(others, 2);
    assert_false(any());
    start_again();  // with the file, whatever the store has by now
    put_tenant();
    known_ids_read(&ids, NULL);
    assert_false(any());
}

static void a_new_directory_is_unsure_if_the_store_has_something(void **state)
{
    (void)state;
    put_tenant();
    known_ids_read(&ids, NULL);
    settle(NULL, 0);
    assert_true(any());
}

static void a_new_directory_is_unsure_if_its_node_had_streams(void **state)
{
    (void)state;
    struct registered_stream former[] = {{.node = me.node, .boot = {{7}}}};
    known_ids_read(&ids, NULL);
    settle(former, 1);
    assert_true(any());
}

static void a_registration_that_cannot_be_read_may_be_of_this_node(void **state)
{
    (void)state;
    struct registered_stream unread[1] = {{.made_ns = 1}};
    known_ids_read(&ids, NULL);
    settle(unread, 1);
    assert_true(any());
}

static void a_store_that_fails_decides_nothing(void **state)
{
    (void)state;
    const struct registered none = {0};
    err why = {0};
    known_ids_read(&ids, NULL);
    memstore_fail(store, MEMSTORE_LIST, MEMSTORE_FAILS, 1, 1);
    assert_false(known_ids_settle(&ids, store, &r, &none, &me, &why));
    assert_true(any() && !file_exists(path()));
    settle(NULL, 0);
    assert_false(any());
}

static void times_bound_what_may_be_repeated(void **state)
{
    (void)state;
    int64_t now = clock_wall_ns();
    known_ids_read(&ids, "a reason");
    assert_true(known_ids_may_repeat(&ids, now, 0));
    assert_true(known_ids_may_repeat(&ids, now + 14 * MINUTE, 15 * MINUTE));
    assert_false(known_ids_may_repeat(&ids, now + 16 * MINUTE, 15 * MINUTE));
    assert_true(known_ids_may_repeat(&ids, INT64_MAX, INT64_MAX));
}

static void the_file_outlasts_the_process(void **state)
{
    (void)state;
    int64_t now = clock_wall_ns();
    known_ids_read(&ids, "a reason");
    start_again();
    known_ids_read(&ids, NULL);
    settle(NULL, 0);  // an empty store does not take it back
    assert_true(known_ids_may_repeat(&ids, now, 0));
    assert_false(known_ids_may_repeat(&ids, clock_wall_ns() + MINUTE, 0));
}

static void after_half_an_hour_all_are_known(void **state)
{
    (void)state;
    write_since(clock_wall_ns() - (int64_t)RECENT_IDS_NS - MINUTE);
    known_ids_read(&ids, NULL);
    assert_false(any());
    start_again();
    write_since(clock_wall_ns() - (int64_t)RECENT_IDS_NS + MINUTE);
    known_ids_read(&ids, NULL);
    assert_true(any());
    start_again();
    write_since(clock_wall_ns() + 500 * MINUTE);  // the clock was set back
    known_ids_read(&ids, NULL);
    assert_true(any() && !known_ids_may_repeat(&ids, clock_wall_ns() + MINUTE, 0));
}

static void what_is_missing_counts_more_than_the_file(void **state)
{
    (void)state;
    write_since(0);
    known_ids_read(&ids, "a file of ids could not be read");
    assert_true(any());
    start_again();
    known_ids_read(&ids, NULL);
    assert_true(any());
}

static void a_bad_file_is_none(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "\n", "0", "x\n", "-5\n", "99999999999999999999\n", "9223372036854775808\n"};
    put_tenant();
    for (size_t i = 0; i < COUNT(texts); i++) {
        start_again();
        write_since(0);
        assert_ok(file_write(path(), str_of(texts[i]), e));
        known_ids_read(&ids, NULL);
        assert_true(any());
        settle(NULL, 0);
        assert_true(any());
    }
}

static void ids_that_were_not_saved_are_not_known_to_the_next(void **state)
{
    (void)state;
    put_tenant();
    write_since(0);
    known_ids_read(&ids, NULL);
    known_ids_note_unsaved(&ids);
    assert_false(any());  // this process has them in memory
    start_again();
    known_ids_read(&ids, NULL);
    settle(NULL, 0);
    assert_true(any());
    start_again();
    write_since(0);
    known_ids_read(&ids, NULL);
    known_ids_note_unsaved(&ids);
    known_ids_note_saved(&ids);
    start_again();
    known_ids_read(&ids, NULL);
    assert_false(any());
}

static void without_a_store_all_are_known(void **state)
{
    (void)state;
    known_ids_need_none(&ids);
    assert_false(any());
}

int main(void)
{
#define ROW(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        ROW(before_it_is_decided_all_may_be_repeated),
        ROW(in_an_empty_store_there_is_nothing_to_repeat),
        ROW(a_new_directory_is_unsure_if_the_store_has_something),
        ROW(a_new_directory_is_unsure_if_its_node_had_streams),
        ROW(a_registration_that_cannot_be_read_may_be_of_this_node),
        ROW(a_store_that_fails_decides_nothing),
        ROW(times_bound_what_may_be_repeated),
        ROW(the_file_outlasts_the_process),
        ROW(after_half_an_hour_all_are_known),
        ROW(what_is_missing_counts_more_than_the_file),
        ROW(a_bad_file_is_none),
        ROW(ids_that_were_not_saved_are_not_known_to_the_next),
        ROW(without_a_store_all_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
