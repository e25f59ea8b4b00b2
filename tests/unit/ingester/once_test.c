// SPDX-License-Identifier: Apache-2.0
//
// Rows that another ingester may have as well (model/loose.h), as one head sees them: named by the
// first question, counted or left out by the second as its list says.
#include "ingester/head/head.h"
#include "values.h"

#define FACTS 400

struct world {
    struct head *head;
    struct cut cut;
    struct fact facts[FACTS];
    bool loose[FACTS];
    struct dice dice;
};

static void push(struct world *w, size_t i)
{
    struct arena a;
    struct batch b;
    struct staged *s = NULL;
    const struct fact *f = &w->facts[i];
    arena_init(&a, NULL, 1 << 26);
    str bytes = fact_batch(&a, f, 1);
    assert_ok(batch_decode(&a, bytes, &b, e));
    b.records[0].attempt = w->loose[i] ? 1 + (uint32_t)roll(&w->dice, 2) : 0;
    assert_ok(head_stage(w->head, &a, str_of(fact_tenants[f->tenant]), &b, 0, &s, e));
    head_publish(s, &w->cut);
    arena_release(&a);
}

static struct world *world_new(uint64_t seed, uint64_t loose_of_ten)
{
    struct world *w = mem_must(sizeof *w);
    w->head = head_new(NULL, 0);
    w->dice.state = seed;
    w->cut.number = 1;
    lock_init(&w->cut.lock, LOCK_CUT);
    for (size_t i = 0; i < FACTS; i++) {
        w->facts[i] = fact_roll(&w->dice, 1000 + (int64_t)i, 5000);
        w->loose[i] = roll(&w->dice, 10) < loose_of_ten;
        push(w, i);
    }
    return w;
}

static void world_free(struct world *w)
{
    head_free(w->head);
    lock_release(&w->cut.lock);
    mem_must_free(w);
}

static struct loose_key key_of(struct arena *a, const struct fact *f)
{
    return (struct loose_key){labels_fingerprint(fact_labels(a, f)), f->id};
}

// Every kind of question over these facts by brute force.
static void check(struct world *w, const struct fact *facts, size_t n, struct req *r,
                  const struct head_query *q)
{
    uint64_t want = 0;
    uint64_t got = 0;
    struct merge m;
    struct inventory stats;
    const struct span_filter all = {0};
    str expected = fact_tree(&r->arena, facts, n, q, 0, &want);
    assert_ok(merge_init(&m, NULL, true, e));
    assert_ok(head_tree(w->head, r, q, &all, &m, &got, e));
    assert_true(str_eq(merge_text(&r->arena, &m), expected));
    merge_release(&m);
    assert_int_equal(got, want);
    check_totals(w->head, facts, n, &w->dice, r, q);
    check_heat(w->head, facts, n, &w->dice, r, q);
    want = 0;
    for (size_t i = 0; i < n; i++)
        want += fact_matches(&r->arena, &facts[i], q);
    assert_ok(head_stat(w->head, r, q, roll(&w->dice, 2), &stats, e));
    assert_int_equal(stats.profiles, want);
}

static void some_query(struct world *w, struct req *r, struct head_query *q)
{
    str *tenant = ARENA_NEW(&r->arena, str);
    *tenant = str_of(fact_tenants[roll(&w->dice, 2)]);
    *q = (struct head_query){.tenants = tenant, .tenant_count = 1};
    q->from_ns = (int64_t)roll(&w->dice, 4000);
    q->to_ns = q->from_ns + (int64_t)roll(&w->dice, 6000);
    fact_selector(&r->arena, &w->dice, &q->selector);
}

static void the_first_question_counts_all_and_names_the_loose(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world *w = world_new(seed, seed % 4);
        struct req r;
        struct head_query q;
        struct loose_set met;
        req_init(&r, RANK_INGESTER, NULL, SIZE_MAX, 0);
        some_query(w, &r, &q);
        loose_init(&met, &r.arena, NULL, SIZE_MAX);
        q.met = &met;
        check(w, w->facts, FACTS, &r, &q);
        assert_int_equal(met.fault.code, ERR_OK);
        size_t named = 0;
        for (size_t i = 0; i < FACTS; i++) {
            const struct fact *f = &w->facts[i];
            bool is = loose_find(&met, key_of(&r.arena, f)) != NULL;
            assert_int_equal(is, w->loose[i] && fact_matches(&r.arena, f, &q));
            named += is;
        }
        assert_int_equal(met.n, named);
        loose_release(&met);
        req_release(&r);
        world_free(w);
    }
}

static void the_second_question_counts_what_its_list_says(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world *w = world_new(seed, 3);
        struct fact *kept = mem_must(sizeof w->facts);
        struct req r;
        struct head_query q;
        struct loose_set listed;
        size_t n = 0;
        req_init(&r, RANK_INGESTER, NULL, SIZE_MAX, 0);
        some_query(w, &r, &q);
        loose_init(&listed, &r.arena, NULL, SIZE_MAX);
        for (size_t i = 0; i < FACTS; i++) {
            bool on = roll(&w->dice, 2) == 0;
            bool mine = roll(&w->dice, 2) == 0;
            struct loose_key key = key_of(&r.arena, &w->facts[i]);
            if (on) assert_ok(loose_add(&listed, key, mine ? LOOSE_MINE : 0, e));
            if (on ? mine : !w->loose[i]) kept[n++] = w->facts[i];
        }
        q.listed = &listed;
        check(w, kept, n, &r, &q);
        loose_release(&listed);
        req_release(&r);
        mem_must_free(kept);
        world_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_question_counts_all_and_names_the_loose),
        cmocka_unit_test(the_second_question_counts_what_its_list_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
