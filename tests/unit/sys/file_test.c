// SPDX-License-Identifier: Apache-2.0
#include "lib/dir.h"
#include "sys/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

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

static void what_is_written_is_read(void **state)
{
    (void)state;
    char path[DIR_PATH_MAX];
    dir_path(path, base, "a");
    assert_ok(file_write(path, S("one"), e));
    assert_ok(file_write(path, S("second"), e));
    struct buf b;
    buf_init(&b, NULL, 100);
    assert_ok(file_read(path, &b, e));
    assert_true(str_eq(buf_view(&b), S("second")));
    buf_release(&b);
    assert_true(file_exists(path));
    assert_ok(file_remove(path, e));
    assert_ok(file_remove(path, e));
    assert_false(file_exists(path));
}

// ---- durability

static char watched[DIR_PATH_MAX];  // what is under this name when something is synced
static char syncs[256];             // "file:old dir:new "

// In place of the C library's.
int fsync(int fd)
{
    struct stat st;
    struct buf b;
    err ignored = {0};
    size_t n = strlen(syncs);
    buf_init(&b, NULL, 100);
    assert_int_equal(fstat(fd, &st), 0);
    bool there = watched[0] && file_read(watched, &b, &ignored);
    snprintf(syncs + n, sizeof syncs - n, "%s:%.*s ", S_ISDIR(st.st_mode) ? "dir" : "file",
             there ? (int)b.n : 4, there ? b.p : "none");
    buf_release(&b);
    return (int)syscall(SYS_fsync, fd);
}

// In another order the file may be empty, or the old one, after a loss of power.
static void the_bytes_are_synced_before_the_name_and_the_name_after_it(void **state)
{
    (void)state;
    dir_path(watched, base, "synced");
    syncs[0] = 0;
    assert_ok(file_write(watched, S("one"), e));
    assert_string_equal(syncs, "file:none dir:one ");
    syncs[0] = 0;
    assert_ok(file_write(watched, S("two"), e));
    assert_string_equal(syncs, "file:one dir:two ");
    watched[0] = 0;
}

static void a_file_beyond_the_cap_is_refused(void **state)
{
    (void)state;
    char path[DIR_PATH_MAX];
    dir_path(path, base, "big");
    assert_ok(file_write(path, S("0123456789"), e));
    struct buf b;
    err fault = {0};
    buf_init(&b, NULL, 9);
    assert_false(file_read(path, &b, &fault));
    assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(fault.msg, path));
    buf_release(&b);
}

static void errors_name_path_and_reason(void **state)
{
    (void)state;
    char path[DIR_PATH_MAX];
    dir_path(path, base, "absent/x");
    struct buf b;
    buf_init(&b, NULL, 9);
    err fault = {0};
    assert_false(file_read(path, &b, &fault));
    assert_int_equal(fault.code, ERR_NOT_FOUND);
    assert_non_null(strstr(fault.msg, "No such file"));
    assert_false(file_write(path, S("x"), &fault));
    assert_int_equal(fault.code, ERR_NOT_FOUND);
    buf_release(&b);
}

static void directories_are_made_with_parents(void **state)
{
    (void)state;
    char path[DIR_PATH_MAX];
    dir_path(path, base, "d/e/f");
    assert_ok(dir_make(path, e));
    assert_ok(dir_make(path, e));
    assert_ok(dir_sync(path, e));
    uint64_t free_bytes = 0;
    assert_ok(dir_free_bytes(path, &free_bytes, e));
    char file[DIR_PATH_MAX];
    dir_path(file, base, "plain");
    assert_ok(file_write(file, S("x"), e));
    err fault = {0};
    assert_false(dir_make(file, &fault));
    assert_int_equal(fault.code, ERR_NOT_FOUND);
}

static void a_lock_has_one_holder_who_is_named(void **state)
{
    (void)state;
    char path[DIR_PATH_MAX];
    char mine[32];
    dir_path(path, base, "lock");
    int a = -1;
    int b = -1;
    assert_ok(lock_file_open(path, &a, e));
    err fault = {0};
    assert_false(lock_file_open(path, &b, &fault));
    assert_int_equal(fault.code, ERR_FAILED_PRECONDITION);
    snprintf(mine, sizeof mine, "process %d", (int)getpid());
    assert_non_null(strstr(fault.msg, mine));
    lock_file_close(a);
    assert_ok(lock_file_open(path, &b, e));
    lock_file_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(the_bytes_are_synced_before_the_name_and_the_name_after_it),
        cmocka_unit_test(a_file_beyond_the_cap_is_refused),
        cmocka_unit_test(errors_name_path_and_reason),
        cmocka_unit_test(directories_are_made_with_parents),
        cmocka_unit_test(a_lock_has_one_holder_who_is_named),
    };
    return cmocka_run_group_tests(tests, make_base, remove_base);
}
