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
    uint64_t placing[FACTS];  // 0: without a client's id
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
    // A request has records of one placing, with ids and without.
    b.placing = w->placing[i] ? w->placing[i] : 9;
    b.records[0].identified = w->placing[i] > 0;
    assert_ok(head_stage(w->head, &a, str_of(fact_tenants[f->tenant]), &b, NULL, &s, e));
    head_publish(s, &w->cut);
    arena_release(&a);
}

static struct world *world_new(uint64_t seed, uint64_t loose_of_ten)
{
    static const uint64_t placings[] = {0, 3, 3, 5};
    struct world *w = mem_must(sizeof *w);
    w->head = head_new(NULL, 0);
    w->dice.state = seed;
    w->cut.number = 1;
    lock_init(&w->cut.lock, LOCK_CUT);
    for (size_t i = 0; i < FACTS; i++) {
        w->facts[i] = fact_roll(&w->dice, 1000 + (int64_t)i, 5000);
        w->loose[i] = roll(&w->dice, 10) < loose_of_ten;
        w->placing[i] = placings[roll(&w->dice, seed % 5 ? COUNT(placings) : 3)];
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

// Of the rows that match and have one: loose rows need none.
static struct placings placings_of(struct world *w, struct arena *a, const struct head_query *q)
{
    struct placings s = {0};
    for (size_t i = 0; i < FACTS; i++)
        if (!w->loose[i] && fact_matches(a, &w->facts[i], q)) placings_add(&s, w->placing[i]);
    return s;
}

static void the_first_question_counts_all_and_names_the_loose(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct world *w = world_new(seed, seed % 4);
        struct req r;
        struct head_query q;
        struct loose_set met;
        req_init(&r, RANK_INGESTER, NULL, SIZE_MAX, 0);
        some_query(w, &r, &q);
        loose_init(&met, &r.arena, NULL, SIZE_MAX);
        struct placings placings = {0};
        q.met = &met;
        q.placings = &placings;
        // Where lists differ rows with a client's id are loose as well.
        q.identified = seed > 20;
        check(w, w->facts, FACTS, &r, &q);
        struct placings expected = placings_of(w, &r.arena, &q);
        assert_memory_equal(&placings, &expected, sizeof placings);
        assert_int_equal(met.fault.code, ERR_OK);
        size_t named = 0;
        for (size_t i = 0; i < FACTS; i++) {
            const struct fact *f = &w->facts[i];
            bool is = loose_find(&met, key_of(&r.arena, f)) != NULL;
            bool loose = w->loose[i] || (q.identified && w->placing[i]);
            assert_int_equal(is, loose && fact_matches(&r.arena, f, &q));
            named += is;
        }
        assert_int_equal(met.n, named);
        loose_release(&met);
        req_release(&r);
        world_free(w);
    }
}

// A question may look at few rows only, and each kind says by itself which placings it met.
static void each_question_tells_of_its_rows_alone(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct world *w = world_new(seed, seed % 3 ? 0 : 2);
        struct req r;
        struct head_query q;
        struct placings placings = {0};
        struct inventory stats;
        struct label_sets sets;
        req_init(&r, RANK_INGESTER, NULL, SIZE_MAX, 0);
        some_query(w, &r, &q);
        q.placings = &placings;
        assert_ok(head_stat(w->head, &r, &q, false, &stats, e));
        struct placings expected = placings_of(w, &r.arena, &q);
        assert_memory_equal(&placings, &expected, sizeof placings);
        placings = (struct placings){0};
        assert_ok(head_labels(w->head, &r, &q, &(struct head_labels_want){0}, &sets, e));
        // A set of labels is there once, wherever it lies.
        for (uint32_t i = 0; i < placings.n; i++)
            assert_true(placings.v[i] == 3 || placings.v[i] == 5);
        req_release(&r);
        world_free(w);
    }
}

static void the_second_question_counts_what_its_list_says(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
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
            bool loose = w->loose[i] || (seed > 20 && w->placing[i]);
            if (on ? mine : !loose) kept[n++] = w->facts[i];
        }
        q.listed = &listed;
        q.identified = seed > 20;
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
        cmocka_unit_test(each_question_tells_of_its_rows_alone),
        cmocka_unit_test(the_second_question_counts_what_its_list_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
