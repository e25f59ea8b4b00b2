// SPDX-License-Identifier: Apache-2.0
#include "unit/store/bench.h"

struct store *bench_open(struct bench *b)
{
    struct store_local_options o = {.dir = b->dir,
                                    .memory = &b->memory,
                                    .no_uring = b->no_uring,
                                    .width = 4};
    struct store *s = NULL;
    assert_ok((s = store_open_local(&o, e)) != NULL);
    return s;
}

void bench_init(struct bench *b, bool no_uring)
{
    *b = (struct bench){.no_uring = no_uring, .open = bench_open};
    dir_new(b->dir);
    mem_budget_init(&b->memory, "store", NULL, (size_t)64 << 20);
    req_init(&b->req, RANK_DUTY, NULL, 1 << 20, 0);
    b->store = bench_open(b);
}

void bench_release(struct bench *b)
{
    store_close(b->store);
    req_release(&b->req);
    assert_int_equal(atomic_load(&b->memory.used), 0);
    dir_remove(b->dir);
}

void bench_put(struct bench *b, const char *name, str bytes)
{
    bool existed = true;
    assert_ok(store_put(b->store, &b->req, str_of(name), bytes, &existed, e));
    assert_false(existed);
}

static bool count(void *arg, str name, uint64_t size, err *e)
{
    (void)name, (void)size, (void)e;
    *(int *)arg += 1;
    return true;
}

int bench_objects(struct bench *b)
{
    int n = 0;
    assert_ok(store_list(b->store, &b->req, S(""), S(""), count, &n, e));
    return n;
}

int bench_unfinished(const struct bench *b)
{
    return b->dir[0] ? bench_entries(b, "t") - 1 : 0;  // without the lock
}

int bench_entries(const struct bench *b, const char *folder)
{
    char path[DIR_PATH_MAX];
    int n = 0;
    DIR *d = opendir(dir_path(path, b->dir, folder));
    if (!d) return -1;
    while (readdir(d))
        n += 1;
    closedir(d);
    return n - 2;
}
