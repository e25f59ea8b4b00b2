// SPDX-License-Identifier: Apache-2.0
#include "cluster/dns.h"
#include "lib/names.h"
#include "lib/test.h"

static void entries_name_a_port_or_a_service(void **state)
{
    (void)state;
    static const struct {
        const char *entry;
        const char *name;  // NULL: refused
        unsigned port;
    } cases[] = {
        {"dns:ingesters:4041", "ingesters", 4041},
        {" dns:a.b.svc.:1 ", "a.b.svc.", 1},
        {"dns:x:65535", "x", 65535},
        {"dns:_internal._tcp.x.svc", "_internal._tcp.x.svc", 0},
        {"dns:", NULL, 0},
        {"dns::4041", NULL, 0},
        {"dns:x", NULL, 0},
        {"dns:x:", NULL, 0},
        {"dns:x:0", NULL, 0},
        {"dns:x:65536", NULL, 0},
        {"dns:x:http", NULL, 0},
        {"dns:_internal._tcp.x:4041", NULL, 0},
    };
    assert_false(dns_is(S("a=dns:x:1")));
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct dns_name n = {0};
        err why = {0};
        assert_true(dns_is(str_of(cases[i].entry)));
        bool ok = dns_parse(str_of(cases[i].entry), &n, &why);
        assert_int_equal(ok, cases[i].name != NULL);
        if (!ok) {
            assert_int_equal(why.code, ERR_INVALID_ARGUMENT);
            continue;
        }
        assert_true(str_is(n.name, cases[i].name));
        assert_int_equal(n.port, cases[i].port);
    }
}

// In the form in which they are asked: "host:port", with brackets around a host with colons.
static void addresses_of_both_families_are_found_once(void **state)
{
    (void)state;
    static const char *const all[] = {"127.0.0.3", "2001:db8::1", "127.0.0.2", "::1", "127.0.0.3"};
    static const char *const want[] = {"127.0.0.2:4041", "127.0.0.3:4041", "[2001:db8::1]:4041",
                                       "[::1]:4041"};
    struct names names;
    struct dns_name name = {0};
    struct arena a;
    str *v = NULL;
    size_t n = 0;
    names_start(&names, "nodes.test", all, COUNT(all));
    arena_init(&a, NULL, 1 << 16);
    const struct dns_options o = {.servers = names.server, .timeout_ns = 60000000000};
    assert_ok(dns_parse(S("dns:nodes.test:4041"), &name, e));
    assert_ok(dns_look_up(&name, &o, &a, &v, &n, e));
    assert_int_equal(n, COUNT(want));
    for (size_t i = 0; i < n; i++) {
        if (!str_is(v[i], want[i])) fail_msg("%.*s, want %s", STR(v[i]), want[i]);
    }
    arena_release(&a);
    names_end(&names);
}

static void a_server_that_is_not_there_is_unavailable_in_time(void **state)
{
    (void)state;
    const struct dns_options o = {.servers = "127.0.0.1:1", .timeout_ns = 200000000};
    struct dns_name name = {0};
    struct arena a;
    str *v = NULL;
    size_t n = 0;
    err why = {0};
    arena_init(&a, NULL, 1 << 16);
    assert_ok(dns_parse(S("dns:nobody.test:1"), &name, e));
    assert_false(dns_look_up(&name, &o, &a, &v, &n, &why));
    assert_int_equal(why.code, ERR_UNAVAILABLE);
    assert_ok(dns_parse(S("dns:_x._tcp.nobody.test"), &name, e));
    assert_false(dns_look_up(&name, &o, &a, &v, &n, &why));
    assert_int_equal(why.code, ERR_UNAVAILABLE);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_name_a_port_or_a_service),
        cmocka_unit_test(addresses_of_both_families_are_found_once),
        cmocka_unit_test(a_server_that_is_not_there_is_unavailable_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
