// SPDX-License-Identifier: Apache-2.0
//
// Allocations and calls fail, of a store in a bucket and of the service behind it: operations
// succeed or are told, and what was told to be there is there.
#include "lib/bucket.h"
#include "lib/torture.h"
#include "s3/answer.h"
#include "s3/s3.h"
#include "s3/sign.h"
#include "sys/clock.h"
#include "unit/s3/bucket_table.h"

#include <stdlib.h>

// ---- answers and signatures

static bool make_page(struct torture_bench *b, void *arg, err *e)
{
    struct s3_page page;
    (void)arg;
    bool ok = s3_read_page(&b->arena,
                           S("<ListBucketResult><Contents><Key>a</Key><Size>1</Size></Contents>"
                             "<IsTruncated>true</IsTruncated><NextContinuationToken>t"
                             "</NextContinuationToken></ListBucketResult>"),
                           &page, e);
    if (ok) buf_printf(&b->out, "%zu %.*s", page.n, STR(page.next));
    return ok;
}

static bool make_pending(struct torture_bench *b, void *arg, err *e)
{
    struct s3_pending_list list;
    (void)arg;
    bool ok = s3_read_pending(&b->arena,
                              S("<ListMultipartUploadsResult><Upload><Key>a</Key><UploadId>i"
                                "</UploadId></Upload></ListMultipartUploadsResult>"),
                              &list, e);
    if (ok) buf_printf(&b->out, "%zu %.*s", list.n, STR(list.v[0].id));
    return ok;
}

static bool make_deleted(struct torture_bench *b, void *arg, err *e)
{
    struct s3_removals list;
    (void)arg;
    bool ok = s3_read_deleted(&b->arena,
                              S("<DeleteResult><Error><Key>a</Key><Code>AccessDenied</Code></Error>"
                                "</DeleteResult>"),
                              &list, e);
    if (ok) buf_printf(&b->out, "%zu %.*s", list.n, STR(list.v[0].key));
    return ok;
}

static bool make_signature(struct torture_bench *b, void *arg, err *e)
{
    struct http_headers h = {0};
    const struct s3_signing s = {.signer = &s3_signer_amazon,
                                 .keys = {S("AK"), S("secret"), {0}},
                                 .region = S("us-east-1"),
                                 .method = "GET",
                                 .path = S("/b/k"),
                                 .body_hash = S(S3_UNSIGNED)};
    (void)arg;
    http_headers_add(&h, &b->arena, S("host"), S("localhost"));
    s3_sign(&s, &h, &b->arena);
    if (!arena_ok(&b->arena, e)) return false;
    buf_str(&b->out, http_headers_get(&h, "authorization"));
    return true;
}

static void answers_are_read_or_memory_is_told(void **state)
{
    static const struct torture_maker makers[] = {
        {.name = "s3.page", .make = make_page},
        {.name = "s3.pending", .make = make_pending},
        {.name = "s3.deleted", .make = make_deleted},
        {.name = "s3.signature", .make = make_signature},
    };
    (void)state;
    torture_make_all(makers, COUNT(makers));
}

// ---- the store

struct using
{
    struct bucket *bucket;
    struct bench b;
    unsigned runs;  // each has names of its own, since one that failed may have created objects
};

static bool note(void *arg, str name, uint64_t size, err *e)
{
    (void)name, (void)size, (void)e;
    ++*(unsigned *)arg;
    return true;
}

static bool is(bool there, const char *what, err *e)
{
    return there || err_set(e, ERR_INTERNAL, "%s", what);
}

static bool use(void *arg, err *e)
{
    struct using *u = arg;
    struct store *s = u->b.store;
    struct req r;
    bool existed = false;
    unsigned n = 0;
    uint64_t size = 0;
    char to[4] = "";
    char text[3][32];
    u->runs++;
    snprintf(text[0], sizeof text[0], "v1/%u/", u->runs);
    snprintf(text[1], sizeof text[1], "v1/%u/a", u->runs);
    snprintf(text[2], sizeof text[2], "v1/%u/b", u->runs);
    str a = str_of(text[1]);
    str b = str_of(text[2]);
    struct store_removal gone[2] = {{.name = a}, {.name = b}};
    // A service that can accept nobody any more leaves its clients waiting.
    req_init(&r, RANK_DUTY, &u->b.memory, 1 << 20, (torture_disturbs() ? 1 : 60) * NS_PER_S);
    bool ok = store_put(s, &r, a, S("once"), &existed, e) &&
              is(!existed, "a name was taken that was free", e) &&
              store_put_unique(s, &r, b, S("unique"), e) && store_size(s, &r, b, &size, e) &&
              is(size == 6, "another size", e) && store_read(s, &r, a, 0, 4, to, e) &&
              is(memcmp(to, "once", 4) == 0, "other bytes", e) &&
              store_list(s, &r, str_of(text[0]), (str){0}, note, &n, e) &&
              is(n == 2, "another number of names", e);
    if (ok) {
        store_delete_many(s, &r, gone, 2);
        ok = gone[0].ok && gone[1].ok;
        if (!ok) *e = gone[0].ok ? gone[1].fault : gone[0].fault;
    }
    req_release(&r);
    return ok;
}

static bool use_parts(void *arg, err *e)
{
    struct using *u = arg;
    struct req r;
    size_t n = (size_t)33 << 20;
    char *bytes = calloc(1, n);
    char name[32];
    snprintf(name, sizeof name, "v1/parts/%u", u->runs++);
    req_init(&r, RANK_DUTY, &u->b.memory, 1 << 20, (torture_disturbs() ? 2 : 60) * NS_PER_S);
    bool ok = store_put_unique(u->b.store, &r, str_of(name), str_make(bytes, n), e);
    req_release(&r);
    free(bytes);
    return ok;
}

static void operations_succeed_or_are_told(void **state)
{
    const struct torture_work works[] = {
        {.name = "s3.use", .run = use, .most = 60, .hurries = true},
        {.name = "s3.parts", .run = use_parts, .most = 5, .hurries = true},
    };
    struct using u = {.bucket = bucket_new()};
    (void)state;
    bucket_bench_init(&u.b, bucket_url(u.bucket), BUCKET, S3_DIALECT_AMAZON);
    for (size_t i = 0; i < COUNT(works); i++) {
        struct torture_work w = works[i];
        w.arg = &u;
        w.lives_on = true;
        w.codes = 1u << ERR_DEADLINE_EXCEEDED;
        struct torture_count n = torture_work(&w);
        assert_true(n.allocations > 10 && n.calls > 4);
    }
    bucket_bench_release(&u.b);
    bucket_free(u.bucket);
}

static bool open_and_close(void *arg, err *e)
{
    struct bench *b = arg;
    struct s3_options o = {.endpoint = "http://127.0.0.1:1",
                           .bucket = "bucket",
                           .path_style = true,
                           .keys = {.access_key = "A", .secret_key = "S"},
                           .memory = &b->memory};
    struct store *s = store_open_s3(&o, e);
    store_close(s);
    return s != NULL;
}

static void a_store_opens_or_tells(void **state)
{
    struct bench b = {0};
    (void)state;
    mem_budget_init(&b.memory, "store", NULL, (size_t)64 << 20);
    torture_work(&(struct torture_work){
        .name = "s3.open", .run = open_and_close, .arg = &b, .is_start = true});
    assert_int_equal(atomic_load(&b.memory.used), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_read_or_memory_is_told),
        cmocka_unit_test(a_store_opens_or_tells),
        cmocka_unit_test(operations_succeed_or_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
