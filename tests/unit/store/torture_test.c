// SPDX-License-Identifier: Apache-2.0
#include "bench.h"
#include "lib/torture.h"

#include <stdlib.h>

#define LARGE ((size_t)600 << 10)

struct state {
    struct bench b;
    char *bytes;  // LARGE of them
    bool no_uring;
    bool found;
};

static void begin(void *arg)
{
    struct state *s = arg;
    bench_init(&s->b, s->no_uring);
    bench_put(&s->b, "v1/a/1", S("one"));
    bench_put(&s->b, "v1/a/2", S("two"));
    bench_put(&s->b, "v1/b/3", str_make(s->bytes, LARGE));
}

// Whatever failed: who opens the directory next finds nothing unfinished, and all objects.
static void end(void *arg)
{
    struct state *s = arg;
    char to[3];
    store_close(s->b.store);
    s->b.store = bench_open(&s->b);
    assert_int_equal(bench_entries(&s->b, "t"), 1);
    assert_ok(store_read(s->b.store, &s->b.req, S("v1/a/1"), 0, 3, to, e));
    assert_memory_equal(to, "one", 3);
    bench_release(&s->b);
}

// ---- open

static bool run_open(void *arg, err *e)
{
    struct state *s = arg;
    struct store_local_options o = {.dir = s->b.dir,
                                    .memory = &s->b.memory,
                                    .no_uring = s->no_uring,
                                    .width = 4};
    struct store *again = store_open_local(&o, e);
    store_close(again);
    return again != NULL;
}

// ---- create: what failed may have happened, and then is as it was meant

static bool put(struct state *s, str name, str first, str second, err *e)
{
    bool existed = false;
    struct store_upload *u = store_begin(s->b.store, &s->b.req, name, first.n, e);
    if (!u) return false;
    if (store_write(u, first, e) && store_write(u, second, e)) return store_commit(u, &existed, e);
    store_abandon(u);
    return false;
}

static bool run_create(void *arg, err *e)
{
    struct state *s = arg;
    return put(s, S("v1/new/folder/small"), S("small"), S(" object"), e) &&
           put(s, S("v1/b/large"), str_make(s->bytes, 100), str_make(s->bytes + 100, LARGE - 100),
               e);
}

static void check_create(void *arg, bool done)
{
    struct state *s = arg;
    char small[12];
    struct req r;
    req_init(&r, RANK_DUTY, NULL, 1 << 16, 0);
    char *large = malloc(LARGE);
    struct store_read v[] = {
        {.name = S("v1/new/folder/small"), .n = 12, .to = small},
        {.name = S("v1/b/large"), .n = LARGE, .to = large},
    };
    assert_non_null(large);
    store_read_many(s->b.store, &r, v, 2);
    for (size_t i = 0; i < 2; i++)
        assert_true(v[i].ok || (!done && v[i].fault.code == ERR_NOT_FOUND));
    if (v[0].ok) assert_memory_equal(small, "small object", 12);
    if (v[1].ok) assert_memory_equal(large, s->bytes, LARGE);
    free(large);
    req_release(&r);
}

// ---- read

#define PIECES 40

static bool run_read(void *arg, err *e)
{
    struct state *s = arg;
    char small[2][3];
    static char large[PIECES][300];
    struct store_read v[PIECES + 3] = {
        {.name = S("v1/a/1"), .n = 3, .to = small[0]},
        {.name = S("v1/a/2"), .n = 3, .to = small[1]},
        {.name = S("v1/none"), .n = 3, .to = small[1]},
    };
    for (size_t i = 0; i < PIECES; i++)
        v[i + 3] = (struct store_read){.name = S("v1/b/3"),
                                       .at = i * (LARGE / PIECES) / (i % 2 + 1),
                                       .n = 300,
                                       .to = large[i]};
    store_read_many(s->b.store, &s->b.req, v, COUNT(v));
    bool ok = true;
    for (size_t i = 0; i < COUNT(v); i++) {
        bool none = str_is(v[i].name, "v1/none");
        assert_true(!none || !v[i].ok);
        if (none && v[i].fault.code == ERR_NOT_FOUND) continue;
        if (!v[i].ok) *e = v[i].fault;
        ok = ok && v[i].ok;
        if (i >= 3 && v[i].ok) assert_memory_equal(v[i].to, s->bytes + v[i].at, 300);
    }
    if (v[0].ok) assert_memory_equal(small[0], "one", 3);
    if (v[1].ok) assert_memory_equal(small[1], "two", 3);
    uint64_t size = 0;
    return ok && store_size(s->b.store, &s->b.req, S("v1/a/1"), &size, e);
}

// ---- list

struct names {
    char text[256];
};

static bool add_name(void *arg, str name, uint64_t size, err *e)
{
    struct names *x = arg;
    (void)e;
    (void)size;
    size_t n = strlen(x->text);
    assert_in_range(snprintf(x->text + n, sizeof x->text - n, "%.*s ", STR(name)), 1,
                    sizeof x->text - n - 1);
    return true;
}

static bool run_list(void *arg, err *e)
{
    struct state *s = arg;
    struct names all = {""};
    if (!store_list(s->b.store, &s->b.req, S("v1/"), S(""), add_name, &all, e)) return false;
    assert_string_equal(all.text, "v1/a/1 v1/a/2 v1/b/3 ");
    return true;
}

// ---- delete

static bool run_delete(void *arg, err *e)
{
    struct state *s = arg;
    return store_delete(s->b.store, &s->b.req, S("v1/a/2"), e) &&
           store_delete(s->b.store, &s->b.req, S("v1/b/3"), e) &&
           store_delete(s->b.store, &s->b.req, S("v1/none/4"), e);
}

static void check_delete(void *arg, bool done)
{
    struct state *s = arg;
    struct req r;
    req_init(&r, RANK_DUTY, NULL, 1 << 16, 0);
    struct names all = {""};
    assert_ok(store_list(s->b.store, &r, S("v1/"), S(""), add_name, &all, e));
    if (done) assert_string_equal(all.text, "v1/a/1 ");
    assert_non_null(strstr(all.text, "v1/a/1"));
    req_release(&r);
}

static void a_store_survives_failing_memory_files_and_rings(void **state)
{
    struct state s = {.no_uring = *(const bool *)*state};
    s.bytes = mem_must(LARGE);
    for (size_t i = 0; i < LARGE; i++)
        s.bytes[i] = (char)((i * 2654435761u) >> 13);
    const struct torture_work works[] = {
        {.name = "store.open", .run = run_open, .is_start = true},
        {.name = "store.create", .run = run_create, .check = check_create},
        {.name = "store.read", .run = run_read},
        {.name = "store.list", .run = run_list},
        {.name = "store.delete", .run = run_delete, .check = check_delete},
    };
    for (size_t i = 0; i < COUNT(works); i++) {
        struct torture_work w = works[i];
        w.begin = begin;
        w.end = end;
        w.arg = &s;
        w.lives_on = !s.no_uring;  // rings are kept
        struct torture_count n = torture_work(&w);
        print_message("%s: %u allocations, %u calls, %u runs failed\n", w.name, n.allocations,
                      n.calls, n.failed);
        assert_true(n.calls >= 4);
        assert_true(n.failed > 0);
    }
    mem_must_free(s.bytes);
}

int main(void)
{
    static bool uring = false;
    static bool threads = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(a_store_survives_failing_memory_files_and_rings, &uring),
        cmocka_unit_test_prestate(a_store_survives_failing_memory_files_and_rings, &threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
