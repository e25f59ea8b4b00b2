// SPDX-License-Identifier: Apache-2.0
//
// What flushes and drops of cuts cost, in steps: services and rows that they look at, and rows that
// are looked at while readers wait.
#include "ingester/head/head.h"
#include "ingester/head/head_segment.h"
#include "values.h"

#include <sched.h>

struct world {
    struct head *head;
    struct cut cuts[2];
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

static struct fact one_fact(struct world *w)
{
    struct fact f = fact_roll(&w->dice, 1000, 100);
    f.sampled = false;
    return f;
}

// ---- many tenants and services

static void push_named(struct world *w, struct cut *cut, str tenant, str service, size_t rows,
                       int64_t time_ns)
{
    struct fact f = one_fact(w);
    struct fact v[8];
    struct arena a;
    struct batch b;
    struct staged *s = NULL;
    f.entries[0].value = f.total = 1;
    f.n = 1;
    for (size_t done = 0; done < rows; done += COUNT(v)) {
        size_t n = MIN(rows - done, COUNT(v));
        for (size_t i = 0; i < n; i++) {
            v[i] = f;
            v[i].id = one_fact(w).id;
            v[i].time_ns = time_ns + (int64_t)(done + i);
        }
        arena_init(&a, NULL, SIZE_MAX);
        assert_ok(batch_decode(&a, fact_batch(&a, v, n), &b, e));
        b.service = service;
        assert_ok(head_stage(w->head, &a, tenant, &b, NULL, &s, e));
        head_publish(s, cut);
        arena_release(&a);
    }
}

static void push_fleet(struct world *w, struct cut *cut, int tenants, int services, int64_t time_ns)
{
    char tenant[32];
    char service[32];
    for (int t = 0; t < tenants; t++) {
        snprintf(tenant, sizeof tenant, "tenant-%d", t);
        for (int i = 0; i < services; i++) {
            snprintf(service, sizeof service, "service-%d", i);
            push_named(w, cut, str_of(tenant), str_of(service), 2, time_ns);
        }
    }
}

static bool to_nowhere(void *arg, str bytes, err *e)
{
    (void)e;
    *(size_t *)arg += bytes.n;
    return true;
}

static uint64_t write_segment(struct world *w, struct arena *a, const struct cut *cut,
                              const struct head_piece *piece)
{
    size_t bytes = 0;
    struct req r;
    struct block_written written;
    struct loose_set keys;
    struct head_segment ask = {.cut = cut, .piece = *piece, .sink = to_nowhere, .arg = &bytes};
    req_init(&r, RANK_DUTY, NULL, SIZE_MAX, 0);
    assert_ok(head_segment(w->head, &r, &ask, &written, e));
    req_release(&r);
    assert_true(bytes > 0);
    loose_init(&keys, a, NULL, SIZE_MAX);
    assert_ok(head_piece_keys(w->head, cut, piece, &keys, e));
    assert_int_equal(keys.n, piece->rows);
    loose_release(&keys);
    return written.rows;
}

// Steps, not time: with T tenants of S services each, a flush must not visit T * T * S of them.
static void a_flush_visits_rows_and_services_of_its_cut(void **state)
{
    (void)state;
    enum {
        TENANTS = 40,
        SERVICES = 25,
        FEW = 3
    };
    const int64_t hour = INT64_C(3600000000000);
    struct world *w = world_new(5);
    struct arena a;
    push_fleet(w, &w->cuts[0], TENANTS, SERVICES, hour / 2);
    push_fleet(w, &w->cuts[1], FEW, 1, hour / 2);
    for (unsigned cut = 0; cut < 2; cut++) {
        struct head_piece *v = NULL;
        size_t n = 0;
        size_t services = cut == 0 ? TENANTS * SERVICES : FEW;
        uint64_t rows = 0;
        struct head_counts before = head_count(w->head);
        arena_init(&a, NULL, SIZE_MAX);
        assert_ok(head_pieces(w->head, &w->cuts[cut], &a, &v, &n, e));
        assert_int_equal(n, cut == 0 ? TENANTS : FEW);
        struct head_counts listed = head_count(w->head);
        assert_int_equal(listed.visited_services - before.visited_services, services);
        assert_true(listed.visited_rows - before.visited_rows <= 2 * services + 2 * FEW);
        for (size_t i = 0; i < n; i++)
            rows += write_segment(w, &a, &w->cuts[cut], &v[i]);
        assert_int_equal(rows, 2 * services);
        assert_int_equal(head_count(w->head).visited_services - listed.visited_services, services);
        arena_release(&a);
    }
    // A drop takes the service's lock for each of those, and for no other.
    for (unsigned cut = 0; cut < 2; cut++) {
        size_t rows = 0;
        size_t services = cut == 0 ? FEW : TENANTS * SERVICES;
        uint64_t runs = head_count(w->head).runs;
        assert_true(head_drop(w->head, &w->cuts[1 - cut], false, &rows));
        assert_int_equal(rows, 2 * services);
        assert_int_equal(head_count(w->head).runs - runs, services);
    }
    assert_int_equal(head_count(w->head).services, 0);
    world_free(w);
}

static void without_a_list_all_services_are_visited(void **state)
{
    (void)state;
    for (int n = 1; n < 12; n++) {
        struct world *w = world_new(6);
        size_t rows = 0;
        push_fleet(w, &w->cuts[0], 3, 4, 10);
        struct arena a;
        struct batch b;
        struct staged *s = NULL;
        struct fact f = one_fact(w);
        arena_init(&a, NULL, SIZE_MAX);
        assert_ok(batch_decode(&a, fact_batch(&a, &f, 1), &b, e));
        assert_ok(head_stage(w->head, &a, S("late"), &b, NULL, &s, e));
        mem_fail_at(n % 4 + 1);
        head_publish(s, &w->cuts[1 - n % 2]);
        mem_fail_at(0);
        struct head_piece *v = NULL;
        size_t count = 0;
        assert_ok(head_pieces(w->head, &w->cuts[1 - n % 2], &a, &v, &count, e));
        assert_int_equal(count, n % 2 ? 4 : 1);
        assert_string_equal(arena_printf(&a, "%.*s", STR(v[0].tenant)).p, "late");
        assert_true(head_drop(w->head, &w->cuts[0], false, &rows));
        assert_int_equal(rows, 24 + n % 2);
        assert_true(head_drop(w->head, &w->cuts[1], false, &rows));
        assert_int_equal(rows, 1 - n % 2);
        assert_int_equal(head_count(w->head).services, 0);
        arena_release(&a);
        world_free(w);
    }
}

// ---- a drop beside readers

static uint64_t ask(struct head *h, str tenant, int64_t *total)
{
    struct head_query q = {.tenants = &tenant, .tenant_count = 1, .to_ns = INT64_MAX};
    struct totals_want want = {.step_ns = INT64_MAX, .points = 2};
    struct cells cells;
    uint64_t profiles = 0;
    struct req r;
    struct inventory stats;
    struct label_sets sets;
    struct head_labels_want all = {0};
    req_init(&r, RANK_INGESTER, NULL, SIZE_MAX, 0);
    head_pin(h);
    assert_ok(head_totals(h, &r, &q, &want, &cells, e));
    for (uint32_t i = 0; i < cells.n; i++) {
        *total += cells.v[i].sum;
        profiles += cells.v[i].count;
    }
    assert_ok(head_stat(h, &r, &q, false, &stats, e));
    assert_int_equal(stats.profiles, profiles);
    assert_ok(head_labels(h, &r, &q, &all, &sets, e));
    assert_int_equal(sets.n, stats.series);
    head_unpin(h);
    req_release(&r);
    return profiles;
}

#define LARGE 20000
#define SMALL 700

struct asker {
    struct world *w;
    atomic_bool stop;
    _Atomic uint64_t whole;
    _Atomic uint64_t rest;
    _Atomic uint64_t other;
};

static void *ask_on(void *arg)
{
    struct asker *x = arg;
    while (!atomic_load(&x->stop)) {
        int64_t total = 0;
        uint64_t profiles = ask(x->w->head, S("t"), &total);
        if (profiles == LARGE + SMALL) {
            atomic_fetch_add(&x->whole, 1);
        } else if (profiles == SMALL) {
            atomic_fetch_add(&x->rest, 1);
        } else {
            atomic_fetch_add(&x->other, 1);
        }
        sched_yield();
    }
    return NULL;
}

// However large a cut is: answers have it or have it not, and its rows leave in short runs.
static void a_large_cut_leaves_beside_readers(void **state)
{
    (void)state;
    struct world *w = world_new(8);
    head_remember(w->head);
    struct asker x = {.w = w};
    pthread_t threads[2];
    size_t rows = 0;
    push_named(w, &w->cuts[0], S("t"), S("s"), LARGE / 2, 1000);
    push_named(w, &w->cuts[1], S("t"), S("s"), SMALL, 2000);
    push_named(w, &w->cuts[0], S("t"), S("s"), LARGE / 2, 1500);
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_on, &x), 0);
    while (!atomic_load(&x.whole))
        sched_yield();
    uint64_t runs = head_count(w->head).runs;
    assert_true(head_drop(w->head, &w->cuts[0], true, &rows));
    assert_int_equal(rows, LARGE);
    while (!atomic_load(&x.rest))
        sched_yield();
    atomic_store(&x.stop, true);
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&x.other), 0);
    struct head_counts counts = head_count(w->head);
    assert_true(counts.longest_run <= 1024);
    assert_true(counts.runs - runs >= LARGE / 1024);
    assert_int_equal(counts.rows, SMALL);
    assert_true(counts.longest_recent_ids <= 1024);
    world_free(w);
}

