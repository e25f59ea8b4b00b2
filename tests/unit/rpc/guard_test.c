// SPDX-License-Identifier: Apache-2.0
//
// Whom a listener answers: names in Host, Origin and Sec-Fetch-Site.
#include "lib/exchange.h"
#include "lib/test.h"
#include "rpc/guard.h"

static const char *const hosts[] = {"flame.example.com", "*.inside.example"};

// May GET / be answered with this host and these headers?
static bool answers(const struct guard *g, const char *host, const char *headers, err *e)
{
    struct ask a = {.method = "GET", .path = "/x", .headers = headers};
    struct http_exchange *x = exchange_ask(&a);
    x->authority = str_of(host);
    bool ok = guard_check(g, x, e);
    exchange_free(x);
    return ok;
}

static void names_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        bool loopback;  // is it answered there?
        bool browser;   // on every address, to a browser?
    } cases[] = {
        {"", true, true},
        {"127.0.0.1:4040", true, true},
        {"127.1", true, true},
        {"2130706433", true, true},
        {"10.0.0.7:4040", true, true},
        {"[::1]:4040", true, true},
        {"[2001:db8::1]", true, true},
        {"localhost", true, true},
        {"LocalHost.:80", true, true},
        {"x.localhost:1", true, true},
        {"flame.example.com", true, true},
        {"FLAME.example.com.:443", true, true},
        {"a.inside.example", true, true},
        {"inside.example", false, false},
        {"xinside.example", false, false},
        {"evil.example:4040", false, false},
        {"xlocalhost", false, false},
        {"localhost.evil.example", false, false},
        {"127.0.0.1.evil.example", false, false},
        {"distributor.monitoring.svc:4040", false, false},
    };
    struct guard loopback;
    struct guard every;
    guard_init(&loopback, "127.0.0.1:4040", hosts, COUNT(hosts));
    guard_init(&every, "0.0.0.0:4040", hosts, COUNT(hosts));
    assert_true(loopback.every_name && !every.every_name);
    for (size_t i = 0; i < COUNT(cases); i++) {
        err e = {0};
        bool here = answers(&loopback, cases[i].host, "", &e);
        bool there = answers(&every, cases[i].host, "user-agent: Mozilla/5.0\n", &e);
        bool agent = answers(&every, cases[i].host, "user-agent: curl/8\n", &e);
        if (here != cases[i].loopback || there != cases[i].browser || !agent)
            fail_msg("%s: %d %d %d", cases[i].host, here, there, agent);
    }
}

static void listeners_are_loopbacks_or_not(void **state)
{
    (void)state;
    static const struct {
        const char *listen;
        bool loopback;
    } cases[] = {{"127.0.0.1:0", true},    {"127.3.2.1:80", true}, {"[::1]:4040", true},
                 {"localhost:4040", true}, {":4040", false},       {"0.0.0.0:1", false},
                 {"[::]:4040", false},     {"10.1.1.1:1", false},  {"unix:/127.0.0.1:1", false},
                 {"example.com:1", false}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct guard g;
        guard_init(&g, cases[i].listen, NULL, 0);
        if (g.every_name != cases[i].loopback) fail_msg("%s", cases[i].listen);
    }
}

static void the_listeners_own_host_is_a_name(void **state)
{
    (void)state;
    struct guard g;
    err e = {0};
    guard_init(&g, "BuildBox:4040", NULL, 0);
    assert_true(answers(&g, "buildbox:4040", "origin: http://buildbox:4040\n", &e));
    assert_false(answers(&g, "other:4040", "origin: http://other:4040\n", &e));
}

