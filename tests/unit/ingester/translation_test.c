// SPDX-License-Identifier: Apache-2.0
//
// Random profiles come in batches that name lexicons, of several distributors, some of whose
// answers are lost; cuts are dropped and tables compacted meanwhile. What queries give must be what
// plain batches give, and the log must have batches that stand for themselves.
#include "base/map.h"
#include "facts.h"
#include "ingester/head/head.h"
#include "ingester/head/translation.h"

#include <pthread.h>
#include <stdio.h>

#define FACTS    600
#define TELLERS  2
#define TENANTS  COUNT(fact_tenants)
#define SERVICES COUNT(fact_services)

struct world {
    struct head *head;
    struct cut cuts[3];
    struct fact facts[FACTS];
    unsigned cut_of[FACTS];
    size_t n;
    struct dice dice;
    struct fact_lexicon lexicons[TELLERS][TENANTS][SERVICES];
    unsigned refused;
    unsigned taken;
};

static void each_lexicon(struct world *w, void (*f)(struct world *w, struct fact_lexicon *l))
{
    for (size_t i = 0; i < TELLERS; i++) {
        for (size_t t = 0; t < TENANTS; t++) {
            for (size_t s = 0; s < SERVICES; s++)
                f(w, &w->lexicons[i][t][s]);
        }
    }
}

static void begin(struct world *w, struct fact_lexicon *l)
{
    fact_lexicon_init(l, &w->dice);
}

static void end(struct world *w, struct fact_lexicon *l)
{
    (void)w;
    symbols_release(&l->s);
}

static struct world *world_new(uint64_t seed, size_t memory)
{
    struct world *w = mem_must(sizeof *w);
    w->head = head_new(NULL, 0);
    head_set_lexicons(w->head, memory);
    w->dice.state = seed;
    for (size_t i = 0; i < COUNT(w->cuts); i++) {
        w->cuts[i].number = i + 1;
        lock_init(&w->cuts[i].lock, LOCK_CUT);
    }
    each_lexicon(w, begin);
    return w;
}

static void world_free(struct world *w)
{
    each_lexicon(w, end);
    head_free(w->head);
    for (size_t i = 0; i < COUNT(w->cuts); i++)
        lock_release(&w->cuts[i].lock);
    mem_must_free(w);
}

static bool send(struct world *w, struct cut *c, const struct fact *f, str bytes,
                 uint64_t max_stacks, err *e)
{
    struct arena a;
    struct batch b;
    struct staged *s = NULL;
    struct head_terms terms = {.max_stacks = max_stacks};
    str tenant = str_of(fact_tenants[f->tenant]);
    arena_init(&a, NULL, 1 << 26);
    assert_true(batch_decode(&a, bytes, &b, e));
    bool ok = head_stage(w->head, &a, tenant, &b, &terms, &s, e);
    if (ok) head_publish(s, c);
    arena_release(&a);
    return ok;
}

// As a distributor does: what is refused goes whole, and the lexicon begins anew.
static void push(struct world *w, struct cut *c, struct fact_lexicon *l, const struct fact *f,
                 size_t n, uint64_t max_stacks)
{
    struct arena a;
    err fault = {0};
    arena_init(&a, NULL, 1 << 26);
    if (send(w, c, f, fact_batch_of(&a, f, n, &l->s, l), max_stacks, &fault)) {
        w->taken++;
        if (roll(&w->dice, 8)) l->told = symbols_counts(&l->s.t);  // or the answer was lost
    } else {
        assert_int_equal(fault.code, ERR_NOT_FOUND);
        w->refused++;
        end(w, l);
        begin(w, l);
        assert_ok(send(w, c, f, fact_batch(&a, f, n), max_stacks, e));
    }
    arena_release(&a);
}

static void fill(struct world *w, size_t count)
{
    for (size_t end_at = w->n + count; w->n < end_at;) {
        size_t n = MIN(1 + roll(&w->dice, 5), end_at - w->n);
        unsigned cut = (unsigned)roll(&w->dice, COUNT(w->cuts));
        struct fact *f = &w->facts[w->n];
        for (size_t i = 0; i < n; i++) {
            f[i] = fact_roll(&w->dice, 1000 + (int64_t)w->n, 5000);
            f[i].tenant = f[0].tenant;
            f[i].service = f[0].service;
            w->cut_of[w->n + i] = cut;
        }
        size_t teller = (size_t)roll(&w->dice, TELLERS);
        push(w, &w->cuts[cut], &w->lexicons[teller][f->tenant][f->service], f, n, 0);
        w->n += n;
    }
}

