// SPDX-License-Identifier: Apache-2.0
//
// HeadRead and Append by their messages.
#include "flametree/v1/internal.pb-c.h"
#include "lib/clock.h"
#include "sys/clock.h"
#include "sys/thread.h"
#include "whole.h"

#define FACTS 150

struct fixture {
    char dir[DIR_MAX];
    struct whole w;
    struct fact facts[FACTS];
    size_t n;
    struct dice dice;
    int64_t base_ns;
};

static void fixture_start(struct fixture *x, uint64_t seed)
{
    *x = (struct fixture){.dice = {seed}};
    dir_new(x->dir);
    x->base_ns = clock_wall_ns() - 7200 * NS_PER_S;
    whole_start(&x->w, x->dir, "");
    whole_await(&x->w);
    for (; x->n < FACTS; x->n++) {
        x->facts[x->n] = fact_roll(&x->dice, x->base_ns, 7000 * NS_PER_S);
        assert_ok(whole_push(&x->w, &x->facts[x->n], 1, e));
    }
}

static void fixture_end(struct fixture *x)
{
    whole_stop(&x->w);
    dir_remove(x->dir);
}

// A request for everything of both tenants, to be narrowed.
struct question {
    Flametree__V1__HeadReadRequest ask;
    Flametree__V1__Matcher matcher;
    Flametree__V1__Matcher *matchers[1];
    Flametree__V1__WantTree tree;
    Flametree__V1__WantTotals totals;
    Flametree__V1__WantLabels labels;
    Flametree__V1__WantStats stats;
};

static void question_init(struct question *q, const struct fixture *x)
{
    flametree__v1__head_read_request__init(&q->ask);
    flametree__v1__matcher__init(&q->matcher);
    flametree__v1__want_tree__init(&q->tree);
    flametree__v1__want_totals__init(&q->totals);
    flametree__v1__want_labels__init(&q->labels);
    flametree__v1__want_stats__init(&q->stats);
    q->matchers[0] = &q->matcher;
    q->ask.matchers = q->matchers;
    q->ask.from_ns = x->base_ns - 1;
    q->ask.to_ns = x->base_ns + 7200 * NS_PER_S;
    q->totals.first_ns = q->ask.to_ns;
    q->totals.step_ns = 7201 * NS_PER_S;
    q->totals.points = 1;
}

// The answer is the arena's of r.
static bool ask(struct fixture *x, struct req *r, const struct question *q,
                Flametree__V1__HeadReadResponse **answer, err *e)
{
    struct buf message;
    struct buf out;
    buf_init(&message, NULL, 1 << 20);
    buf_init(&out, NULL, 1 << 26);
    pb_pack(&q->ask.base, &message);
    bool ok = read_run(x->w.in, r, buf_view(&message), &out, e);
    if (ok) {
        str copy = arena_str(&r->arena, buf_view(&out));
        ProtobufCMessage *m =
            pb_unpack(&r->arena, &flametree__v1__head_read_response__descriptor, copy, e);
        ok = m != NULL;
        *answer = (Flametree__V1__HeadReadResponse *)m;
    }
    buf_release(&message);
    buf_release(&out);
    return ok;
}

static void req_for(struct req *r, const char *tenant)
{
    req_init(r, RANK_INGESTER, NULL, SIZE_MAX, 0);
    r->tenant = str_of(tenant);
}

static str partial_text(struct req *r, const Flametree__V1__Partial *p)
{
    struct symbol_table t;
    struct merge m;
    struct buf symbols;
    buf_init(&symbols, NULL, 1 << 20);
    if (p->symbols) pb_pack(&p->symbols->base, &symbols);
    assert_ok(symbols_decode(&r->arena, arena_str(&r->arena, buf_view(&symbols)), &t, e));
    buf_release(&symbols);
    assert_ok(merge_init(&m, NULL, false, e));
    if (p->vector.len) assert_ok(merge_add(&m, &t, pb_blob(p->vector), 1, e));
    str text = merge_text(&r->arena, &m);
    merge_release(&m);
    return text;
}

static size_t count_series(struct arena *a, const struct fixture *x, const struct head_query *q)
{
    size_t n = 0;
    for (size_t i = 0; i < x->n; i++) {
        const struct fact *f = &x->facts[i];
        bool first = fact_matches(a, f, q);
        for (size_t k = 0; first && k < i; k++) {
            first = x->facts[k].tenant != f->tenant ||
                    !labels_eq(fact_labels(a, &x->facts[k]), fact_labels(a, f));
        }
        n += first;
    }
    return n;
}

