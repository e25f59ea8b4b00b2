// SPDX-License-Identifier: Apache-2.0
#include "lib/dir.h"
#include "service/datadir.h"
#include "sys/file.h"

#include <stdio.h>
#include <stdlib.h>

static char base[DIR_MAX];

static int make_base(void **state)
{
    (void)state;
    dir_new(base);
    return 0;
}

static int remove_base(void **state)
{
    (void)state;
    dir_remove(base);
    return 0;
}

static void a_new_directory_gets_its_layout(void **state)
{
    (void)state;
    char path[DIR_PATH_MAX];
    char name[512];
    dir_path(path, base, "a/b");
    struct datadir d;
    assert_ok(datadir_open(&d, path, e));
    assert_true(d.path[0] == '/');
    static const char *const parts[] = {"format", "lock", "ingester", "store", "cache", "run"};
    for (size_t i = 0; i < COUNT(parts); i++) {
        snprintf(name, sizeof name, "%s/%s", path, parts[i]);
        if (!file_exists(name)) fail_msg("%s is missing", parts[i]);
    }
    datadir_close(&d);
    datadir_close(&d);  // idempotent
    assert_ok(datadir_open(&d, path, e));
    datadir_close(&d);
}

static void a_directory_keeps_its_id_as_long_as_what_was_kept_there(void **state)
{
    (void)state;
    char path[DIR_PATH_MAX];
    char kept[DIR_PATH_MAX];
    struct datadir d;
    id128 first = {0};
    id128 again = {0};
    dir_path(path, base, "identified");
    dir_path(kept, base, "identified/ingester/log");
    assert_ok(datadir_open(&d, path, e));
    static const char *const keeps[2] = {"ingester/log", "ingester/other"};
    assert_ok(datadir_identify(&d, NULL, &first, e));
    assert_ok(datadir_identify(&d, NULL, &again, e));
    assert_true(id128_eq(first, again));
    assert_ok(file_write(kept, S("rows"), e));
    assert_ok(datadir_identify(&d, keeps, &again, e));
    assert_true(id128_eq(first, again));
    assert_ok(file_remove(kept, e));
    assert_ok(datadir_identify(&d, keeps, &again, e));
    assert_false(id128_eq(first, again));
    err fault = {0};
    dir_path(kept, base, "identified/directory");
    assert_ok(file_write(kept, S("no ulid\n"), e));
    assert_false(datadir_identify(&d, NULL, &again, &fault));
    assert_non_null(strstr(fault.msg, "identified/directory"));
    datadir_close(&d);
}

static void the_cluster_of_its_store_is_remembered(void **state)
{
    (void)state;
    char path[DIR_PATH_MAX];
    char name[DIR_PATH_MAX];
    struct datadir d;
    id128 cluster = {{7, 1, 2}};
    id128 found = {0};
    err fault = {0};
    bool known = true;
    dir_path(path, base, "cluster");
    assert_ok(datadir_open(&d, path, e));
    assert_ok(datadir_read_cluster(&d, &found, &known, e));
    assert_false(known);
    assert_ok(datadir_write_cluster(&d, cluster, e));
    assert_ok(datadir_read_cluster(&d, &found, &known, e));
    assert_true(known && id128_eq(cluster, found));
    dir_path(name, base, "cluster/cluster");
    assert_ok(file_write(name, S("anything\n"), e));
    assert_false(datadir_read_cluster(&d, &found, &known, &fault));
    assert_non_null(strstr(fault.msg, name));
    assert_false(known);
    datadir_close(&d);
}

static void a_held_lock_is_refused_with_its_holder(void **state)
{
    (void)state;
    char path[DIR_PATH_MAX];
    char want[64];
    dir_path(path, base, "held");
    struct datadir first;
    struct datadir second;
    assert_ok(datadir_open(&first, path, e));
    err fault = {0};
    assert_false(datadir_open(&second, path, &fault));
    snprintf(want, sizeof want, "lock is held by process %d", (int)getpid());
    assert_non_null(strstr(fault.msg, want));
    assert_non_null(strstr(fault.msg, path));
    datadir_close(&first);
}

static void an_unknown_format_is_refused_and_left_alone(void **state)
{
    (void)state;
    char path[DIR_PATH_MAX];
    char name[512];
    dir_path(path, base, "later");
    snprintf(name, sizeof name, "%s/format", path);
    assert_ok(dir_make(path, e));
    assert_ok(file_write(name, S("flametree 2\n"), e));
    struct datadir d;
    err fault = {0};
    assert_false(datadir_open(&d, path, &fault));
    assert_int_equal(fault.code, ERR_FAILED_PRECONDITION);
    assert_non_null(
        strstr(fault.msg, "has format 'flametree 2'; this program knows 'flametree 1'"));
    assert_int_equal(d.lock, -1);
    snprintf(name, sizeof name, "%s/ingester", path);
    assert_false(file_exists(name));
}

static void a_file_in_the_way_is_told(void **state)
{
    (void)state;
    char path[DIR_PATH_MAX];
    dir_path(path, base, "plain");
    assert_ok(file_write(path, S("x"), e));
    struct datadir d;
    err fault = {0};
    assert_false(datadir_open(&d, path, &fault));
    assert_non_null(strstr(fault.msg, path));
}

static void ports_are_told_as_json(void **state)
{
    (void)state;
    char path[DIR_PATH_MAX];
    char name[512];
    dir_path(path, base, "ports");
    snprintf(name, sizeof name, "%s/run/ports.json", path);
    struct datadir d;
    assert_ok(datadir_open(&d, path, e));
    assert_ok(datadir_write_ports(&d, 4040, "unix:/a \"b\"/s", "", (str){0}, e));
    struct buf b;
    buf_init(&b, NULL, 4096);
    assert_ok(file_read(name, &b, e));
    assert_true(
        str_eq(buf_view(&b), S("{\"public\":4040,\"internal\":\"unix:/a \\\"b\\\"/s\"}\n")));
    buf_release(&b);
    datadir_remove_ports(&d);
    assert_false(file_exists(name));
    datadir_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_directory_gets_its_layout),
        cmocka_unit_test(a_directory_keeps_its_id_as_long_as_what_was_kept_there),
        cmocka_unit_test(the_cluster_of_its_store_is_remembered),
        cmocka_unit_test(a_held_lock_is_refused_with_its_holder),
        cmocka_unit_test(an_unknown_format_is_refused_and_left_alone),
        cmocka_unit_test(a_file_in_the_way_is_told),
        cmocka_unit_test(ports_are_told_as_json),
    };
    return cmocka_run_group_tests(tests, make_base, remove_base);
}