// ---- a piece beside readers

static const str the_service[] = {{"s", 1}};

static struct head_removal piece_of(struct world *w, const struct loose_set *keys)
{
    return (struct head_removal){.cut = &w->cuts[0],
                                 .tenant = S("t"),
                                 .services = the_service,
                                 .service_count = 1,
                                 .keys = keys};
}

// A large piece; beside it rows of another tenant, another hour and another cut.
static void push_piece_and_others(struct world *w)
{
    const int64_t hour = INT64_C(3600000000000);
    push_named(w, &w->cuts[0], S("t"), S("s"), LARGE, 1000);
    push_named(w, &w->cuts[0], S("t"), S("s"), SMALL / 2, hour + 1000);
    push_named(w, &w->cuts[1], S("t"), S("s"), SMALL / 2, 1000);
    push_named(w, &w->cuts[0], S("u"), S("s"), SMALL, 1000);
}

// No row goes while readers are kept out, however large the piece is: readers that come in before
// they are gone pass them over.
static void a_large_piece_is_concealed_before_its_rows_go(void **state)
{
    (void)state;
    struct world *w = world_new(10);
    struct arena a;
    arena_init(&a, NULL, SIZE_MAX);
    head_remember(w->head);
    push_piece_and_others(w);
    for (int some = 1; some >= 0; some--) {
        int64_t total = 0;
        struct loose_set keys;
        struct loose_set half;
        loose_init(&keys, &a, NULL, SIZE_MAX);
        loose_init(&half, &a, NULL, SIZE_MAX);
        const struct head_piece piece = {.tenant = S("t"),
                                         .services = (str *)(uintptr_t)the_service,
                                         .service_count = 1};
        assert_ok(head_piece_keys(w->head, &w->cuts[0], &piece, &keys, e));
        for (uint32_t i = 0; i < keys.n; i += 2)
            assert_ok(loose_add(&half, keys.v[i].key, 0, e));
        const struct head_removal x = piece_of(w, some ? &half : NULL);
        struct head_counts before = head_count(w->head);
        head_exclude(w->head, &x);
        head_admit(w->head);
        assert_int_equal(before.rows - head_count(w->head).rows, 0);
        assert_int_equal(ask(w->head, S("t"), &total), SMALL + (some ? LARGE / 2 : 0));
        assert_int_equal(ask(w->head, S("u"), &total), SMALL);
        assert_int_equal(head_remove(w->head), LARGE / 2);
        struct head_counts after = head_count(w->head);
        assert_int_equal(before.rows - after.rows, LARGE / 2);
        assert_true(after.longest_run <= 1024);
        assert_true(after.runs - before.runs >= LARGE / 2 / 1024);
        assert_int_equal(ask(w->head, S("t"), &total), SMALL + (some ? LARGE / 2 : 0));
        loose_release(&half);
        loose_release(&keys);
    }
    // With nothing to remove it is over as well.
    head_exclude(w->head, NULL);
    head_admit(w->head);
    assert_int_equal(head_remove(w->head), 0);
    size_t rows = 0;
    assert_true(head_drop(w->head, &w->cuts[0], false, &rows));
    assert_int_equal(rows, SMALL + SMALL / 2);
    arena_release(&a);
    world_free(w);
}

