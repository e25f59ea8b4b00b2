// SPDX-License-Identifier: Apache-2.0
#include "lib/await.h"
#include "loop/lane.h"
#include "sys/clock.h"
#include "unit/querier/reconcile_world.h"

static const struct query the_question = {.from_ns = BASE_NS,
                                          .to_ns = BASE_NS + HOURS * SLOT_HOUR,
                                          .totals = {.wanted = true,
                                                     .first_ns = BASE_NS,
                                                     .step_ns = SLOT_MINUTE,
                                                     .points = HOURS * 60 + 1}};

static void ask_it(struct ask *k, struct world *w)
{
    ask_open(k, NULL, 0);
    k->state.ask = w->ask ? w->ask : ask_world;
    k->state.transport = (const void *)w;
    k->state.prefetch = w->prefetch;
    k->state.manifests = w->asked_manifests;
    k->state.blocks = w->blocks;
}

// Returns whether it was answered; *marked: something is missing, and is named. Nothing counts
// twice.
static bool question(struct world *w, uint64_t seed, enum fetch_takes takes, bool *marked)
{
    struct ask k;
    // Every other querier has met lists that differ a moment ago.
    static _Atomic uint64_t differ_mono_ns;
    atomic_store(&differ_mono_ns, seed % 2 ? clock_mono_ns() : 0);
    ask_it(&k, w);
    k.state.differ_mono_ns = &differ_mono_ns;
    struct answer a = {.querier = &k.state,
                       .x = &k.x,
                       .arena = &k.x.req.arena,
                       .config = config_section(k.config, "querier"),
                       .takes = takes};
    struct merged *got;
    err e = {0};
    uint32_t moment = w->moment;
    w->asked = true;
    bool ok = answer_read(&a, &the_question, &got, &e);
    w->asked = false;
    *marked = ok && a.fetched.missing_count > 0;
    if (!ok && e.code != ERR_UNAVAILABLE)
        fail_msg("seed %llu: %s", (unsigned long long)seed, e.msg);
    uint64_t counted[HOURS * 60 + 1] = {0};
    for (size_t i = 0; ok && i < got->totals.n; i++)
        counted[got->totals.v[i].point] += got->totals.v[i].count;
    for (uint32_t row = 0; ok && row < ROWS; row++) {
        uint64_t n = counted[point_of(row)];
        if (n <= 1 && (n == 1 || *marked || !was_there(w, row, moment))) continue;
        fail_msg("seed %llu: row %u counts %llu times", (unsigned long long)seed, row,
                 (unsigned long long)n);
    }
    ask_close(&k);
    return ok;
}

// A walk of many: what is in it, and what came of them all.
struct walks {
    uint32_t copies;
    bool differ;  // lists of distributors do
    enum fetch_takes takes;
    unsigned answered;
    unsigned marks;
    unsigned rounds;
};

static void walk(uint64_t seed, struct walks *all)
{
    struct world w;
    open_world(&w, seed, all->copies);
    if (all->differ) differ(&w);
    for (uint32_t i = roll(&w, 30); i > 0; i--) {
        for (uint32_t h = 0; h < HEADS; h++)
            arrive(&w, h);
        w.moment += roll(&w, 3) == 0;
        move(&w);
    }
    bool marked = false;
    all->answered += question(&w, seed, all->takes, &marked);
    all->marks += marked;
    all->rounds = MAX(all->rounds, w.rounds);
    close_world(&w);
}

static void what_was_there_counts_once(void **state)
{
    (void)state;
    struct walks all = {.copies = 1, .takes = FETCH_MARKED};
    for (uint64_t seed = 1; seed <= 500; seed++)
        walk(seed, &all);
    assert_int_equal(all.marks, 0);
    assert_true(all.answered > 450);
    assert_true(all.rounds > 1);
}

