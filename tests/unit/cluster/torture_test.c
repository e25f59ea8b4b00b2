// SPDX-License-Identifier: Apache-2.0
#include "cluster/member.h"
#include "cluster/place.h"
#include "lib/torture.h"
#include "sys/metric.h"

// ---- a list grows; what is in it stays

struct list {
    struct members *m;
    unsigned added;
};

static void list_begin(void *arg)
{
    struct list *l = arg;
    *l = (struct list){0};
    assert_ok((l->m = members_new(e)));
}

static bool list_fill(void *arg, err *e)
{
    static const str entries[] = {S_INIT("b=10.0.0.2:1"), S_INIT("a=unix:/run/a"),
                                  S_INIT("10.0.0.1:1"),   S_INIT("c=x:1"),
                                  S_INIT("d=x:1"),        S_INIT("e=x:1"),
                                  S_INIT("f=x:1"),        S_INIT("g=x:1"),
                                  S_INIT("h=x:1"),        S_INIT("i=x:1")};
    struct list *l = arg;
    for (; l->added < COUNT(entries); l->added++) {
        if (!members_add(l->m, MEMBER_INGESTER, entries[l->added], e)) return false;
    }
    return true;
}

static void list_check(void *arg, bool done)
{
    struct list *l = arg;
    struct arena a;
    size_t n = 0;
    arena_init(&a, NULL, 1 << 16);
    const struct member *v = members_of(l->m, &a, MEMBER_INGESTER, &n);
    assert_int_equal(n, l->added);
    assert_int_equal(members_has(l->m, MEMBER_INGESTER), l->added > 0);
    for (size_t i = 1; i < n; i++)
        assert_true(str_cmp(v[i - 1].id, v[i].id) < 0);
    if (done) assert_int_equal(n, 10);
    arena_release(&a);
}

static void list_end(void *arg)
{
    members_free(((struct list *)arg)->m);
}

static void a_member_is_added_whole_or_not(void **state)
{
    (void)state;
    struct list l;
    struct torture_count n = torture_work(&(struct torture_work){.name = "cluster.members",
                                                                 .begin = list_begin,
                                                                 .run = list_fill,
                                                                 .check = list_check,
                                                                 .end = list_end,
                                                                 .arg = &l});
    assert_true(n.failed > 10);
}

// ---- whom to ask

static bool choose(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    struct members *m = members_new(e);
    bool ok = m && members_add(m, MEMBER_INGESTER, S("a=x:1"), e) &&
              members_add(m, MEMBER_INGESTER, S("b=x:2"), e) &&
              members_add(m, MEMBER_INGESTER, S("c=x:3"), e);
    if (ok) {
        size_t n = 0;
        uint32_t order[3];
        for (int i = 0; i < 3; i++)
            members_failed(m, MEMBER_INGESTER, S("b"), S("refused"));
        const struct member *v = members_of(m, &b->arena, MEMBER_INGESTER, &n);
        ok = arena_ok(&b->arena, e);
        struct place_options o = {.service_members = 2};
        if (ok) place_order(v, n, &o, S("tenant"), S("service"), 7, order);
        for (size_t i = 0; ok && i < n; i++)
            buf_printf(&b->out, "%.*s %d;", STR(v[order[i]].id), v[order[i]].alive);
    }
    members_free(m);
    return ok;
}

static void choosing_survives(void **state)
{
    (void)state;
    const struct torture_maker m = {.name = "cluster.place", .make = choose};
    torture_make_all(&m, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_is_added_whole_or_not),
        cmocka_unit_test(choosing_survives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
