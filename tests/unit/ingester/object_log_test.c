// SPDX-License-Identifier: Apache-2.0
//
// One actor at a time, on a store that fails as told. object_log_model_test.c has several at once.
#include "unit/ingester/object_log_bench.h"

#include <stdlib.h>

// ---- writing

static void what_was_written_is_read(void **state)
{
    struct bench *b = *state;
    write_two_cuts(b);
    assert_string_equal(name_of(b, 3).p, "v1/log/00000000010W00000000000000/0000000000000003");
    there(b, "1 2 3 4");
    struct object_log_survey s = look(b);
    assert_int_equal(s.n, 2);
    assert_true(s.top == 4 && !s.sealed);
    assert_true(s.cuts[0].whole && s.cuts[1].whole);
    assert_true(s.cuts[0].first == 1 && s.cuts[0].last == 2);
    assert_true(s.cuts[1].first == 3 && s.cuts[1].last == 4);
    assert_true(s.cuts[0].first_seq == 1 && s.cuts[0].last_seq == 3);
    assert_true(s.cuts[1].first_seq == 4 && s.cuts[1].last_seq == 7);
    assert_true(s.cuts[1].opened_ns == 5 && s.cuts[1].newest_ns == 50);
    struct reading x = {0};
    assert_true(read_cut(b, &s.cuts[0], &x) && x.sum == 6);
    assert_true(read_cut(b, &s.cuts[1], &x) && x.seqs == 7 && x.sum == 28);
    id128 *streams = NULL;
    size_t n = 0;
    memstore_set(b->store, "v1/log/readme", S("x"));
    memstore_set(b->store, "v1/log/00000000010W00000000000000/readme", S("x"));
    assert_ok(object_log_streams(b->store, &b->r, &b->r.arena, &streams, &n, e));
    assert_true(n == 1 && id128_eq(streams[0], STREAM));
    assert_int_equal(look(b).n, 2);
}

static void an_object_in_doubt_is_put_again(void **state)
{
    static const struct {
        const char *name;
        enum memstore_fault fault;
    } cases[] = {
        {"nothing happened", MEMSTORE_FAILS},
        {"it landed", MEMSTORE_LANDS},
        {"a conflict", MEMSTORE_ABORTS},
        {"the time was up", MEMSTORE_EXPIRES},
        {"no memory for the answer", MEMSTORE_STARVES},
    };
    struct bench *b = *state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        err why = {0};
        print_message("case %s\n", cases[i].name);
        fill(b, 1);
        memstore_fail(b->store, MEMSTORE_CREATE, cases[i].fault, 1, 1);
        assert_int_equal(put(b, &why), OBJECT_LOG_UNKNOWN);
        assert_true(why.code != ERR_OK && b->w.bytes.n > 0);
        assert_int_equal(put(b, &why), OBJECT_LOG_LANDED);
        assert_int_equal(b->w.tries, 2);
        assert_int_equal(b->w.number, i + 2);
    }
    assert_int_equal(look(b).cuts[0].last_seq, COUNT(cases));
}

static void it_is_unknown_whose_a_name_is_while_the_store_fails(void **state)
{
    struct bench *b = *state;
    err why = {0};
    fill(b, 1);
    memstore_fail(b->store, MEMSTORE_CREATE, MEMSTORE_LANDS, 1, 1);
    memstore_fail(b->store, MEMSTORE_READ, MEMSTORE_FAILS, 1, 1);
    assert_int_equal(put(b, &why), OBJECT_LOG_UNKNOWN);
    assert_int_equal(put(b, &why), OBJECT_LOG_UNKNOWN);
    assert_int_equal(put(b, &why), OBJECT_LOG_LANDED);
}

static void a_name_that_was_used_twice_is_told(void **state)
{
    struct bench *b = *state;
    struct object_log_writer other;
    err why = {0};
    object_log_init(&other, b->store, STREAM, NULL);
    struct log_object_packer p;
    object_log_fill(&other, &p,
                    &(struct log_object_head){
                        .nonce = {{9}}, .cut = 1, .cut_first_seq = 1, .first_seq = 1, .count = 1});
    log_object_add(&p, S("a"), 0, S(""), S("x"));
    assert_ok(object_log_filled(&other, &p, e));
    assert_int_equal(object_log_put(&other, &b->r, &why), OBJECT_LOG_LANDED);
    object_log_release(&other);
    fill(b, 1);
    assert_int_equal(put(b, &why), OBJECT_LOG_TWICE);
    assert_int_equal(why.code, ERR_DATA_LOSS);
    assert_non_null(strstr(why.msg, "used twice"));
    // The same for one that cannot be read.
    memstore_flip(b->store, name_of(b, 1).p, 20, 3);
    assert_int_equal(put(b, &why), OBJECT_LOG_TWICE);
    assert_non_null(strstr(why.msg, name_of(b, 1).p));
}

