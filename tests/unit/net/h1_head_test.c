// SPDX-License-Identifier: Apache-2.0
#include "lib/test.h"
#include "net/h1_head.h"

#include <stdlib.h>

#define GUARDED(text) ((const char *)tail_guard((text).p, (text).n))

static void finds_the_end_of_a_head_wherever_it_is_cut(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        str bytes;
        enum h1_scan_result result;
        size_t begin;
        size_t end;
    } cases[] = {
        {"whole", S_INIT("GET / HTTP/1.1\r\nA: b\r\n\r\nrest"), H1_WHOLE, 0, 24},
        {"no headers", S_INIT("GET / HTTP/1.0\r\n\r\n"), H1_WHOLE, 0, 18},
        {"empty lines first", S_INIT("\r\n\r\nG\r\n\r\n"), H1_WHOLE, 4, 9},
        {"not whole", S_INIT("GET / HTTP/1.1\r\nA: b\r\n\r"), H1_MORE, 0, 0},
        {"only empty lines", S_INIT("\r\n\r\n\r\n"), H1_MORE, 0, 0},
        {"bare LF", S_INIT("GET / HTTP/1.1\nA: b"), H1_BROKEN, 0, 0},
        {"bare LF at once", S_INIT("\n"), H1_BROKEN, 0, 0},
        {"bare CR", S_INIT("GET /\rHTTP"), H1_BROKEN, 0, 0},
        {"two CR", S_INIT("GET /\r\r\n"), H1_BROKEN, 0, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *p = GUARDED(cases[i].bytes);
        for (size_t cut = 0; cut <= cases[i].bytes.n; cut++) {
            struct h1_scan s = {0};
            enum h1_scan_result found = h1_scan(&s, p, cut);
            if (found == H1_MORE) found = h1_scan(&s, p, cases[i].bytes.n);
            if (found != cases[i].result) fail_msg("%s, cut at %zu: %d", cases[i].name, cut, found);
            if (found != H1_WHOLE) continue;
            assert_int_equal(s.begin, cases[i].begin);
            assert_int_equal(s.at, cases[i].end);
        }
    }
}

