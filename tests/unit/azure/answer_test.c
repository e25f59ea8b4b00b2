// SPDX-License-Identifier: Apache-2.0
#include "azure/answer.h"
#include "lib/arena.h"
#include "lib/test.h"

// As the documentation of List Blobs has it, with the mark of UTF-8 before it.
static void a_page_of_a_list_is_read(void **state)
{
    struct arena a;
    struct s3_page p;
    (void)state;
    arena_init(&a, NULL, 1 << 20);
    assert_ok(azure_read_page(
        &a,
        S("\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"utf-8\"?>"
          "<EnumerationResults ServiceEndpoint=\"https://myaccount.blob.core.windows.net/\" "
          "ContainerName=\"c\"><Prefix>v1/</Prefix><MaxResults>3</MaxResults><Blobs>"
          "<Blob><Name>v1/a&amp;b</Name><Properties><Content-Length>7</Content-Length>"
          "<Etag>0x8D</Etag><BlobType>BlockBlob</BlobType></Properties>"
          "<Metadata><flametree_nonce>x</flametree_nonce></Metadata></Blob>"
          "<Blob><Name>v1/folder</Name><Properties><ResourceType>directory</ResourceType>"
          "<Content-Length>0</Content-Length></Properties></Blob>"
          "<Blob><Name>v1/c</Name><Properties><Content-Length>0</Content-Length>"
          "<ResourceType>file</ResourceType></Properties></Blob>"
          "<BlobPrefix><Name>v1/p/</Name></BlobPrefix>"
          "</Blobs><NextMarker>2!72!MDAw</NextMarker></EnumerationResults>"),
        &p, e));
    assert_int_equal(p.n, 2);
    assert_true(str_is(p.v[0].key, "v1/a&b") && p.v[0].size == 7);
    assert_true(str_is(p.v[1].key, "v1/c") && p.v[1].size == 0);
    assert_true(p.truncated && str_is(p.next, "2!72!MDAw"));
    assert_ok(azure_read_page(&a,
                              S("<EnumerationResults><Blobs /><NextMarker /></EnumerationResults>"),
                              &p, e));
    assert_true(p.n == 0 && !p.truncated);
    arena_release(&a);
}

static void what_is_no_list_is_refused(void **state)
{
    static const struct {
        const char *xml;
        const char *why;
    } cases[] = {
        {"", "no element found"},
        {"<a>", "no element found"},
        {"<Error><Code>x</Code></Error>", "the answer is no list"},
        {"<!DOCTYPE a []><EnumerationResults/>", "document type"},
        {"<EnumerationResults><Blobs/></EnumerationResults>", "whether it goes on"},
        {"<EnumerationResults><Blobs><Blob><Name>k</Name></Blob></Blobs></EnumerationResults>",
         "no name or no length"},
        {"<EnumerationResults><Blobs><Blob><Name>k</Name><Properties><Content-Length>-1"
         "</Content-Length></Properties></Blob></Blobs></EnumerationResults>",
         "no name or no length"},
        {"<EnumerationResults><Blobs><Blob><Properties><Content-Length>1</Content-Length>"
         "</Properties></Blob></Blobs></EnumerationResults>",
         "no name or no length"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a;
        struct s3_page p;
        err e = {0};
        arena_init(&a, NULL, 1 << 20);
        assert_false(azure_read_page(&a, str_of(cases[i].xml), &p, &e));
        assert_int_equal(e.code, ERR_DATA_LOSS);
        if (!str_contains(str_of(e.msg), str_of(cases[i].why)))
            fail_msg("%s: %s, expected %s", cases[i].xml, e.msg, cases[i].why);
        arena_release(&a);
    }
}

static void of_a_refusal_one_line_is_told_and_never_what_was_signed(void **state)
{
    struct arena a;
    struct s3_refusal r;
    (void)state;
    arena_init(&a, NULL, 1 << 20);
    azure_read_refusal(
        &a,
        S("\xef\xbb\xbf<?xml version=\"1.0\"?><Error><Code>AuthenticationFailed</Code>"
          "<Message>Server failed.\nRequestId:1\nTime:2</Message>"
          "<AuthenticationErrorDetail>The MAC signature found in the HTTP request "
          "'abc' is not the same</AuthenticationErrorDetail></Error>"),
        &r);
    assert_true(str_is(r.code, "AuthenticationFailed") && str_is(r.message, "Server failed."));
    assert_int_equal(r.region.n, 0);
    azure_read_refusal(&a, S("<html><br>502</html>"), &r);
    assert_int_equal(r.code.n + r.message.n, 0);
    arena_release(&a);
}

static void tokens_are_read(void **state)
{
    static const struct {
        const char *json;
        const char *token;  // NULL: refused
        int64_t seconds;
    } cases[] = {
        {"{\"token_type\":\"Bearer\",\"expires_in\":3599,\"access_token\":\"ey.x\"}", "ey.x", 3599},
        {"{\"access_token\":\"ey\\u002ex\",\"expires_in\":\"86399\",\"expires_on\":\"1\"}", "ey.x",
         86399},
        {"{\"access_token\":\"x\",\"expires_in\":99999999999}", "x", INT32_MAX},
        {"{\"access_token\":\"x\"}", "x", 0},
        {"{\"expires_in\":1}", NULL, 0},
        {"{\"error\":\"invalid_client\"}", NULL, 0},
        {"{\"access_token\":", NULL, 0},
        {"", NULL, 0},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a;
        struct azure_token t;
        err e = {0};
        arena_init(&a, NULL, 1 << 16);
        bool ok = azure_read_token(&a, str_of(cases[i].json), &t, &e);
        if (ok != (cases[i].token != NULL) || (!ok && e.code != ERR_DATA_LOSS) ||
            (ok && (!str_is(t.token, cases[i].token) || t.seconds != cases[i].seconds)))
            fail_msg("%s: %d %s", cases[i].json, ok, e.msg);
        arena_release(&a);
    }
}

static void connection_strings_and_files_are_read(void **state)
{
    struct azure_connection c;
    (void)state;
    azure_read_connection(S("DefaultEndpointsProtocol=https;AccountName=mine; AccountKey = QQ== ;"
                            "EndpointSuffix=core.chinacloudapi.cn;;x"),
                          &c);
    assert_true(str_is(c.account, "mine") && str_is(c.key, "QQ=="));
    assert_true(str_is(c.suffix, "core.chinacloudapi.cn") && !c.endpoint.n && !c.sas.n);
    azure_read_connection(S("BlobEndpoint=http://h:1/mine;SharedAccessSignature=?sv=1&sig=a%3D"),
                          &c);
    assert_true(str_is(c.endpoint, "http://h:1/mine") && str_is(c.sas, "sv=1&sig=a%3D"));
    azure_read_secret(S(" QQ==\n"), &c);
    assert_true(str_is(c.key, "QQ==") && !c.sas.n);
    azure_read_secret(S("?sv=1&sig=a\n"), &c);
    assert_true(str_is(c.sas, "sv=1&sig=a") && !c.key.n);
    azure_read_secret(S("AccountName=mine;AccountKey=QQ==\n"), &c);
    assert_true(str_is(c.key, "QQ==") && str_is(c.account, "mine"));
    azure_read_secret(S(""), &c);
    assert_true(!c.key.n && !c.sas.n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_of_a_list_is_read),
        cmocka_unit_test(what_is_no_list_is_refused),
        cmocka_unit_test(of_a_refusal_one_line_is_told_and_never_what_was_signed),
        cmocka_unit_test(tokens_are_read),
        cmocka_unit_test(connection_strings_and_files_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
