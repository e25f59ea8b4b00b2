// SPDX-License-Identifier: Apache-2.0
//
// A question looks at the services of its tenants and at no others, however many there are, and
// those that come and go.
#include "ingester/head/head_int.h"
#include "values.h"

#define TENANTS 40

static struct cut cut;
static struct dice dice;

static void push(struct head *h, struct cut *into, const char *tenant, const char *service)
{
    struct arena a;
    struct batch b;
    struct staged *s = NULL;
    struct fact f = fact_roll(&dice, 1000, 100);
    f.sampled = false;
    arena_init(&a, NULL, SIZE_MAX);
    assert_ok(batch_decode(&a, fact_batch(&a, &f, 1), &b, e));
    b.service = str_of(service);
    assert_ok(head_stage(h, &a, str_of(tenant), &b, NULL, &s, e));
    head_publish(s, into);
    arena_release(&a);
}

// Tenant i has i + 1 services.
static void push_all(struct head *h)
{
    for (int t = 0; t < TENANTS; t++) {
        char tenant[32];
        snprintf(tenant, sizeof tenant, "tenant-%d", t);
        for (int i = 0; i <= t; i++) {
            char service[32];
            snprintf(service, sizeof service, "service-%d", i);
            push(h, &cut, tenant, service);
        }
    }
}

// How many services there are of these tenants, which must be all that were looked at.
static size_t ask(struct head *h, const str *tenants, size_t n)
{
    struct head_query q = {.tenants = tenants, .tenant_count = n, .to_ns = INT64_MAX};
    struct head_walk w;
    struct req r;
    uint64_t looked = head_count(h).asked_services;
    req_init(&r, RANK_INGESTER, NULL, SIZE_MAX, 0);
    assert_ok(walk_begin(&w, h, &r, &q, e));
    for (size_t i = 0; i < w.service_count; i++) {
        assert_true(str_among(w.services[i]->tenant, tenants, n));
        if (i == 0) continue;
        int order = str_cmp(w.services[i - 1]->tenant, w.services[i]->tenant);
        assert_true(order < 0 || (order == 0 &&
                                  str_cmp(w.services[i - 1]->service, w.services[i]->service) < 0));
    }
    assert_int_equal(head_count(h).asked_services - looked, w.service_count);
    size_t services = w.service_count;
    req_release(&r);
    return services;
}

static void a_question_looks_at_services_of_its_tenants(void **state)
{
    (void)state;
    struct head *h = head_new(NULL, 0);
    const str few[] = {S("tenant-9"), S("tenant-0"), S("tenant-9"), S("nobody")};
    push_all(h);
    for (int t = 0; t < TENANTS; t++) {
        char tenant[32];
        snprintf(tenant, sizeof tenant, "tenant-%d", t);
        str name = str_of(tenant);
        assert_int_equal(ask(h, &name, 1), t + 1);
    }
    assert_int_equal(ask(h, few, COUNT(few)), 10 + 1);
    assert_int_equal(ask(h, few, 0), 0);
    head_free(h);
}

// Services go with their rows, tenants with their services; those that stay are still found.
static void services_and_tenants_go(void **state)
{
    (void)state;
    static struct cut stays;
    struct head *h = head_new(NULL, 0);
    size_t rows = 0;
    stays.number = 2;
    lock_init(&stays.lock, LOCK_CUT);
    push_all(h);
    push(h, &stays, "tenant-7", "service-3");
    push(h, &stays, "tenant-7", "service-of-its-own");
    push(h, &stays, "tenant-39", "service-39");
    assert_true(head_drop(h, &cut, true, &rows));
    assert_int_equal(rows, TENANTS * (TENANTS + 1) / 2);
    assert_int_equal(h->tenant_count, 2);
    for (int t = 0; t < TENANTS; t++) {
        char tenant[32];
        snprintf(tenant, sizeof tenant, "tenant-%d", t);
        str name = str_of(tenant);
        assert_int_equal(ask(h, &name, 1), t == 7 ? 2 : t == 39);
    }
    assert_true(head_drop(h, &stays, true, &rows));
    assert_int_equal(h->tenant_count, 0);
    assert_int_equal(h->by_tenant.count, 0);
    lock_release(&stays.lock);
    head_free(h);
}

// A service that could not be added is in no ring.
static void a_service_without_memory_is_not_there(void **state)
{
    (void)state;
    const str tenants[] = {S("one"), S("two")};
    for (int n = 1; n < 60; n++) {
        struct head *h = head_new(NULL, 0);
        err fault = {0};
        struct service_head *s = head_service(h, tenants[0], S("first"), &fault);
        assert_non_null(s);
        service_unref(s);
        mem_fail_at(n);
        s = head_service(h, tenants[n % 2], S("second"), &fault);
        mem_fail_at(0);
        assert_int_equal(ask(h, tenants, COUNT(tenants)), s ? 2 : 1);
        if (s) service_unref(s);
        head_free(h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_question_looks_at_services_of_its_tenants),
        cmocka_unit_test(services_and_tenants_go),
        cmocka_unit_test(a_service_without_memory_is_not_there),
    };
    cut.number = 1;
    lock_init(&cut.lock, LOCK_CUT);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lock_release(&cut.lock);
    return failed;
}