static void and_so_do_rows_with_copies(void **state)
{
    (void)state;
    struct walks all = {.copies = 3, .takes = FETCH_MARKED};
    for (uint64_t seed = 1; seed <= 500; seed++)
        walk(seed, &all);
    assert_int_equal(all.marks, 0);
    assert_true(all.answered > 280);
    assert_true(all.rounds > 2);
}

// Two heads, segments or leaves may have a row at attempt 0.
static void and_so_do_rows_of_lists_that_differ(void **state)
{
    (void)state;
    struct walks all = {.copies = 1, .differ = true, .takes = FETCH_MARKED};
    for (uint64_t seed = 1; seed <= 500; seed++)
        walk(seed, &all);
    assert_int_equal(all.marks, 0);
    assert_true(all.answered > 200);
    assert_true(all.rounds > 3);
}

static void with_copies_besides(void **state)
{
    (void)state;
    struct walks all = {.copies = 3, .differ = true, .takes = FETCH_ANY};
    for (uint64_t seed = 1; seed <= 500; seed++)
        walk(seed, &all);
    assert_int_equal(all.answered, 500);
}

// Where rows move in all rounds, what is in doubt is left out and named.
static void a_marked_answer_counts_nothing_twice(void **state)
{
    (void)state;
    struct walks all = {.copies = 3, .takes = FETCH_ANY};
    for (uint64_t seed = 1; seed <= 500; seed++)
        walk(seed, &all);
    assert_int_equal(all.answered, 500);
    assert_true(all.marks > 20);
}

// ---- one world that stands still: a leaf of each hour, their parent, segments, rows in heads

static void stand(struct world *w, uint32_t copies)
{
    open_world(w, 7, copies);
    for (uint32_t r = 0; r < ROWS; r++) {
        for (uint32_t h = 0; h < HEADS; h++) {
            if (w->copies[r][h].since != NEVER) w->copies[r][h].since = r % 3;
        }
    }
    for (w->moment = 0; w->moment < 3; w->moment++) {
        for (uint32_t h = 0; h < HEADS; h++)
            arrive(w, h);
        for (uint32_t h = 0; h < HEADS && w->moment < 2; h++) {
            flush(w, h);
            drop(w, h, w->open_cut[h] - 1);
        }
        if (w->moment == 0) {
            absorb(w, 0);
            absorb(w, 1);
            sum_up(w);
        }
    }
    w->moment = NEVER - 1;
}

struct outcome {
    bool ok;
    err why;
    uint64_t profiles;
    uint64_t plans;
    char missing[512];
};

static struct outcome ask_standing(struct world *w, bool may_be_partial)
{
    struct ask k;
    struct outcome o = {0};
    struct merged *got;
    ask_it(&k, w);
    struct answer a = {.querier = &k.state,
                       .x = &k.x,
                       .arena = &k.x.req.arena,
                       .config = config_section(k.config, "querier"),
                       .takes = may_be_partial ? FETCH_ANY : FETCH_MARKED};
    w->still = true;
    o.ok = answer_read(&a, &the_question, &got, &o.why);
    for (size_t i = 0; o.ok && i < got->totals.n; i++)
        o.profiles += got->totals.v[i].count;
    o.plans = a.work.plans;
    snprintf(o.missing, sizeof o.missing, "%.*s", STR(fetch_missing(a.arena, &a.fetched)));
    ask_close(&k);
    return o;
}

// A comparison asks twice, and so does a heat map. The second tenant has rows in heads only.
static void each_question_of_a_request_asks_all_its_tenants(void **state)
{
    (void)state;
    struct world w;
    struct ask k;
    struct merged *got;
    uint64_t profiles[3] = {0};
    stand(&w, 1);
    w.still = true;
    ask_it(&k, &w);
    struct answer a = {.querier = &k.state,
                       .x = &k.x,
                       .arena = &k.x.req.arena,
                       .config = config_section(k.config, "querier")};
    for (size_t i = 0; i < COUNT(profiles); i++) {
        if (i == 1) k.x.req.tenant = S("t|u");
        assert_ok(answer_read(&a, &the_question, &got, e));
        for (size_t p = 0; p < got->totals.n; p++)
            profiles[i] += got->totals.v[p].count;
    }
    assert_int_equal(profiles[0], ROWS);
    assert_true(profiles[1] > ROWS);
    assert_int_equal(profiles[2], profiles[1]);
    ask_close(&k);
    close_world(&w);
}

