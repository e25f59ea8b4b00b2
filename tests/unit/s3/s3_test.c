// SPDX-License-Identifier: Apache-2.0
#include "lib/test.h"
#include "s3/s3.h"
#include "store/check.h"
#include "sys/rand.h"

#include <stdlib.h>

struct rig {
    struct mem_budget memory;
    struct req req;
    struct store *store;
    char prefix[64];
};

static struct store *open_again(struct rig *g)
{
    struct s3_options o = {.endpoint = getenv("FLAMETREE_S3_ENDPOINT"),
                           .bucket = "flametree-test",
                           .prefix = g->prefix,
                           .path_style = true,
                           .keys = {.access_key = "AKTEST", .secret_key = "secret"},
                           .memory = &g->memory};
    struct store *s = NULL;
    assert_ok((s = store_open_s3(&o, e)) != NULL);
    return s;
}

static int set_up(void **state)
{
    struct rig *g = calloc(1, sizeof *g);
    mem_budget_init(&g->memory, "store", NULL, (size_t)256 << 20);
    req_init(&g->req, RANK_DUTY, NULL, 1 << 20, 60 * (uint64_t)1000000000);
    snprintf(g->prefix, sizeof g->prefix, "%016llx/", (unsigned long long)rand_u64());
    g->store = open_again(g);
    *state = g;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *g = *state;
    store_close(g->store);
    req_release(&g->req);
    assert_int_equal(atomic_load(&g->memory.used), 0);
    free(g);
    return 0;
}

static void a_bucket_keeps_the_promises(void **state)
{
    struct rig *g = *state;
    struct store *other = open_again(g);
    id128 owner = {0};
    assert_ok(store_check(g->store, other, owner, &g->req, e));
    store_close(other);
}

static void put(struct rig *g, const char *name, str bytes)
{
    bool existed = true;
    assert_ok(store_put(g->store, &g->req, str_of(name), bytes, &existed, e));
    assert_false(existed);
}

static void large_objects_go_up_in_parts(void **state)
{
    struct rig *g = *state;
    size_t sizes[] = {0, 1, 5 << 20, 8 << 20, (8 << 20) + 1, 50 << 20};
    char *bytes = malloc(50 << 20);
    for (size_t i = 0; i < 50 << 20; i++)
        bytes[i] = (char)(i * 2654435761u >> 13);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        char name[40];
        uint64_t size = 7;
        struct buf back;
        snprintf(name, sizeof name, "v1/large/%zu", sizes[i]);
        put(g, name, str_make(bytes, sizes[i]));
        assert_ok(store_size(g->store, &g->req, str_of(name), &size, e));
        assert_int_equal(size, sizes[i]);
        buf_init(&back, NULL, 100 << 20);
        assert_ok(store_get(g->store, &g->req, str_of(name), &back, e));
        assert_true(str_eq(buf_view(&back), str_make(bytes, sizes[i])));
        buf_release(&back);
        bool existed = false;
        assert_ok(
            store_put(g->store, &g->req, str_of(name), str_make(bytes, sizes[i]), &existed, e));
        if (!existed) fail_msg("size %zu: the second creation is not refused", sizes[i]);
        snprintf(name, sizeof name, "v1/unique/%zu", sizes[i]);
        assert_ok(store_put_unique(g->store, &g->req, str_of(name), str_make(bytes, sizes[i]), e));
        buf_init(&back, NULL, 100 << 20);
        assert_ok(store_get(g->store, &g->req, str_of(name), &back, e));
        assert_true(str_eq(buf_view(&back), str_make(bytes, sizes[i])));
        buf_release(&back);
    }
    free(bytes);
}

static bool count(void *arg, str name, uint64_t size, err *e)
{
    size_t *n = arg;
    (void)e;
    (void)name;
    (void)size;
    ++*n;
    return true;
}

static void many_objects_are_listed_and_deleted(void **state)
{
    struct rig *g = *state;
    static struct store_removal v[2300];
    static char names[2300][32];
    size_t n = 0;
    for (size_t i = 0; i < COUNT(v); i++) {
        snprintf(names[i], sizeof names[i], "v1/many/%06zu&<a>", i);
        put(g, names[i], S("x"));
        v[i].name = str_of(names[i]);
    }
    assert_ok(store_list(g->store, &g->req, S("v1/many/"), (str){0}, count, &n, e));
    assert_int_equal(n, COUNT(v));
    n = 0;
    assert_ok(store_list(g->store, &g->req, S("v1/many/"), v[999].name, count, &n, e));
    assert_int_equal(n, COUNT(v) - 1000);
    store_delete_many(g->store, &g->req, v, COUNT(v));
    for (size_t i = 0; i < COUNT(v); i++)
        if (!v[i].ok) fail_msg("%s: %s", names[i], v[i].fault.msg);
    n = 0;
    assert_ok(store_list(g->store, &g->req, S("v1/"), (str){0}, count, &n, e));
    assert_int_equal(n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_bucket_keeps_the_promises, set_up, tear_down),
        cmocka_unit_test_setup_teardown(large_objects_go_up_in_parts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_objects_are_listed_and_deleted, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
