// SPDX-License-Identifier: Apache-2.0
#include "store/local.h"
#include "store/metrics.h"
#include "sys/clock.h"
#include "unit/store/table.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

// ---- folders that are durable

static atomic_uint folders_synced;

// In place of the library's.
int fsync(int fd)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) atomic_fetch_add(&folders_synced, 1);
    return (int)syscall(SYS_fsync, fd);
}

// ---- each test in both ways of reading and writing

static int set_up(void **state, bool no_uring)
{
    struct bench *b = mem_must(sizeof *b);
    bench_init(b, no_uring);
    *state = b;
    return 0;
}

static int set_up_uring(void **state)
{
    return set_up(state, false);
}

static int set_up_threads(void **state)
{
    return set_up(state, true);
}

static int tear_down(void **state)
{
    bench_release(*state);
    mem_must_free(*state);
    return 0;
}

// ---- creating

static void a_name_is_no_folder_of_others(void **state)
{
    struct bench *b = *state;
    bool existed = false;
    err why = {0};
    bench_put(b, "a/b", S("x"));
    assert_false(store_put(b->store, &b->req, S("a"), S("y"), &existed, &why));
    assert_int_equal(why.code, ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why.msg, "object a: objects are below that name"));
    assert_false(store_put(b->store, &b->req, S("a/b/c"), S("y"), &existed, &why));
    char to[1];
    assert_false(store_read(b->store, &b->req, S("a"), 0, 1, to, &why));
    assert_int_equal(why.code, ERR_NOT_FOUND);
    assert_false(store_read(b->store, &b->req, S("a/b/c"), 0, 1, to, &why));
    assert_int_equal(why.code, ERR_NOT_FOUND);
    assert_ok(store_delete(b->store, &b->req, S("a"), e));
    assert_ok(store_delete(b->store, &b->req, S("a/b/c"), e));
    assert_ok(store_read(b->store, &b->req, S("a/b"), 0, 1, to, e));
    // A folder that a crash left empty is in nobody's way.
    char path[DIR_PATH_MAX];
    assert_int_equal(mkdir(dir_path(path, b->dir, "o/left"), 0750), 0);
    bench_put(b, "left", S("z"));
}

// Its folders may not have been synced: whoever created it may be about to do so.
static void a_name_that_is_taken_is_durable_when_that_is_told(void **state)
{
    struct bench *b = *state;
    bool existed = false;
    bench_put(b, "x/y/z", S("first"));
    struct store *other = bench_open(b);
    unsigned before = atomic_load(&folders_synced);
    assert_ok(store_put(other, &b->req, S("x/y/z"), S("second"), &existed, e));
    assert_true(existed);
    assert_true(atomic_load(&folders_synced) - before >= 3);  // x/y, x, and what x is in
    store_close(other);
}

// ---- reading

static void pieces_that_lie_close_are_read_at_once(void **state)
{
    enum {
        KB = 1024
    };
    struct bench *b = *state;
    char *bytes = mem_must(1000 * KB);
    char to[7][100];
    for (size_t i = 0; i < 1000 * KB; i++)
        bytes[i] = (char)(i * 2654435761u >> 13);
    bench_put(b, "a", str_make(bytes, 1000 * KB));
    bench_put(b, "b", str_make(bytes, 1000 * KB));
    static const struct {
        const char *name;
        uint64_t at;
    } pieces[7] = {
        {"a", 500 * KB},       // far from the others
        {"a", 16 * KB + 100},  // as far from the next one as may be
        {"a", 0},              //
        {"a", 32 * KB + 201},  // one byte too far
        {"b", 0},              //
        {"b", 100},            // touches
        {"b", 150},            // overlaps
    };
    struct store_read v[7];
    for (size_t i = 0; i < COUNT(v); i++)
        v[i] = (struct store_read){.name = str_of(pieces[i].name),
                                   .at = pieces[i].at,
                                   .n = 100,
                                   .to = to[i]};
    uint64_t before = (uint64_t)atomic_load(&store_reads.cells[0].sum);
    uint64_t gaps = (uint64_t)atomic_load(&store_gaps.cells[0].sum);
    store_read_many(b->store, &b->req, v, COUNT(v));
    for (size_t i = 0; i < COUNT(v); i++) {
        assert_true(v[i].ok);
        assert_memory_equal(to[i], bytes + v[i].at, 100);
    }
    assert_int_equal((uint64_t)atomic_load(&store_reads.cells[0].sum) - before, 5);
    assert_int_equal((uint64_t)atomic_load(&store_gaps.cells[0].sum) - gaps, 16 * KB);
    mem_must_free(bytes);
}

