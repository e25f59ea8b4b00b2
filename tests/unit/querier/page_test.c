// SPDX-License-Identifier: Apache-2.0
#include "codec/compress.h"
#include "lib/test.h"
#include "querier/querier.h"
#include "querier/request/assets.h"
#include "querier/request/page.h"

#include <stdio.h>

static void get(struct http_exchange *x, http_fn *fn, const char *path, const char *const *headers)
{
    memset(x, 0, sizeof *x);
    arena_init(&x->req.arena, NULL, 1 << 20);
    x->method = S("GET");
    x->path = str_of(path);
    for (size_t i = 0; headers && headers[i]; i += 2)
        http_headers_add(&x->headers, &x->req.arena, str_of(headers[i]), str_of(headers[i + 1]));
    assert_ok(fn(NULL, x, e));
}

static bool says(const struct http_exchange *x, const char *header, const char *value)
{
    return str_is(http_headers_get(&x->answer_headers, header), value);
}

static const struct asset *script(void)
{
    for (size_t i = 0; i < asset_count; i++) {
        if (str_ends(str_of(asset_table[i].path), S(".js"))) return &asset_table[i];
    }
    fail_msg("the page has no script");
    return NULL;
}

static void index_is_sent_with_its_policy(void **state)
{
    (void)state;
    struct http_exchange x;
    get(&x, page_index, "/flame", NULL);
    assert_int_equal(x.status, 200);
    assert_true(str_starts(x.fixed, S("<!doctype html>")) || str_starts(x.fixed, S("<!DOCTYPE")));
    assert_true(says(&x, "content-type", "text/html; charset=utf-8"));
    assert_true(says(&x, "cache-control", "no-cache"));
    assert_true(says(&x, "x-content-type-options", "nosniff"));
    assert_true(says(&x, "referrer-policy", "same-origin"));
    assert_true(says(&x, "content-encoding", ""));
    assert_true(says(&x, "vary", "Accept-Encoding"));
    assert_true(str_contains(http_headers_get(&x.answer_headers, "content-security-policy"),
                             S("default-src 'self'")));
    arena_release(&x.req.arena);
}

static void text_leaves_packed_for_those_who_accept_it(void **state)
{
    (void)state;
    static const struct {
        const char *accept;
        bool packed;
    } rows[] = {
        {"gzip", true},
        {"gzip, deflate, br", true},
        {"br;q=1.0, gzip;q=0.8", true},
        {"GZIP", true},
        {"*", true},
        {"identity", false},
        {"gzip;q=0", false},
        {"gzip; q=0.000", false},
        {"gzip;q=0.001", true},
        {"deflate, br", false},
        {"", false},
        {"x-gzip", false},
        {"identity;q=0,*", true},
        {"gzipped", false},
    };
    const struct asset *js = script();
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *headers[] = {"accept-encoding", rows[i].accept, NULL};
        struct http_exchange x;
        get(&x, page_asset, js->path, headers);
        assert_int_equal(x.status, 200);
        if (says(&x, "content-encoding", "gzip") != rows[i].packed) fail_msg("%s", rows[i].accept);
        struct buf plain;
        buf_init(&plain, NULL, 1 << 24);
        if (rows[i].packed) {
            assert_ok(compress_gunzip(x.fixed, &plain, e));
        } else {
            buf_str(&plain, x.fixed);
        }
        assert_int_equal(plain.n, js->size);
        assert_memory_equal(plain.p, js->bytes, js->size);
        buf_release(&plain);
        arena_release(&x.req.arena);
    }
}

static void files_with_a_hash_are_cached_for_ever(void **state)
{
    (void)state;
    struct http_exchange x;
    get(&x, page_asset, script()->path, NULL);
    assert_true(says(&x, "cache-control", "public, max-age=31536000, immutable"));
    arena_release(&x.req.arena);
}

