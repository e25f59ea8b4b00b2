// SPDX-License-Identifier: Apache-2.0
//
// One tenant that pushes without end takes its share of the head and what nobody else needs, but
// not the room of the others; and it has no more active series than it may.
#include "facts.h"
#include "ingester/head/head_int.h"

#define HEAD   ((size_t)4 << 20)
#define CUTS   3
#define SERIES 40  // of a push of the greedy

struct town {
    struct head *head;
    struct cut cuts[CUTS];
    struct dice dice;
    unsigned pods;  // given names so far
};

static struct town *town_new(struct mem_budget *parent, size_t limit)
{
    struct town *t = mem_must(sizeof *t);
    t->head = head_new(parent, limit);
    t->dice.state = 11;
    for (unsigned i = 0; i < CUTS; i++) {
        t->cuts[i].number = i + 1;
        lock_init(&t->cuts[i].lock, LOCK_CUT);
    }
    return t;
}

static void town_free(struct town *t)
{
    head_free(t->head);
    for (unsigned i = 0; i < CUTS; i++)
        lock_release(&t->cuts[i].lock);
    mem_must_free(t);
}

// A batch of `n` series, whose pods are numbered from `first`, with a profile of each.
static void make(struct town *t, struct arena *a, str service, unsigned first, unsigned n,
                 struct batch *b)
{
    struct symbols s;
    struct buf out;
    struct buf vector;
    uint32_t stack = 0;
    labels *series = ARENA_ARRAY(a, labels, n);
    struct record *records = ARENA_ARRAY(a, struct record, n);
    assert_ok(symbols_init(&s, NULL, e));
    buf_init(&out, NULL, SIZE_MAX);
    buf_init(&vector, NULL, SIZE_MAX);
    assert_ok((stack = stack_of_text(&s, S("main;work"), e)) != MAP_NONE);
    vector_encode(&(struct vector_entry){.stack = stack, .value = 5}, 1, &vector);
    for (unsigned i = 0; i < n; i++) {
        label *pairs = ARENA_ARRAY(a, label, 3);
        pairs[0] = (label){S(LABEL_PROFILE_TYPE), str_of(fact_types[0])};
        pairs[1] = (label){S("pod"), arena_printf(a, "pod-%07u", first + i)};
        pairs[2] = (label){S(LABEL_SERVICE), service};
        series[i] = (labels){pairs, 3};
        records[i] = (struct record){.series = i,
                                     .time_ns = 1000 + (int64_t)roll(&t->dice, 1000),
                                     .sibling = RECORD_NO_SIBLING,
                                     .period = 1,
                                     .total = 5,
                                     .vector = buf_view(&vector)};
        for (size_t k = 0; k < sizeof records[i].id.b; k++)
            records[i].id.b[k] = (uint8_t)roll(&t->dice, 256);
    }
    struct batch made = {.service = service,
                         .series = series,
                         .records = records,
                         .series_count = n,
                         .record_count = n,
                         .symbols = s.t};
    assert_ok(batch_encode(&made, a, &out, e));
    assert_ok(batch_decode(a, arena_str(a, buf_view(&out)), b, e));
    buf_release(&vector);
    buf_release(&out);
    symbols_release(&s);
}

struct push {
    const char *tenant;
    const char *service;
    unsigned first;
    unsigned n;
    unsigned cut;
    bool abandon;
};

static bool push(struct town *t, const struct push *p, struct head_terms *terms, err *e)
{
    struct arena a;
    struct batch b;
    struct staged *staged = NULL;
    arena_init(&a, NULL, SIZE_MAX);
    make(t, &a, str_of(p->service), p->first, p->n, &b);
    bool ok = head_stage(t->head, &a, str_of(p->tenant), &b, terms, &staged, e);
    if (ok && p->abandon) head_abandon(staged);
    if (ok && !p->abandon) head_publish(staged, &t->cuts[p->cut]);
    arena_release(&a);
    return ok;
}

// Pushes new series until that is refused; returns how many pushes were taken.
static unsigned push_until_refused(struct town *t, const char *tenant, unsigned series,
                                   struct head_terms *terms, err *e)
{
    unsigned taken = 0;
    for (;; taken++) {
        struct push p = {.tenant = tenant, .service = "s", .first = t->pods, .n = series};
        t->pods += series;
        if (!push(t, &p, terms, e)) return taken;
        assert_true(taken < 1000000);
    }
}

static size_t used(const struct town *t)
{
    return head_budget(t->head)->used;
}

static size_t drop(struct town *t, unsigned cut)
{
    size_t rows = 0;
    assert_true(head_drop(t->head, &t->cuts[cut], true, &rows));
    t->cuts[cut].number += CUTS;
    atomic_store(&t->cuts[cut].dropped, false);
    return rows;
}