// More of them, and of gaps, than one batch takes.
static void pieces_of_any_number_are_read(void **state)
{
    enum {
        MOST = 600,
        STEP = 16
    };
    struct bench *b = *state;
    static char bytes[MOST * STEP];
    static char to[MOST][STEP];
    static struct store_read v[MOST];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 2654435761u >> 13);
    bench_put(b, "a", str_make(bytes, sizeof bytes));
    for (size_t pieces = 1; pieces <= MOST; pieces += pieces < 300 ? 1 : 100) {
        // Each with a gap to the next one, or only every other.
        for (size_t near = 0; near < 2; near++) {
            memset(to, 0, sizeof to);
            for (size_t i = 0; i < pieces; i++)
                v[i] = (struct store_read){.name = S("a"),
                                           .at = i * STEP,
                                           .n = near && i % 2 ? STEP : STEP - 1,
                                           .to = to[i]};
            store_read_many(b->store, &b->req, v, pieces);
            for (size_t i = 0; i < pieces; i++) {
                assert_true(v[i].ok);
                assert_memory_equal(to[i], bytes + v[i].at, v[i].n);
            }
        }
    }
}

// ---- deleting

static void folders_go_with_their_last_object(void **state)
{
    struct bench *b = *state;
    bench_put(b, "x/y/z/1", S("1"));
    bench_put(b, "x/y/2", S("2"));
    assert_ok(store_delete(b->store, &b->req, S("x/y/z/1"), e));
    assert_int_equal(bench_entries(b, "o/x/y/z"), -1);
    assert_int_equal(bench_entries(b, "o/x/y"), 1);
    assert_ok(store_delete(b->store, &b->req, S("x/y/2"), e));
    assert_int_equal(bench_entries(b, "o"), 0);
    assert_ok(store_delete(b->store, &b->req, S("x/y/2"), e));
    bench_put(b, "x/y/2", S("again"));
}

// ---- opening