// A new version of the program has other bytes there.
static void files_without_a_hash_are_asked_for_each_time(void **state)
{
    (void)state;
    struct http_exchange x;
    get(&x, page_index, "/", NULL);
    assert_true(says(&x, "cache-control", "no-cache"));
    arena_release(&x.req.arena);
    get(&x, page_asset, "/licenses.txt", NULL);
    assert_int_equal(x.status, 200);
    assert_true(says(&x, "cache-control", "no-cache"));
    arena_release(&x.req.arena);
}

static void a_matching_tag_saves_the_bytes(void **state)
{
    (void)state;
    const struct asset *index = asset_find("/", 1);
    assert_true(index != NULL);
    char weak[64];
    char list[64];
    snprintf(weak, sizeof weak, "W/%s", index->etag);
    snprintf(list, sizeof list, "\"x\" , %s", index->etag);
    const struct {
        const char *tags;
        unsigned status;
    } rows[] = {{index->etag, 304}, {weak, 304},        {list, 304},
                {"*", 304},         {"\"other\"", 200}, {"", 200}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *headers[] = {"if-none-match", rows[i].tags, NULL};
        struct http_exchange x;
        get(&x, page_index, "/", headers);
        if (x.status != rows[i].status) fail_msg("%s: %u", rows[i].tags, x.status);
        assert_true(says(&x, "etag", index->etag));
        if (x.status == 304) assert_int_equal(x.fixed.n, 0);
        arena_release(&x.req.arena);
    }
}

static void unknown_files_are_not_found(void **state)
{
    (void)state;
    static const char *const paths[] = {"/assets/", "/assets/nope.js", "/assets/../index.html",
                                        "/assets/index.html"};
    for (size_t i = 0; i < COUNT(paths); i++) {
        struct http_exchange x;
        get(&x, page_asset, paths[i], NULL);
        if (x.status != 404) fail_msg("%s", paths[i]);
        assert_true(says(&x, "content-security-policy", ""));
        arena_release(&x.req.arena);
    }
}

static void the_old_address_leads_to_the_page(void **state)
{
    (void)state;
    struct http_exchange x;
    get(&x, page_redirect, "/ui/x", NULL);
    assert_int_equal(x.status, 302);
    assert_true(says(&x, "location", "/"));
    arena_release(&x.req.arena);
}

static void labels_are_a_page_for_browsers(void **state)
{
    (void)state;
    struct http_exchange x;
    get(&x, page_for_browsers, "/labels", (const char *const[]){"accept", "text/html,*/*", NULL});
    assert_true(x.status == 200 && says(&x, "content-type", "text/html; charset=utf-8"));
    arena_release(&x.req.arena);
    get(&x, page_for_browsers, "/labels", (const char *const[]){"accept", "*/*", NULL});
    assert_int_equal(x.status, 404);
    arena_release(&x.req.arena);
}

static void every_address_of_the_page_is_a_route(void **state)
{
    (void)state;
    static const char *const paths[] = {"/",      "/explore",    "/labels",
                                        "/flame", "/comparison", "/comparison-diff"};
    for (size_t i = 0; i < COUNT(paths); i++) {
        bool found = false;
        for (size_t k = 0; k < querier.public_http_count; k++)
            found = found || strcmp(querier.public_http[k].path, paths[i]) == 0;
        if (!found) fail_msg("%s", paths[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(index_is_sent_with_its_policy),
        cmocka_unit_test(text_leaves_packed_for_those_who_accept_it),
        cmocka_unit_test(files_with_a_hash_are_cached_for_ever),
        cmocka_unit_test(files_without_a_hash_are_asked_for_each_time),
        cmocka_unit_test(a_matching_tag_saves_the_bytes),
        cmocka_unit_test(unknown_files_are_not_found),
        cmocka_unit_test(the_old_address_leads_to_the_page),
        cmocka_unit_test(labels_are_a_page_for_browsers),
        cmocka_unit_test(every_address_of_the_page_is_a_route),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