static void check_head(struct world *w, struct head *h, const struct fact *facts, size_t n)
{
    for (int i = 0; i < 10; i++) {
        struct req r;
        struct merge m;
        uint64_t want = 0;
        uint64_t got = 0;
        uint64_t span = roll(&w->dice, 2) ? 0 : 2;
        req_init(&r, RANK_INGESTER, NULL, SIZE_MAX, 0);
        str tenant = str_of(fact_tenants[roll(&w->dice, TENANTS)]);
        struct head_query q = {.tenants = &tenant, .tenant_count = 1};
        q.from_ns = (int64_t)roll(&w->dice, 4000);
        q.to_ns = q.from_ns + (int64_t)roll(&w->dice, 8000);
        fact_selector(&r.arena, &w->dice, &q.selector);
        struct span_filter f = {.spans = &span, .span_count = span ? 1 : 0};
        str expected = fact_tree(&r.arena, facts, n, &q, span, &want);
        assert_ok(merge_init(&m, NULL, true, e));
        assert_ok(head_tree(h, &r, &q, &f, &m, &got, e));
        str text = merge_text(&r.arena, &m);
        merge_release(&m);
        assert_int_equal(got, want);
        if (!str_eq(text, expected))
            fail_msg("tree is\n%.*s\ninstead of\n%.*s", STR(text), STR(expected));
        req_release(&r);
    }
}

static void batches_with_lexicons_count_as_plain_ones_do(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct world *w = world_new(seed, 1 << 20);
        fill(w, 300);
        check_head(w, w->head, w->facts, w->n);
        // A lexicon is known from its first row on: nothing was ever refused.
        assert_int_equal(w->refused, 0);
        assert_int_equal(head_count(w->head).lexicons, TELLERS * TENANTS * SERVICES);
        assert_true(head_count(w->head).lexicon_bytes > 0);
        world_free(w);
    }
}

// What comes after it is in another cut, as it is in a log.
static void drop(struct world *w, unsigned cut, size_t *rows)
{
    assert_true(head_drop(w->head, &w->cuts[cut], false, rows));
    w->cuts[cut].number += COUNT(w->cuts);
    atomic_store(&w->cuts[cut].dropped, false);
}

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

// Stacks that nobody has for long, so that tables are made anew without them.
static void push_rare(struct world *w, unsigned number)
{
    struct arena a;
    struct batch b;
    struct buf out;
    char text[64];
    arena_init(&a, NULL, 1 << 24);
    struct fact f = fact_roll(&w->dice, 1000, 1000);
    f.tenant = 0;
    f.service = 0;
    struct fact_lexicon *l = &w->lexicons[0][0][0];
    assert_ok(batch_decode(&a, fact_batch(&a, &f, 1), &b, e));
    snprintf(text, sizeof text, "only;of_%u;that_%u", number, number);
    uint32_t stack = stack_of_text(&l->s, str_of(text), &(err){0});
    assert_int_not_equal(stack, MAP_NONE);
    struct vector_entry entry = {stack, 6};
    buf_init(&out, NULL, 1 << 24);
    vector_encode(&entry, 1, &out);
    b.records->vector = arena_str(&a, buf_view(&out));
    b.records->total = 6;
    b.records->span_count = 0;
    b.has_lexicon = true;
    b.lexicon = l->id;
    b.had = l->told;
    b.symbols = symbols_rest(&l->s.t, &l->told);
    buf_clear(&out);
    assert_ok(batch_encode(&b, &a, &out, e));
    struct arena in;
    struct batch got;
    struct staged *staged = NULL;
    arena_init(&in, NULL, 1 << 24);
    assert_ok(batch_decode(&in, buf_view(&out), &got, e));
    err fault = {0};
    if (head_stage(w->head, &in, str_of(fact_tenants[0]), &got, NULL, &staged, &fault)) {
        head_publish(staged, &w->cuts[0]);
        l->told = symbols_counts(&l->s.t);
    } else {
        assert_int_equal(fault.code, ERR_NOT_FOUND);
        w->refused++;
        end(w, l);
        begin(w, l);
    }
    arena_release(&in);
    arena_release(&a);
    buf_release(&out);
}