static void answers_hold_what_was_asked_for(void **state)
{
    (void)state;
    static struct fixture x;
    fixture_start(&x, 1);
    for (int round = 0; round < 2; round++) {
        struct req r;
        struct question q;
        Flametree__V1__HeadReadResponse *answer = NULL;
        const str tenants[] = {S("one"), S("two")};
        req_for(&r, "one|two");
        question_init(&q, &x);
        q.ask.tree = &q.tree;
        q.ask.totals = &q.totals;
        q.ask.labels = &q.labels;
        q.ask.stats = &q.stats;
        q.matcher.op = MATCH_RE;
        q.matcher.name = pb_z(&r.arena, S("pod"));
        q.matcher.value = pb_z(&r.arena, S("p-.*"));
        q.ask.n_matchers = 1;
        q.tree.full_symbols = round;
        assert_ok(ask(&x, &r, &q, &answer, e));
        assert_int_equal(answer->n_answers, 1);
        const Flametree__V1__StreamAnswer *a = answer->answers[0];
        assert_true(a->complete);
        assert_int_equal(a->stream->stream.len, 16);
        assert_string_equal(a->stream->state, "open");
        assert_string_equal(a->stream->owner, "ingester-0");
        assert_int_equal(a->stream->highest_seq, FACTS);
        assert_true(a->n_cuts >= 2);  // of two or three hours
        for (size_t i = 0; i < a->n_cuts; i++) {
            assert_int_equal(a->cuts[i]->cut, 1);
            assert_memory_equal(a->cuts[i]->stream.data, a->stream->stream.data, 16);
        }

        struct head_query want = {.tenants = tenants,
                                  .tenant_count = 2,
                                  .from_ns = q.ask.from_ns,
                                  .to_ns = q.ask.to_ns};
        assert_ok(selector_add(&r.arena, &want.selector, MATCH_RE, S("pod"), S("p-.*"), e));
        uint64_t profiles = 0;
        str text = fact_tree(&r.arena, x.facts, x.n, &want, 0, &profiles);
        str got = partial_text(&r, a->partial);
        if (!str_eq(text, got)) fail_msg("%.*s\nnot\n%.*s", STR(got), STR(text));
        assert_int_equal(a->partial->profiles, profiles);
        int64_t sum = 0;
        uint64_t all = 0;
        for (size_t i = 0; i < x.n; i++) {
            bool matches = fact_matches(&r.arena, &x.facts[i], &want);
            all += matches;
            if (matches && !x.facts[i].sampled) sum += x.facts[i].total;
        }
        assert_int_equal(a->partial->n_totals, 1);
        assert_int_equal(a->partial->totals[0]->n_points, 1);
        assert_int_equal(a->partial->totals[0]->points[0]->sum, sum);
        assert_int_equal(a->partial->totals[0]->points[0]->profiles, profiles);
        assert_int_equal(a->partial->stats->profiles, all);
        assert_true(a->partial->n_labels > 10);
        assert_int_equal(a->partial->stats->series, count_series(&r.arena, &x, &want));
        req_release(&r);
    }
    fixture_end(&x);
}

// The sum of a service's stacks, 128 bits wide.
static __int128 sum_of_service(struct req *r, const Flametree__V1__ServiceSums *x)
{
    struct symbol_table t;
    struct merge m;
    struct buf symbols;
    bool fits = false;
    struct wide total = {0};
    buf_init(&symbols, NULL, 1 << 20);
    if (x->symbols) pb_pack(&x->symbols->base, &symbols);
    assert_ok(symbols_decode(&r->arena, arena_str(&r->arena, buf_view(&symbols)), &t, e));
    buf_release(&symbols);
    assert_ok(merge_init(&m, NULL, false, e));
    m.wide = true;
    assert_ok(merge_add_encoded(&m, &t, pb_blob(x->vector), pb_blob(x->carries), e));
    assert_ok(merge_fits(&m, &fits, &total, e));
    merge_release(&m);
    return (__int128)total.carry * ((__int128)1 << 64) + total.low;
}