static void a_large_piece_leaves_beside_readers(void **state)
{
    (void)state;
    struct world *w = world_new(11);
    head_remember(w->head);
    struct asker x = {.w = w};
    pthread_t threads[2];
    push_piece_and_others(w);
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_on, &x), 0);
    while (!atomic_load(&x.whole))
        sched_yield();
    const struct head_removal all = piece_of(w, NULL);
    head_exclude(w->head, &all);
    head_admit(w->head);
    while (!atomic_load(&x.rest))
        sched_yield();
    assert_int_equal(head_remove(w->head), LARGE);
    uint64_t rest = atomic_load(&x.rest);
    while (atomic_load(&x.rest) == rest)
        sched_yield();
    atomic_store(&x.stop, true);
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&x.other), 0);
    assert_true(head_count(w->head).longest_run <= 1024);
    world_free(w);
}

// ---- a service that is copied

// A batch of 100 rows of value 1 with a series and 5 stacks that no other has.
static void push_rare(struct world *w, struct cut *cut, uint64_t number)
{
    uint8_t vector[] = {1, 1, 5, 2};
    char text[32];
    struct symbols symbols;
    struct record v[100];
    struct arena a;
    struct staged *s = NULL;
    snprintf(text, sizeof text, "pod-%llu", (unsigned long long)number);
    label pairs[] = {{S(LABEL_PROFILE_TYPE), S("cpu")},
                     {S("pod"), str_of(text)},
                     {S(LABEL_SERVICE), S("s")}};
    labels series = {pairs, COUNT(pairs)};
    uint64_t fingerprint = labels_fingerprint(series);
    assert_ok(symbols_init(&symbols, NULL, e));
    for (uint32_t i = 0; i < 5; i++) {
        struct symbol_function f = {.start_line = (int64_t)number};
        struct symbol_frame frame = {.line = i};
        assert_int_not_equal(f.name = symbols_string(&symbols, str_of(text), &(err){0}), MAP_NONE);
        assert_int_not_equal(frame.function = symbols_function(&symbols, f, &(err){0}), MAP_NONE);
        uint32_t row = symbols_frame(&symbols, frame, &(err){0});
        assert_int_equal(symbols_stack(&symbols, i, row, &(err){0}), i + 1);
    }
    for (uint64_t i = 0; i < COUNT(v); i++) {
        v[i] = (struct record){.time_ns = (int64_t)(1000 + number),
                               .sibling = RECORD_NO_SIBLING,
                               .total = 1,
                               .vector = str_make((char *)vector, sizeof vector)};
        uint64_t id[2] = {number, i};
        memcpy(v[i].id.b, id, sizeof id);
    }
    struct batch b = {.service = S("s"),
                      .series = &series,
                      .fingerprints = &fingerprint,
                      .records = v,
                      .series_count = 1,
                      .record_count = COUNT(v),
                      .symbols = symbols.t};
    arena_init(&a, NULL, SIZE_MAX);
    assert_ok(head_stage(w->head, &a, S("t"), &b, NULL, &s, e));
    head_publish(s, cut);
    arena_release(&a);
    symbols_release(&symbols);
}