static void rows_that_got_other_numbers_are_asked_for_again(void **state)
{
    (void)state;
    struct world *w = world_new(12, 1 << 20);
    size_t rows = 0;
    for (unsigned round = 0; round < 3; round++) {
        fill(w, 100);
        for (unsigned i = 0; i < 400; i++)
            push_rare(w, i);
        unsigned before = w->refused;
        forget(w, 0);
        drop(w, 0, &rows);
        assert_true(rows >= 400);
        fill(w, 60);
        // The table of that service was made anew: both distributors were told so, once.
        assert_true(w->refused > before && w->refused <= before + TELLERS);
        check_head(w, w->head, w->facts, w->n);
    }
    world_free(w);
}

static void a_service_that_comes_back_has_other_tables(void **state)
{
    (void)state;
    struct world *w = world_new(13, 1 << 20);
    size_t rows = 0;
    fill(w, 100);
    for (unsigned cut = 0; cut < COUNT(w->cuts); cut++)
        drop(w, cut, &rows);
    assert_int_equal(head_count(w->head).services, 0);
    w->n = 0;
    assert_int_equal(w->refused, 0);
    fill(w, 200);
    assert_true(w->refused > 0 && w->refused <= TELLERS * TENANTS * SERVICES);
    check_head(w, w->head, w->facts, w->n);
    world_free(w);
}

static void those_longest_unused_go_first(void **state)
{
    (void)state;
    struct world *w = world_new(14, 4096);
    fill(w, 300);
    struct head_counts c = head_count(w->head);
    assert_true(c.lexicon_bytes <= 4096);
    assert_true(c.lexicons < TELLERS * TENANTS * SERVICES);
    assert_true(w->refused > 0 && w->taken > 0);
    assert_int_equal(c.lexicons_refused, w->refused);
    check_head(w, w->head, w->facts, w->n);
    head_set_lexicons(w->head, 0);
    assert_int_equal(head_count(w->head).lexicons, 0);
    unsigned taken = w->taken;
    fill(w, 50);
    assert_int_equal(w->taken, taken);
    check_head(w, w->head, w->facts, w->n);
    world_free(w);
}

static void a_service_with_too_many_stacks_needs_all_symbols(void **state)
{
    (void)state;
    struct world *w = world_new(15, 1 << 20);
    struct fact f[60];
    struct fact_lexicon *l = &w->lexicons[0][0][0];
    for (size_t i = 0; i < COUNT(f); i++) {
        f[i] = fact_roll(&w->dice, 1000, 1000);
        f[i].tenant = 0;
        f[i].service = 0;
        push(w, &w->cuts[0], l, &f[i], 1, 9);
    }
    assert_true(w->refused > 0 && w->taken > 0);
    assert_true(head_count(w->head).capped > 0);
    world_free(w);
}

// ---- what must not be taken

struct parts {
    struct arena a;
    struct batch b;
    struct symbols s;
};

static void bring(struct world *w, struct parts *p, const char *stack)
{
    arena_init(&p->a, NULL, 1 << 24);
    struct fact f = fact_roll(&w->dice, 1000, 1000);
    f.tenant = 0;
    f.service = 0;
    assert_ok(batch_decode(&p->a, fact_batch(&p->a, &f, 1), &p->b, e));
    assert_ok(symbols_init(&p->s, NULL, e));
    assert_int_not_equal(stack_of_text(&p->s, str_of(stack), &(err){0}), MAP_NONE);
    struct vector_entry entry = {p->s.t.stack_count - 1, 6};
    struct buf out;
    buf_init(&out, NULL, 1 << 24);
    vector_encode(&entry, 1, &out);
    p->b.records->vector = arena_str(&p->a, buf_view(&out));
    buf_release(&out);
    p->b.records->total = 6;
    p->b.records->span_count = 0;
    p->b.has_lexicon = true;
    p->b.lexicon = (id128){{7}};
    p->b.had = (struct symbol_counts){1, 1, 1, 1, 1};
    p->b.symbols = p->s.t;
}

static bool give(struct world *w, struct parts *p, err *e)
{
    struct staged *staged = NULL;
    bool ok = head_stage(w->head, &p->a, str_of(fact_tenants[0]), &p->b, NULL, &staged, e);
    if (ok) head_publish(staged, &w->cuts[0]);
    symbols_release(&p->s);
    arena_release(&p->a);
    return ok;
}