static void unfinished_files_of_the_dead_are_swept_and_no_others(void **state)
{
    struct bench *b = *state;
    char path[DIR_PATH_MAX];
    err why = {0};
    struct store_upload *u = store_begin(b->store, &b->req, S("a"), 3, &why);
    assert_non_null(u);
    int fd = open(dir_path(path, b->dir, "t/01ARZ3NDEKTSV4RRFFQ69G5FAV"), O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(bench_entries(b, "t"), 3);
    struct store *other = bench_open(b);
    assert_int_equal(bench_entries(b, "t"), 2);
    bool existed = true;
    assert_ok(store_write(u, S("abc"), e));
    assert_ok(store_commit(u, &existed, e));
    assert_false(existed);
    char to[3];
    assert_ok(store_read(other, &b->req, S("a"), 0, 3, to, e));
    assert_memory_equal(to, "abc", 3);
    store_close(other);
}

static void a_directory_that_cannot_be_used_is_told_in_one_line(void **state)
{
    struct bench *b = *state;
    char path[DIR_PATH_MAX];
    bench_put(b, "file", S("x"));
    struct store_local_options o = {.dir = dir_path(path, b->dir, "o/file/store"),
                                    .no_uring = b->no_uring};
    err why = {0};
    assert_null(store_open_local(&o, &why));
    assert_non_null(strstr(why.msg, "o/file"));
    assert_null(strchr(why.msg, '\n'));
    o.dir = "/proc/self";
    assert_null(store_open_local(&o, &why));
    assert_non_null(strstr(why.msg, "/proc/self"));
}

// ---- races

static void wait_for_children(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        int status = 0;
        assert_true(wait(&status) > 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

// Creates names 0..rounds-1 together with others; each winner leaves its number in the object. Runs
// in a process of its own; returns how many it won, or -1.
static int race(struct bench *b, unsigned who, unsigned rounds)
{
    err why = {0};
    int won = 0;
    struct store_local_options o = {.dir = b->dir, .no_uring = b->no_uring, .width = 4};
    struct store *s = store_open_local(&o, &why);
    if (!s) print_message("%s\n", why.msg);
    if (!s) return -1;
    for (unsigned i = 0; i < rounds; i++) {
        char name[32];
        char text[16];
        bool existed = false;
        snprintf(name, sizeof name, "r/%u/object", i);
        snprintf(text, sizeof text, "%u", who);
        bool ok = store_put(s, &b->req, str_of(name), str_of(text), &existed, &why);
        if (!ok) print_message("%s\n", why.msg);
        if (!ok) return -1;
        won += !existed;
    }
    store_close(s);
    return won;
}

static void move(const struct bench *b, const char *from, const char *to)
{
    char old[PATH_MAX], new[PATH_MAX];
    snprintf(old, sizeof old, "%s/%s", b->dir, from);
    snprintf(new, sizeof new, "%s/%s", b->dir, to);
    assert_int_equal(rename(old, new), 0);
}

static bool count_names(void *arg, str name, uint64_t size, err *e)
{
    (void)name, (void)size, (void)e;
    *(size_t *)arg += 1;
    return true;
}

// Nothing is found where the store was: that must not be taken for an empty store.
static void a_store_that_is_not_there_any_more_is_unavailable_and_not_empty(void **state)
{
    struct bench *b = *state;
    bench_put(b, "v1/x", S("kept"));
    for (int other = 0; other < 2; other++) {
        err why[2] = {{0}};
        size_t n = 0;
        bool existed = false;
        char path[PATH_MAX];
        move(b, "o", "away");
        snprintf(path, sizeof path, "%s/o", b->dir);
        if (other) assert_int_equal(mkdir(path, 0750), 0);
        assert_false(store_list(b->store, &b->req, S("v1/"), S(""), count_names, &n, &why[0]));
        assert_false(store_put(b->store, &b->req, S("v1/y"), S("new"), &existed, &why[1]));
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(why[i].code, ERR_UNAVAILABLE);
            assert_non_null(strstr(why[i].msg, other ? "another directory" : "not mounted"));
        }
        if (other) assert_int_equal(rmdir(path), 0);
        move(b, "away", "o");
        assert_ok(store_list(b->store, &b->req, S("v1/"), S(""), count_names, &n, e));
        assert_int_equal(n, 1);
    }
}

static void one_operation_at_a_time_is_enough(void **state)
{
    struct bench *b = *state;
    char to[3];
    err why = {0};
    bool existed = true;
    struct store_local_options o = {.dir = b->dir, .no_uring = b->no_uring, .width = 1};
    struct store *s = store_open_local(&o, &why);
    assert_non_null(s);
    assert_ok(store_put(s, &b->req, S("v1/x"), S("abc"), &existed, e));
    assert_ok(store_read(s, &b->req, S("v1/x"), 0, 3, to, e));
    assert_memory_equal(to, "abc", 3);
    store_close(s);
}

static void a_store_for_reading_only_changes_nothing(void **state)
{
    struct bench *b = *state;
    char to[4];
    bool existed = false;
    err why[3] = {{0}};
    bench_put(b, "v1/x", S("kept"));
    move(b, "t", "away");
    struct store_local_options o = {.dir = b->dir, .no_uring = b->no_uring, .read_only = true};
    struct store *s = store_open_local(&o, &why[0]);
    assert_non_null(s);
    assert_ok(store_read(s, &b->req, S("v1/x"), 0, 4, to, e));
    assert_false(store_put(s, &b->req, S("v1/y"), S("new"), &existed, &why[0]));
    assert_false(store_delete(s, &b->req, S("v1/x"), &why[1]));
    store_close(s);
    assert_int_equal(bench_entries(b, "t"), -1);
    assert_int_equal(bench_entries(b, "o/v1"), 1);
    o.dir = "/nonexistent/store";
    assert_null(store_open_local(&o, &why[2]));
    assert_int_equal(why[0].code, ERR_FAILED_PRECONDITION);
    assert_int_equal(why[1].code, ERR_FAILED_PRECONDITION);
    assert_non_null(strstr(why[2].msg, "No such file"));
}

static void a_folder_of_unfinished_files_that_was_removed_is_made_anew(void **state)
{
    struct bench *b = *state;
    move(b, "t", "away");
    bench_put(b, "v1/x", S("kept"));
    assert_int_equal(bench_entries(b, "t"), 0);
}

static void of_processes_that_create_one_name_exactly_one_wins(void **state)
{
    enum {
        PROCESSES = 3,
        ROUNDS = 100
    };
    struct bench *b = *state;
    char path[DIR_PATH_MAX];
    for (unsigned who = 0; who < PROCESSES; who++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid > 0) continue;
        int won = race(b, who, ROUNDS);
        char name[16];
        snprintf(name, sizeof name, "won.%u", who);
        FILE *f = fopen(dir_path(path, b->dir, name), "w");
        if (won < 0 || !f || fprintf(f, "%d", won) < 0 || fclose(f)) _exit(1);
        _exit(0);
    }
    wait_for_children(PROCESSES);
    unsigned won[PROCESSES] = {0};
    for (unsigned i = 0; i < ROUNDS; i++) {
        char name[32];
        char text[2] = "";
        snprintf(name, sizeof name, "r/%u/object", i);
        assert_ok(store_read(b->store, &b->req, str_of(name), 0, 1, text, e));
        assert_in_range(text[0], '0', '0' + PROCESSES - 1);
        won[text[0] - '0'] += 1;
    }
    for (unsigned who = 0; who < PROCESSES; who++) {
        char name[16];
        unsigned told = 0;
        snprintf(name, sizeof name, "won.%u", who);
        FILE *f = fopen(dir_path(path, b->dir, name), "r");
        assert_non_null(f);
        assert_int_equal(fscanf(f, "%u", &told), 1);
        fclose(f);
        assert_int_equal(told, won[who]);
    }
    assert_int_equal(bench_entries(b, "t"), 1);
}

static void processes_open_one_directory_at_once(void **state)
{
    struct bench *b = *state;
    for (unsigned who = 0; who < 6; who++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) _exit(race(b, who, 1) < 0);
    }
    wait_for_children(6);
    assert_int_equal(bench_entries(b, "t"), 1);
}

#define BOTH(f)                                             \
    {#f " (uring)", f, set_up_uring, tear_down, NULL},      \
    {                                                       \
#f " (threads)", f, set_up_threads, tear_down, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TABLE(BOTH),
        BOTH(a_name_is_no_folder_of_others),
        BOTH(a_name_that_is_taken_is_durable_when_that_is_told),
        BOTH(pieces_that_lie_close_are_read_at_once),
        BOTH(pieces_of_any_number_are_read),
        BOTH(folders_go_with_their_last_object),
        BOTH(unfinished_files_of_the_dead_are_swept_and_no_others),
        BOTH(a_directory_that_cannot_be_used_is_told_in_one_line),
        BOTH(a_store_that_is_not_there_any_more_is_unavailable_and_not_empty),
        BOTH(one_operation_at_a_time_is_enough),
        BOTH(a_store_for_reading_only_changes_nothing),
        BOTH(a_folder_of_unfinished_files_that_was_removed_is_made_anew),
        BOTH(of_processes_that_create_one_name_exactly_one_wins),
        BOTH(processes_open_one_directory_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