static void a_store_that_does_not_answer_is_missing(void **state)
{
    (void)state;
    struct world w;
    stand(&w, 1);
    struct outcome o = ask_standing(&w, false);
    assert_true(o.ok);
    assert_int_equal(o.profiles, ROWS);

    memstore_fail(w.asked_store, MEMSTORE_LIST, MEMSTORE_FAILS, 1, UINT64_MAX);
    o = ask_standing(&w, false);
    assert_false(o.ok);
    assert_int_equal(o.why.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(o.why.msg, "object store"));
    o = ask_standing(&w, true);
    assert_true(o.ok);
    assert_string_equal(o.missing, "object store");
    assert_int_equal(o.profiles, ROWS / 3);  // those of the heads

    memstore_heal(w.asked_store);
    o = ask_standing(&w, false);
    assert_true(o.ok);
    assert_int_equal(o.profiles, ROWS);
    close_world(&w);
}

static void who_has_no_store_does_not_see_all(void **state)
{
    (void)state;
    struct world w;
    stand(&w, 1);
    struct manifests *manifests = w.asked_manifests;
    w.asked_manifests = NULL;
    struct outcome o = ask_standing(&w, false);
    assert_false(o.ok);
    assert_non_null(strstr(o.why.msg, "storage.dir of this querier names none"));
    o = ask_standing(&w, true);
    assert_true(o.ok);
    assert_string_equal(o.missing, "object store");
    w.asked_manifests = manifests;
    close_world(&w);
}

// Reads fail, end early or bring other bytes: the answer is right or says that it is not.
static void reads_that_go_wrong_do_not_make_wrong_answers(void **state)
{
    (void)state;
    static const enum memstore_fault faults[] = {MEMSTORE_FAILS, MEMSTORE_SHORT, MEMSTORE_FLIPS};
    unsigned told = 0;
    unsigned served = 0;
    for (size_t f = 0; f < COUNT(faults); f++) {
        for (uint64_t nth = 1; nth <= 30; nth++) {
            struct world w;
            stand(&w, nth % 2 ? 1 : 3);
            memstore_fail(w.asked_store, MEMSTORE_READ, faults[f], nth, 1 + nth % 3);
            struct outcome o = ask_standing(&w, false);
            if (o.ok) assert_int_equal(o.profiles, ROWS);
            told += !o.ok;
            served += o.ok;
            // Rows of an object that could not be read do not count, as copies of them may count
            // elsewhere.
            memstore_heal(w.asked_store);
            memstore_fail(w.asked_store, MEMSTORE_READ, faults[f], nth, 1 + nth % 3);
            o = ask_standing(&w, true);
            assert_true(o.ok && o.profiles <= ROWS && (o.profiles == ROWS || o.missing[0]));
            memstore_heal(w.asked_store);
            o = ask_standing(&w, false);
            if (!o.ok) fail_msg("fault %zu, read %llu: %s", f, (unsigned long long)nth, o.why.msg);
            assert_int_equal(o.profiles, ROWS);
            close_world(&w);
        }
    }
    assert_true(told > 0);
    assert_true(served > 0);
}

static unsigned silent_from;  // the round from which on the first head says nothing

static bool ask_vanishing(const void *transport, struct req *r, str tenant, str message,
                          struct head_replies *out, err *e)
{
    static const err silent = {ERR_UNAVAILABLE, "it is silent"};
    const struct world *w = transport;
    if (!ask_world(transport, r, tenant, message, out, e)) return false;
    if (w->rounds >= silent_from) out->v[0].fault = &silent;
    return true;
}

