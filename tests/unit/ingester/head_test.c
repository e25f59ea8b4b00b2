// SPDX-License-Identifier: Apache-2.0
#include "ingester/head/head.h"
#include "values.h"

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

static bool push_capped(struct head *h, struct cut *c, const struct fact *f, size_t n,
                        uint64_t max_stacks, err *e)
{
    struct arena a;
    struct batch b;
    struct staged *s = NULL;
    struct head_terms terms = {.max_stacks = max_stacks};
    arena_init(&a, NULL, 1 << 26);
    str bytes = fact_batch(&a, f, n);
    bool ok = batch_decode(&a, bytes, &b, e) &&
              head_stage(h, &a, str_of(fact_tenants[f->tenant]), &b, &terms, &s, e);
    if (ok) head_publish(s, c);
    arena_release(&a);
    return ok;
}

static bool push(struct head *h, struct cut *c, const struct fact *f, size_t n, err *e)
{
    return push_capped(h, c, f, n, 0, e);
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

// What comes after it is in another cut, as it is in a log.
static bool drop(struct world *w, unsigned cut, size_t *rows)
{
    bool went = head_drop(w->head, &w->cuts[cut], false, rows);
    if (!went) return false;
    w->cuts[cut].number += COUNT(w->cuts);
    atomic_store(&w->cuts[cut].dropped, false);
    return true;
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
        struct span_filter f = {.spans = &spans[i], .span_count = spans[i] ? 1 : 0};
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
    struct label_sets got;
    assert_ok(head_labels(w->head, r, q, &(struct head_labels_want){names, 2}, &got, e));
    assert_int_equal(got.n, expected);
    for (size_t i = 0; i < got.n; i++) {
        const labels *sets = got.v;
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
    assert_ok(head_label_names(w->head, r, q, &got, e));
    assert_true(got.n <= 4 && (got.n >= 2 || expected == 0));
}

static void check_stats(struct world *w, struct req *r, const struct head_query *q)
{
    struct inventory want = {0};
    for (size_t i = 0; i < w->n; i++) {
        const struct fact *f = &w->facts[i];
        if (!fact_matches(&r->arena, f, q)) continue;
        if (!want.profiles || f->time_ns < want.oldest_ns) want.oldest_ns = f->time_ns;
        if (!want.profiles || f->time_ns > want.newest_ns) want.newest_ns = f->time_ns;
        want.profiles++;
    }
    struct inventory got;
    assert_ok(head_stat(w->head, r, q, false, &got, e));
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
        check_totals(w->head, w->facts, w->n, &w->dice, &r, &q);
        check_heat(w->head, w->facts, w->n, &w->dice, &r, &q);
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
        assert_true(drop(w, cut, &rows));
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

struct two_steps {
    struct arena arena;
    struct staged *staged;
};

// ---- what rows leave behind

// A profile with stacks and a series that nobody else has.
static str rare_batch(struct arena *a, unsigned number, struct fact *f)
{
    char text[64];
    struct batch b;
    struct symbols s;
    struct buf out;
    label *v = ARENA_ARRAY(a, label, 3);
    assert_ok(batch_decode(a, fact_batch(a, f, 1), &b, e));
    assert_ok(symbols_init(&s, NULL, e));
    for (unsigned i = 0; i < 5; i++) {
        snprintf(text, sizeof text, "only;of_%u;that_%u", number, i);
        assert_int_not_equal(stack_of_text(&s, str_of(text), &(err){0}), MAP_NONE);
    }
    struct vector_entry entries[] = {{0, 1}, {s.t.stack_count - 3, 2}, {s.t.stack_count - 1, 3}};
    buf_init(&out, NULL, 1 << 20);
    vector_encode(entries, 3, &out);
    v[0] = (label){S(LABEL_PROFILE_TYPE), str_of(fact_types[0])};
    v[1] = (label){S("pod"), arena_printf(a, "rare-%u", number)};
    v[2] = (label){S(LABEL_SERVICE), str_of(fact_services[f->service])};
    *b.series = (labels){v, 3};
    b.records->vector = arena_str(a, buf_view(&out));
    b.records->total = 6;
    b.records->span_count = 0;
    b.symbols = s.t;
    buf_clear(&out);
    assert_ok(batch_encode(&b, a, &out, e));
    str bytes = arena_str(a, buf_view(&out));
    buf_release(&out);
    symbols_release(&s);
    return bytes;
}

static void push_rare(struct world *w, struct cut *cut, unsigned number, struct two_steps *open)
{
    struct fact f = fact_roll(&w->dice, 1000, 1000);
    struct two_steps s;
    struct batch b;
    f.tenant = 0;
    f.service = number % 3;
    arena_init(&s.arena, NULL, 1 << 24);
    assert_ok(batch_decode(&s.arena, rare_batch(&s.arena, number, &f), &b, e));
    assert_ok(head_stage(w->head, &s.arena, S("one"), &b, NULL, &s.staged, e));
    if (open) {
        *open = s;
        return;
    }
    head_publish(s.staged, cut);
    arena_release(&s.arena);
}

static void symbols_and_series_go_with_their_last_rows(void **state)
{
    (void)state;
    struct world *w = world_new(12);
    struct two_steps open;
    size_t rows = 0;
    fill(w, 150);
    forget(w, 0);
    forget(w, 1);  // facts only in the third cut
    assert_true(drop(w, 0, &rows));
    assert_true(drop(w, 1, &rows));
    size_t small = head_budget(w->head)->used;
    uint64_t series = head_count(w->head).series;
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 1500; i++)
            push_rare(w, &w->cuts[0], i, NULL);
        size_t large = head_budget(w->head)->used;
        assert_true(large > 4 * small);
        // With a staged row the service has to wait; after the next drop it can.
        push_rare(w, NULL, 7, &open);
        assert_true(drop(w, 0, &rows));
        assert_int_equal(rows, 1500);
        check_all(w, 8);
        head_publish(open.staged, &w->cuts[1]);
        arena_release(&open.arena);
        assert_true(drop(w, 1, &rows));
        assert_int_equal(rows, 1);
        check_all(w, 8);
        assert_true(head_budget(w->head)->used < large / 2);
        assert_true(head_count(w->head).series <= 2 * series + 3 * 64);
        unsigned before = (unsigned)w->n;  // ids are still known
        for (unsigned i = 0; i < before; i += 10) {
            w->cut_of[i] = 2;
            assert_ok(push(w->head, &w->cuts[0], &w->facts[i], 1, e));
        }
        assert_int_equal(head_count(w->head).rows, w->n);
    }
    fill(w, 100);
    check_all(w, 10);
    world_free(w);
}

static void a_compaction_without_memory_is_put_off(void **state)
{
    (void)state;
    for (int n = 1; n < 60; n++) {
        struct world *w = world_new(13);
        size_t rows = 0;
        fill(w, 30);
        for (unsigned i = 0; i < 400; i++)
            push_rare(w, &w->cuts[1], i, NULL);
        forget(w, 1);
        mem_fail_at(n);
        assert_true(drop(w, 1, &rows));
        mem_fail_at(0);
        check_all(w, 3);
        world_free(w);
    }
}

// ---- ids

static struct fact one_fact(struct world *w)
{
    struct fact f = fact_roll(&w->dice, 1000, 100);
    f.sampled = false;
    return f;
}

static void a_repeated_id_counts_once(void **state)
{
    (void)state;
    struct world *w = world_new(3);
    struct fact f[3] = {one_fact(w)};
    f[1] = f[0];
    f[2] = f[0];
    f[2].type = (f[0].type + 1) % COUNT(fact_types);  // the same profile's other type
    assert_ok(push(w->head, &w->cuts[0], f, 3, e));
    assert_ok(push(w->head, &w->cuts[1], f, 3, e));
    assert_int_equal(head_count(w->head).rows, 2);
    assert_int_equal(head_count(w->head).duplicates, 4);
    w->facts[0] = f[0];
    w->facts[1] = f[2];
    w->n = 2;
    check_all(w, 20);
    size_t rows = 0;
    assert_true(drop(w, 1, &rows));
    assert_int_equal(rows, 0);  // the first push had it
    assert_true(drop(w, 0, &rows));
    assert_int_equal(rows, 2);
    assert_ok(push(w->head, &w->cuts[1], f, 3, e));  // forgotten with its cut
    assert_int_equal(head_count(w->head).rows, 2);
    world_free(w);
}

static bool stage_one(struct world *w, const struct fact *f, struct two_steps *s, err *e)
{
    struct batch b;
    arena_init(&s->arena, NULL, 1 << 24);
    return batch_decode(&s->arena, fact_batch(&s->arena, f, 1), &b, e) &&
           head_stage(w->head, &s->arena, str_of(fact_tenants[f->tenant]), &b, NULL, &s->staged, e);
}

// Both would be in the log, perhaps in two cuts: so the second waits until the first is published,
// and is known then, or abandoned.
static void a_push_that_comes_twice_at_once_waits_for_itself(void **state)
{
    (void)state;
    for (unsigned abandoned = 0; abandoned < 2; abandoned++) {
        struct world *w = world_new(4);
        struct two_steps a;
        struct two_steps b;
        err fault = {0};
        w->facts[0] = one_fact(w);
        w->n = 1;
        uint64_t turn = head_turn(w->head);
        assert_ok(stage_one(w, w->facts, &a, e));
        assert_int_equal(staged_rows(a.staged), 1);
        assert_false(stage_one(w, w->facts, &b, &fault));
        assert_int_equal(fault.code, ERR_ABORTED);
        arena_release(&b.arena);
        assert_int_equal(head_turn(w->head), turn);
        if (abandoned) {
            head_abandon(a.staged);
        } else {
            head_publish(a.staged, &w->cuts[0]);
        }
        assert_ok(head_await_turn(w->head, NULL, turn, e));
        assert_ok(stage_one(w, w->facts, &b, e));
        assert_int_equal(staged_rows(b.staged), abandoned);
        head_publish(b.staged, &w->cuts[0]);
        arena_release(&a.arena);
        arena_release(&b.arena);
        assert_int_equal(head_count(w->head).rows, 1);
        check_all(w, 20);
        world_free(w);
    }
}

// Two batches of one request: all of it is in the log or nothing is.
static void what_a_request_has_twice_is_known(void **state)
{
    (void)state;
    struct world *w = world_new(6);
    struct two_steps a;
    struct batch again;
    struct staged *b = NULL;
    w->facts[0] = one_fact(w);
    w->n = 1;
    assert_ok(stage_one(w, w->facts, &a, e));
    assert_ok(batch_decode(&a.arena, fact_batch(&a.arena, w->facts, 1), &again, e));
    assert_ok(
        head_stage(w->head, &a.arena, str_of(fact_tenants[w->facts->tenant]), &again, NULL, &b, e));
    assert_int_equal(staged_rows(b), 0);
    head_publish(a.staged, &w->cuts[0]);
    head_publish(b, &w->cuts[0]);
    arena_release(&a.arena);
    assert_int_equal(head_count(w->head).rows, 1);
    check_all(w, 20);
    world_free(w);
}

static void what_is_staged_or_abandoned_does_not_show(void **state)
{
    (void)state;
    struct world *w = world_new(5);
    fill(w, 50);
    struct fact f[20];
    struct two_steps steps[20];
    for (size_t i = 0; i < COUNT(f); i++) {
        f[i] = one_fact(w);
        assert_ok(stage_one(w, &f[i], &steps[i], e));
    }
    check_all(w, 10);
    for (size_t i = 0; i < COUNT(f); i++) {
        head_abandon(steps[i].staged);
        arena_release(&steps[i].arena);
    }
    check_all(w, 10);
    fill(w, 50);
    check_all(w, 10);
    world_free(w);
}

// ---- at once

#define WIDE   40  // series of a batch
#define PUSHES 300

struct pusher {
    struct world *w;
    struct fact like;
    _Atomic bool done;
};

static void *push_wide(void *arg)
{
    struct pusher *p = arg;
    struct fact f[WIDE];
    for (size_t i = 0; i < PUSHES; i++) {
        for (size_t k = 0; k < WIDE; k++) {
            f[k] = p->like;
            f[k].id.b[0] = (uint8_t)k;
            f[k].id.b[1] = (uint8_t)i;
            f[k].id.b[2] = (uint8_t)(i >> 8);
            f[k].pod = (unsigned)(k % COUNT(fact_pods));
            f[k].type = (unsigned)(k / COUNT(fact_pods) % COUNT(fact_types));
        }
        assert_ok(push(p->w->head, &p->w->cuts[0], f, WIDE, e));
    }
    atomic_store(&p->done, true);
    return NULL;
}

static int64_t sum_of_totals(struct world *w, struct req *r, const struct head_query *q)
{
    struct totals_want want = {.first_ns = INT64_MAX / 2, .step_ns = INT64_MAX, .points = 1};
    struct cells cells;
    int64_t sum = 0;
    assert_ok(head_totals(w->head, r, q, &want, &cells, e));
    for (uint32_t i = 0; i < cells.n; i++)
        sum += cells.v[i].sum;
    return sum;
}

static uint64_t rows_of_tree(struct world *w, struct req *r, const struct head_query *q)
{
    struct merge m;
    uint64_t rows = 0;
    assert_ok(merge_init(&m, NULL, true, e));
    assert_ok(head_tree(w->head, r, q, &(struct span_filter){0}, &m, &rows, e));
    merge_release(&m);
    return rows;
}

// Else a profile whose samples' labels make several series is seen in part.
static void sums_hold_a_batch_whole_or_not_at_all(void **state)
{
    (void)state;
    struct world *w = world_new(7);
    struct pusher p = {.w = w, .like = one_fact(w)};
    pthread_t thread;
    str tenant = str_of(fact_tenants[p.like.tenant]);
    assert_int_equal(pthread_create(&thread, NULL, push_wide, &p), 0);
    for (bool more = true; more;) {
        more = !atomic_load(&p.done);
        struct req r;
        req_init(&r, RANK_INGESTER, NULL, SIZE_MAX, 0);
        struct head_query q = {.tenants = &tenant, .tenant_count = 1, .to_ns = INT64_MAX};
        assert_int_equal(sum_of_totals(w, &r, &q) % WIDE, 0);
        assert_int_equal(rows_of_tree(w, &r, &q) % WIDE, 0);
        req_release(&r);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(head_count(w->head).rows, WIDE * PUSHES);
    world_free(w);
}

static void a_sibling_is_its_records_vector_times_its_factor(void **state)
{
    (void)state;
    struct world *w = world_new(6);
    struct fact f[2] = {one_fact(w)};
    struct arena a;
    struct batch b;
    struct staged *s = NULL;
    f[1] = f[0];
    f[0].type = 0;
    f[1].type = 1;
    f[0].span_id = 3;
    f[1].span_id = 4;
    arena_init(&a, NULL, 1 << 24);
    // Only what the sibling is known by: its span is its own.
    assert_ok(batch_decode(&a, fact_batch(&a, f, 2), &b, e));
    b.records[1].sibling = 0;
    b.records[1].factor = -7;
    b.records[1].vector = (str){0};
    b.records[1].total *= -7;
    assert_ok(head_stage(w->head, &a, str_of(fact_tenants[f->tenant]), &b, NULL, &s, e));
    head_publish(s, &w->cuts[0]);
    arena_release(&a);
    for (size_t i = 0; i < f[1].n; i++)
        f[1].entries[i].value *= -7;
    f[1].total *= -7;
    memcpy(w->facts, f, sizeof f);
    w->n = 2;
    struct head_query q = {.tenants = &(str){0}, .tenant_count = 1, .to_ns = INT64_MAX};
    str tenant = str_of(fact_tenants[f->tenant]);
    struct req r;
    req_init(&r, RANK_INGESTER, NULL, SIZE_MAX, 0);
    q.tenants = &tenant;
    for (int i = 0; i < 3; i++) {
        q.selector.n = 0;
        if (i > 0) {
            assert_ok(selector_add(&r.arena, &q.selector, MATCH_EQ, S(LABEL_PROFILE_TYPE),
                                   str_of(fact_types[i - 1]), e));
        }
        uint64_t want = 0;
        uint64_t got = 0;
        struct merge m;
        struct span_filter none = {0};
        str expected = fact_tree(&r.arena, w->facts, 2, &q, 0, &want);
        assert_ok(merge_init(&m, NULL, true, e));
        assert_ok(head_tree(w->head, &r, &q, &none, &m, &got, e));
        assert_true(str_eq(merge_text(&r.arena, &m), expected));
        assert_int_equal(got, want);
        merge_release(&m);
    }
    req_release(&r);
    size_t rows = 0;
    assert_true(drop(w, 0, &rows));
    assert_int_equal(rows, 2);
    world_free(w);
}

// ---- limits

static void a_full_head_refuses_and_keeps_what_it_has(void **state)
{
    (void)state;
    struct world *w = world_new(6);
    err fault = {0};
    head_set_limit(w->head, 150000);
    bool ok = true;
    while (ok && w->n < FACTS) {
        w->facts[w->n] = fact_roll(&w->dice, 1000, 5000);
        w->cut_of[w->n] = w->n % 2;
        ok = push(w->head, &w->cuts[w->n % 2], &w->facts[w->n], 1, &fault);
        w->n += ok;
    }
    assert_false(ok);
    assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(fault.msg, "ingester.head_memory"));
    assert_true(w->n > 50);
    assert_int_equal(head_count(w->head).rows, w->n);
    check_all(w, 20);
    size_t rows = 0;
    forget(w, 0);
    assert_true(drop(w, 0, &rows));
    fill(w, 20);  // there is room again
    check_all(w, 20);
    world_free(w);
}

static void failed_allocations_leave_the_head_as_it_was(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 4; seed++) {
        struct world *w = world_new(seed);
        fill(w, seed == 1 ? 0 : 40);
        uint64_t rows = head_count(w->head).rows;
        for (size_t i = 0; i < 4; i++) {
            w->facts[w->n + i] = one_fact(w);
            w->facts[w->n + i].tenant = 0;
            w->facts[w->n + i].service = 0;
            w->facts[w->n + i].span_id = 1;
        }
        // Only the stage is tortured; making the batch takes no memory that may fail here.
        struct arena a;
        arena_init(&a, NULL, 1 << 24);
        str bytes = fact_batch(&a, &w->facts[w->n], 4);
        int failures = 0;
        for (int n = 1;; n++) {
            struct arena scratch;
            struct batch b;
            struct staged *s = NULL;
            err fault = {0};
            arena_init(&scratch, NULL, 1 << 24);
            assert_ok(batch_decode(&scratch, bytes, &b, e));
            mem_fail_at(n);
            bool ok = head_stage(w->head, &scratch, S("one"), &b, NULL, &s, &fault);
            bool fired = mem_fault_fired();
            mem_fail_at(0);
            if (ok) head_publish(s, &w->cuts[0]);
            arena_release(&scratch);
            if (ok) {
                assert_false(fired);
                break;
            }
            failures++;
            assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
            assert_int_equal(head_count(w->head).rows, rows);
        }
        arena_release(&a);
        assert_true(failures > 5);
        w->n += 4;
        assert_int_equal(head_count(w->head).rows, rows + 4);
        check_all(w, 10);
        world_free(w);
    }
}

