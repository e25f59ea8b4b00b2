// SPDX-License-Identifier: Apache-2.0
#include "lib/test.h"
#include "rpc/auth.h"

#define LONG150                                                                                    \
    "tttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttt" \
    "tttttttttttttttttttttttttttttttttttttttttttttttttttttttttt"

static void tenants_are_taken_from_the_header(void **state)
{
    (void)state;
    static const struct {
        const char *name, *header;
        enum route_auth auth;
        bool multitenancy;
        const char *want;  // NULL: refused with
        const char *why;
    } cases[] = {
        {"off, no header", "", ROUTE_TENANT_READ, false, "anonymous", NULL},
        {"off, any header", "somebody/else", ROUTE_TENANT_WRITE, false, "anonymous", NULL},
        {"letters", "aB9", ROUTE_TENANT_WRITE, true, "aB9", NULL},
        {"punctuation", "a!-_.*'()", ROUTE_TENANT_READ, true, "a!-_.*'()", NULL},
        {"150 bytes", LONG150, ROUTE_TENANT_READ, true, LONG150, NULL},
        {"151 bytes", LONG150 "t", ROUTE_TENANT_READ, true, NULL,
         "tenant ID is too long: max 150 characters"},
        {"none", "", ROUTE_TENANT_READ, true, NULL, "no org id"},
        {"only bars", "||", ROUTE_TENANT_READ, true, NULL, "no org id"},
        {"space", "a b", ROUTE_TENANT_READ, true, NULL,
         "tenant ID 'a b' contains unsupported character ' '"},
        {"slash", "a/../b", ROUTE_TENANT_WRITE, true, NULL,
         "tenant ID 'a/../b' contains unsupported character '/'"},
        {"two-byte character", "a\xc3\xa9", ROUTE_TENANT_READ, true, NULL,
         "tenant ID 'a\xc3\xa9' contains unsupported character '\xc3\xa9'"},
        {"stray byte", "a\xff", ROUTE_TENANT_READ, true, NULL,
         "tenant ID 'a\xff' contains unsupported character '\xff'"},
        {"dot", ".", ROUTE_TENANT_READ, true, NULL, "tenant ID is '.' or '..'"},
        {"dots", "a|..", ROUTE_TENANT_READ, true, NULL, "tenant ID is '.' or '..'"},
        {"three dots", "...", ROUTE_TENANT_READ, true, "...", NULL},
        {"union", "b|a", ROUTE_TENANT_READ, true, "a|b", NULL},
        {"each once", "b|a|b|a", ROUTE_TENANT_READ, true, "a|b", NULL},
        {"metadata goes", "b:k=v|a:x=y", ROUTE_TENANT_READ, true, "a|b", NULL},
        {"a bad part", "a|b c", ROUTE_TENANT_READ, true, NULL,
         "tenant ID 'b c' contains unsupported character ' '"},
        {"two writers", "a|b", ROUTE_TENANT_WRITE, true, NULL, "multiple org IDs present"},
        {"one writer, twice", "a|a", ROUTE_TENANT_WRITE, true, "a", NULL},
        {"open", "", ROUTE_OPEN, true, "", NULL},
        {"internal", "b|a", ROUTE_INTERNAL, true, "b|a", NULL},
        {"internal, off", "a", ROUTE_INTERNAL, false, "a", NULL},
        {"internal path", "../../x", ROUTE_INTERNAL, false, NULL,
         "tenant ID '../../x' contains unsupported character '/'"},
        {"internal dots", "a|..", ROUTE_INTERNAL, true, NULL, "tenant ID is '.' or '..'"},
        {"internal gap", "a||b", ROUTE_INTERNAL, true, NULL, "tenants 'a||b' have an empty name"},
        {"internal bar", "a|", ROUTE_INTERNAL, true, NULL, "tenants 'a|' have an empty name"},
        {"internal without", "", ROUTE_INTERNAL, true, "", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a;
        arena_init(&a, NULL, 1 << 16);
        str tenant = {0};
        err e = {0};
        bool ok = auth_tenant(&a, str_of(cases[i].header), cases[i].auth, cases[i].multitenancy,
                              &tenant, &e);
        if (ok != (cases[i].want != NULL)) fail_msg("%s: %s", cases[i].name, e.msg);
        if (ok && !str_is(tenant, cases[i].want)) fail_msg("%s: %.*s", cases[i].name, STR(tenant));
        if (!ok) {
            assert_int_equal(e.code, ERR_UNAUTHENTICATED);
            if (strcmp(e.msg, cases[i].why) != 0) fail_msg("%s: %s", cases[i].name, e.msg);
        }
        arena_release(&a);
    }
}

static bool union_of_three(void *arg, err *e)
{
    (void)arg;
    struct arena a;
    arena_init(&a, NULL, 1 << 16);
    str tenant = {0};
    bool ok = auth_tenant(&a, S("c|b|a"), ROUTE_TENANT_READ, true, &tenant, e);
    if (ok) assert_true(str_is(tenant, "a|b|c"));
    arena_release(&a);
    return ok;
}

static void malloc_failures_never_make_a_tenant(void **state)
{
    (void)state;
    assert_true(torture(union_of_three, NULL) >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tenants_are_taken_from_the_header),
        cmocka_unit_test(malloc_failures_never_make_a_tenant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