// In whatever round it stops answering, there are rounds enough to reconcile what the others have.
static void a_head_that_vanishes_is_all_that_is_missing(void **state)
{
    (void)state;
    for (silent_from = 1; silent_from <= 4; silent_from++) {
        struct world w;
        stand(&w, 3);
        w.ask = ask_vanishing;
        struct outcome o = ask_standing(&w, true);
        assert_true(o.ok);
        if (w.rounds >= silent_from) assert_string_equal(o.missing, "a");
        if (o.profiles > ROWS || w.rounds > 4)
            fail_msg("silent from round %u: %llu profiles, %u rounds", silent_from,
                     (unsigned long long)o.profiles, w.rounds);
        close_world(&w);
    }
}

// A head that goes on naming what a leaf has: without its answer nothing counts twice.
static void a_head_that_does_not_look_is_missing(void **state)
{
    (void)state;
    struct world w;
    open_world(&w, 7, 1);
    for (uint32_t r = 0; r < ROWS; r++) {
        for (uint32_t h = 0; h < HEADS; h++) {
            if (w.copies[r][h].since != NEVER) w.copies[r][h].since = 0;
        }
    }
    for (uint32_t h = 0; h < HEADS; h++) {
        arrive(&w, h);
        flush(&w, h);
    }
    absorb(&w, 0);
    drop(&w, 1, 0);
    drop(&w, 2, 0);
    w.knows = false;
    struct outcome o = ask_standing(&w, false);
    assert_false(o.ok);
    assert_non_null(strstr(o.why.msg, "does not know that a leaf has a cut of it"));
    assert_true(w.rounds <= 6);
    o = ask_standing(&w, true);
    assert_true(o.ok);
    assert_int_equal(o.profiles, ROWS);  // its other rows are in a segment, which counts then
    w.knows = true;
    o = ask_standing(&w, false);
    assert_true(o.ok);
    assert_int_equal(o.profiles, ROWS);
    close_world(&w);
}

// ---- while heads answer

static uint64_t reads(const struct world *w)
{
    return memstore_totals(w->asked_store).ops[MEMSTORE_READ];
}

// Heads that answer when nobody but a job of the lane can have read all that is needed.
static bool answer_late(const void *transport, struct req *r, str tenant, str message,
                        struct head_replies *out, err *e)
{
    const struct world *w = transport;
    AWAIT(reads(w) >= w->awaited_reads);
    return ask_world(transport, r, tenant, message, out, e);
}

static void forget(struct world *w)
{
    blocks_free(w->blocks);
    w->blocks = blocks_new(w->asked_store, &w->memory, 1 << 20);
    memstore_reset_totals(w->asked_store);
}

static void what_is_known_is_read_while_heads_answer(void **state)
{
    (void)state;
    struct world w;
    stand(&w, 1);
    const struct lane_options o = {.name = "prefetch",
                                   .rank = RANK_QUERIER,
                                   .width = 1,
                                   .queue_max = 8};
    assert_ok((w.prefetch = lane_new(&o, e)) != NULL);
    assert_int_equal(ask_standing(&w, false).profiles, ROWS);  // a manifest is known from here on
    forget(&w);
    struct lane *prefetch = w.prefetch;
    w.prefetch = NULL;
    assert_int_equal(ask_standing(&w, false).profiles, ROWS);
    uint64_t cold = reads(&w);
    w.prefetch = prefetch;

    forget(&w);
    w.ask = answer_late;
    w.awaited_reads = 2;  // footer and index of the parent
    assert_int_equal(ask_standing(&w, false).profiles, ROWS);
    assert_true(reads(&w) <= cold);  // nothing is read twice

    // What is known is old: others take the parent's place, and it is gone.
    for (uint32_t h = 0; h < HEADS; h++) {
        flush(&w, h);
        drop(&w, h, w.open_cut[h] - 1);
    }
    absorb(&w, 0);
    absorb(&w, 1);
    sum_up(&w);
    struct sweep_seen seen;
    sweep_seen_init(&seen, NULL);
    struct manifest_sweep s = {.seen = &seen, .version_age_ns = INT64_MAX, .versions = 1000};
    assert_ok(manifest_sweep(w.manifests, &w.req, S("t"), &s, e));
    sweep_seen_release(&seen);
    forget(&w);
    w.awaited_reads = 1;
    assert_int_equal(ask_standing(&w, false).profiles, ROWS);

    // And what fails there is tried anew by who needs it.
    forget(&w);
    w.awaited_reads = 3;
    memstore_fail(w.asked_store, MEMSTORE_READ, MEMSTORE_FLIPS, 1, 1);
    assert_int_equal(ask_standing(&w, false).profiles, ROWS);
    lane_drain(w.prefetch);
    lane_free(w.prefetch);
    close_world(&w);
}