// Two profiles of a service that have no sum in 64 bits come with carries, apart from the others,
// to who knows carries; to others the head says that it has no sum.
static void sums_that_do_not_fit_come_by_service(void **state)
{
    (void)state;
    static struct fixture x;
    fixture_start(&x, 7);
    __int128 want[COUNT(fact_services)] = {0};
    uint64_t profiles[COUNT(fact_services)] = {0};
    for (size_t i = 0; i < x.n + 2; i++) {
        struct fact f = i < x.n ? x.facts[i] : x.facts[0];
        if (i >= x.n) {
            f.id.b[15] ^= (uint8_t)(1 + i - x.n);
            f.tenant = f.service = 0;
            f.sampled = false;
            f.n = 1;
            f.span_id = 0;
            f.entries[0].value = f.total = INT64_MAX;
            assert_ok(whole_push(&x.w, &f, 1, e));
        }
        if (f.tenant != 0 || f.sampled) continue;
        profiles[f.service]++;
        for (size_t k = 0; k < f.n; k++)
            want[f.service] += f.entries[k].value;
    }
    for (uint32_t wide = 0; wide < 3; wide++) {
        struct req r;
        struct question q;
        Flametree__V1__HeadReadResponse *answer = NULL;
        err why = {0};
        req_for(&r, "one");
        question_init(&q, &x);
        q.ask.n_matchers = 0;
        q.ask.tree = &q.tree;
        q.tree.wide = wide;
        bool ok = ask(&x, &r, &q, &answer, &why);
        assert_int_equal(ok, wide > 0);
        if (!ok) assert_int_equal(why.code, ERR_OUT_OF_RANGE);
        for (size_t i = 0; ok && i < COUNT(fact_services); i++) {
            const Flametree__V1__Partial *p = answer->answers[0]->partial;
            assert_true(p->vector.len == 0 && p->n_services == COUNT(fact_services));
            for (size_t k = 0; k < p->n_services; k++) {
                if (!str_eq(pb_text(p->services[k]->service), str_of(fact_services[i]))) continue;
                assert_true(sum_of_service(&r, p->services[k]) == want[i]);
                assert_int_equal(p->services[k]->profiles, profiles[i]);
                assert_int_equal(p->services[k]->period, 1);  // as all facts have it
            }
        }
        q.ask.tree = NULL;
        q.ask.totals = &q.totals;
        q.totals.wide = wide > 0;
        ok = ask(&x, &r, &q, &answer, &why);
        assert_int_equal(ok, wide > 0);
        if (ok) assert_true(answer->answers[0]->partial->totals[0]->points[0]->carry == 1);
        req_release(&r);
    }
    fixture_end(&x);
}

static void filters_by_ids_spans_and_traces(void **state)
{
    (void)state;
    static struct fixture x;
    fixture_start(&x, 2);
    struct req r;
    struct question q;
    Flametree__V1__HeadReadResponse *answer = NULL;
    req_for(&r, "one");
    question_init(&q, &x);
    q.ask.tree = &q.tree;
    uint64_t span = 2;
    uint8_t trace[16] = {2};
    ProtobufCBinaryData id = {16, trace};
    uint64_t profiles = 0;
    const str tenant = S("one");
    struct head_query want = {.tenants = &tenant,
                              .tenant_count = 1,
                              .from_ns = q.ask.from_ns,
                              .to_ns = q.ask.to_ns};
    str text = fact_tree(&r.arena, x.facts, x.n, &want, span, &profiles);
    q.tree.span_ids = &span;
    q.tree.n_span_ids = 1;
    assert_ok(ask(&x, &r, &q, &answer, e));
    assert_int_equal(answer->answers[0]->partial->profiles, profiles);
    assert_true(str_eq(partial_text(&r, answer->answers[0]->partial), text));
    q.tree.n_span_ids = 0;
    q.tree.trace_ids = &id;
    q.tree.n_trace_ids = 1;
    assert_ok(ask(&x, &r, &q, &answer, e));
    assert_int_equal(answer->answers[0]->partial->profiles, profiles);
    assert_true(str_eq(partial_text(&r, answer->answers[0]->partial), text));
    q.tree.n_trace_ids = 0;
    q.tree.profile_ids = &id;
    q.tree.n_profile_ids = 1;
    size_t i = 0;
    while (x.facts[i].tenant != 0 || x.facts[i].sampled)
        i++;
    id.data = x.facts[i].id.b;
    assert_ok(ask(&x, &r, &q, &answer, e));
    assert_int_equal(answer->answers[0]->partial->profiles, 1);
    span = 0;  // means "no span" and never matches
    q.tree.n_profile_ids = 0;
    q.tree.n_span_ids = 1;
    assert_ok(ask(&x, &r, &q, &answer, e));
    assert_int_equal(answer->answers[0]->partial->profiles, 0);
    req_release(&r);
    fixture_end(&x);
}

