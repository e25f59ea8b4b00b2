// SPDX-License-Identifier: Apache-2.0
#include "unit/s3/bucket_table.h"

#include "sys/rand.h"

static const char *bucket_name;
static enum s3_dialect spoken;

static struct store *open_bucket(struct bench *b)
{
    struct s3_options o = {.endpoint = b->endpoint,
                           .bucket = bucket_name,
                           .prefix = b->prefix,
                           .dialect = spoken,
                           .path_style = true,
                           .keys = {.access_key = "AKTEST", .secret_key = "secretkey"},
                           .memory = &b->memory};
    struct store *s = NULL;
    assert_ok((s = store_open_s3(&o, e)) != NULL);
    return s;
}

void bucket_bench_init(struct bench *b, const char *endpoint, const char *bucket,
                       enum s3_dialect dialect)
{
    bucket_name = bucket;
    spoken = dialect;
    bucket_bench_begin(b, endpoint, open_bucket);
}

void bucket_bench_begin(struct bench *b, const char *endpoint,
                        struct store *(*open)(struct bench *))
{
    *b = (struct bench){.endpoint = endpoint, .open = open};
    snprintf(b->prefix, sizeof b->prefix, "%016llx/", (unsigned long long)rand_u64());
    mem_budget_init(&b->memory, "store", NULL, (size_t)256 << 20);
    req_init(&b->req, RANK_DUTY, NULL, 1 << 20, 0);
    b->store = b->open(b);
}

void bucket_bench_release(struct bench *b)
{
    store_close(b->store);
    req_release(&b->req);
    assert_int_equal(atomic_load(&b->memory.used), 0);
}

// ---- the table

static void expect(struct bench *b, const char *name, str bytes)
{
    struct buf back;
    uint64_t size = UINT64_MAX;
    assert_ok(store_size(b->store, &b->req, str_of(name), &size, e));
    assert_int_equal(size, bytes.n);
    buf_init(&back, NULL, (size_t)100 << 20);
    assert_ok(store_get(b->store, &b->req, str_of(name), &back, e));
    assert_true(str_eq(buf_view(&back), bytes));
    buf_release(&back);
}

void large_objects_go_up_in_parts(void **state)
{
    struct bench *b = *state;
    static const size_t sizes[] = {
        0,
        1,
        (size_t)8 << 20,
        ((size_t)32 << 20) + 1,
    };
    size_t most = sizes[COUNT(sizes) - 1];
    char *bytes = malloc(most);
    for (size_t i = 0; i < most; i++)
        bytes[i] = (char)(i * 2654435761u >> 13);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        char name[40];
        str all = str_make(bytes, sizes[i]);
        bool existed = false;
        snprintf(name, sizeof name, "v1/large/%zu", sizes[i]);
        bench_put(b, name, all);
        expect(b, name, all);
        assert_ok(store_put(b->store, &b->req, str_of(name), all, &existed, e));
        if (!existed) fail_msg("size %zu: the second creation is not refused", sizes[i]);
        snprintf(name, sizeof name, "v1/unique/%zu", sizes[i]);
        assert_ok(store_put_unique(b->store, &b->req, str_of(name), all, e));
        expect(b, name, all);
    }
    free(bytes);
}

// Both go up at the same time, and one ends first. The other is told so whether the service has
// dropped its parts by then or not.
void of_two_large_creations_one_wins(void **state)
{
    struct bench *b = *state;
    const str name = S("v1/large/two");
    size_t n = ((size_t)40 << 20) + 1;
    char *bytes = malloc(n);
    struct store_upload *u[2];
    bool existed[2] = {false, false};
    for (unsigned i = 0; i < 2; i++) {
        memset(bytes, 'a' + (int)i, n);
        assert_ok((u[i] = store_begin(b->store, &b->req, name, n, e)) != NULL);
        assert_ok(store_write(u[i], str_make(bytes, n), e));
    }
    for (unsigned i = 2; i-- > 0;)
        assert_ok(store_commit(u[i], &existed[i], e));
    assert_true(existed[0] && !existed[1]);
    expect(b, name.p, str_make(bytes, n));
    free(bytes);
}

void many_objects_are_listed_and_deleted(void **state)
{
    enum {
        N = 1100
    };
    struct bench *b = *state;
    static struct store_removal v[N];
    static char names[N][32];
    for (size_t i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "v1/many/%06zu&<a>+%%", i);
        bench_put(b, names[i], S("x"));
        v[i] = (struct store_removal){.name = str_of(names[i])};
    }
    assert_int_equal(bench_objects(b), N);
    store_delete_many(b->store, &b->req, v, N);
    for (size_t i = 0; i < N; i++)
        if (!v[i].ok) fail_msg("%s: %s", names[i], v[i].fault.msg);
    assert_int_equal(bench_objects(b), 0);
}

// Begins an upload in parts and leaves it, as a process does that is killed.
static struct store_upload *leave(struct bench *b, const char *name, const char *bytes, size_t n)
{
    err why = {0};
    struct store_upload *u = store_begin_unique(b->store, &b->req, str_of(name), n, &why);
    assert_non_null(u);
    assert_ok(store_write(u, str_make(bytes, n), e));
    return u;
}

void uploads_that_were_left_are_swept(void **state)
{
    struct bench *b = *state;
    size_t n = (size_t)40 << 20;
    char *bytes = calloc(1, n);
    uint64_t dropped = 0;
    bool existed = false;
    struct store_upload *u[2] = {leave(b, "v1/left/a", bytes, n), leave(b, "v1/left/b", bytes, n)};
    assert_ok(store_tidy(b->store, &b->req, (uint64_t)24 * 3600 * 1000000000, &dropped, e));
    assert_int_equal(dropped, 0);
    assert_ok(store_commit(u[1], &existed, e));  // one that goes on is not disturbed
    assert_ok(store_tidy(b->store, &b->req, 0, &dropped, e));
    assert_int_equal(dropped, 1);
    assert_ok(store_tidy(b->store, &b->req, 0, &dropped, e));
    assert_int_equal(dropped, 0);
    err why = {0};
    if (store_commit(u[0], &existed, &why)) fail_msg("an upload that was dropped has ended");
    assert_int_equal(bench_objects(b), 1);
    free(bytes);
}