// The rule by the book, on texts: kept paths of the hour, values moved up to the deepest kept one.
struct capped {
    char kept[64][64];
    size_t n;
    size_t limit;
    struct merge sums;
};

static bool is_kept(struct capped *c, str path)
{
    for (size_t i = 0; i < c->n; i++) {
        if (str_is(path, c->kept[i])) return true;
    }
    return false;
}

static void cap_entry(struct capped *c, const char *stack, int64_t value)
{
    str path = str_of(stack);
    char text[128];
    for (size_t done = 0; done < path.n;) {
        size_t to = done + (done > 0);
        to += str_find(str_slice(path, to, path.n), ';');
        str part = str_slice(path, 0, to);
        if (!is_kept(c, part) && c->n == c->limit) {
            snprintf(text, sizeof text, "%.*s%s[too many stacks]", (int)done, path.p,
                     done ? ";" : "");
            path = str_of(text);
            break;
        }
        if (!is_kept(c, part)) snprintf(c->kept[c->n++], 64, "%.*s", STR(part));
        done = to;
    }
    assert_ok(sum_stack(&c->sums, path, value, e));
}

static void check_capped(struct world *w, struct capped *c, int64_t from_ns, int64_t to_ns)
{
    str tenant = S("one");
    struct head_query q = {.tenants = &tenant,
                           .tenant_count = 1,
                           .from_ns = from_ns,
                           .to_ns = to_ns};
    struct span_filter none = {0};
    struct req r;
    struct merge m;
    uint64_t profiles = 0;
    req_init(&r, RANK_INGESTER, NULL, SIZE_MAX, 0);
    assert_ok(merge_init(&m, NULL, false, e));
    assert_ok(head_tree(w->head, &r, &q, &none, &m, &profiles, e));
    str got = merge_text(&r.arena, &m);
    str want = merge_text(&r.arena, &c->sums);
    if (!str_eq(got, want)) fail_msg("limit %zu:\n%.*s\nnot\n%.*s", c->limit, STR(got), STR(want));
    merge_release(&m);
    req_release(&r);
}

