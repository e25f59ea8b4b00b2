// SPDX-License-Identifier: Apache-2.0
#include "unit/store/table.h"

#include "store/check.h"
#include "sys/clock.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

// Bytes that differ from place to place and from object to object.
static void fill(char *p, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (char)((i * 2654435761u + seed * 40503u) >> 13);
}

// ---- creating, reading, deleting

void an_object_is_created_once_and_read_back(void **state)
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
    assert_int_equal(bench_unfinished(b), 0);
    uint64_t size = 0;
    assert_ok(store_size(b->store, &b->req, S("v1/a/b"), &size, e));
    assert_int_equal(size, 5);
}

void objects_are_there_when_the_store_is_opened_again(void **state)
{
    struct bench *b = *state;
    bench_put(b, "v1/x", S("kept"));
    bench_put(b, "empty", S(""));
    store_close(b->store);
    b->store = b->open(b);
    char to[4];
    assert_ok(store_read(b->store, &b->req, S("v1/x"), 0, 4, to, e));
    assert_memory_equal(to, "kept", 4);
    uint64_t size = 1;
    assert_ok(store_size(b->store, &b->req, S("empty"), &size, e));
    assert_int_equal(size, 0);
}

void pieces_of_any_size_make_one_object(void **state)
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

void an_upload_given_up_leaves_nothing(void **state)
{
    struct bench *b = *state;
    err why = {0};
    struct store_upload *u = store_begin(b->store, &b->req, S("a/b"), 3, &why);
    assert_non_null(u);
    assert_ok(store_write(u, S("abc"), e));
    store_abandon(u);
    assert_int_equal(bench_unfinished(b), 0);
    assert_int_equal(bench_objects(b), 0);
}

void pieces_are_read_in_any_order(void **state)
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

void what_is_not_there_is_told_piece_by_piece(void **state)
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

void requests_that_ended_do_nothing(void **state)
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
    assert_int_equal(bench_objects(b), 1);
    assert_int_equal(bench_unfinished(b), 0);
}

void many_objects_are_deleted_at_once(void **state)
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
    assert_int_equal(bench_objects(b), 1);
    b->req.deadline_mono_ns = 1;
    v[0].name = v[1].name = S("stays");
    store_delete_many(b->store, &b->req, v, 2);
    b->req.deadline_mono_ns = 0;
    assert_int_equal(v[0].fault.code, ERR_DEADLINE_EXCEEDED);
    assert_false(v[0].ok || v[1].ok);
    assert_int_equal(bench_objects(b), 1);
    store_delete_many(b->store, &b->req, v, 0);
}

// ---- sizes

void sizes_of_many_objects_are_told_at_once(void **state)
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

// Names in the directory that nobody made as an object.
static void bench_add_foreign(const struct bench *b)
{
    char path[DIR_PATH_MAX];
    int fd = open(dir_path(path, b->dir, "o/a/what is this"), O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);  // nothing that we made
    assert_int_equal(close(fd), 0);
    assert_int_equal(symlink("/", dir_path(path, b->dir, "o/a/link")), 0);
}

void lists_are_in_order_and_begin_where_told(void **state)
{
    struct bench *b = *state;
    static const char *const names[] = {"b", "a/b", "a-b/c", "a/a/c", "a0", "a/a-b", "a/a0/x/y"};
    for (size_t i = 0; i < COUNT(names); i++)
        bench_put(b, names[i], str_of(names[i]));
    if (b->dir[0]) bench_add_foreign(b);
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

void a_list_may_change_what_it_lists(void **state)
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

// ---- races

struct runner {
    struct bench *bench;
    unsigned who;
    unsigned rounds;
    err why;
};

// A service whose objects are files (versitygw) may say that a name is taken, and then that there
// is no object, if somebody else removes the folder at that moment. So it is not known what became
// of the creation, and it is tried again, as callers do.
static bool put_at_last(struct bench *b, struct req *r, str name, bool *existed, err *e)
{
    for (unsigned tries = b->dir[0] ? 1 : 20;; tries--) {
        if (store_put(b->store, r, name, S("churn"), existed, e)) return true;
        if (tries == 1 || e->code != ERR_UNAVAILABLE) return false;
        *e = (err){0};
    }
}

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
        ok = put_at_last(b, &r, str_of(name), &existed, &x->why);
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

void folders_come_and_go_under_many_threads(void **state)
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
    }
    for (unsigned i = 0; i < THREADS; i++)
        assert_string_equal(runners[i].why.msg, "");
    assert_int_equal(bench_objects(b), 0);
    assert_int_equal(bench_unfinished(b), 0);
}

