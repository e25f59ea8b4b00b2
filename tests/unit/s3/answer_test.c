// SPDX-License-Identifier: Apache-2.0
#include "lib/arena.h"
#include "lib/test.h"
#include "s3/answer.h"
#include "s3/xml.h"

static void a_page_of_a_list_is_read(void **state)
{
    struct arena a;
    struct s3_page p;
    (void)state;
    arena_init(&a, NULL, 1 << 20);
    assert_ok(s3_read_page(
        &a,
        S("<?xml version='1.0'?><ListBucketResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>"
          "<Name>b</Name><IsTruncated>true</IsTruncated>"
          "<Contents><Size>7</Size><Key>v1/a&amp;b</Key><Owner><ID>x</ID></Owner></Contents>"
          "<Contents><Key>v1/c</Key><Size>0</Size></Contents>"
          "<CommonPrefixes><Prefix>v1/</Prefix></CommonPrefixes>"
          "<NextContinuationToken> t= </NextContinuationToken></ListBucketResult>"),
        &p, e));
    assert_int_equal(p.n, 2);
    assert_true(str_is(p.v[0].key, "v1/a&b") && p.v[0].size == 7);
    assert_true(str_is(p.v[1].key, "v1/c") && p.v[1].size == 0);
    assert_true(p.truncated && str_is(p.next, "t="));
    arena_release(&a);
}

static void what_is_no_answer_is_refused(void **state)
{
    static const struct {
        const char *xml;
        const char *why;
    } cases[] = {
        {"", "no element found"},
        {"<a>", "no element found"},
        {"{\"a\": 1}", "not well-formed"},
        {"<Error><Code>x</Code></Error>", "it is no list"},
        {"<!DOCTYPE a []><ListBucketResult/>", "document type"},
        {"<a><a><a><a><a><a><a><a><a>", "too deep"},
        {"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>", "where"},
        {"<ListBucketResult></ListBucketResult>", "whether it goes on"},
        {"<ListBucketResult><IsTruncated></IsTruncated></ListBucketResult>", "whether it goes on"},
        {"<ListBucketResult><Contents><Key>k</Key></Contents></ListBucketResult>",
         "no key or size"},
        {"<ListBucketResult><Contents><Key>k</Key><Size>-1</Size></Contents></ListBucketResult>",
         "no number"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a;
        struct s3_page p;
        err e = {0};
        arena_init(&a, NULL, 1 << 20);
        assert_false(s3_read_page(&a, str_of(cases[i].xml), &p, &e));
        assert_int_equal(e.code, ERR_DATA_LOSS);
        if (!str_contains(str_of(e.msg), str_of(cases[i].why)))
            fail_msg("%s: %s, expected %s", cases[i].xml, e.msg, cases[i].why);
        arena_release(&a);
    }
}

static bool no_text(void *arg, str path, str text, err *e)
{
    size_t *longest = arg;
    (void)path;
    (void)e;
    *longest = MAX(*longest, text.n);
    return true;
}

static void an_element_with_too_much_text_is_refused(void **state)
{
    struct buf b;
    size_t longest = 0;
    err e = {0};
    (void)state;
    buf_init(&b, NULL, 1 << 20);
    buf_z(&b, "<a>");
    for (size_t i = 0; i < XML_TEXT; i++)
        buf_byte(&b, 'x');
    size_t n = b.n;
    buf_z(&b, "</a>");
    assert_true(xml_read(buf_view(&b), no_text, &longest, &e));
    assert_int_equal(longest, XML_TEXT);
    b.n = n;
    buf_z(&b, "x</a>");
    assert_false(xml_read(buf_view(&b), no_text, &longest, &e));
    assert_string_equal(e.msg, "XML of the store: an element has too much text");
    buf_release(&b);
}

static void a_refusal_is_read_and_a_page_of_a_proxy_is_none(void **state)
{
    struct arena a;
    struct s3_refusal r;
    (void)state;
    arena_init(&a, NULL, 1 << 20);
    s3_read_refusal(&a,
                    S("<Error><Code>AuthorizationHeaderMalformed</Code><Message>m</Message>"
                      "<Region>eu-west-1</Region><HostId>h</HostId></Error>"),
                    &r);
    assert_true(str_is(r.code, "AuthorizationHeaderMalformed") && str_is(r.message, "m") &&
                str_is(r.region, "eu-west-1"));
    s3_read_refusal(&a, S("<html><br>502</html>"), &r);
    assert_int_equal(r.code.n + r.message.n + r.region.n, 0);
    arena_release(&a);
}

static void ends_of_uploads_and_batch_deletions_are_read(void **state)
{
    struct arena a;
    struct s3_refusal r;
    struct s3_removals f;
    str etag = {0};
    struct s3_pending_list l;
    str id = {0};
    (void)state;
    arena_init(&a, NULL, 1 << 20);
    assert_ok(s3_read_upload(&a,
                             S("<InitiateMultipartUploadResult><UploadId>2~x</UploadId></"
                               "InitiateMultipartUploadResult>"),
                             &id, e));
    assert_true(str_is(id, "2~x"));
    assert_ok(s3_read_completed(
        &a, S("<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"), &r,
        &etag, e));
    assert_int_equal(r.code.n, 0);
    assert_true(str_is(etag, "e"));
    assert_ok(s3_read_completed(&a, S("<Error><Code>InternalError</Code></Error>"), &r, &etag, e));
    assert_true(str_is(r.code, "InternalError") && !etag.n);
    assert_ok(s3_read_deleted(&a, S("<DeleteResult/>"), &f, e));
    assert_int_equal(f.n, 0);
    assert_ok(
        s3_read_deleted(&a,
                        S("<DeleteResult><Deleted><Key>a</Key></Deleted><Error><Key>b</Key>"
                          "<Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>"),
                        &f, e));
    assert_int_equal(f.n, 2);
    assert_true(str_is(f.v[0].key, "a") && !f.v[0].why.code.n);
    assert_true(str_is(f.v[1].key, "b") && str_is(f.v[1].why.code, "AccessDenied"));
    assert_ok(s3_read_pending(
        &a,
        S("<ListMultipartUploadsResult><Upload><Key>k</Key><UploadId>u</UploadId>"
          "<Initiated>2026-11-26T01:02:03.000Z</Initiated></Upload></ListMultipartUploadsResult>"),
        &l, e));
    assert_int_equal(l.n, 1);
    assert_true(str_is(l.v[0].key, "k") && str_is(l.v[0].id, "u"));
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_of_a_list_is_read),
        cmocka_unit_test(what_is_no_answer_is_refused),
        cmocka_unit_test(an_element_with_too_much_text_is_refused),
        cmocka_unit_test(a_refusal_is_read_and_a_page_of_a_proxy_is_none),
        cmocka_unit_test(ends_of_uploads_and_batch_deletions_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