// ---- memory

static void a_greedy_tenant_leaves_room_to_the_others(void **state)
{
    (void)state;
    struct town *t = town_new(NULL, HEAD);
    struct head_terms terms = {.share = 0.5};
    err why = {0};
    assert_true(push_until_refused(t, "greedy", SERIES, &terms, &why) > 10);
    assert_int_equal(why.code, ERR_RESOURCE_EXHAUSTED);
    assert_int_equal(terms.refusal, HEAD_NO_SHARE);
    assert_non_null(strstr(why.msg, "tenant greedy has "));
    assert_non_null(strstr(why.msg, "more than its share of 2097152"));
    assert_non_null(strstr(why.msg, "limits.ingester_head_share"));
    assert_non_null(strstr(why.msg, "ingester.head_memory"));
    // What nobody else uses is lent, up to seven eighths.
    size_t most = HEAD - HEAD / HEAD_LEAVES;
    assert_true(used(t) <= most && used(t) > most / 8 * 7);
    // Others push as if nothing were the matter, while the greedy one goes on, under new names too.
    size_t before = used(t);
    for (unsigned i = 0; used(t) < before + HEAD / HEAD_LEAVES / 2; i++) {
        char name[32];
        snprintf(name, sizeof name, "modest-%u", i % 3);
        struct push p = {.tenant = name, .service = "s", .first = i, .n = 2, .cut = 1};
        assert_ok(push(t, &p, &terms, e));
        snprintf(name, sizeof name, "s-%u", i);
        p = (struct push){.tenant = "greedy", .service = name, .first = t->pods, .n = 1000};
        if (i % 2) p.service = "s";
        t->pods += 1000;
        assert_false(push(t, &p, &terms, &why));
        assert_int_equal(terms.refusal, HEAD_NO_SHARE);
    }
    // What it brought goes; nothing of it is left, and there is room again.
    assert_true(drop(t, 0) > (size_t)10 * SERIES);
    assert_true(used(t) < HEAD / HEAD_LEAVES);
    assert_true(push_until_refused(t, "greedy", SERIES, &terms, &why) > 10);
    town_free(t);
}

// Not even a service can be made; that, too, is the tenant's own fault.
static void a_service_that_finds_no_room_is_refused_to_its_tenant(void **state)
{
    (void)state;
    struct town *t = town_new(NULL, HEAD);
    struct head_terms terms = {.share = 0.5};
    err why = {0};
    (void)push_until_refused(t, "greedy", SERIES, &terms, &why);
    struct mem_budget *b = &t->head->tenants[0]->budget;
    size_t rest = mem_room(b);
    assert_ok(mem_reserve(b, rest, e));
    struct push p = {.tenant = "greedy", .service = "another", .n = 1};
    terms.refusal = HEAD_NO_SERIES;
    assert_false(push(t, &p, &terms, &why));
    assert_int_equal(terms.refusal, HEAD_NO_SHARE);
    p.tenant = "modest";
    assert_ok(push(t, &p, &terms, e));
    mem_unreserve(b, rest);
    town_free(t);
}

// With its share and no more a tenant is told that the head is full, as ever.
static void tenants_within_their_shares_have_all_of_the_head(void **state)
{
    (void)state;
    struct town *t = town_new(NULL, HEAD);
    struct head_terms terms = {.share = 0.25};
    err why = {0};
    const char *const names[] = {"a", "b", "c", "d", "e"};
    size_t full[COUNT(names)] = {0};
    unsigned left = COUNT(names);
    for (unsigned i = 0; left > 0; i = (i + 1) % COUNT(names)) {
        struct push p = {.tenant = names[i], .service = "s", .first = t->pods, .n = 1};
        if (full[i]) continue;
        t->pods++;
        terms.refusal = HEAD_NO_SERIES;
        if (push(t, &p, &terms, &why)) continue;
        assert_int_equal(terms.refusal, HEAD_NO_ROOM);
        assert_null(strstr(why.msg, "share"));
        full[i] = used(t);
        left--;
    }
    for (size_t i = 0; i < COUNT(names); i++)
        assert_true(full[i] > HEAD - HEAD / HEAD_LEAVES);
    town_free(t);
}

static void one_tenant_alone_without_a_share_has_all_of_the_head(void **state)
{
    (void)state;
    const double shares[] = {0, 1};
    for (size_t i = 0; i < COUNT(shares); i++) {
        struct town *t = town_new(NULL, HEAD);
        struct head_terms terms = {.share = shares[i]};
        err why = {0};
        (void)push_until_refused(t, "only", 1, &terms, &why);
        assert_int_equal(terms.refusal, HEAD_NO_ROOM);
        assert_true(used(t) > HEAD - HEAD / HEAD_LEAVES / 2);
        town_free(t);
    }
}