static void a_proxy_may_change_host(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        const char *headers;
        bool ok;
    } cases[] = {
        // The browser's word for a page with TLS, or on this machine.
        {"127.0.0.1:4040", "origin: https://any.example\nsec-fetch-site: same-origin\n", true},
        {"flametree:4040", "origin: https://any.example\nsec-fetch-site: same-origin\n", true},
        {"127.0.0.1:4040", "origin: http://localhost:8080\nsec-fetch-site: same-origin\n", true},
        {"127.0.0.1:4040", "origin: http://127.0.0.1:8080\nsec-fetch-site: same-origin\n", true},
        {"127.0.0.1:4040", "origin: http://127.evil.example\nsec-fetch-site: same-origin\n", false},
        {"127.0.0.1:4040", "origin: http://evil.example\nsec-fetch-site: same-origin\n", false},
        {"127.0.0.1:4040", "origin: https://any.example\nsec-fetch-site: same-site\n", false},
        {"127.0.0.1:4040", "origin: https://any.example\nsec-fetch-site: cross-site\n", false},
        {"127.0.0.1:4040", "origin: https://any.example\nsec-fetch-site: none\n", false},
        {"127.0.0.1:4040", "origin: https://any.example\n", false},
        {"127.0.0.1:4040", "origin: null\nsec-fetch-site: same-origin\n", false},
        // Nobody changed Host here, so it has to name us.
        {"any.example", "origin: https://any.example\nsec-fetch-site: same-origin\n", false},
        {"any.example", "sec-fetch-site: same-origin\n", false},
        // The word of another proxy.
        {"127.0.0.1:4040", "origin: http://10.0.0.7\nx-forwarded-host: 10.0.0.7\n", true},
        {"127.0.0.1:4040", "origin: http://10.0.0.7\nx-forwarded-host: 10.0.0.7, b\n", true},
        {"127.0.0.1:4040", "origin: http://localhost:1\nx-forwarded-host: localhost:1\n", true},
        {"127.0.0.1:4040", "origin: http://10.0.0.8\nx-forwarded-host: 10.0.0.7\n", false},
        {"127.0.0.1:4040", "origin: http://evil.example\nx-forwarded-host: evil.example\n", false},
        {"127.0.0.1:4040", "origin: http://evil.example\nx-forwarded-host: \n", false},
        {"127.0.0.1:4040",
         "origin: http://10.0.0.7\nx-forwarded-host: 10.0.0.7\nsec-fetch-site: same-origin\n",
         true},
        {"127.0.0.1:4040",
         "origin: http://10.0.0.7\nx-forwarded-host: 10.0.0.7\nsec-fetch-site: same-site\n", false},
        {"127.0.0.1:4040",
         "origin: http://10.0.0.7\nx-forwarded-host: 10.0.0.7\nsec-fetch-site: cross-site\n",
         false},
    };
    struct guard g;
    guard_init(&g, "127.0.0.1:4040", hosts, COUNT(hosts));
    for (size_t i = 0; i < COUNT(cases); i++) {
        err e = {0};
        if (answers(&g, cases[i].host, cases[i].headers, &e) != cases[i].ok)
            fail_msg("%zu: %s %s: %s", i, cases[i].host, cases[i].headers, e.msg);
    }
}

