// SPDX-License-Identifier: Apache-2.0
#include "bench.h"
#include "store/local.h"
#include "store/metrics.h"
#include "sys/clock.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

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

// Bytes that differ from place to place and from object to object.
static void fill(char *p, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (char)((i * 2654435761u + seed * 40503u) >> 13);
}

// ---- creating

static void an_object_is_created_once_and_read_back(void **state)
{
    struct bench *b = *state;
    bench_put(b, "v1/a/b", S("first"));
    bool existed = false;
    assert_ok(store_put(b->store, &b->req, S("v1/a/b"), S("second"), &existed, e));
    assert_true(existed);
    struct buf out;
    buf_init(&out, &b->memory, 100);
    assert_ok(store_get(b->store, &b->req, S("v1/a/b"), &out, e));
    assert_true(str_is(buf_view(&out), "first"));
    buf_release(&out);
    assert_int_equal(bench_entries(b, "t"), 1);  // the lock
    uint64_t size = 0;
    assert_ok(store_size(b->store, &b->req, S("v1/a/b"), &size, e));
    assert_int_equal(size, 5);
}

static void objects_are_there_when_the_store_is_opened_again(void **state)
{
    struct bench *b = *state;
    bench_put(b, "v1/x", S("kept"));
    bench_put(b, "empty", S(""));
    store_close(b->store);
    b->store = bench_open(b);
    char to[4];
    assert_ok(store_read(b->store, &b->req, S("v1/x"), 0, 4, to, e));
    assert_memory_equal(to, "kept", 4);
    uint64_t size = 1;
    assert_ok(store_size(b->store, &b->req, S("empty"), &size, e));
    assert_int_equal(size, 0);
}

static void pieces_of_any_size_make_one_object(void **state)
{
    static const size_t sizes[] = {1, 0, 4095, 4096, 4097, 262143, 262144, 262145, 3000000, 7, 600};
    struct bench *b = *state;
    size_t n = 0;
    for (size_t i = 0; i < COUNT(sizes); i++)
        n += sizes[i];
    char *bytes = mem_must(n);
    char *found = mem_must(n);
    fill(bytes, n, 1);
    for (uint64_t about = 0; about < 2; about++) {
        err why = {0};
        bool existed = true;
        str name = about ? S("told") : S("untold");
        struct store_upload *u = store_begin(b->store, &b->req, name, about * n, &why);
        assert_non_null(u);
        size_t at = 0;
        for (size_t i = 0; i < COUNT(sizes); at += sizes[i++])
            assert_ok(store_write(u, str_make(bytes + at, sizes[i]), e));
        assert_ok(store_commit(u, &existed, e));
        assert_false(existed);
        assert_ok(store_read(b->store, &b->req, name, 0, n, found, e));
        assert_memory_equal(bytes, found, n);
    }
    mem_must_free(bytes);
    mem_must_free(found);
}

static void an_upload_given_up_leaves_nothing(void **state)
{
    struct bench *b = *state;
    err why = {0};
    struct store_upload *u = store_begin(b->store, &b->req, S("a/b"), 3, &why);
    assert_non_null(u);
    assert_ok(store_write(u, S("abc"), e));
    assert_int_equal(bench_entries(b, "t"), 2);
    store_abandon(u);
    assert_int_equal(bench_entries(b, "t"), 1);
    assert_int_equal(bench_entries(b, "o"), 0);
}

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

// ---- reading

static void pieces_are_read_in_any_order(void **state)
{
    enum {
        OBJECTS = 40,
        PIECES = 900,
        SIZE = 300000
    };
    struct bench *b = *state;
    char *bytes = mem_must(SIZE);
    char *to = mem_must((size_t)PIECES * 2000);
    struct store_read *v = mem_must(PIECES * sizeof *v);
    char names[OBJECTS][8];
    for (unsigned i = 0; i < OBJECTS; i++) {
        snprintf(names[i], sizeof names[i], "o/%u", i);
        fill(bytes, SIZE, i);
        bench_put(b, names[i], str_make(bytes, SIZE));
    }
    uint64_t random = 7;
    unsigned of[PIECES];
    for (size_t i = 0; i < PIECES; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        of[i] = (unsigned)(random >> 40) % OBJECTS;
        size_t n = (size_t)(random >> 20) % 2000;
        v[i] = (struct store_read){.name = str_of(names[of[i]]),
                                   .at = (random >> 33) % (SIZE - n + 1),
                                   .n = n,
                                   .to = to + i * 2000};
    }
    store_read_many(b->store, &b->req, v, PIECES);
    for (unsigned o = 0; o < OBJECTS; o++) {
        fill(bytes, SIZE, o);
        for (size_t i = 0; i < PIECES; i++) {
            assert_true(v[i].ok);
            if (of[i] == o) assert_memory_equal(v[i].to, bytes + v[i].at, v[i].n);
        }
    }
    mem_must_free(v);
    mem_must_free(to);
    mem_must_free(bytes);
}