static void bad_questions_are_refused(void **state)
{
    (void)state;
    static struct fixture x;
    fixture_start(&x, 3);
    enum bad {
        OPERATION,
        REGEX,
        PROFILE_ID,
        STEP,
        DEADLINE,
        CANCEL,
        MEMORY
    };
    static const struct {
        const char *name;
        enum bad bad;
        enum err_code code;
        const char *part;
    } cases[] = {
        {"operation", OPERATION, ERR_INVALID_ARGUMENT, "operation 4"},
        {"regex", REGEX, ERR_INVALID_ARGUMENT, ""},
        {"profile id", PROFILE_ID, ERR_INVALID_ARGUMENT, "3 bytes instead of 16"},
        {"step", STEP, ERR_INVALID_ARGUMENT, "step"},
        {"deadline", DEADLINE, ERR_DEADLINE_EXCEEDED, ""},
        {"cancel", CANCEL, ERR_CANCELED, ""},
        {"memory", MEMORY, ERR_RESOURCE_EXHAUSTED, ""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct req r;
        struct question q;
        Flametree__V1__HeadReadResponse *answer = NULL;
        uint8_t bytes[3] = {1, 2, 3};
        ProtobufCBinaryData id = {3, bytes};
        req_for(&r, "one");
        question_init(&q, &x);
        q.ask.tree = &q.tree;
        q.ask.labels = &q.labels;
        q.matcher.name = pb_z(&r.arena, S("pod"));
        q.matcher.value = pb_z(&r.arena, S("("));
        enum bad bad = cases[i].bad;
        if (bad == OPERATION || bad == REGEX) q.ask.n_matchers = 1;
        q.matcher.op = bad == OPERATION ? 4 : MATCH_RE;
        if (bad == PROFILE_ID) q.tree.profile_ids = &id;
        if (bad == PROFILE_ID) q.tree.n_profile_ids = 1;
        if (bad == STEP) q.ask.totals = &q.totals;
        q.totals.step_ns = 0;
        if (bad == DEADLINE) r.deadline_mono_ns = 1;
        if (bad == CANCEL) atomic_store(&r.canceled, true);
        if (bad == MEMORY) r.arena.cap = 2000;
        err fault = {0};
        assert_false(ask(&x, &r, &q, &answer, &fault));
        if (fault.code != cases[i].code || !strstr(fault.msg, cases[i].part)) {
            fail_msg("%s: %s: %s", cases[i].name, err_name(fault.code), fault.msg);
        }
        req_release(&r);
    }
    fixture_end(&x);
}

static void bad_appends_are_refused_whole(void **state)
{
    (void)state;
    static struct whole w;
    char dir[DIR_MAX];
    dir_new(dir);
    struct dice d = {8};
    whole_start(&w, dir, "--ingester.head_age=1h");
    whole_await(&w);
    int64_t now = clock_wall_ns();
    struct fact f[2];
    err fault = {0};
    f[0] = fact_roll(&d, now, 1);
    f[0].sampled = false;
    f[1] = f[0];
    f[1].time_ns = now - 3 * 3600 * NS_PER_S;
    f[1].id.b[0]++;
    assert_false(whole_push(&w, f, 2, &fault));
    assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(fault.msg, "ingester.head_age"));
    assert_int_equal(whole_holds(&w, &f[0]), 0);

    struct req r;
    struct buf message;
    struct buf out;
    req_for(&r, "one");
    buf_init(&message, NULL, 1 << 20);
    buf_init(&out, NULL, 1 << 20);
    str good = fact_batch(&r.arena, f, 1);
    static const struct {
        const char *name;
        size_t cut;
        const char *tenant;
    } cases[] = {{"cut off", 5, "one"},
                 {"no tenant", 0, ""},
                 {"two tenants", 0, "one|two"},
                 {"a path", 0, "../one"},
                 {"a name of a folder", 0, ".."}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        buf_clear(&message);
        pb_put_bytes(&message, 1, good);
        pb_put_bytes(&message, 1, str_slice(good, 0, good.n - cases[i].cut));
        r.tenant = str_of(cases[i].tenant);
        if (append_run(w.in, &r, buf_view(&message), &out, &fault)) fail_msg("%s", cases[i].name);
        assert_int_equal(fault.code, ERR_INVALID_ARGUMENT);
        assert_int_equal(whole_holds(&w, &f[0]), 0);
    }
    // A series of another service than its batch.
    struct batch b;
    assert_ok(batch_decode(&r.arena, good, &b, e));
    b.service = S("other");
    buf_clear(&message);
    size_t mark = pb_begin(&message, 1);
    assert_ok(batch_encode(&b, &r.arena, &message, e));
    pb_end(&message, mark);
    r.tenant = S("one");
    assert_false(append_run(w.in, &r, buf_view(&message), &out, &fault));
    assert_int_equal(fault.code, ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(fault.msg, "service_name"));
    // And what is good goes in, with a place in the stream.
    buf_clear(&message);
    buf_clear(&out);
    pb_put_bytes(&message, 1, good);
    r.tenant = str_of(fact_tenants[f[0].tenant]);
    assert_ok(append_run(w.in, &r, buf_view(&message), &out, e));
    Flametree__V1__AppendResponse *a =
        (Flametree__V1__AppendResponse *)pb_unpack(&r.arena,
                                                   &flametree__v1__append_response__descriptor,
                                                   buf_view(&out), &fault);
    assert_non_null(a);
    assert_int_equal(a->stream.len, 16);
    assert_int_equal(a->last_seq, 1);
    assert_true(a->load > 0 && a->load < 1);
    assert_int_equal(whole_holds(&w, &f[0]), 1);
    buf_release(&message);
    buf_release(&out);
    req_release(&r);
    whole_stop(&w);
    dir_remove(dir);
}