static void what_does_not_fit_is_no_object(void **state)
{
    struct bench *b = *state;
    struct mem_budget tight;
    struct log_object_packer p;
    err why = {0};
    static char large[1 << 16];
    mem_budget_init(&tight, "tight", NULL, 1 << 12);
    object_log_init(&b->w, b->store, STREAM, &tight);
    object_log_fill(
        &b->w, &p,
        &(struct log_object_head){.cut = 1, .cut_first_seq = 1, .first_seq = 1, .count = 1});
    log_object_add(&p, S("a"), 0, S(""), str_make(large, sizeof large));
    assert_false(object_log_filled(&b->w, &p, &why));
    assert_int_equal(why.code, ERR_RESOURCE_EXHAUSTED);
    write_one(b, 1);
    assert_int_equal(b->w.number, 2);
    assert_int_equal(tight.used, 0);
}

// ---- sealing

static void a_writer_meets_the_seal(void **state)
{
    struct bench *b = *state;
    err why = {0};
    bool is_there = true;
    write_one(b, 1);
    assert_int_equal(seal(b), 2);
    assert_int_equal(seal(b), 2);  // once more finds it
    fill(b, 1);
    assert_int_equal(put(b, &why), OBJECT_LOG_OVER);
    assert_true(b->w.over && b->w.bytes.n > 0);
    assert_ok(object_log_close(&b->w, &b->r, &sealer, &is_there, e));
    assert_false(is_there);
    there(b, "1 2");
    assert_true(look(b).sealed);
}

static void a_stream_without_objects_can_be_sealed(void **state)
{
    struct bench *b = *state;
    assert_int_equal(seal(b), 1);
    assert_true(look(b).n == 0 && look(b).sealed);
}

static void a_writer_in_doubt_learns_by_sealing(void **state)
{
    struct bench *b = *state;
    for (int lands = 0; lands < 2; lands++) {
        bool is_there = !lands;
        err why = {0};
        memstore_drop(b->store, name_of(b, 1).p);
        memstore_drop(b->store, name_of(b, 2).p);
        memstore_drop(b->store, name_of(b, 3).p);
        object_log_release(&b->w);
        object_log_init(&b->w, b->store, STREAM, NULL);
        b->seq = b->cut_first_seq = 1;
        write_one(b, 1);
        fill(b, 1);
        memstore_fail(b->store, MEMSTORE_CREATE, lands ? MEMSTORE_LANDS : MEMSTORE_FAILS, 1, 1);
        assert_int_equal(put(b, &why), OBJECT_LOG_UNKNOWN);
        memstore_fail(b->store, MEMSTORE_LIST, MEMSTORE_FAILS, 1, 1);
        assert_false(object_log_close(&b->w, &b->r, &sealer, &is_there, &why));
        assert_false(b->w.over);
        assert_ok(object_log_close(&b->w, &b->r, &sealer, &is_there, e));
        assert_true(b->w.over);
        assert_int_equal(is_there, lands);
        there(b, lands ? "1 2 3" : "1 2");
        object_log_shelf_release(&b->shelf);
    }
}

// The store said that it had created them, and the highest that a LIST shows is one before.
static void a_writer_seals_above_all_that_landed(void **state)
{
    static const struct {
        uint64_t lost;  // so many of the newest
        const char *there;
        bool doubt;
    } cases[] = {{1, "1 2 3 5", false}, {2, "1 2 5", false}, {4, "5", false}, {1, "1 2 3 5", true}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bench *b = *state;
        bool is_there = true;
        err why = {0};
        register_stream(b);
        write_one(b, 2);
        write_one(b, 1);
        next_cut(b);
        write_one(b, 1);
        memstore_fail(b->store, MEMSTORE_CREATE, MEMSTORE_PRETENDS, 1, 1);
        write_one(b, 3);
        if (cases[i].doubt) {
            fill(b, 1);
            memstore_fail(b->store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, 1);
            assert_int_equal(put(b, &why), OBJECT_LOG_UNKNOWN);
        }
        for (uint64_t k = 2; k <= cases[i].lost; k++)
            memstore_drop(b->store, name_of(b, 5 - k).p);
        assert_ok(object_log_close(&b->w, &b->r, &sealer, &is_there, e));
        assert_false(is_there);
        there(b, cases[i].there);
        struct object_log_survey s = look(b);
        assert_true(s.sealed && s.top == 5);
        assert_int_equal(s.lost, cases[i].lost);
        assert_int_equal(s.bad, 5 - cases[i].lost);
        assert_int_equal(seal(b), 5);  // whoever comes finds that one
        (void)tear_down(state);
        (void)set_up(state);
    }
}

