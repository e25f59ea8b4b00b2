// SPDX-License-Identifier: Apache-2.0
#include "facts.h"
#include "ingester/head.h"

#define FACTS 1500

struct world {
    struct head *head;
    struct cut cuts[3];
    struct fact facts[FACTS];
    bool gone[FACTS];
    unsigned cut_of[FACTS];
    size_t n;
    struct dice dice;
};

static struct world *world_new(uint64_t seed)
{
    struct world *w = mem_must(sizeof *w);
    w->head = head_new(NULL, 0);
    w->dice.state = seed;
    for (size_t i = 0; i < COUNT(w->cuts); i++) {
        w->cuts[i].number = i + 1;
        lock_init(&w->cuts[i].lock, LOCK_CUT);
    }
    return w;
}

static void world_free(struct world *w)
{
    head_free(w->head);
    for (size_t i = 0; i < COUNT(w->cuts); i++)
        lock_release(&w->cuts[i].lock);
    mem_must_free(w);
}

static bool push(struct head *h, struct cut *c, const struct fact *f, size_t n, err *e)
{
    struct arena a;
    struct batch b;
    struct staged *s = NULL;
    arena_init(&a, NULL, 1 << 26);
    str bytes = fact_batch(&a, f, n);
    bool ok = batch_decode(&a, bytes, &b, e) &&
              head_stage(h, &a, str_of(fact_tenants[f->tenant]), &b, 0, &s, e);
    if (ok) head_publish(s, c);
    arena_release(&a);
    return ok;
}

// Adds facts in batches of up to 5, in time order here and there and out of order elsewhere.
static void fill(struct world *w, size_t count)
{
    for (size_t end = w->n + count; w->n < end;) {
        size_t n = MIN(1 + roll(&w->dice, 5), end - w->n);
        unsigned cut = (unsigned)roll(&w->dice, COUNT(w->cuts));
        struct fact *f = &w->facts[w->n];
        for (size_t i = 0; i < n; i++) {
            f[i] = fact_roll(&w->dice, 1000 + (int64_t)w->n, 1 + roll(&w->dice, 2) * 5000);
            f[i].tenant = f[0].tenant;
            f[i].service = f[0].service;
            w->cut_of[w->n + i] = cut;
        }
        assert_ok(push(w->head, &w->cuts[cut], f, n, e));
        w->n += n;
    }
}

// The facts that are still there, moved to the front.
static void forget(struct world *w, unsigned cut)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->n; i++) {
        if (w->cut_of[i] == cut) continue;
        w->cut_of[kept] = w->cut_of[i];
        w->facts[kept++] = w->facts[i];
    }
    w->n = kept;
}

static void some_query(struct world *w, struct req *r, struct head_query *q)
{
    str *tenants = ARENA_ARRAY(&r->arena, str, 2);
    tenants[0] = str_of(fact_tenants[roll(&w->dice, 2)]);
    tenants[1] = str_of(fact_tenants[1]);
    *q = (struct head_query){.tenants = tenants, .tenant_count = 1 + (size_t)roll(&w->dice, 2)};
    q->from_ns = (int64_t)roll(&w->dice, 8000);
    q->to_ns = q->from_ns + (int64_t)roll(&w->dice, 8000);
    fact_selector(&r->arena, &w->dice, &q->selector);
}

static void check_tree(struct world *w, struct req *r, const struct head_query *q)
{
    static const uint64_t spans[] = {0, 2};
    for (size_t i = 0; i < COUNT(spans); i++) {
        uint64_t want = 0;
        uint64_t got = 0;
        struct merge m;
        struct head_tree_filter f = {.span_ids = &spans[i], .span_id_count = spans[i] ? 1 : 0};
        str expected = fact_tree(&r->arena, w->facts, w->n, q, spans[i], &want);
        assert_ok(merge_init(&m, NULL, true, e));
        assert_ok(head_tree(w->head, r, q, &f, &m, &got, e));
        str text = merge_text(&r->arena, &m);
        merge_release(&m);
        assert_int_equal(got, want);
        if (!str_eq(text, expected)) {
            fail_msg("tree is\n%.*s\ninstead of\n%.*s", STR(text), STR(expected));
        }
    }
}