struct racer {
    struct bench *bench;
    pthread_barrier_t *start;
    unsigned who;
    unsigned rounds;
    bool won[64];
    err why;
};

static void *race(void *arg)
{
    struct racer *x = arg;
    struct req r;
    struct store *s = x->bench->open(x->bench);
    req_init(&r, RANK_DUTY, NULL, 1 << 20, 0);
    for (unsigned i = 0; i < x->rounds; i++) {
        char name[32];
        char text[16];
        bool existed = false;
        snprintf(name, sizeof name, "race/%u", i);
        snprintf(text, sizeof text, "%u", x->who);
        (void)pthread_barrier_wait(x->start);
        if (!store_put(s, &r, str_of(name), str_of(text), &existed, &x->why)) continue;
        x->won[i] = !existed;
    }
    req_release(&r);
    store_close(s);
    return NULL;
}

void of_clients_that_create_one_name_exactly_one_wins(void **state)
{
    enum {
        CLIENTS = 6,
        ROUNDS = 20
    };
    struct bench *b = *state;
    pthread_t threads[CLIENTS];
    pthread_barrier_t start;
    static struct racer racers[CLIENTS];
    assert_int_equal(pthread_barrier_init(&start, NULL, CLIENTS), 0);
    for (unsigned i = 0; i < CLIENTS; i++) {
        racers[i] = (struct racer){.bench = b, .start = &start, .who = i, .rounds = ROUNDS};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (unsigned i = 0; i < CLIENTS; i++)
        assert_string_equal(racers[i].why.msg, "");
    for (unsigned i = 0; i < ROUNDS; i++) {
        char name[32];
        char text = 0;
        unsigned winners = 0;
        snprintf(name, sizeof name, "race/%u", i);
        assert_ok(store_read(b->store, &b->req, str_of(name), 0, 1, &text, e));
        for (unsigned who = 0; who < CLIENTS; who++) {
            winners += racers[who].won[i];
            if (racers[who].won[i]) assert_int_equal(text, '0' + (int)who);
        }
        assert_int_equal(winners, 1);
    }
    (void)pthread_barrier_destroy(&start);
}

void two_clients_see_each_others_changes(void **state)
{
    struct bench *b = *state;
    struct store *other = b->open(b);
    assert_ok(store_check(b->store, other, (id128){0}, &b->req, e));
    store_close(other);
    assert_int_equal(bench_objects(b), 0);
}

// By the store's clock: that of the bucket of the unit tests is days behind ours.
void an_object_has_an_age(void **state)
{
    struct bench *b = *state;
    int64_t age_ns = -1;
    err why = {0};
    bench_put(b, "v1/a", S("x"));
    assert_ok(store_age(b->store, &b->req, S("v1/a"), &age_ns, e));
    assert_true(age_ns >= 0 && age_ns < INT64_C(3600) * NS_PER_S);
    assert_false(store_age(b->store, &b->req, S("v1"), &age_ns, &why));
    assert_int_equal(why.code, ERR_NOT_FOUND);
    assert_false(store_age(b->store, &b->req, S("v1/b"), &age_ns, &why));
    assert_int_equal(why.code, ERR_NOT_FOUND);
    assert_int_equal(bench_unfinished(b), 0);
}

void a_list_tells_of_one_name_whether_it_is_there(void **state)
{
    struct bench *b = *state;
    static const struct {
        const char *name;
        bool lacks;
    } cases[] = {{"v1/a/1", false},
                 {"v1/a/10", false},
                 {"v1/a/100", true},
                 {"v1/a/0", true},
                 {"v1/b/1", true}};
    bench_put(b, "v1/a/1", S("x"));
    bench_put(b, "v1/a/10", S("x"));
    for (size_t i = 0; i < COUNT(cases); i++) {
        bool lacks = !cases[i].lacks;
        assert_ok(store_lacks(b->store, &b->req, str_of(cases[i].name), &lacks, e));
        if (lacks != cases[i].lacks) fail_msg("%s", cases[i].name);
    }
}
