// SPDX-License-Identifier: Apache-2.0
//
// What comes and goes leaves nothing: pods, services, tenants, functions and lexicons of days, a
// generation in each cut. However many there were, tables are as large as for the few that are
// there.
#include "facts.h"

#define GENERATIONS   60
#define EACH          40  // profiles of a generation
#define SERVICES      4   // that they are of
#define LEXICON_BYTES ((size_t)64 << 10)

struct churn {
    const char *name;
    bool pods;
    bool services;
    bool tenants;
    bool functions;
    bool lexicons;
};

struct town {
    struct head *head;
    struct cut cuts[2];  // of this generation and the one before
    const struct churn *what;
    struct dice dice;
    unsigned generation;
};

static struct town *town_new(const struct churn *what)
{
    struct town *t = mem_must(sizeof *t);
    t->head = head_new(NULL, 64 << 20);
    t->what = what;
    t->dice.state = 7;
    head_set_lexicons(t->head, LEXICON_BYTES);
    for (unsigned i = 0; i < COUNT(t->cuts); i++) {
        t->cuts[i].number = i + 1;
        lock_init(&t->cuts[i].lock, LOCK_CUT);
    }
    return t;
}

static void town_free(struct town *t)
{
    head_free(t->head);
    for (unsigned i = 0; i < COUNT(t->cuts); i++)
        lock_release(&t->cuts[i].lock);
    mem_must_free(t);
}

// The same in all generations, or this one's own.
static str name(struct arena *a, const char *kind, bool own, unsigned generation, unsigned n)
{
    return arena_printf(a, "%s-%05u-%02u", kind, own ? generation : 0, n);
}

static struct record record_of(struct town *t, struct arena *a, struct symbols *s, unsigned n)
{
    struct record r = {.time_ns = 1000 + t->generation,
                       .sibling = RECORD_NO_SIBLING,
                       .duration_ns = 10,
                       .period = 1};
    struct vector_entry v[8];
    struct buf out;
    size_t count = COUNT(v);
    for (size_t i = 0; i < sizeof r.id.b; i++)
        r.id.b[i] = (uint8_t)roll(&t->dice, 256);
    for (unsigned i = 0; i < COUNT(v); i++) {
        str f = name(a, "main;work", t->what->functions, t->generation, n * 8 + i);
        v[i].value = 1 + i;
        r.total += v[i].value;
        assert_ok((v[i].stack = stack_of_text(s, f, e)) != MAP_NONE);
    }
    buf_init(&out, NULL, 1 << 16);
    assert_ok(vector_normalise(v, &count, e));
    vector_encode(v, count, &out);
    r.vector = arena_str(a, buf_view(&out));
    buf_release(&out);
    return r;
}

static void push(struct town *t, unsigned n)
{
    const struct churn *c = t->what;
    struct arena a;
    struct symbols s;
    struct buf out;
    struct staged *staged = NULL;
    arena_init(&a, NULL, 1 << 24);
    assert_ok(symbols_init(&s, NULL, e));
    buf_init(&out, NULL, 1 << 20);
    str tenant = name(&a, "tenant", c->tenants, t->generation, 0);
    str service = name(&a, "service", c->services, t->generation, n % SERVICES);
    const label pairs[] = {{S(LABEL_PROFILE_TYPE), str_of(fact_types[0])},
                           {S("pod"), name(&a, "pod", c->pods, t->generation, n)},
                           {S(LABEL_SERVICE), service}};
    labels series = {pairs, COUNT(pairs)};
    struct record record = record_of(t, &a, &s, n);
    struct batch b = {.service = service,
                      .series = &series,
                      .records = &record,
                      .series_count = 1,
                      .record_count = 1,
                      .symbols = s.t};
    struct symbols none;
    assert_ok(symbols_init(&none, NULL, e));
    if (c->lexicons) {
        b.has_lexicon = true;
        memcpy(b.lexicon.b, record.id.b, sizeof b.lexicon.b);
        b.had = symbols_counts(&none.t);
        b.symbols = symbols_rest(&s.t, &b.had);
    }
    assert_ok(batch_encode(&b, &a, &out, e));
    struct batch got;
    assert_ok(batch_decode(&a, buf_view(&out), &got, e));
    assert_ok(head_stage(t->head, &a, tenant, &got, NULL, &staged, e));
    head_publish(staged, &t->cuts[t->generation % 2]);
    buf_release(&out);
    symbols_release(&none);
    symbols_release(&s);
    arena_release(&a);
}

// Some profiles of a generation, and what is older than the one before goes.
static void live(struct town *t, unsigned profiles)
{
    size_t rows = 0;
    struct cut *c = &t->cuts[t->generation % 2];
    if (t->generation >= 2) assert_true(head_drop(t->head, c, true, &rows));
    c->number += 2;
    atomic_store(&c->dropped, false);
    for (unsigned n = 0; n < profiles; n++)
        push(t, n);
    t->generation++;
}

static const struct churn churns[] = {
    {.name = "nothing"},
    {.name = "pods", .pods = true},
    {.name = "services", .services = true},
    {.name = "tenants", .tenants = true},
    {.name = "functions", .functions = true},
    {.name = "lexicons", .lexicons = true},
    {.name = "all", .pods = true, .services = true, .tenants = true, .functions = true},
};

// Dead symbols and series of a service may be as many as there are live ones, and a few
// (head_compact.c).
#define FEW_SERIES 64

static void generations_leave_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(churns); i++) {
        const struct churn *x = &churns[i];
        struct town *t = town_new(x);
        size_t first = 0;  // the most of the first ones
        while (t->generation < GENERATIONS) {
            live(t, EACH);
            struct head_counts c = head_count(t->head);
            size_t used = head_budget(t->head)->used;
            if (t->generation <= GENERATIONS / 4) first = MAX(first, used);
            if (2 * used > 3 * first)
                fail_msg("%s: %zu bytes after %u, %zu before", x->name, used, t->generation, first);
            size_t services = x->services || x->tenants ? 2 * SERVICES : SERVICES;
            if (c.services > services || c.series > 2 * 2 * EACH + SERVICES * FEW_SERIES)
                fail_msg("%s: %d services, %d series", x->name, (int)c.services, (int)c.series);
            assert_true(c.lexicon_bytes <= LEXICON_BYTES);
            assert_true(c.rows <= 2 * EACH);
        }
        town_free(t);
    }
}

// What a service needed once, when it had thirty times as many profiles, functions and pods, goes
// after them.
static void a_large_generation_is_forgotten(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(churns); i++) {
        struct town *t = town_new(&churns[i]);
        while (t->generation < 6)
            live(t, EACH);
        size_t before = head_budget(t->head)->used;
        live(t, 30 * EACH);
        assert_true(head_budget(t->head)->used > 10 * before);
        while (t->generation < 10)
            live(t, EACH);
        size_t after = head_budget(t->head)->used;
        if (after > 2 * before)
            fail_msg("%s: %zu bytes before, %zu after", churns[i].name, before, after);
        town_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generations_leave_nothing),
        cmocka_unit_test(a_large_generation_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
