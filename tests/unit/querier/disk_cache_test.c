// SPDX-License-Identifier: Apache-2.0
//
// The cache of sections on disk: what was put is found, also by the next process; it stays within
// its limit; damage is a miss.
#include "base/buf.h"
#include "base/hash.h"
#include "lib/await.h"
#include "lib/dir.h"
#include "lib/test.h"
#include "querier/disk/disk_cache.h"
#include "sys/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LIMIT   ((uint64_t)32 << 20)
#define SECTION ((size_t)100 << 10)

static struct mem_budget memory;
static char folder[DIR_MAX];
static char directory[DIR_PATH_MAX];

// Bytes that depend on the number and on their place.
static void fill(char *to, size_t n, uint64_t number)
{
    uint64_t x = number * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        to[i] = (char)x;
    }
}

static str name_of(char text[64], uint64_t number)
{
    snprintf(text, 64, "v1/00/tenant/d/%08llx-672/0-BLOCK", (unsigned long long)number);
    return str_of(text);
}

static struct disk_cache *open_cache(uint64_t limit)
{
    err e = {0};
    struct disk_cache *c = disk_cache_open(directory, limit, DISK_CACHE_AGE_S, &memory, &e);
    if (!c) fail_msg("%s", e.msg);
    return c;
}

static void put(struct disk_cache *c, uint64_t number, size_t n)
{
    static char bytes[SECTION];
    char text[64];
    fill(bytes, n, number);
    disk_cache_put(c, name_of(text, number), number * 7, str_make(bytes, n));
}

// Is it there? If so its bytes are right.
static bool has(struct disk_cache *c, uint64_t number, size_t n)
{
    static char bytes[SECTION];
    static char want[SECTION];
    char text[64];
    memset(bytes, 0, n);
    if (!disk_cache_get(c, name_of(text, number), number * 7, n, bytes)) return false;
    fill(want, n, number);
    assert_memory_equal(bytes, want, n);
    return true;
}