enum {
    BATCHES = 150,  // of each cut
    ROWS = 100
};

struct crowd {
    struct world *w;
    atomic_bool stop;
    _Atomic uint64_t begun;  // batches that came besides
    _Atomic uint64_t pushed;
    _Atomic uint64_t asked;
};

static void *push_on(void *arg)
{
    struct crowd *x = arg;
    for (uint64_t i = 0; !atomic_load(&x->stop); i++) {
        atomic_fetch_add(&x->begun, 1);
        push_rare(x->w, &x->w->cuts[1], 2 * BATCHES + i % 400);  // most of them came before
        if (i < 400) atomic_fetch_add(&x->pushed, 1);
        sched_yield();
    }
    return NULL;
}

// Exemplars and labels are of the service as it was when the answer began.
static uint64_t ask_totals(struct head *h)
{
    str tenant = S("t");
    str names[] = {S("pod")};
    struct head_query q = {.tenants = &tenant, .tenant_count = 1, .to_ns = INT64_MAX};
    struct totals_want want = {.step_ns = INT64_MAX,
                               .points = 2,
                               .group_by = names,
                               .group_by_count = 1,
                               .exemplars = EXEMPLAR_PROFILE};
    struct cells cells;
    uint64_t profiles = 0;
    struct req r;
    req_init(&r, RANK_INGESTER, NULL, SIZE_MAX, 0);
    head_pin(h);
    assert_ok(head_totals(h, &r, &q, &want, &cells, e));
    for (uint32_t i = 0; i < cells.n; i++) {
        char pod[32];
        const struct cell *c = &cells.v[i];
        const struct exemplar *x = cells_best(&cells, c);
        uint64_t number = (uint64_t)(x->time_ns - 1000);
        snprintf(pod, sizeof pod, "pod-%llu", (unsigned long long)number);
        assert_true(str_is(cells.groups[c->group].v[0].value, pod));
        assert_true(str_is(labels_get(x->ls, S(LABEL_SERVICE)), "s"));
        assert_int_equal(c->count, ROWS);
        assert_int_equal(c->sum, ROWS);
        profiles += c->count;
    }
    head_unpin(h);
    req_release(&r);
    return profiles;
}