static void says_what_a_head_says(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        str bytes;
        const char *path;
        const char *query;
        const char *authority;
        bool keep_alive;
        bool chunked;
        uint64_t length;
    } cases[] = {
        {"plain", S_INIT("GET /a/b?c=d?e HTTP/1.1\r\nHost: h:1\r\n\r\n"), "/a/b", "c=d?e", "h:1",
         true, false, 0},
        {"absolute", S_INIT("GET http://x.y:2/a HTTP/1.1\r\nHost: X.y:2\r\n\r\n"), "/a", "",
         "x.y:2", true, false, 0},
        {"absolute without path", S_INIT("GET http://x?q HTTP/1.1\r\nHost: x:80\r\n\r\n"), "/", "q",
         "x", true, false, 0},
        {"star", S_INIT("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"), "*", "", "h", true, false, 0},
        {"length", S_INIT("POST /p HTTP/1.1\r\nHost:h\r\ncontent-LENGTH: \t17 \r\n\r\n"), "/p", "",
         "h", true, false, 17},
        {"chunked", S_INIT("POST /p HTTP/1.1\r\nHost:h\r\nTransfer-Encoding: CHUNKED\r\n\r\n"),
         "/p", "", "h", true, true, 0},
        {"close", S_INIT("GET /p HTTP/1.1\r\nHost:h\r\nConnection: a,CLOSE ,b\r\n\r\n"), "/p", "",
         "h", false, false, 0},
        {"close, and something else",
         S_INIT("GET /p HTTP/1.1\r\nHost:h\r\nConnection: close\r\nConnection: a\r\n\r\n"), "/p",
         "", "h", false, false, 0},
        {"something else, and close",
         S_INIT("GET /p HTTP/1.1\r\nHost:h\r\nConnection: a\r\nConnection: close\r\n\r\n"), "/p",
         "", "h", false, false, 0},
        {"1.0", S_INIT("GET /p HTTP/1.0\r\n\r\n"), "/p", "", "", false, false, 0},
        {"1.0 kept", S_INIT("GET /p HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), "/p", "", "",
         true, false, 0},
        {"1.0 kept, and something else",
         S_INIT("GET /p HTTP/1.0\r\nConnection: keep-alive\r\nConnection: a\r\n\r\n"), "/p", "", "",
         true, false, 0},
        {"upgrade",
         S_INIT("GET /p HTTP/1.1\r\nHost:h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"), "/p",
         "", "h", true, false, 0},
        {"empty value", S_INIT("GET /p HTTP/1.1\r\nHost:\r\nX:\r\n\r\n"), "/p", "", "", true, false,
         0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a;
        arena_init(&a, NULL, 100000);
        char *p = malloc(cases[i].bytes.n);
        assert_non_null(p);
        memcpy(p, cases[i].bytes.p, cases[i].bytes.n);
        struct h1_head h;
        err e = {0};
        unsigned status = h1_head_parse(&h, p, cases[i].bytes.n, 10, &a, &e);
        if (status) fail_msg("%s: %u %s", cases[i].name, status, e.msg);
        assert_true(str_is(h.path, cases[i].path));
        assert_true(str_is(h.query, cases[i].query));
        assert_true(str_is(h.authority, cases[i].authority));
        assert_int_equal(h.keep_alive, cases[i].keep_alive);
        assert_int_equal(h.chunked, cases[i].chunked);
        assert_int_equal(h.length, cases[i].length);
        free(p);
        arena_release(&a);
    }
}

static void refuses_what_readers_may_take_for_different_things(void **state)
{
    (void)state;
#define GET "GET / HTTP/1.1\r\nHost: a\r\n"
    static const struct {
        const char *name;
        str bytes;
        unsigned status;
    } cases[] = {
        {"nothing", S_INIT(""), 400},
        {"only a line", S_INIT("GET / HTTP/1.1\r\n"), 400},
        {"no end", S_INIT(GET), 400},
        {"no end of a line", S_INIT(GET "X: y"), 400},
        {"CR at the end", S_INIT(GET "X: y\r"), 400},
        {"CR in a line", S_INIT(GET "X: y\rZ: a\r\n\r\n"), 400},
        {"LF in a value", S_INIT(GET "X:\ny\r\n\r\n"), 400},
        {"bytes behind it", S_INIT(GET "\r\nX: y\r\n\r\n"), 400},
        {"two spaces", S_INIT("GET  / HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
        {"space at the end", S_INIT("GET / HTTP/1.1 \r\nHost: a\r\n\r\n"), 400},
        {"tab in the target", S_INIT("GET /\tb HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
        {"fragment", S_INIT("GET /#f HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
        {"no version", S_INIT("GET /\r\nHost: a\r\n\r\n"), 400},
        {"version of two digits", S_INIT("GET / HTTP/1.11\r\nHost: a\r\n\r\n"), 400},
        {"another protocol", S_INIT("GET / ICAP/1.1\r\nHost: a\r\n\r\n"), 400},
        {"version 2", S_INIT("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505},
        {"version 0.9", S_INIT("GET / HTTP/0.9\r\nHost: a\r\n\r\n"), 505},
        {"lower case", S_INIT("get / HTTP/1.1\r\nHost: a\r\n\r\n"), 501},
        {"method of WebDAV", S_INIT("PROPFIND / HTTP/1.1\r\nHost: a\r\n\r\n"), 501},
        {"no method", S_INIT(" / HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
        {"CONNECT", S_INIT("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n"), 405},
        {"folded", S_INIT(GET "X: y\r\n z\r\n\r\n"), 400},
        {"folded by a tab", S_INIT(GET "X: y\r\n\tz\r\n\r\n"), 400},
        {"folded at once", S_INIT("GET / HTTP/1.1\r\n Host: a\r\n\r\n"), 400},
        {"no colon", S_INIT(GET "X\r\n\r\n"), 400},
        {"no name", S_INIT(GET ": y\r\n\r\n"), 400},
        {"space before the colon", S_INIT(GET "Content-Length : 3\r\n\r\n"), 400},
        {"space in a name", S_INIT(GET "X y: z\r\n\r\n"), 400},
        {"quote in a name", S_INIT(GET "\"X\": z\r\n\r\n"), 400},
        {"control byte in a name", S_INIT(GET "X\x01: z\r\n\r\n"), 400},
        {"control byte in a value", S_INIT(GET "X: \x01\r\n\r\n"), 400},
        {"vertical tab before a value", S_INIT(GET "Content-Length: \v3\r\n\r\n"), 400},
        {"NUL in a value", S_INIT(GET "X: \0\r\n\r\n"), 400},
        {"length with a sign", S_INIT(GET "Content-Length: +3\r\n\r\n"), 400},
        {"two lengths", S_INIT(GET "Content-Length: 3\r\nContent-Length: 3\r\n\r\n"), 400},
        {"a list of lengths", S_INIT(GET "Content-Length: 3,3\r\n\r\n"), 400},
        {"both", S_INIT(GET "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"), 400},
        {"another coding", S_INIT(GET "Transfer-Encoding: gzip, chunked\r\n\r\n"), 501},
        {"chunked of 1.0", S_INIT("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400},
        {"two hosts", S_INIT(GET "Host: a\r\n\r\n"), 400},
        {"no host", S_INIT("GET / HTTP/1.1\r\n\r\n"), 400},
        {"a tab behind a length", S_INIT(GET "Content-Length: 3\t\r\n\r\n"), 0},
        {"longer names",
         S_INIT(GET "Content-Lengths: 4\r\nContent-Length: 3\r\n"
                    "Transfer-Encodings: chunked\r\n\r\n"),
         0},
    };
#undef GET
    for (size_t i = 0; i < COUNT(cases); i++) {
        // What is cut is refused, too, and nothing behind it is looked at.
        for (size_t n = cases[i].bytes.n + 1; n-- > 0;) {
            struct arena a;
            arena_init(&a, NULL, 100000);
            char *p = malloc(MAX(n, (size_t)1));
            assert_non_null(p);
            memcpy(p, cases[i].bytes.p, n);
            struct h1_head h;
            err e = {0};
            bool ends = str_ends(str_make(p, n), S("\r\n\r\n"));  // what is left is a head
            unsigned status = h1_head_parse(&h, p, n, 10, &a, &e);
            bool good = n < cases[i].bytes.n ? status >= 400 || ends : status == cases[i].status;
            if (!good) fail_msg("%s, %zu bytes: %u %s", cases[i].name, n, status, e.msg);
            if (status == 0 && n == cases[i].bytes.n) {
                assert_int_equal(h.length, 3);
                assert_false(h.chunked);
            }
            free(p);
            arena_release(&a);
        }
    }
}

static void tells_hosts_from_other_text(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
    } cases[] = {
        {"", true},
        {"a", true},
        {"A-b_c.d~", true},
        {"a:0", true},
        {"a:65535", true},
        {"a:", true},
        {"10.0.0.1:80", true},
        {"[::1]", true},
        {"[fe80::1]:80", true},
        {"%41", true},
        {":80", false},
        {"a:x", false},
        {"a:123456", false},
        {"a:1:2", false},
        {"::1", false},
        {"[::1", false},
        {"[]", false},
        {"[::1]a", false},
        {"[::1]:x", false},
        {"a b", false},
        {"a/b", false},
        {"u@a", false},
        {"a,b", false},
        {"a?b", false},
        {"a#b", false},
        {"a\\b", false},
        {"a\"", false},
        {"\xc3\xa4", false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *p = GUARDED(str_of(cases[i].text));
        if (http_is_authority(str_make(p, strlen(cases[i].text))) != cases[i].good)
            fail_msg("\"%s\"", cases[i].text);
    }
    assert_true(http_same_authority(S("A.b:80"), S("a.B")));
    assert_true(http_same_authority(S("a:443"), S("a:")));
    assert_false(http_same_authority(S("a:81"), S("a")));
    assert_false(http_same_authority(S("a"), S("")));
}

static void keeps_headers_in_order_with_lower_case_names(void **state)
{
    (void)state;
    char text[] = "GET / HTTP/1.1\r\nHOST: a\r\nX-One:  v1 \t\r\nx-one: V2\r\n\r\n";
    struct arena a;
    arena_init(&a, NULL, 100000);
    struct h1_head h;
    err e = {0};
    assert_int_equal(h1_head_parse(&h, text, sizeof text - 1, 10, &a, &e), 0);
    assert_int_equal(h.headers.n, 3);
    assert_true(str_is(h.headers.v[1].name, "x-one"));
    assert_true(str_is(h.headers.v[1].value, "v1"));
    assert_true(str_is(h.headers.v[2].value, "V2"));
    assert_true(str_is(http_headers_get(&h.headers, "x-one"), "v1"));
    assert_true(http_headers_has(&h.headers, "host"));
    assert_false(http_headers_has(&h.headers, "x-two"));
    assert_int_equal(h1_head_parse(&h, text, sizeof text - 1, 2, &a, &e), 431);
    arena_release(&a);
}

// Feeds in two parts and collects the data; how many bytes were read.
static size_t decode(struct h1_chunks *k, const char *p, size_t n, size_t cut, struct buf *data)
{
    size_t used = 0;
    size_t end = cut;
    for (;;) {
        str d = {0};
        size_t took = h1_chunks_feed(k, p + used, end - used, &d);
        buf_str(data, d);
        used += took;
        if (took > 0) continue;
        if (end == n || used < end) return used;
        end = n;
    }
}

static void decodes_chunks_wherever_they_are_cut(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        str bytes;
        const char *data;  // NULL: broken
        size_t used;
    } cases[] = {
        {"one", S_INIT("3\r\nabc\r\n0\r\n\r\nGET"), "abc", 13},
        {"none", S_INIT("0\r\n\r\n"), "", 5},
        {"many", S_INIT("1\r\na\r\n0b\r\n0123456789\n\r\n000\r\n\r\n"), "a0123456789\n", 30},
        {"extension", S_INIT("2;a=\"b\" ; c\r\nxy\r\n0;z\r\n\r\n"), "xy", 24},
        {"trailers", S_INIT("0\r\nA: b\r\nC: d\r\n\r\n"), "", 17},
        {"LF after size", S_INIT("3\nabc\r\n0\r\n\r\n"), NULL, 0},
        {"CR without LF after size", S_INIT("3\r abc\r\n0\r\n\r\n"), NULL, 0},
        {"too long a chunk", S_INIT("3\r\nabcd\r\n0\r\n\r\n"), NULL, 0},
        {"LF after data", S_INIT("3\r\nabc\n0\r\n\r\n"), NULL, 0},
        {"no size", S_INIT("\r\n"), NULL, 0},
        {"not hex", S_INIT("g\r\n"), NULL, 0},
        {"prefix", S_INIT("0x3\r\nabc\r\n"), NULL, 0},
        {"16 digits", S_INIT("0000000000000001\r\na\r\n0\r\n\r\n"), NULL, 0},
        {"space, then extension", S_INIT("2 \t;a\r\nxy\r\n0\r\n\r\n"), "xy", 16},
        {"quoted extension", S_INIT("2;a=\"; \\\" , \"\r\nxy\r\n0\r\n\r\n"), "xy", 24},
        {"trailer without value", S_INIT("0\r\nA:\r\n\r\n"), "", 9},
        {"long trailer", S_INIT("0\r\nContent-Length-Of-The-Whole-Message: 1\r\n\r\nx"), "", 45},
        {"space after size", S_INIT("2 \r\nxy\r\n0\r\n\r\n"), NULL, 0},
        {"two sizes", S_INIT("2 2\r\nxy\r\n0\r\n\r\n"), NULL, 0},
        {"open quotes", S_INIT("2;a=\"\r\nxy\r\n0\r\n\r\n"), NULL, 0},
        {"escaped quote", S_INIT("2;a=\"\\\"\r\nxy\r\n0\r\n\r\n"), NULL, 0},
        {"no token in extension", S_INIT("2;a,b\r\nxy\r\n0\r\n\r\n"), NULL, 0},
        {"trailer without colon", S_INIT("0\r\nA\r\n\r\n"), NULL, 0},
        {"trailer without name", S_INIT("0\r\n: a\r\n\r\n"), NULL, 0},
        {"space before colon", S_INIT("0\r\nA : a\r\n\r\n"), NULL, 0},
        {"folded trailer", S_INIT("0\r\nA: a\r\n b\r\n\r\n"), NULL, 0},
        {"trailer that frames", S_INIT("0\r\nTransfer-encoding: chunked\r\n\r\n"), NULL, 0},
        {"trailer that routes", S_INIT("0\r\nHOST: a\r\n\r\n"), NULL, 0},
        {"LF in extension", S_INIT("1;\na\r\n"), NULL, 0},
        {"LF in trailer", S_INIT("0\r\nA: b\n\r\n"), NULL, 0},
        {"control byte in trailer", S_INIT("0\r\nA: \001\r\n\r\n"), NULL, 0},
    };
    struct buf data;
    buf_init(&data, NULL, 1000);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *p = GUARDED(cases[i].bytes);
        for (size_t cut = 0; cut <= cases[i].bytes.n; cut++) {
            struct h1_chunks k = {0};
            buf_clear(&data);
            size_t used = decode(&k, p, cases[i].bytes.n, cut, &data);
            bool done = k.state == H1_CHUNKS_DONE;
            if (done != (cases[i].data != NULL) || (!done && k.state != H1_CHUNKS_BROKEN))
                fail_msg("%s, cut at %zu: state %d", cases[i].name, cut, (int)k.state);
            if (!done) continue;
            assert_int_equal(used, cases[i].used);
            assert_true(str_is(buf_view(&data), cases[i].data));
        }
    }
    buf_release(&data);
}

static void limits_what_surrounds_chunks(void **state)
{
    (void)state;
    static const str repeated[] = {S_INIT("1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nx\r\n"),
                                   S_INIT("0\r\nA: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb")};
    for (size_t i = 0; i < COUNT(repeated); i++) {
        struct h1_chunks k = {0};
        size_t fed = 0;
        while (k.state != H1_CHUNKS_BROKEN && fed < 100000) {
            str rest = fed > 0 && i == 1 ? S("bbbbbbbbbb") : repeated[i];
            str d = {0};
            while (rest.n > 0 && k.state != H1_CHUNKS_BROKEN) {
                size_t took = h1_chunks_feed(&k, rest.p, rest.n, &d);
                fed += took;
                rest = str_slice(rest, took, rest.n);
            }
        }
        assert_true(fed < 20000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_end_of_a_head_wherever_it_is_cut),
        cmocka_unit_test(says_what_a_head_says),
        cmocka_unit_test(refuses_what_readers_may_take_for_different_things),
        cmocka_unit_test(tells_hosts_from_other_text),
        cmocka_unit_test(keeps_headers_in_order_with_lower_case_names),
        cmocka_unit_test(decodes_chunks_wherever_they_are_cut),
        cmocka_unit_test(limits_what_surrounds_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