static uint64_t bytes_on_disk(void)
{
    uint64_t sum = 0;
    struct stat st;
    DIR *d = opendir(directory);
    assert_non_null(d);
    for (const struct dirent *x; (x = readdir(d));)
        if (fstatat(dirfd(d), x->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
            sum += (uint64_t)st.st_size;
    closedir(d);
    return sum;
}

static int set_up(void **state)
{
    (void)state;
    mem_budget_init(&memory, "test", NULL, 0);
    dir_new(folder);
    dir_path(directory, folder, "cache");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    dir_remove(folder);
    return 0;
}

static void a_section_is_found_by_its_object_place_and_length_alone(void **state)
{
    (void)state;
    struct disk_cache *c = open_cache(LIMIT);
    char to[1000];
    char text[64];
    put(c, 1, 1000);
    assert_true(has(c, 1, 1000));
    assert_false(has(c, 1, 999));
    assert_false(has(c, 2, 1000));
    assert_false(disk_cache_get(c, name_of(text, 1), 8, 1000, to));
    disk_cache_close(c);
    assert_int_equal(atomic_load(&memory.used), 0);
}

static void the_next_process_finds_what_was_put(void **state)
{
    (void)state;
    struct disk_cache *c = open_cache(LIMIT);
    for (uint64_t i = 0; i < 20; i++)
        put(c, i, 5000 + i);
    disk_cache_close(c);
    c = open_cache(LIMIT);
    for (uint64_t i = 0; i < 20; i++)
        assert_true(has(c, i, 5000 + i));
    disk_cache_close(c);
}

// Puts may be refused while the disk is behind, so each is repeated until it is there.
static void put_surely(struct disk_cache *c, uint64_t number, size_t n)
{
    for (put(c, number, n); !has(c, number, n); put(c, number, n))
        usleep(1000);
}

static void it_stays_within_its_limit_and_the_oldest_go(void **state)
{
    (void)state;
    struct disk_cache *c = open_cache(LIMIT);
    const uint64_t n = 3 * LIMIT / SECTION;
    for (uint64_t i = 0; i < n; i++)
        put_surely(c, i, SECTION);
    assert_true(has(c, n - 1, SECTION));
    assert_false(has(c, 0, SECTION));
    AWAIT(disk_cache_bytes(c) <= LIMIT);
    disk_cache_close(c);
    // What was in memory comes on top, until the next expiry.
    c = open_cache(LIMIT);
    AWAIT(bytes_on_disk() <= LIMIT + ((uint64_t)1 << 20));
    assert_true(has(c, n - 1, SECTION));
    disk_cache_close(c);
    c = open_cache(LIMIT / 4);  // a smaller limit holds soon
    AWAIT(disk_cache_bytes(c) <= LIMIT / 4);
    disk_cache_close(c);
}

static atomic_llong ahead_s;

// In place of the C library's: RocksDB tells ages of files by it.
time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    time_t t = now.tv_sec + (time_t)atomic_load(&ahead_s);
    if (out) *out = t;
    return t;
}

static void sections_that_grew_too_old_between_two_processes_go_at_once(void **state)
{
    (void)state;
    struct disk_cache *c = open_cache(LIMIT);
    put_surely(c, 1, SECTION);
    disk_cache_close(c);
    assert_true(bytes_on_disk() > SECTION);
    c = open_cache(LIMIT);
    assert_true(has(c, 1, SECTION));
    disk_cache_close(c);
    atomic_store(&ahead_s, DISK_CACHE_AGE_S + 60);
    c = open_cache(LIMIT);
    // To read it now might keep its file until the next expiry.
    AWAIT(bytes_on_disk() < SECTION);
    assert_false(has(c, 1, SECTION));
    disk_cache_close(c);
    atomic_store(&ahead_s, 0);
}

static void what_is_too_old_goes_though_nothing_is_written(void **state)
{
    (void)state;
    err e = {0};
    struct disk_cache *c = disk_cache_open(directory, LIMIT, 1, &memory, &e);
    if (!c) fail_msg("%s", e.msg);
    put_surely(c, 1, SECTION);
    // It is in memory first, then in a file; then it is in neither.
    AWAIT(!has(c, 1, SECTION));
    AWAIT(disk_cache_bytes(c) == 0);
    put_surely(c, 2, SECTION);
    disk_cache_close(c);
    assert_true(bytes_on_disk() > SECTION);
    // The next process has the age that it is given, also for what was there.
    c = disk_cache_open(directory, LIMIT, 1, &memory, &e);
    if (!c) fail_msg("%s", e.msg);
    AWAIT(!has(c, 2, SECTION));
    AWAIT(bytes_on_disk() < SECTION);
    disk_cache_close(c);
}

static void what_an_earlier_process_left_is_removed(void **state)
{
    (void)state;
    disk_cache_remove(directory);  // there is none
    struct disk_cache *c = open_cache(LIMIT);
    put_surely(c, 1, SECTION);
    disk_cache_close(c);
    assert_true(bytes_on_disk() > SECTION);
    disk_cache_remove(directory);
    assert_false(file_exists(directory));
}

// Overwrites bytes in the middle of each table.
static void damage_tables(void)
{
    DIR *d = opendir(directory);
    assert_non_null(d);
    for (const struct dirent *x; (x = readdir(d));) {
        size_t n = strlen(x->d_name);
        if (n < 4 || strcmp(x->d_name + n - 4, ".sst") != 0) continue;
        int fd = openat(dirfd(d), x->d_name, O_WRONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        for (off_t at = 1000; at < 50000; at += 500)
            assert_int_equal(pwrite(fd, "damage", 6, at), 6);
        close(fd);
    }
    closedir(d);
}

static void damaged_bytes_are_a_miss(void **state)
{
    (void)state;
    struct disk_cache *c = open_cache(LIMIT);
    for (uint64_t i = 0; i < 10; i++)
        put(c, i, 5000);
    disk_cache_close(c);
    damage_tables();
    c = open_cache(LIMIT);
    unsigned found = 0;
    for (uint64_t i = 0; i < 10; i++)
        found += has(c, i, 5000);
    assert_true(found < 10);
    put_surely(c, 3, 5000);
    disk_cache_close(c);
}

static void a_directory_that_cannot_be_opened_is_begun_anew(void **state)
{
    (void)state;
    struct disk_cache *c = open_cache(LIMIT);
    put(c, 1, 5000);
    disk_cache_close(c);
    char path[DIR_PATH_MAX + 16];
    err e = {0};
    snprintf(path, sizeof path, "%s/CURRENT", directory);
    assert_true(file_write(path, S("no manifest\n"), &e));
    c = open_cache(LIMIT);
    assert_false(has(c, 1, 5000));
    put(c, 2, 5000);
    assert_true(has(c, 2, 5000));
    disk_cache_close(c);
}

static void too_large_sections_are_left_out(void **state)
{
    (void)state;
    struct disk_cache *c = open_cache(LIMIT);
    size_t n = disk_cache_section_max(c) + 1;
    char *bytes = mem_must(n);
    disk_cache_put(c, S("v1/large"), 0, str_make(bytes, n));
    assert_false(disk_cache_get(c, S("v1/large"), 0, n, bytes));
    mem_must_free(bytes);
    disk_cache_close(c);
}

static void without_room_there_is_no_cache_and_the_error_says_so(void **state)
{
    (void)state;
    err e = {0};
    assert_null(disk_cache_open(directory, 1000, DISK_CACHE_AGE_S, &memory, &e));
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.msg, "1000 bytes"));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_section_is_found_by_its_object_place_and_length_alone),
        TEST(the_next_process_finds_what_was_put),
        TEST(sections_that_grew_too_old_between_two_processes_go_at_once),
        TEST(what_is_too_old_goes_though_nothing_is_written),
        TEST(what_an_earlier_process_left_is_removed),
        TEST(it_stays_within_its_limit_and_the_oldest_go),
        TEST(damaged_bytes_are_a_miss),
        TEST(a_directory_that_cannot_be_opened_is_begun_anew),
        TEST(too_large_sections_are_left_out),
        TEST(without_room_there_is_no_cache_and_the_error_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