static void *ask_totals_on(void *arg)
{
    struct crowd *x = arg;
    while (!atomic_load(&x->stop)) {
        uint64_t least = atomic_load(&x->pushed);
        uint64_t batches = ask_totals(x->w->head) / ROWS;
        uint64_t most = MIN(atomic_load(&x->begun), (uint64_t)400);
        uint64_t others = batches >= 2 * BATCHES ? batches - 2 * BATCHES : batches - BATCHES;
        bool both = batches >= 2 * BATCHES && others >= least && others <= most;
        bool one = batches >= BATCHES && batches - BATCHES >= least && batches - BATCHES <= most;
        if (!both && !one) fail_msg("%llu batches", (unsigned long long)batches);
        atomic_fetch_add(&x->asked, 1);
        sched_yield();
    }
    return NULL;
}

// Symbols and series of the cut that goes are most of the service's, so it is copied: no answer
// lacks a push that was answered, has one twice, or names another series or stack, and no hold of
// its lock is long.
static void a_service_is_copied_beside_readers_and_pushes(void **state)
{
    (void)state;
    struct world *w = world_new(9);
    struct crowd x = {.w = w};
    pthread_t threads[3];
    size_t rows = 0;
    for (uint64_t i = 0; i < BATCHES; i++)
        push_rare(w, &w->cuts[0], i);
    for (uint64_t i = 0; i < BATCHES; i++)
        push_rare(w, &w->cuts[1], BATCHES + i);
    for (uint64_t i = 0; i < 4 * BATCHES; i++)
        push_named(w, &w->cuts[0], S("t2"), S("s"), 8, 1000);
    size_t before = head_budget(w->head)->used;
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i ? ask_totals_on : push_on, &x), 0);
    while (atomic_load(&x.asked) < 4)
        sched_yield();
    assert_true(head_drop(w->head, &w->cuts[0], true, &rows));
    assert_int_equal(rows, BATCHES * ROWS + 4 * BATCHES * 8);
    uint64_t asked = atomic_load(&x.asked);
    while (atomic_load(&x.asked) < asked + 4)
        sched_yield();
    atomic_store(&x.stop, true);
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    head_tidy(w->head);
    struct head_counts c = head_count(w->head);
    assert_true(c.longest_run <= 1024);
    assert_int_equal(c.services, 1);
    assert_int_equal(c.rows, ROWS * (BATCHES + atomic_load(&x.pushed)));
    // Once nobody pushes, there is a moment in which nothing is staged: the next one is copied.
    assert_true(head_drop(w->head, &w->cuts[1], true, &rows));
    assert_int_equal(rows, c.rows);
    assert_int_equal(head_count(w->head).services, 0);
    assert_int_equal(head_count(w->head).series, 0);
    assert_true(head_budget(w->head)->used < before / 10);
    world_free(w);
}

