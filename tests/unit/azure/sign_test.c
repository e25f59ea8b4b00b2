// SPDX-License-Identifier: Apache-2.0
//
// Signatures by Shared Key. The first text to sign is the example of Microsoft's page "Authorize
// with Shared Key", which has no key: the signatures are those of another implementation (Python's
// hmac).
#include "azure/sign.h"
#include "lib/test.h"

#define KEY "the key of an account of tests: 64 bytes, as a real one has them"

struct example {
    const char *name;
    struct azure_signing signing;
    const char *headers[6][2];
    const char *text;
    const char *signature;
};

#define DATE                                         \
    {                                                \
        "x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT" \
    }
static const struct example examples[] = {
    {"the example of the documentation",
     {.account = S_INIT("myaccount"),
      .method = "GET",
      .path = S_INIT("/mycontainer"),
      .query = S_INIT("restype=container&comp=metadata&timeout=20")},
     {{"host", "myaccount.blob.core.windows.net"}, {"x-ms-version", "2015-02-21"}, DATE},
     "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 "
     "GMT\nx-ms-version:2015-02-21\n/myaccount/"
     "mycontainer\ncomp:metadata\nrestype:container\ntimeout:20",
     "SharedKey myaccount:7Cf2tS4yeWwO4xOqbBw/2+5NM79YOoF+HsbHbzmFD+4="},
    {"a creation, with the account in the path",
     {.account = S_INIT("devstoreaccount1"),
      .method = "PUT",
      .path = S_INIT("/devstoreaccount1/c/v1/a%20b"),
      .body_n = 11},
     {{"content-md5", "XrY7u+Ae7tCTyyK7j1rNww=="},
      {"content-type", "text/plain"},
      {"x-ms-version", "2019-12-12"},
      DATE,
      {"if-none-match", "*"},
      {"x-ms-blob-type", "BlockBlob"}},
     "PUT\n\n\n11\nXrY7u+Ae7tCTyyK7j1rNww==\ntext/"
     "plain\n\n\n\n*\n\n\nx-ms-blob-type:BlockBlob\nx-ms-date:Fri, 26 Jun 2015 23:39:12 "
     "GMT\nx-ms-version:2019-12-12\n/devstoreaccount1/devstoreaccount1/c/v1/a%20b",
     "SharedKey devstoreaccount1:gFC5DiyFOQJ7WnNMc3UfZLp3kHp5wuj5s7sBZWRx00Q="},
    {"a list, whose query is decoded",
     {.account = S_INIT("myaccount"),
      .method = "GET",
      .path = S_INIT("/c"),
      .query = S_INIT("comp=list&marker=a%3Db%26c&prefix=v1%2F%2B%20&restype=container")},
     {{"x-ms-version", "2019-12-12"}, DATE},
     "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 "
     "GMT\nx-ms-version:2019-12-12\n/myaccount/c\ncomp:list\nmarker:a=b&c\nprefix:v1/+ "
     "\nrestype:container",
     "SharedKey myaccount:J2X9InlzmmkvsvewTKVt1k0zvKlZCU86dqkrN3Q1rog="},
};

static void requests_are_signed_as_documented(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(examples); i++) {
        const struct example *x = &examples[i];
        struct azure_signing s = x->signing;
        struct http_headers h = {0};
        struct arena a;
        struct buf text;
        s.key = S(KEY);
        arena_init(&a, NULL, 1 << 16);
        buf_init(&text, NULL, 1 << 16);
        for (size_t k = 0; k < COUNT(x->headers) && x->headers[k][0]; k++)
            http_headers_add(&h, &a, str_of(x->headers[k][0]), str_of(x->headers[k][1]));
        azure_text_to_sign(&text, &a, &s, &h);
        if (!str_is(buf_view(&text), x->text))
            fail_msg("%s: signs\n%.*s\nexpected\n%s", x->name, STR(buf_view(&text)), x->text);
        azure_sign(&s, &h, &a);
        assert_ok(arena_ok(&a, e));
        str made = http_headers_get(&h, "authorization");
        if (!str_is(made, x->signature)) fail_msg("%s: %.*s", x->name, STR(made));
        buf_release(&text);
        arena_release(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(requests_are_signed_as_documented)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