static void a_read_that_fails_for_a_moment_is_tried_again(void **state)
{
    (void)state;
    struct world w;
    stand(&w, 1);
    assert_int_equal(ask_standing(&w, false).profiles, ROWS);
    for (uint64_t nth = 1; nth <= 4; nth++) {
        forget(&w);
        memstore_fail(w.asked_store, MEMSTORE_READ, MEMSTORE_FAILS, nth, 2);
        struct outcome o = ask_standing(&w, false);
        if (!o.ok) fail_msg("%s", o.why.msg);
        assert_int_equal(o.profiles, ROWS);
        assert_int_equal(memstore_totals(w.asked_store).failed[MEMSTORE_READ], 2);
        assert_int_equal(o.plans, 1);  // nothing else had to serve
        memstore_heal(w.asked_store);
    }
    close_world(&w);
}

struct questioned {
    struct world *w;
    struct ask k;
};

static bool ask_failing(void *arg, err *e)
{
    struct questioned *q = arg;
    struct merged *got;
    ask_again(&q->k);
    struct answer a = {.querier = &q->k.state,
                       .x = &q->k.x,
                       .arena = &q->k.x.req.arena,
                       .config = config_section(q->k.config, "querier")};
    bool ok = answer_read(&a, &the_question, &got, e);
    uint64_t profiles = 0;
    for (size_t i = 0; ok && i < got->totals.n; i++)
        profiles += got->totals.v[i].count;
    if (ok) assert_int_equal(profiles, ROWS);
    return ok;
}

static bool no_heads(const void *transport, struct req *r, str tenant, str message,
                     struct head_replies *out, err *e)
{
    (void)transport;
    (void)r;
    (void)tenant;
    (void)message;
    (void)e;
    *out = (struct head_replies){0};
    return true;
}

static void want_of_memory_is_said(void **state)
{
    (void)state;
    struct world w;
    struct questioned q = {.w = &w};
    stand(&w, 3);
    // All that the heads still have goes to the store, so that only the querier asks for memory.
    for (uint32_t h = 0; h < HEADS; h++) {
        flush(&w, h);
        drop(&w, h, w.open_cut[h] - 1);
    }
    ask_it(&q.k, &w);
    q.k.state.ask = no_heads;
    assert_true(torture(ask_failing, &q) > 20);
    ask_close(&q.k);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_there_counts_once),
        cmocka_unit_test(and_so_do_rows_with_copies),
        cmocka_unit_test(and_so_do_rows_of_lists_that_differ),
        cmocka_unit_test(with_copies_besides),
        cmocka_unit_test(a_marked_answer_counts_nothing_twice),
        cmocka_unit_test(each_question_of_a_request_asks_all_its_tenants),
        cmocka_unit_test(a_store_that_does_not_answer_is_missing),
        cmocka_unit_test(who_has_no_store_does_not_see_all),
        cmocka_unit_test(reads_that_go_wrong_do_not_make_wrong_answers),
        cmocka_unit_test(a_head_that_vanishes_is_all_that_is_missing),
        cmocka_unit_test(a_head_that_does_not_look_is_missing),
        cmocka_unit_test(what_is_known_is_read_while_heads_answer),
        cmocka_unit_test(a_read_that_fails_for_a_moment_is_tried_again),
        cmocka_unit_test(want_of_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