// What it covered and deleted is no loss, though the object that told so is gone.
static void a_writers_seal_says_what_its_lost_object_said(void **state)
{
    struct bench *b = *state;
    bool is_there = true;
    register_stream(b);
    write_two_cuts(b);
    object_log_covered(&b->shelf, 1);
    next_cut(b);
    write_one(b, 1);
    trim(b, LATE);
    there(b, "3 4 5");
    memstore_drop(b->store, name_of(b, 5).p);
    assert_ok(object_log_close(&b->w, &b->r, &sealer, &is_there, e));
    there(b, "3 4 6");
    struct object_log_survey s = look(b);
    assert_true(s.lost == 1 && s.bad == 5 && s.cuts[0].cut == 2);
}

// While the seal is put, the writer goes on: objects 2 to 4, and the first two are deleted.
static enum memstore_fault overtake(void *arg, const struct memstore_event *ev)
{
    struct bench *b = arg;
    if (ev->op != MEMSTORE_CREATE) return MEMSTORE_FINE;
    memstore_set_hooks(b->store, NULL, NULL, NULL);
    write_one(b, 1);
    next_cut(b);
    write_one(b, 1);
    object_log_covered(&b->shelf, 1);
    write_one(b, 1);
    trim(b, LATE + 1);
    return MEMSTORE_FINE;
}

static void a_seal_below_the_writer_does_not_hold(void **state)
{
    struct bench *b = *state;
    write_one(b, 1);
    memstore_set_hooks(b->store, overtake, NULL, b);
    assert_int_equal(seal(b), 5);
    there(b, "2 3 4 5");  // 2 is the seal that does not hold
    struct object_log_survey s = look(b);
    assert_int_equal(s.n, 1);
    assert_true(s.cuts[0].whole && s.cuts[0].first == 3);
}

static void a_damaged_object_does_not_keep_off_the_seal(void **state)
{
    struct bench *b = *state;
    write_one(b, 1);
    memstore_flip(b->store, name_of(b, 1).p, 20, 3);
    assert_int_equal(seal(b), 2);
    struct object_log_survey s = look(b);
    assert_int_equal(s.damaged, 1);
    assert_int_equal(s.why.code, ERR_DATA_LOSS);
    assert_non_null(strstr(s.why.msg, name_of(b, 1).p));
}

static void a_seal_that_fails_is_tried_again(void **state)
{
    struct bench *b = *state;
    uint64_t number = 0;
    err why = {0};
    write_one(b, 1);
    for (enum memstore_op op = 0; op < MEMSTORE_DELETE; op++) {
        memstore_fail(b->store, op, MEMSTORE_FAILS, 1, 1);
        assert_false(object_log_seal(b->store, &b->r, STREAM, &sealer, &number, &why));
        assert_int_equal(why.code, ERR_UNAVAILABLE);
    }
    memstore_heal(b->store);
    memstore_fail(b->store, MEMSTORE_CREATE, MEMSTORE_LANDS, 1, 1);
    assert_false(object_log_seal(b->store, &b->r, STREAM, &sealer, &number, &why));
    assert_int_equal(seal(b), 2);
    there(b, "1 2");
}

// ---- deleting

static void what_is_covered_goes_when_the_next_object_tells(void **state)
{
    struct bench *b = *state;
    write_two_cuts(b);
    object_log_covered(&b->shelf, 2);
    trim(b, 0);
    there(b, "1 2 3 4");  // the first cut is not covered
    object_log_covered(&b->shelf, 1);
    trim(b, 0);
    there(b, "1 2 3 4");  // and now nothing has told
    next_cut(b);
    write_one(b, 1);
    trim(b, 0);
    there(b, "5");
    assert_int_equal(look(b).n, 1);
    trim(b, 0);
    there(b, "5");
    write_one(b, 1);  // of the same cut
    trim(b, 0);
    there(b, "5 6");
    object_log_covered(&b->shelf, 3);
    next_cut(b);
    write_one(b, 1);
    trim(b, 0);
    there(b, "7");
    assert_int_equal(look(b).damaged, 0);
}