static void stacks_beyond_the_limit_of_an_hour_end_below_kept_ones(void **state)
{
    (void)state;
    const int64_t hour = INT64_C(3600000000000);
    for (size_t limit = 1; limit < 18; limit++) {
        struct world *w = world_new(limit);
        struct capped *c = mem_must(3 * sizeof *c);
        for (size_t i = 0; i < 3; i++) {
            c[i].limit = limit;
            assert_ok(merge_init(&c[i].sums, NULL, false, e));
        }
        for (int i = 0; i < 200; i++) {
            struct fact f = one_fact(w);
            size_t k = (size_t)roll(&w->dice, 3);
            f.tenant = 0;
            f.service = 0;
            f.n = 1;
            f.span_id = 0;
            f.time_ns = (int64_t)k * hour + 1 + (int64_t)roll(&w->dice, 1000);
            if (f.entries[0].value == 0) f.entries[0].value = 7;
            f.total = f.entries[0].value;
            // Now and then the sets are forgotten, as after a drop, and made anew from the rows.
            size_t rows = 0;
            struct fact other = f;
            other.id = one_fact(w).id;
            if (i % 50 == 49) {
                assert_ok(push_capped(w->head, &w->cuts[1], &other, 1, limit, e));
                assert_true(drop(w, 1, &rows));
            }
            assert_ok(push_capped(w->head, &w->cuts[0], &f, 1, limit, e));
            cap_entry(&c[k], fact_stacks[f.entries[0].stack], f.entries[0].value);
        }
        assert_int_equal(head_count(w->head).capped > 0, limit < 14);
        for (size_t k = 0; k < 3; k++) {
            check_capped(w, &c[k], (int64_t)k * hour, ((int64_t)k + 1) * hour);
            merge_release(&c[k].sums);
        }
        mem_must_free(c);
        world_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_equal_brute_force),
        cmocka_unit_test(dropped_cuts_take_their_rows_and_nothing_else),
        cmocka_unit_test(symbols_and_series_go_with_their_last_rows),
        cmocka_unit_test(a_compaction_without_memory_is_put_off),
        cmocka_unit_test(a_repeated_id_counts_once),
        cmocka_unit_test(a_push_that_comes_twice_at_once_waits_for_itself),
        cmocka_unit_test(what_a_request_has_twice_is_known),
        cmocka_unit_test(what_is_staged_or_abandoned_does_not_show),
        cmocka_unit_test(sums_hold_a_batch_whole_or_not_at_all),
        cmocka_unit_test(a_sibling_is_its_records_vector_times_its_factor),
        cmocka_unit_test(a_full_head_refuses_and_keeps_what_it_has),
        cmocka_unit_test(failed_allocations_leave_the_head_as_it_was),
        cmocka_unit_test(stacks_beyond_the_limit_of_an_hour_end_below_kept_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