static void pieces_that_lie_close_are_read_at_once(void **state)
{
    enum {
        KB = 1024
    };
    struct bench *b = *state;
    char *bytes = mem_must(1000 * KB);
    char to[7][100];
    fill(bytes, 1000 * KB, 3);
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

static void what_is_not_there_is_told_piece_by_piece(void **state)
{
    struct bench *b = *state;
    bench_put(b, "a", S("0123456789"));
    char to[5][8];
    static const struct {
        const char *name;
        const char *object;
        uint64_t at;
        size_t n;
        enum err_code code;
    } cases[] = {
        {"all there", "a", 4, 6, ERR_OK},
        {"a byte too many", "a", 4, 7, ERR_OUT_OF_RANGE},
        {"behind the end", "a", 100, 1, ERR_OUT_OF_RANGE},
        {"far out", "a", UINT64_MAX - 1, 7, ERR_OUT_OF_RANGE},
        {"no such object", "b", 0, 1, ERR_NOT_FOUND},
    };
    struct store_read v[COUNT(cases)];
    for (size_t together = 0; together < 2; together++) {
        for (size_t i = 0; i < COUNT(cases); i++) {
            v[i] = (struct store_read){.name = str_of(cases[i].object),
                                       .at = cases[i].at,
                                       .n = cases[i].n,
                                       .to = to[i]};
            if (!together) store_read_many(b->store, &b->req, &v[i], 1);
        }
        if (together) store_read_many(b->store, &b->req, v, COUNT(v));
        for (size_t i = 0; i < COUNT(cases); i++) {
            print_message("case %s\n", cases[i].name);
            assert_int_equal(v[i].ok, cases[i].code == ERR_OK);
            assert_int_equal(v[i].ok ? ERR_OK : v[i].fault.code, cases[i].code);
            assert_true(v[i].ok || strstr(v[i].fault.msg, cases[i].object));
        }
        assert_memory_equal(to[0], "456789", 6);
    }
}

static void requests_that_ended_do_nothing(void **state)
{
    struct bench *b = *state;
    bench_put(b, "a", S("0123456789"));
    char to[3];
    struct store_read v[3];
    for (size_t i = 0; i < 3; i++)
        v[i] = (struct store_read){.name = S("a"), .at = 4 * i, .n = 1, .to = to + i};
    bool existed = false;
    err why = {0};
    struct store_upload *u = store_begin(b->store, &b->req, S("b"), 1, &why);
    assert_non_null(u);
    assert_ok(store_write(u, S("x"), e));
    b->req.deadline_mono_ns = 1;
    store_read_many(b->store, &b->req, v, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(v[i].ok ? ERR_OK : v[i].fault.code, ERR_DEADLINE_EXCEEDED);
    assert_false(store_commit(u, &existed, &why));
    assert_int_equal(why.code, ERR_DEADLINE_EXCEEDED);
    b->req.deadline_mono_ns = 0;
    atomic_store(&b->req.canceled, true);
    assert_null(store_begin(b->store, &b->req, S("b"), 1, &why));
    assert_int_equal(why.code, ERR_CANCELED);
    assert_false(store_delete(b->store, &b->req, S("a"), &why));
    assert_int_equal(why.code, ERR_CANCELED);
    atomic_store(&b->req.canceled, false);
    assert_int_equal(bench_entries(b, "o"), 1);
    assert_int_equal(bench_entries(b, "t"), 1);
}

// ---- deleting

static void many_objects_are_deleted_at_once(void **state)
{
    enum {
        N = 200
    };
    static char names[N][32];
    static struct store_removal v[N + 2];
    struct bench *b = *state;
    for (size_t i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "f%zu/g%zu/%03zu", i % 3, i % 7, i);
        v[i] = (struct store_removal){.name = str_of(names[i])};
        if (i != 5) bench_put(b, names[i], S("x"));  // one is not there, which is fine
    }
    bench_put(b, "stays", S("x"));
    v[N] = v[20];  // one twice, one with a name that is none
    v[20] = (struct store_removal){.name = S("a//b")};
    v[N + 1] = (struct store_removal){.name = S("f0")};
    store_delete_many(b->store, &b->req, v, N + 2);
    for (size_t i = 0; i < N + 2; i++)
        assert_int_equal(v[i].ok ? ERR_OK : v[i].fault.code,
                         i == 20 ? ERR_INVALID_ARGUMENT : ERR_OK);
    assert_int_equal(bench_entries(b, "o"), 1);
    b->req.deadline_mono_ns = 1;
    v[0].name = v[1].name = S("stays");
    store_delete_many(b->store, &b->req, v, 2);
    b->req.deadline_mono_ns = 0;
    assert_int_equal(v[0].fault.code, ERR_DEADLINE_EXCEEDED);
    assert_false(v[0].ok || v[1].ok);
    assert_int_equal(bench_entries(b, "o"), 1);
    store_delete_many(b->store, &b->req, v, 0);
}

static void sizes_of_many_objects_are_told_at_once(void **state)
{
    enum {
        N = 200
    };
    static char names[N][32];
    static struct store_sizing v[N];
    struct bench *b = *state;
    for (size_t i = 0; i < N; i++) {
        char bytes[N] = {0};
        snprintf(names[i], sizeof names[i], "f%zu/%03zu", i % 3, i);
        v[i] = (struct store_sizing){.name = str_of(names[i]), .ok = true};
        if (i != 5) bench_put(b, names[i], str_make(bytes, i));
    }
    v[20].name = S("a//b");
    store_size_many(b->store, &b->req, v, N);
    for (size_t i = 0; i < N; i++) {
        enum err_code wanted = i == 5 ? ERR_NOT_FOUND : i == 20 ? ERR_INVALID_ARGUMENT : ERR_OK;
        assert_int_equal(v[i].ok ? ERR_OK : v[i].fault.code, wanted);
        if (v[i].ok) assert_int_equal(v[i].size, i);
    }
    b->req.deadline_mono_ns = 1;
    store_size_many(b->store, &b->req, v, 2);
    b->req.deadline_mono_ns = 0;
    assert_false(v[0].ok || v[1].ok);
    assert_int_equal(v[0].fault.code, ERR_DEADLINE_EXCEEDED);
    store_size_many(b->store, &b->req, v, 0);
}

// ---- listing

struct words {
    char text[4096];
    size_t most;
    size_t n;
};

static bool add_word(void *arg, str name, uint64_t size, err *e)
{
    struct words *w = arg;
    size_t n = strlen(w->text);
    int more = snprintf(w->text + n, sizeof w->text - n, "%s%.*s:%llu", n ? " " : "", STR(name),
                        (unsigned long long)size);
    assert_in_range(more, 1, sizeof w->text - n - 1);
    if (++w->n == w->most) return err_set(e, ERR_ABORTED, "enough");
    return true;
}

static void lists_are_in_order_and_begin_where_told(void **state)
{
    struct bench *b = *state;
    static const char *const names[] = {"b", "a/b", "a-b/c", "a/a/c", "a0", "a/a-b", "a/a0/x/y"};
    for (size_t i = 0; i < COUNT(names); i++)
        bench_put(b, names[i], str_of(names[i]));
    char path[DIR_PATH_MAX];
    int fd = open(dir_path(path, b->dir, "o/a/what is this"), O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);  // nothing that we made
    assert_int_equal(close(fd), 0);
    assert_int_equal(symlink("/", dir_path(path, b->dir, "o/a/link")), 0);
    static const struct {
        const char *prefix, *after, *expected;
    } cases[] = {
        {"", "", "a-b/c:5 a/a-b:5 a/a/c:5 a/a0/x/y:8 a/b:3 a0:2 b:1"},
        {"a/", "", "a/a-b:5 a/a/c:5 a/a0/x/y:8 a/b:3"},
        {"a/a", "", "a/a-b:5 a/a/c:5 a/a0/x/y:8"},
        {"a/a/", "", "a/a/c:5"},
        {"a/", "a/a-b", "a/a/c:5 a/a0/x/y:8 a/b:3"},
        {"a/", "a/a/c", "a/a0/x/y:8 a/b:3"},
        {"a/", "a/a0/x", "a/a0/x/y:8 a/b:3"},
        {"a/", "a", "a/a-b:5 a/a/c:5 a/a0/x/y:8 a/b:3"},
        {"a/", "a/b", ""},
        {"a/", "b", ""},
        {"a", "a/az", "a/b:3 a0:2"},
        {"a-b/c", "", "a-b/c:5"},
        {"a-b/cc", "", ""},
        {"c", "", ""},
        {"c/d/", "", ""},
        {"b/", "", ""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct words w = {0};
        assert_ok(store_list(b->store, &b->req, str_of(cases[i].prefix), str_of(cases[i].after),
                             add_word, &w, e));
        assert_string_equal(w.text, cases[i].expected);
    }
    struct words w = {.most = 2};
    err why = {0};
    assert_false(store_list(b->store, &b->req, S(""), S(""), add_word, &w, &why));
    assert_int_equal(why.code, ERR_ABORTED);
    assert_string_equal(w.text, "a-b/c:5 a/a-b:5");
}

static bool put_another(void *arg, str name, uint64_t size, err *e)
{
    struct bench *b = arg;
    char next[64];
    (void)size;
    snprintf(next, sizeof next, "%.*s+", STR(name));
    bool existed = false;
    return name.n > 20 || (store_put(b->store, &b->req, str_of(next), S("x"), &existed, e) &&
                           store_delete(b->store, &b->req, name, e));
}

static void a_list_may_change_what_it_lists(void **state)
{
    struct bench *b = *state;
    static const char *const names[] = {"l/a/1", "l/a/2", "l/b/1", "l/c"};
    for (size_t i = 0; i < COUNT(names); i++)
        bench_put(b, names[i], S("x"));
    assert_ok(store_list(b->store, &b->req, S("l/"), S(""), put_another, b, e));
    struct words w = {0};
    assert_ok(store_list(b->store, &b->req, S("l/"), S(""), add_word, &w, e));
    assert_string_equal(w.text, "l/a/1+:1 l/a/2+:1 l/b/1+:1 l/c+:1");
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

struct runner {
    struct bench *bench;
    unsigned who;
    unsigned rounds;
    err why;
};

// Creates and deletes objects in folders that others empty at the same time, and reads in between.
static void *churn(void *arg)
{
    struct runner *x = arg;
    struct bench *b = x->bench;
    struct req r;
    req_init(&r, RANK_DUTY, NULL, 1 << 16, 0);
    bool ok = true;
    for (unsigned i = 0; ok && i < x->rounds; i++) {
        char name[32];
        char to[2][5];
        bool existed = false;
        struct words w = {0};
        snprintf(name, sizeof name, "c/%u/d/%u", i % 2, x->who);
        struct store_read v[2] = {{.name = str_of(name), .n = 5, .to = to[0]},
                                  {.name = str_of(name), .at = 1, .n = 4, .to = to[1]}};
        ok = store_put(b->store, &r, str_of(name), S("churn"), &existed, &x->why);
        if (ok) store_read_many(b->store, &r, v, 2);
        ok = ok && store_list(b->store, &r, S("c/"), S(""), add_word, &w, &x->why);
        if (ok && (existed || !v[0].ok || !v[1].ok || memcmp(to[1], "hurn", 4) != 0 ||
                   !strstr(w.text, name)))
            ok = err_set(&x->why, ERR_INTERNAL, "%s: existed %d, read %d %d, list %s", name,
                         existed, v[0].ok, v[1].ok, w.text);
        ok = ok && store_delete(b->store, &r, str_of(name), &x->why);
    }
    req_release(&r);
    return NULL;
}

static void folders_come_and_go_under_many_threads(void **state)
{
    enum {
        THREADS = 4
    };
    struct bench *b = *state;
    pthread_t threads[THREADS];
    struct runner runners[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        runners[i] = (struct runner){.bench = b, .who = i, .rounds = 60};
        assert_int_equal(pthread_create(&threads[i], NULL, churn, &runners[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_string_equal(runners[i].why.msg, "");
    }
    assert_int_equal(bench_entries(b, "o"), 0);
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
        BOTH(an_object_is_created_once_and_read_back),
        BOTH(objects_are_there_when_the_store_is_opened_again),
        BOTH(pieces_of_any_size_make_one_object),
        BOTH(an_upload_given_up_leaves_nothing),
        BOTH(a_name_is_no_folder_of_others),
        BOTH(pieces_are_read_in_any_order),
        BOTH(pieces_that_lie_close_are_read_at_once),
        BOTH(what_is_not_there_is_told_piece_by_piece),
        BOTH(requests_that_ended_do_nothing),
        BOTH(many_objects_are_deleted_at_once),
        BOTH(sizes_of_many_objects_are_told_at_once),
        BOTH(lists_are_in_order_and_begin_where_told),
        BOTH(a_list_may_change_what_it_lists),
        BOTH(folders_go_with_their_last_object),
        BOTH(unfinished_files_of_the_dead_are_swept_and_no_others),
        BOTH(a_directory_that_cannot_be_used_is_told_in_one_line),
        BOTH(a_store_that_is_not_there_any_more_is_unavailable_and_not_empty),
        BOTH(one_operation_at_a_time_is_enough),
        BOTH(a_store_for_reading_only_changes_nothing),
        BOTH(a_folder_of_unfinished_files_that_was_removed_is_made_anew),
        BOTH(of_processes_that_create_one_name_exactly_one_wins),
        BOTH(folders_come_and_go_under_many_threads),
        BOTH(processes_open_one_directory_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