// The object that tells of it has to be there, whatever the store said when it was created.
static void nothing_goes_that_no_object_in_the_store_tells_of(void **state)
{
    struct bench *b = *state;
    err why = {0};
    write_two_cuts(b);
    object_log_covered(&b->shelf, 1);
    object_log_covered(&b->shelf, 2);
    next_cut(b);
    memstore_fail(b->store, MEMSTORE_CREATE, MEMSTORE_PRETENDS, 1, 1);
    write_one(b, 1);
    assert_false(object_log_trim(&b->shelf, b->store, &b->r, STREAM, &b->w.told, LATE, &why));
    assert_non_null(strstr(why.msg, name_of(b, 5).p));
    there(b, "1 2 3 4");
    write_one(b, 1);
    trim(b, LATE);
    there(b, "6");
}

static void nothing_goes_before_the_first_object_is_gone(void **state)
{
    struct bench *b = *state;
    static const struct {
        enum memstore_fault fault;
        uint64_t nth;
        const char *there;
    } cases[] = {{MEMSTORE_FAILS, 1, "1 2 3 4 5"},
                 {MEMSTORE_PRETENDS, 1, "1 2 3 4 5"},
                 {MEMSTORE_LANDS, 1, "2 3 4 5"},
                 {MEMSTORE_FAILS, 2, "2 3 4 5"}};
    write_two_cuts(b);
    object_log_covered(&b->shelf, 1);
    next_cut(b);
    write_one(b, 1);
    for (size_t i = 0; i < COUNT(cases); i++) {
        err why = {0};
        memstore_fail(b->store, MEMSTORE_DELETE, cases[i].fault, cases[i].nth, 1);
        assert_false(object_log_trim(&b->shelf, b->store, &b->r, STREAM, &b->w.told, 0, &why));
        assert_int_equal(why.code, ERR_UNAVAILABLE);
        there(b, cases[i].there);
    }
    trim(b, 0);
    there(b, "3 4 5");
}

static void what_was_put_twice_stays_for_a_while(void **state)
{
    struct bench *b = *state;
    err why = {0};
    fill(b, 1);
    memstore_fail(b->store, MEMSTORE_CREATE, MEMSTORE_FAILS, 1, 1);
    assert_int_equal(put(b, &why), OBJECT_LOG_UNKNOWN);
    assert_int_equal(put(b, &why), OBJECT_LOG_LANDED);
    landed(b, 1000);
    next_cut(b);
    object_log_covered(&b->shelf, 1);
    write_one(b, 1);
    trim(b, LATE + 999);
    there(b, "1 2");
    trim(b, LATE + 1000);
    there(b, "2");
}

static bool clear(struct bench *b)
{
    uint64_t removed = 0;
    bool done = false;
    assert_ok(object_log_clear(b->store, &b->r, STREAM, UINT64_MAX, &removed, &done, e));
    return done;
}

static void of_a_stream_that_has_ended_nothing_goes_before_its_registration(void **state)
{
    struct bench *b = *state;
    register_stream(b);
    write_two_cuts(b);
    assert_int_equal(seal(b), 5);
    assert_false(clear(b));
    there(b, "1 2 3 4 5");
    assert_ok(stream_unregister(b->store, &b->r, STREAM, e));
    assert_true(clear(b));
    there(b, "5");
    assert_true(clear(b));
    there(b, "5");
}

// Its writer would meet the lower one.
static void a_seal_below_a_seal_stays(void **state)
{
    struct bench *b = *state;
    err why = {0};
    write_two_cuts(b);
    assert_int_equal(seal(b), 5);
    memstore_flip(b->store, name_of(b, 5).p, 20, 3);
    assert_int_equal(seal(b), 6);
    assert_true(clear(b));
    there(b, "5 6");
    fill(b, 1);
    assert_int_not_equal(put(b, &why), OBJECT_LOG_LANDED);
    memstore_flip(b->store, name_of(b, 5).p, 20, 3);
    assert_true(clear(b));
    there(b, "5 6");
}

// ---- sweeping

static size_t sweep(struct bench *b, int64_t wall_ns)
{
    struct object_log_sealer by = sealer;
    struct object_log_sweep x = {0};
    by.wall_ns = wall_ns;
    assert_ok(object_log_sweep(&x, b->store, &b->r, &by, UINT64_MAX, e));
    assert_true(x.done);
    return (size_t)x.removed;
}

static void a_sweep_leaves_what_is_registered(void **state)
{
    struct bench *b = *state;
    write_two_cuts(b);
    register_stream(b);
    assert_int_equal(sweep(b, INT64_MAX), 0);
    assert_int_equal(look(b).top, 4);
}

// After the first list of a sweep, whatever it is of, an ingester begins a stream.
static enum memstore_fault begin_stream(void *arg, const struct memstore_event *ev)
{
    struct bench *b = arg;
    if (ev->op != MEMSTORE_LIST) return MEMSTORE_FINE;
    memstore_set_hooks(b->store, NULL, NULL, NULL);
    register_stream(b);
    write_two_cuts(b);
    return MEMSTORE_FINE;
}