static void gaps_and_other_rows_are_refused(void **state)
{
    (void)state;
    struct world *w = world_new(16, 1 << 20);
    struct parts p;
    err fault = {0};
    bring(w, &p, "a;b");
    assert_ok(give(w, &p, e));
    bring(w, &p, "a;b");  // the same again: compared
    assert_ok(give(w, &p, e));
    bring(w, &p, "a;b;c");
    p.b.had = (struct symbol_counts){5, 5, 1, 5, 5};
    assert_false(give(w, &p, &fault));  // a gap: its sender ends that lexicon
    assert_int_equal(fault.code, ERR_NOT_FOUND);
    assert_int_equal(head_count(w->head).lexicons, 0);
    assert_non_null(strstr(fault.msg, "07000000000000000000000000000000"));
    bring(w, &p, "a;b");
    assert_ok(give(w, &p, e));
    bring(w, &p, "a;b;c");
    struct symbol_counts had = {3, 3, 1, 3, 3};
    p.b.had = had;
    p.b.symbols = symbols_rest(&p.s.t, &had);
    assert_ok(give(w, &p, e));
    static const char *const others[] = {"a;x", "a@7;b", "a;b!", "b;a"};
    for (size_t i = 0; i < COUNT(others); i++) {
        bring(w, &p, others[i]);
        fault = (err){0};
        assert_false(give(w, &p, &fault));
        assert_int_equal(fault.code, ERR_NOT_FOUND);
        assert_int_equal(head_count(w->head).lexicons, 0);  // it says two things: not believed
        bring(w, &p, "a;b");
        assert_ok(give(w, &p, e));
    }
    assert_int_equal(head_count(w->head).rows, 4 + COUNT(others));
    world_free(w);
}

// The second push of what is known adds no row and looks into no index but that of lexicons.
static void what_is_known_is_looked_up_in_no_index(void **state)
{
    (void)state;
    struct translations ts;
    struct symbols to;
    struct fact_lexicon l;
    struct dice dice = {17};
    struct fact f[100];
    uint64_t looked[2] = {0};
    size_t bytes[2] = {0};
    uint32_t stacks[2] = {0};
    translations_init(&ts, NULL);
    translations_limit(&ts, 1 << 20);
    assert_ok(symbols_init(&to, NULL, e));
    fact_lexicon_init(&l, &dice);
    for (size_t i = 0; i < COUNT(f); i++) {
        f[i] = fact_roll(&dice, 1000, 1000);
        f[i].tenant = f[i].service = 0;
    }
    for (int told = 0; told < 2; told++) {
        struct arena a;
        struct batch b;
        err fault = {0};
        arena_init(&a, NULL, 1 << 26);
        str all = fact_batch_of(&a, f, COUNT(f), &l.s, &l);
        bytes[told] = all.n;
        assert_ok(batch_decode(&a, all, &b, e));
        assert_int_equal(b.symbols.stack_count > 1, !told);
        uint64_t before = map_looked;
        struct translation *t = translation_take(&ts, S("t"), &b, &to, 1, &fault);
        looked[told] = map_looked - before;
        stacks[told] = to.t.stack_count;
        assert_non_null(t);
        for (uint32_t i = 0; i < l.s.t.stack_count; i++) {
            struct symbol_stack s = l.s.t.stacks[i];
            assert_int_equal(to.t.stacks[translation_stacks(t)[i]].parent,
                             translation_stacks(t)[s.parent]);
        }
        translation_unref(&ts, t);
        arena_release(&a);
        l.told = symbols_counts(&l.s.t);
    }
    assert_true(looked[0] > 40);
    assert_int_equal(looked[1], 1);
    assert_int_equal(stacks[1], stacks[0]);
    assert_true(bytes[1] + 100 < bytes[0]);
    symbols_release(&l.s);
    symbols_release(&to);
    translations_release(&ts);
}

// One batch of a lexicon: with all its symbols, or with none of them if they were told.
static bool take_batch(struct translations *ts, str tenant, struct fact_lexicon *l,
                       const struct fact *f, struct symbols *to)
{
    struct arena a;
    struct batch b;
    err fault = {0};
    arena_init(&a, NULL, 1 << 26);
    str bytes = fact_batch_of(&a, f, 1, &l->s, l);
    assert_ok(batch_decode(&a, bytes, &b, e));
    struct translation *t = translation_take(ts, tenant, &b, to, 1, &fault);
    assert_true(t || fault.code == ERR_NOT_FOUND);
    if (t) translation_unref(ts, t);
    arena_release(&a);
    l->told = symbols_counts(&l->s.t);
    return t != NULL;
}