// ---- all at once

struct busy {
    struct fixture *x;
    unsigned number;
    _Atomic uint64_t *pushed;
};

static void *push_many(void *arg)
{
    struct busy *b = arg;
    struct dice d = {b->number + 100};
    for (int i = 0; i < 60; i++) {
        struct fact f = fact_roll(&d, b->x->base_ns, 7000 * NS_PER_S);
        f.tenant = 0;
        assert_ok(whole_push(&b->x->w, &f, 1, e));
        atomic_fetch_add(b->pushed, 1);
    }
    return NULL;
}

// What was acknowledged before the question is in the answer.
static void *read_many(void *arg)
{
    struct busy *b = arg;
    for (int i = 0; i < 30; i++) {
        struct req r;
        struct question q;
        Flametree__V1__HeadReadResponse *answer = NULL;
        uint64_t least = atomic_load(b->pushed);
        req_for(&r, "one");
        question_init(&q, b->x);
        q.ask.tree = &q.tree;
        q.ask.stats = &q.stats;
        if (i % 2) q.ask.labels = &q.labels;
        if (i % 3) q.ask.totals = &q.totals;
        assert_ok(ask(b->x, &r, &q, &answer, e));
        assert_true(answer->answers[0]->partial->stats->profiles >= least);
        req_release(&r);
    }
    return NULL;
}

static void pushes_and_queries_at_once(void **state)
{
    (void)state;
    static struct fixture x;
    static struct busy busy[6];
    pthread_t threads[6];
    _Atomic uint64_t pushed = 0;
    x = (struct fixture){0};
    dir_new(x.dir);
    x.base_ns = clock_wall_ns() - 7200 * NS_PER_S;
    whole_start(&x.w, x.dir, "");
    whole_await(&x.w);
    for (unsigned i = 0; i < COUNT(busy); i++) {
        busy[i] = (struct busy){&x, i, &pushed};
        assert_ok(thread_start(&threads[i], "busy", i < 3 ? push_many : read_many, &busy[i], e));
    }
    for (unsigned i = 0; i < COUNT(busy); i++)
        thread_join(threads[i]);
    assert_int_equal(head_count(x.w.in->head).rows, 180);
    fixture_end(&x);
}

// A cut whose newest profile is older than head_age goes, also while queries run.
static void old_cuts_expire(void **state)
{
    (void)state;
    static struct whole w;
    char dir[DIR_MAX];
    dir_new(dir);
    struct dice d = {8};
    whole_start(&w, dir, "--ingester.head_age=1h --ingester.cut_age=10m");
    whole_await(&w);
    struct fact f = fact_roll(&d, clock_wall_ns(), 1);
    f.sampled = false;
    assert_ok(whole_push(&w, &f, 1, e));
    assert_int_equal(whole_holds(&w, &f), 1);
    clock_pass(3601 * NS_PER_S);
    AWAIT((duty_wake(w.in), wal_count(w.in->wal).bytes == 0));
    assert_int_equal(whole_holds(&w, &f), 0);
    assert_int_equal(head_count(w.in->head).rows, 0);
    f.time_ns = clock_wall_ns();
    assert_ok(whole_push(&w, &f, 1, e));
    assert_int_equal(whole_holds(&w, &f), 1);
    whole_stop(&w);
    dir_remove(dir);
}

int main(void)
{
    clock_take_over();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_hold_what_was_asked_for),
        cmocka_unit_test(sums_that_do_not_fit_come_by_service),
        cmocka_unit_test(filters_by_ids_spans_and_traces),
        cmocka_unit_test(bad_questions_are_refused),
        cmocka_unit_test(bad_appends_are_refused_whole),
        cmocka_unit_test(pushes_and_queries_at_once),
        cmocka_unit_test(old_cuts_expire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