// The same without others: that it is copied is certain then.
static void what_a_copy_replaced_is_freed_when_its_readers_left(void **state)
{
    (void)state;
    struct world *w = world_new(9);
    size_t rows = 0;
    for (uint64_t i = 0; i < 4 * BATCHES; i++)
        push_rare(w, &w->cuts[0], i);
    push_rare(w, &w->cuts[1], 4 * BATCHES);
    size_t before = head_budget(w->head)->used;
    struct head_counts counts = head_count(w->head);
    assert_int_equal(counts.series, 4 * BATCHES + 1);
    assert_true(head_drop(w->head, &w->cuts[0], true, &rows));
    assert_int_equal(rows, 4 * BATCHES * ROWS);
    assert_int_equal(head_count(w->head).series, 1);
    assert_int_equal(head_count(w->head).rows, ROWS);
    assert_true(head_count(w->head).longest_run <= 1024);
    assert_true(head_budget(w->head)->used < before / 10);
    assert_int_equal(ask_totals(w->head), ROWS);
    push_rare(w, &w->cuts[1], 4 * BATCHES);  // its ids are known
    push_rare(w, &w->cuts[1], 4 * BATCHES + 1);
    assert_int_equal(head_count(w->head).rows, 2 * ROWS);
    assert_int_equal(ask_totals(w->head), 2 * ROWS);
    assert_true(head_drop(w->head, &w->cuts[1], true, &rows));
    assert_int_equal(rows, 2 * ROWS);
    assert_int_equal(head_count(w->head).services, 0);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flush_visits_rows_and_services_of_its_cut),
        cmocka_unit_test(without_a_list_all_services_are_visited),
        cmocka_unit_test(a_large_cut_leaves_beside_readers),
        cmocka_unit_test(a_large_piece_is_concealed_before_its_rows_go),
        cmocka_unit_test(a_large_piece_leaves_beside_readers),
        cmocka_unit_test(a_service_is_copied_beside_readers_and_pushes),
        cmocka_unit_test(what_a_copy_replaced_is_freed_when_its_readers_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
