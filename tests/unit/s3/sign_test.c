// SPDX-License-Identifier: Apache-2.0
//
// The examples of AWS's page "Signature Calculations for the Authorization Header: Transferring
// Payload in a Single Chunk", with their keys and their results.
#include "lib/test.h"
#include "s3/sign.h"
#include "sys/clock.h"

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define DAY   INT64_C(1369353600)  // 2013-05-24

struct example {
    const char *name;
    const char *method;
    const char *path;  // not encoded
    const char *query[2][2];
    const char *headers[3][2];  // besides host
    const char *body;
    const char *names;
    const char *signature;
};

static const struct example examples[] = {
    {"an object, with a range",
     "GET",
     "/test.txt",
     {{NULL}},
     {{"range", "bytes=0-9"}},
     "",
     "host;range;x-amz-content-sha256;x-amz-date",
     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
    {"a creation, with a path to encode",
     "PUT",
     "/test$file.text",
     {{NULL}},
     {{"date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
     "Welcome to Amazon S3.",
     "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
     "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
    {"a query without a value",
     "GET",
     "/",
     {{"lifecycle", ""}},
     {{NULL}},
     "",
     "host;x-amz-content-sha256;x-amz-date",
     "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
    {"a list",
     "GET",
     "/",
     {{"max-keys", "2"}, {"prefix", "J"}},
     {{NULL}},
     "",
     "host;x-amz-content-sha256;x-amz-date",
     "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
};

struct made {
    struct arena arena;
    struct buf path;
    struct buf query;
    struct http_headers headers;
};

static void sign_as(struct made *m, const struct example *x, str token,
                    const struct s3_signer *signer)
{
    char hash[S3_HASH_TEXT];
    arena_init(&m->arena, NULL, 1 << 16);
    buf_init(&m->path, NULL, 1 << 12);
    buf_init(&m->query, NULL, 1 << 12);
    m->headers = (struct http_headers){0};
    s3_encode_path(&m->path, str_of(x->path));
    for (size_t i = 0; i < COUNT(x->query) && x->query[i][0]; i++)
        s3_query_add(&m->query, x->query[i][0], str_of(x->query[i][1]));
    http_headers_add(&m->headers, &m->arena, S("host"), S("examplebucket.s3.amazonaws.com"));
    for (size_t i = 0; i < COUNT(x->headers) && x->headers[i][0]; i++)
        http_headers_add(&m->headers, &m->arena, str_of(x->headers[i][0]),
                         str_of(x->headers[i][1]));
    assert_true(s3_hash(str_of(x->body), hash));
    struct s3_signing s = {
        .signer = signer,
        .keys = {S("AKIAIOSFODNN7EXAMPLE"), S("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"), token},
        .region = S("us-east-1"),
        .wall_ns = DAY * NS_PER_S,
        .method = x->method,
        .path = buf_view(&m->path),
        .query = buf_view(&m->query),
        .body_hash = str_make(hash, sizeof hash),
    };
    s3_sign(&s, &m->headers, &m->arena);
    assert_ok(arena_ok(&m->arena, e));
}

static void sign(struct made *m, const struct example *x, str token)
{
    sign_as(m, x, token, &s3_signer_amazon);
}

static void release(struct made *m)
{
    arena_release(&m->arena);
    buf_release(&m->path);
    buf_release(&m->query);
}

static void signatures_are_those_of_the_published_examples(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(examples); i++) {
        const struct example *x = &examples[i];
        struct made m;
        char want[500];
        sign(&m, x, (str){0});
        snprintf(want, sizeof want,
                 "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
                 "aws4_request, SignedHeaders=%s, Signature=%s",
                 x->names, x->signature);
        str got = http_headers_get(&m.headers, "authorization");
        if (!str_is(got, want)) fail_msg("%s: %.*s, expected %s", x->name, STR(got), want);
        assert_true(str_is(http_headers_get(&m.headers, "x-amz-date"), "20130524T000000Z"));
        release(&m);
    }
}

static void a_token_is_sent_and_signed(void **state)
{
    struct made m;
    (void)state;
    sign(&m, &examples[3], S("a/token=="));
    str got = http_headers_get(&m.headers, "authorization");
    assert_true(str_is(http_headers_get(&m.headers, "x-amz-security-token"), "a/token=="));
    assert_true(str_contains(
        got, S("SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,")));
    assert_false(str_contains(got, str_of(examples[3].signature)));
    release(&m);
}

// Google publishes no example with its keys: the service of tests/lib/google_storage.py has the
// signature written once more.
static void googles_signature_has_names_of_its_own_and_no_token(void **state)
{
    struct made m;
    (void)state;
    sign_as(&m, &examples[3], S("a/token=="), &s3_signer_google);
    str got = http_headers_get(&m.headers, "authorization");
    assert_true(str_starts(got, S("GOOG4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/"
                                  "us-east-1/storage/goog4_request, "
                                  "SignedHeaders=host;x-goog-content-sha256;x-goog-date, ")));
    assert_true(str_is(http_headers_get(&m.headers, "x-goog-date"), "20130524T000000Z"));
    for (size_t i = 0; i < m.headers.n; i++)
        assert_false(str_starts(m.headers.v[i].name, S("x-amz-")));
    release(&m);
}

static void the_hash_of_nothing_is_known(void **state)
{
    char hash[S3_HASH_TEXT];
    (void)state;
    assert_true(s3_hash((str){0}, hash));
    assert_true(str_eq(str_make(hash, sizeof hash), S(EMPTY)));
}

static void a_path_keeps_its_slashes(void **state)
{
    struct buf b;
    (void)state;
    buf_init(&b, NULL, 1000);
    s3_encode_path(&b, S("/bucket/a b/~x+y%/=&?"));
    assert_true(str_is(buf_view(&b), "/bucket/a%20b/~x%2By%25/%3D%26%3F"));
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signatures_are_those_of_the_published_examples),
        cmocka_unit_test(a_token_is_sent_and_signed),
        cmocka_unit_test(googles_signature_has_names_of_its_own_and_no_token),
        cmocka_unit_test(the_hash_of_nothing_is_known),
        cmocka_unit_test(a_path_keeps_its_slashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