// What was acknowledged is held, whatever the tenant's share is (replay.c); the next push has it
// again.
static void a_replay_knows_no_shares(void **state)
{
    (void)state;
    struct mem_budget process;
    mem_budget_init(&process, "process", NULL, HEAD);
    struct town *t = town_new(&process, HEAD);
    struct head_terms terms = {.share = 0.5};
    err why = {0};
    (void)push_until_refused(t, "greedy", SERIES, &terms, &why);
    assert_int_equal(terms.refusal, HEAD_NO_SHARE);
    struct mem_budget *b = &t->head->tenants[0]->budget;
    assert_false(mem_reserve(b, HEAD / HEAD_LEAVES, &why));
    head_set_limit(t->head, 0);
    assert_ok(mem_reserve(b, HEAD / HEAD_LEAVES, e));
    mem_unreserve(b, HEAD / HEAD_LEAVES);
    head_set_limit(t->head, HEAD);
    assert_int_equal(push_until_refused(t, "greedy", SERIES, &terms, &why), 0);
    assert_int_equal(terms.refusal, HEAD_NO_SHARE);
    town_free(t);
    assert_int_equal(process.used, 0);
}

// ---- series

// Counted anew, series by series.
static uint64_t active_of(const struct town *t, const char *tenant)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < t->head->service_count; i++) {
        const struct service_head *s = service_current(t->head->services[i]);
        if (tenant && !str_is(s->tenant, tenant)) continue;
        for (uint32_t k = 0; k < s->index.series_count; k++)
            n += rows_count(&s->rows[k]) > 0;
    }
    return n;
}

static uint64_t told_of(struct town *t, const char *tenant)
{
    struct arena a;
    struct head_tenant *v = NULL;
    size_t n = 0;
    uint64_t series = 0;
    arena_init(&a, NULL, SIZE_MAX);
    assert_ok(head_tenants(t->head, &a, &v, &n, e));
    for (size_t i = 0; i < n; i++) {
        if (i > 0) assert_true(v[i - 1].bytes >= v[i].bytes);
        if (str_is(v[i].name, tenant)) series = v[i].series;
    }
    arena_release(&a);
    return series;
}

static void active_series_have_a_limit(void **state)
{
    (void)state;
    struct town *t = town_new(NULL, 0);
    struct head_terms terms = {.max_series = 10};
    err why = {0};
    struct push p = {.tenant = "t", .service = "one", .n = 6};
    assert_ok(push(t, &p, &terms, e));
    p.service = "two";  // the limit is of the tenant, not of a service
    p.n = 4;
    assert_ok(push(t, &p, &terms, e));
    for (unsigned i = 0; i < 50; i++) {
        p = (struct push){.tenant = "t", .service = "one", .first = i, .n = 15};
        assert_false(push(t, &p, &terms, &why));
        assert_int_equal(why.code, ERR_RESOURCE_EXHAUSTED);
        assert_int_equal(terms.refusal, HEAD_NO_SERIES);
    }
    p = (struct push){.tenant = "t", .service = "one", .first = 6, .n = 1};
    assert_false(push(t, &p, &terms, &why));
    assert_string_equal(why.msg, "service one: Maximum active series limit exceeded (11/10) of "
                                 "tenant t in this ingester: reduce labels or their values, or "
                                 "raise limits.max_local_series_per_tenant");
    // Refused pushes leave nothing in the tables, and series that are there take further profiles.
    assert_int_equal(head_count(t->head).series, 10);
    assert_int_equal(head_count(t->head).active_series, 10);
    p.first = 2;
    p.cut = 1;
    assert_ok(push(t, &p, &terms, e));
    p = (struct push){.tenant = "other", .service = "one", .n = 10};
    assert_ok(push(t, &p, &terms, e));
    // A series is active until its last profile has left.
    assert_int_equal(drop(t, 0), 20);
    assert_int_equal(told_of(t, "t"), 1);
    assert_int_equal(told_of(t, "other"), 0);
    p = (struct push){.tenant = "t", .service = "three", .n = 10};
    assert_false(push(t, &p, &terms, &why));
    assert_non_null(strstr(why.msg, "(11/10)"));
    p.n = 9;
    assert_ok(push(t, &p, &terms, e));
    town_free(t);
}