static void check_totals(struct world *w, struct req *r, const struct head_query *q)
{
    static const str pod = S_INIT("pod");
    struct head_totals_want want = {.first_ns = q->from_ns + 100,
                                    .step_ns = 700,
                                    .points = 6,
                                    .group_by = &pod,
                                    .group_by_count = 1,
                                    .include_sampled = roll(&w->dice, 2)};
    struct head_group *groups = NULL;
    size_t n = 0;
    assert_ok(head_totals(w->head, r, q, &want, NULL, &groups, &n, e));
    size_t points = 0;
    for (size_t g = 0; g < n; g++) {
        if (g) assert_true(labels_cmp(groups[g - 1].group, groups[g].group) < 0);
        for (size_t k = 0; k < groups[g].n; k++) {
            const struct head_point *p = &groups[g].points[k];
            int64_t sum = 0;
            uint64_t profiles = 0;
            for (size_t i = 0; i < w->n; i++) {
                const struct fact *f = &w->facts[i];
                int64_t until = want.first_ns + p->point * want.step_ns;
                if ((f->sampled && !want.include_sampled) || !fact_matches(&r->arena, f, q) ||
                    f->time_ns > until || f->time_ns <= until - want.step_ns ||
                    !str_eq(labels_get(groups[g].group, pod), str_of(fact_pods[f->pod]))) {
                    continue;
                }
                sum += f->total;
                profiles++;
            }
            assert_int_equal(p->sum, sum);
            assert_int_equal(p->profiles, profiles);
            assert_true(p->point >= 0 && p->point < want.points);
            if (k) assert_true(groups[g].points[k - 1].point < p->point);
            points += profiles;
        }
    }
    size_t expected = 0;
    for (size_t i = 0; i < w->n; i++) {
        const struct fact *f = &w->facts[i];
        expected += (!f->sampled || want.include_sampled) && fact_matches(&r->arena, f, q) &&
                    f->time_ns > want.first_ns - want.step_ns &&
                    f->time_ns <= want.first_ns + (want.points - 1) * want.step_ns;
    }
    assert_int_equal(points, expected);
}

static void check_labels(struct world *w, struct req *r, const struct head_query *q)
{
    static const str names[] = {S_INIT("pod"), S_INIT("service_name")};
    bool seen[COUNT(fact_pods)][COUNT(fact_services)] = {{false}};
    size_t expected = 0;
    for (size_t i = 0; i < w->n; i++) {
        const struct fact *f = &w->facts[i];
        if (seen[f->pod][f->service] || !fact_matches(&r->arena, f, q)) continue;
        seen[f->pod][f->service] = true;
        expected++;
    }
    labels *sets = NULL;
    size_t n = 0;
    assert_ok(head_labels(w->head, r, q, names, 2, NULL, &sets, &n, e));
    assert_int_equal(n, expected);
    for (size_t i = 0; i < n; i++) {
        bool found = false;
        for (size_t p = 0; p < COUNT(fact_pods); p++) {
            for (size_t s = 0; s < COUNT(fact_services); s++) {
                found =
                    found || (seen[p][s] && str_is(labels_get(sets[i], names[0]), fact_pods[p]) &&
                              str_is(labels_get(sets[i], names[1]), fact_services[s]));
            }
        }
        assert_true(found);
        if (i) assert_true(labels_cmp(sets[i - 1], sets[i]) < 0);
    }
    str *got = NULL;
    assert_ok(head_label_names(w->head, r, q, NULL, &got, &n, e));
    assert_true(n <= 4 && (n >= 2 || expected == 0));
}

static void check_stats(struct world *w, struct req *r, const struct head_query *q)
{
    struct head_stats want = {0};
    for (size_t i = 0; i < w->n; i++) {
        const struct fact *f = &w->facts[i];
        if (!fact_matches(&r->arena, f, q)) continue;
        if (!want.profiles || f->time_ns < want.oldest_ns) want.oldest_ns = f->time_ns;
        if (!want.profiles || f->time_ns > want.newest_ns) want.newest_ns = f->time_ns;
        want.profiles++;
    }
    struct head_stats got;
    assert_ok(head_stat(w->head, r, q, &got, e));
    assert_int_equal(got.profiles, want.profiles);
    assert_int_equal(got.oldest_ns, want.oldest_ns);
    assert_int_equal(got.newest_ns, want.newest_ns);
}

static void check_all(struct world *w, int queries)
{
    for (int i = 0; i < queries; i++) {
        struct req r;
        struct head_query q;
        req_init(&r, RANK_INGESTER, NULL, SIZE_MAX, 0);
        some_query(w, &r, &q);
        check_tree(w, &r, &q);
        check_totals(w, &r, &q);
        check_labels(w, &r, &q);
        check_stats(w, &r, &q);
        req_release(&r);
    }
}

static void queries_equal_brute_force(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct world *w = world_new(seed);
        check_all(w, 3);
        fill(w, 300);
        check_all(w, 25);
        world_free(w);
    }
}

static void dropped_cuts_take_their_rows_and_nothing_else(void **state)
{
    (void)state;
    struct world *w = world_new(77);
    fill(w, 600);
    for (unsigned cut = 0; cut < COUNT(w->cuts); cut++) {
        size_t before = w->n;
        size_t rows = 0;
        forget(w, cut);
        assert_true(head_drop(w->head, &w->cuts[cut], false, &rows));
        assert_int_equal(rows, before - w->n);
        assert_int_equal(head_count(w->head).rows, w->n);
        check_all(w, 10);
    }
    assert_int_equal(head_count(w->head).services, 0);
    assert_int_equal(head_count(w->head).series, 0);
    fill(w, 100);  // and it goes on
    check_all(w, 5);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_equal_brute_force),
        cmocka_unit_test(dropped_cuts_take_their_rows_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