// Who has most of the memory loses what it has not used for longest, whoever else has not used his
// for longer.
static void a_flood_of_one_tenant_drops_no_lexicon_of_the_others(void **state)
{
    (void)state;
    struct translations ts;
    struct symbols to;
    struct fact_lexicon modest;
    struct dice dice = {23};
    struct fact f = fact_roll(&dice, 1000, 1000);
    translations_init(&ts, NULL);
    translations_limit(&ts, 64 << 10);
    assert_ok(symbols_init(&to, NULL, e));
    fact_lexicon_init(&modest, &dice);
    f.tenant = f.service = 0;
    assert_true(take_batch(&ts, S("modest"), &modest, &f, &to));
    size_t most = 0;
    for (unsigned i = 0; i < 500; i++) {
        struct fact_lexicon l;
        fact_lexicon_init(&l, &dice);
        assert_true(take_batch(&ts, S("flood"), &l, &f, &to));
        assert_true(translations_count(&ts).bytes <= 64 << 10);
        most = MAX(most, translations_count(&ts).count);
        symbols_release(&l.s);
    }
    assert_true(most < 400);  // the others were dropped
    assert_true(take_batch(&ts, S("modest"), &modest, &f, &to));
    assert_int_equal(translations_count(&ts).refused, 0);
    symbols_release(&modest.s);
    symbols_release(&to);
    translations_release(&ts);
}

// ---- several threads

struct pusher {
    struct world *w;
    pthread_t thread;
    unsigned number;
    struct fact facts[40];
};

static void *push_some(void *arg)
{
    struct pusher *p = arg;
    struct dice dice = {p->number};
    struct fact_lexicon l;
    fact_lexicon_init(&l, &dice);
    for (size_t i = 0; i < COUNT(p->facts); i++) {
        struct arena a;
        struct batch b;
        struct staged *s = NULL;
        err fault = {0};
        struct fact *f = &p->facts[i];
        *f = fact_roll(&dice, 1000 + (int64_t)i, 1000);
        f->tenant = 0;
        f->service = 0;
        arena_init(&a, NULL, 1 << 26);
        assert_ok(batch_decode(&a, fact_batch_of(&a, f, 1, &l.s, &l), &b, e));
        bool ok = head_stage(p->w->head, &a, S("one"), &b, NULL, &s, &fault);
        if (ok) {
            l.told = symbols_counts(&l.s.t);
        } else {
            assert_int_equal(fault.code, ERR_NOT_FOUND);
            symbols_release(&l.s);
            fact_lexicon_init(&l, &dice);
            assert_ok(batch_decode(&a, fact_batch(&a, f, 1), &b, e));
            assert_ok(head_stage(p->w->head, &a, S("one"), &b, NULL, &s, e));
        }
        head_publish(s, &p->w->cuts[0]);
        arena_release(&a);
    }
    symbols_release(&l.s);
    return NULL;
}

static void distributors_push_at_once(void **state)
{
    (void)state;
    struct world *w = world_new(18, 2500);  // some are forgotten while others are used
    static struct pusher pushers[6];
    for (unsigned i = 0; i < COUNT(pushers); i++) {
        pushers[i] = (struct pusher){.w = w, .number = 100 + i};
        assert_int_equal(pthread_create(&pushers[i].thread, NULL, push_some, &pushers[i]), 0);
    }
    for (unsigned i = 0; i < COUNT(pushers); i++) {
        pthread_join(pushers[i].thread, NULL);
        memcpy(w->facts + w->n, pushers[i].facts, sizeof pushers[i].facts);
        w->n += COUNT(pushers[i].facts);
    }
    check_head(w, w->head, w->facts, w->n);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_with_lexicons_count_as_plain_ones_do),
        cmocka_unit_test(rows_that_got_other_numbers_are_asked_for_again),
        cmocka_unit_test(a_service_that_comes_back_has_other_tables),
        cmocka_unit_test(those_longest_unused_go_first),
        cmocka_unit_test(a_service_with_too_many_stacks_needs_all_symbols),
        cmocka_unit_test(gaps_and_other_rows_are_refused),
        cmocka_unit_test(what_is_known_is_looked_up_in_no_index),
        cmocka_unit_test(a_flood_of_one_tenant_drops_no_lexicon_of_the_others),
        cmocka_unit_test(distributors_push_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