// Of a push that another one, staged at the same time, has left no room for.
static void staged_series_count(void **state)
{
    (void)state;
    struct town *t = town_new(NULL, 0);
    struct head_terms terms = {.max_series = 10};
    struct arena arenas[2];
    struct batch b[2];
    struct staged *staged = NULL;
    err why = {0};
    for (size_t i = 0; i < 2; i++) {
        arena_init(&arenas[i], NULL, SIZE_MAX);
        make(t, &arenas[i], i ? S("one") : S("two"), 0, 6, &b[i]);
    }
    assert_ok(head_stage(t->head, &arenas[0], S("t"), &b[0], &terms, &staged, e));
    assert_int_equal(told_of(t, "t"), 6);
    struct staged *none = NULL;
    assert_false(head_stage(t->head, &arenas[1], S("t"), &b[1], &terms, &none, &why));
    assert_non_null(strstr(why.msg, "(12/10)"));
    head_abandon(staged);
    assert_int_equal(head_count(t->head).active_series, 0);
    assert_ok(head_stage(t->head, &arenas[1], S("t"), &b[1], &terms, &staged, e));
    head_publish(staged, &t->cuts[0]);
    assert_int_equal(told_of(t, "t"), 6);
    for (size_t i = 0; i < 2; i++)
        arena_release(&arenas[i]);
    town_free(t);
}

// Pushes that are refused or fail leave no services without rows, however many names they bring.
static void refused_pushes_leave_no_services(void **state)
{
    (void)state;
    struct town *t = town_new(NULL, HEAD);
    struct head_terms terms = {.max_series = 3};
    err why = {0};
    size_t bytes = 0;
    for (unsigned i = 0; i < 300; i++) {
        char service[32];
        snprintf(service, sizeof service, "s-%u", i);
        struct push p = {.tenant = "t", .service = service, .n = 4};
        assert_false(push(t, &p, &terms, &why));
        p.n = 2;
        p.abandon = true;
        assert_ok(push(t, &p, &terms, e));
        assert_int_equal(head_count(t->head).services, 0);
        assert_int_equal(t->head->tenant_count, 0);
        if (i == 100) bytes = used(t);
    }
    assert_int_equal(used(t), bytes);
    // So do those that meet a full head.
    head_set_limit(t->head, used(t) + 40000);
    for (unsigned i = 0; i < 300; i++) {
        char service[32];
        snprintf(service, sizeof service, "f-%u", i);
        struct push p = {.tenant = "t", .service = service, .first = t->pods, .n = 500};
        t->pods += 500;
        assert_false(push(t, &p, NULL, &why));
        assert_int_equal(head_count(t->head).services, 0);
    }
    town_free(t);
}

static void counts_agree_after_any_pushes_and_drops(void **state)
{
    (void)state;
    static const char *const tenants[] = {"x", "y"};
    static const char *const services[] = {"one", "two", "three"};
    struct town *t = town_new(NULL, 0);
    struct head_terms terms = {.max_series = 900};
    unsigned refused = 0;
    for (unsigned i = 0; i < 1500; i++) {
        struct push p = {.tenant = tenants[roll(&t->dice, 2)],
                         .service = services[roll(&t->dice, 3)],
                         .first = (unsigned)roll(&t->dice, 3000),
                         .n = 1 + (unsigned)roll(&t->dice, 60),
                         .cut = (unsigned)roll(&t->dice, CUTS),
                         .abandon = roll(&t->dice, 4) == 0};
        err why = {0};
        bool ok = push(t, &p, &terms, &why);
        refused += !ok;
        if (!ok) assert_int_equal(terms.refusal, HEAD_NO_SERIES);
        if (roll(&t->dice, 20) == 0) (void)drop(t, (unsigned)roll(&t->dice, CUTS));
        for (size_t k = 0; k < COUNT(tenants); k++) {
            uint64_t active = active_of(t, tenants[k]);
            assert_int_equal(told_of(t, tenants[k]), active);
            assert_true(active <= 900);
        }
        assert_int_equal(head_count(t->head).active_series, active_of(t, NULL));
    }
    assert_true(refused > 20);
    for (unsigned i = 0; i < CUTS; i++)
        (void)drop(t, i);
    assert_int_equal(head_count(t->head).active_series, 0);
    assert_int_equal(t->head->tenant_count, 0);
    town_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_greedy_tenant_leaves_room_to_the_others),
        cmocka_unit_test(a_service_that_finds_no_room_is_refused_to_its_tenant),
        cmocka_unit_test(tenants_within_their_shares_have_all_of_the_head),
        cmocka_unit_test(one_tenant_alone_without_a_share_has_all_of_the_head),
        cmocka_unit_test(a_replay_knows_no_shares),
        cmocka_unit_test(active_series_have_a_limit),
        cmocka_unit_test(staged_series_count),
        cmocka_unit_test(refused_pushes_leave_no_services),
        cmocka_unit_test(counts_agree_after_any_pushes_and_drops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