// The page's name points to this machine since it was loaded, so to the browser we are its server.
static void pages_whose_name_was_made_to_point_here_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        const char *headers;
    } cases[] = {
        {"evil.example:4040", "origin: http://evil.example:4040\n"},
        {"evil.example:4040", "sec-fetch-site: same-origin\n"},
        {"evil.example:4040", "origin: http://evil.example:4040\nsec-fetch-site: same-origin\n"},
        // With TLS, as if it could have our certificate; in all spellings of the name.
        {"evil.example", "origin: https://evil.example\nsec-fetch-site: same-origin\n"},
        {"evil.example:443", "origin: https://evil.example\nsec-fetch-site: same-origin\n"},
        {"evil.example", "origin: https://evil.example:4443\nsec-fetch-site: same-origin\n"},
        {"evil.example:1", "origin: https://evil.example:2\nsec-fetch-site: same-origin\n"},
        {"evil.example.", "origin: https://evil.example\nsec-fetch-site: same-origin\n"},
        {"evil.example", "origin: https://evil.example.\nsec-fetch-site: same-origin\n"},
        {"EVIL.example", "origin: https://evil.example\nsec-fetch-site: same-origin\n"},
        // Its own page may add the header, which it sends to "itself".
        {"evil.example", "origin: http://evil.example\nx-forwarded-host: evil.example\n"},
        {"evil.example", "origin: http://evil.example\nx-forwarded-host: localhost\n"},
        {"evil.example", "x-forwarded-host: 127.0.0.1\nsec-fetch-site: same-origin\n"},
        // Behind a proxy on this machine without TLS, to which the name points.
        {"127.0.0.1:4040", "origin: http://evil.example:80\nx-forwarded-host: evil.example:80\n"
                           "sec-fetch-site: same-origin\n"},
    };
    static const char *const listens[] = {"127.0.0.1:4040", "0.0.0.0:4040"};
    for (size_t i = 0; i < COUNT(cases) * COUNT(listens); i++) {
        struct guard g;
        err e = {0};
        char headers[300];
        size_t at = i / COUNT(listens);
        guard_init(&g, listens[i % COUNT(listens)], hosts, COUNT(hosts));
        snprintf(headers, sizeof headers, "user-agent: Mozilla/5.0\n%s", cases[at].headers);
        if (answers(&g, cases[at].host, headers, &e))
            fail_msg("%zu: %s %s %s", at, listens[i % COUNT(listens)], cases[at].host, headers);
    }
}

static void other_sites_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *headers;
        bool ok;
    } cases[] = {
        {"origin: http://localhost:4040\n", true},
        {"origin: https://LOCALHOST:4040\n", true},
        {"origin: https://flame.example.com:8443\n", true},
        {"origin: http://localhost:3000\n", false},
        {"origin: http://localhost\n", false},
        {"origin: http://evil.example\n", false},
        {"origin: null\n", false},
        {"origin: localhost:4040\n", false},
        {"origin: \n", false},
        {"origin: http://\n", false},
        {"origin: http://localhost:4040\nsec-fetch-site: same-origin\n", true},
        {"sec-fetch-site: same-origin\n", true},
        {"sec-fetch-site: none\n", true},
        {"sec-fetch-site: same-site\n", false},
        {"sec-fetch-site: cross-site\n", false},
        {"sec-fetch-site: anything\n", false},
        {"sec-fetch-site: cross-site\nsec-fetch-mode: navigate\nsec-fetch-dest: document\n", true},
        {"sec-fetch-site: cross-site\nsec-fetch-mode: navigate\nsec-fetch-dest: iframe\n", false},
        {"sec-fetch-site: cross-site\nsec-fetch-mode: no-cors\nsec-fetch-dest: document\n", false},
    };
    struct guard g;
    guard_init(&g, "127.0.0.1:4040", hosts, COUNT(hosts));
    for (size_t i = 0; i < COUNT(cases); i++) {
        err e = {0};
        if (answers(&g, "localhost:4040", cases[i].headers, &e) != cases[i].ok)
            fail_msg("%s", cases[i].headers);
        if (!cases[i].ok && (e.code != ERR_PERMISSION_DENIED || !strstr(e.msg, "server.hosts")))
            fail_msg("%s: %s", cases[i].headers, e.msg);
    }
}

static void a_star_switches_it_off(void **state)
{
    (void)state;
    static const char *const any[] = {"a.example", "*"};
    struct guard g;
    err e = {0};
    guard_init(&g, "127.0.0.1:4040", any, COUNT(any));
    assert_true(answers(&g, "evil.example", "origin: http://other.example\n", &e));
    assert_true(answers(&g, "evil.example", "sec-fetch-site: cross-site\n", &e));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(listeners_are_loopbacks_or_not),
        cmocka_unit_test(the_listeners_own_host_is_a_name),
        cmocka_unit_test(a_proxy_may_change_host),
        cmocka_unit_test(pages_whose_name_was_made_to_point_here_are_refused),
        cmocka_unit_test(other_sites_are_refused),
        cmocka_unit_test(a_star_switches_it_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
