// SPDX-License-Identifier: Apache-2.0
//
// Allocations fail while answers are read, requests are signed and a store is opened: each succeeds
// or tells. What the engine does then is tried in s3/torture_test.c.
#include "azure/azure.h"
#include "azure/sign.h"
#include "lib/test.h"
#include "lib/torture.h"

static bool make_page(struct torture_bench *b, void *arg, err *e)
{
    struct s3_page page;
    (void)arg;
    bool ok = azure_read_page(
        &b->arena,
        S("<EnumerationResults><Blobs><Blob><Name>a</Name><Properties><Content-Length>1"
          "</Content-Length></Properties></Blob></Blobs><NextMarker>m</NextMarker>"
          "</EnumerationResults>"),
        &page, e);
    if (ok) buf_printf(&b->out, "%zu %.*s", page.n, STR(page.next));
    return ok;
}

static bool make_token(struct torture_bench *b, void *arg, err *e)
{
    struct azure_token t;
    (void)arg;
    bool ok =
        azure_read_token(&b->arena, S("{\"access_token\":\"a\\u002eb\",\"expires_in\":1}"), &t, e);
    if (ok) buf_str(&b->out, t.token);
    return ok;
}

static bool make_signature(struct torture_bench *b, void *arg, err *e)
{
    struct http_headers h = {0};
    const struct azure_signing s = {.account = S("a"),
                                    .key = S("key"),
                                    .method = "GET",
                                    .path = S("/c"),
                                    .query = S("comp=list&prefix=a%2Fb")};
    (void)arg;
    http_headers_add(&h, &b->arena, S("x-ms-date"), S("now"));
    azure_sign(&s, &h, &b->arena);
    if (!arena_ok(&b->arena, e)) return false;
    buf_str(&b->out, http_headers_get(&h, "authorization"));
    return true;
}

static void answers_are_read_or_memory_is_told(void **state)
{
    static const struct torture_maker makers[] = {
        {.name = "azure.page", .make = make_page},
        {.name = "azure.token", .make = make_token},
        {.name = "azure.signature", .make = make_signature},
    };
    (void)state;
    torture_make_all(makers, COUNT(makers));
}

static bool open_and_close(void *arg, err *e)
{
    struct azure_options o = {.account = "mine",
                              .container = "container",
                              .keys = {.account_key = "a2V5"},
                              .memory = arg};
    struct store *s = store_open_azure(&o, e);
    store_close(s);
    return s != NULL;
}

static void a_store_opens_or_tells(void **state)
{
    struct mem_budget memory;
    (void)state;
    mem_budget_init(&memory, "store", NULL, (size_t)64 << 20);
    torture_work(&(struct torture_work){
        .name = "azure.open", .run = open_and_close, .arg = &memory, .is_start = true});
    assert_int_equal(atomic_load(&memory.used), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_read_or_memory_is_told),
        cmocka_unit_test(a_store_opens_or_tells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