static void a_sweep_leaves_a_stream_that_begins_while_it_lists(void **state)
{
    struct bench *b = *state;
    memstore_set_hooks(b->store, NULL, begin_stream, b);
    assert_int_equal(sweep(b, INT64_MAX), 0);
    assert_int_equal(look(b).top, 4);
    assert_false(look(b).sealed);
}

// Something on the way keeps answers: the list of registrations is one of before.
static enum memstore_fault list_old_registrations(void *arg, const struct memstore_event *ev)
{
    (void)arg;
    bool is = ev->op == MEMSTORE_LIST && str_starts(ev->name, S("v1/streams/"));
    return is ? MEMSTORE_OLD : MEMSTORE_FINE;
}

static void what_an_old_list_of_registrations_lacks_is_not_cleared_away(void **state)
{
    struct bench *b = *state;
    bool done = true;
    uint64_t removed = 0;
    memstore_remember(b->store);  // there is none yet
    register_stream(b);
    write_two_cuts(b);
    memstore_set_hooks(b->store, list_old_registrations, NULL, NULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(sweep(b, INT64_MAX), 0);
    there(b, "1 2 3 4");
    assert_int_equal(seal(b), 5);
    for (int i = 0; i < 3; i++)
        assert_int_equal(sweep(b, INT64_MAX), 0);
    assert_ok(object_log_clear(b->store, &b->r, STREAM, UINT64_MAX, &removed, &done, e));
    assert_false(done);
    there(b, "1 2 3 4 5");
    // Nor does it make damage of what is lost a cut that is covered.
    memstore_drop(b->store, name_of(b, 1).p);
    struct object_log_survey s = look(b);
    assert_true(s.n == 2 && s.lost == 1);
}

static void a_sweep_seals_clears_away_and_keeps_the_seal_for_a_while(void **state)
{
    struct bench *b = *state;
    const int64_t now = 1000 * OBJECT_LOG_SEAL_NS;
    memstore_pass(b->store, 7);
    write_two_cuts(b);
    assert_int_equal(sweep(b, now), 0);
    assert_true(look(b).sealed);
    assert_int_equal(look(b).top, 5);
    assert_int_equal(sweep(b, now), 4);
    assert_int_equal(look(b).top, 5);
    // Only the store's clock counts: that of one node is months ahead, that of another one behind.
    assert_int_equal(sweep(b, now + 100 * OBJECT_LOG_SEAL_NS), 0);
    memstore_pass(b->store, OBJECT_LOG_SEAL_NS - 1);
    assert_int_equal(sweep(b, now + 100 * OBJECT_LOG_SEAL_NS), 0);
    assert_int_equal(look(b).top, 5);
    memstore_pass(b->store, 1);
    assert_int_equal(sweep(b, now - 100 * OBJECT_LOG_SEAL_NS), 1);
    assert_int_equal(look(b).top, 0);
    assert_int_equal(sweep(b, now), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_was_written_is_read),
        TEST(an_object_in_doubt_is_put_again),
        TEST(it_is_unknown_whose_a_name_is_while_the_store_fails),
        TEST(a_name_that_was_used_twice_is_told),
        TEST(what_does_not_fit_is_no_object),
        TEST(a_writer_meets_the_seal),
        TEST(a_stream_without_objects_can_be_sealed),
        TEST(a_writer_in_doubt_learns_by_sealing),
        TEST(a_writer_seals_above_all_that_landed),
        TEST(a_writers_seal_says_what_its_lost_object_said),
        TEST(a_seal_below_the_writer_does_not_hold),
        TEST(a_damaged_object_does_not_keep_off_the_seal),
        TEST(a_seal_that_fails_is_tried_again),
        TEST(what_is_covered_goes_when_the_next_object_tells),
        TEST(nothing_goes_that_no_object_in_the_store_tells_of),
        TEST(nothing_goes_before_the_first_object_is_gone),
        TEST(what_was_put_twice_stays_for_a_while),
        TEST(of_a_stream_that_has_ended_nothing_goes_before_its_registration),
        TEST(a_seal_below_a_seal_stays),
        TEST(a_sweep_leaves_what_is_registered),
        TEST(a_sweep_leaves_a_stream_that_begins_while_it_lists),
        TEST(what_an_old_list_of_registrations_lacks_is_not_cleared_away),
        TEST(a_sweep_seals_clears_away_and_keeps_the_seal_for_a_while),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
