// SPDX-License-Identifier: Apache-2.0
//
// Deletions, as a head sees them: what they hide counts in no answer, as long as it is in memory.
#include "ingester/head/head.h"
#include "values.h"

#define FACTS 400

struct world {
    struct head *head;
    struct cut cut;
    struct fact facts[FACTS];
    struct dice dice;
};

static void push(struct world *w, const struct fact *f)
{
    struct arena a;
    struct batch b;
    struct staged *s = NULL;
    arena_init(&a, NULL, 1 << 26);
    assert_ok(batch_decode(&a, fact_batch(&a, f, 1), &b, e));
    assert_ok(head_stage(w->head, &a, str_of(fact_tenants[f->tenant]), &b, NULL, &s, e));
    head_publish(s, &w->cut);
    arena_release(&a);
}

static struct world *world_new(uint64_t seed)
{
    struct world *w = mem_must(sizeof *w);
    w->head = head_new(NULL, 0);
    w->dice.state = seed;
    w->cut.number = 1;
    lock_init(&w->cut.lock, LOCK_CUT);
    for (size_t i = 0; i < FACTS; i++) {
        w->facts[i] = fact_roll(&w->dice, 1000 + (int64_t)i, 5000);
        push(w, &w->facts[i]);
    }
    return w;
}

static void world_free(struct world *w)
{
    head_free(w->head);
    lock_release(&w->cut.lock);
    mem_must_free(w);
}

// All profiles of a tenant in some time, and up to two deletions.
static void some_query(struct world *w, struct req *r, struct head_query *q)
{
    str *tenant = ARENA_NEW(&r->arena, str);
    struct hide *hides = ARENA_ARRAY(&r->arena, struct hide, 2);
    *tenant = str_of(fact_tenants[roll(&w->dice, 2)]);
    *q = (struct head_query){.tenants = tenant, .tenant_count = 1, .hides = hides};
    q->from_ns = (int64_t)roll(&w->dice, 4000);
    q->to_ns = q->from_ns + (int64_t)roll(&w->dice, 6000);
    q->hide_count = (size_t)roll(&w->dice, 3);
    for (size_t i = 0; i < q->hide_count; i++) {
        fact_selector(&r->arena, &w->dice, &hides[i].selector);
        hides[i].from_ns = (int64_t)roll(&w->dice, 6000);
        hides[i].to_ns = hides[i].from_ns + (int64_t)roll(&w->dice, 3000);
    }
}

static void check_stats(struct world *w, struct req *r, const struct head_query *q)
{
    struct inventory want = {0};
    struct inventory got;
    for (size_t i = 0; i < FACTS; i++) {
        const struct fact *f = &w->facts[i];
        if (!fact_matches(&r->arena, f, q)) continue;
        want.oldest_ns = want.profiles ? MIN(want.oldest_ns, f->time_ns) : f->time_ns;
        want.newest_ns = want.profiles ? MAX(want.newest_ns, f->time_ns) : f->time_ns;
        want.profiles++;
        want.series++;
        for (size_t k = 0; k < i; k++) {
            if (!fact_matches(&r->arena, &w->facts[k], q)) continue;
            if (!labels_eq(fact_labels(&r->arena, &w->facts[k]), fact_labels(&r->arena, f)))
                continue;
            want.series--;
            break;
        }
    }
    for (int with_sizes = 0; with_sizes < 2; with_sizes++) {
        assert_ok(head_stat(w->head, r, q, with_sizes, &got, e));
        assert_int_equal(got.profiles, want.profiles);
        assert_int_equal(got.series, want.series);
        assert_int_equal(got.oldest_ns, want.oldest_ns);
        assert_int_equal(got.newest_ns, want.newest_ns);
    }
}

static void check_tree(struct world *w, struct req *r, const struct head_query *q)
{
    uint64_t want = 0;
    uint64_t got = 0;
    struct merge m;
    const struct span_filter all = {0};
    str expected = fact_tree(&r->arena, w->facts, FACTS, q, 0, &want);
    assert_ok(merge_init(&m, NULL, true, e));
    assert_ok(head_tree(w->head, r, q, &all, &m, &got, e));
    assert_true(str_eq(merge_text(&r->arena, &m), expected));
    merge_release(&m);
    assert_int_equal(got, want);
}

static void what_a_deletion_hides_counts_in_no_answer(void **state)
{
    (void)state;
    struct world *w = world_new(8);
    for (int i = 0; i < 30; i++) {
        struct req r;
        struct head_query q;
        req_init(&r, RANK_INGESTER, NULL, SIZE_MAX, 0);
        some_query(w, &r, &q);
        check_tree(w, &r, &q);
        check_totals(w->head, w->facts, FACTS, &w->dice, &r, &q);
        check_heat(w->head, w->facts, FACTS, &w->dice, &r, &q);
        check_stats(w, &r, &q);
        req_release(&r);
    }
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_a_deletion_hides_counts_in_no_answer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
