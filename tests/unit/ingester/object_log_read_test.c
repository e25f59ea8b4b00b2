// SPDX-License-Identifier: Apache-2.0
//
// What a reader of a log concludes from what is there and what is not, on a store that lies.
#include "unit/ingester/object_log_bench.h"

// What format 1 says by what is missing.
static void in_format_1_a_cut_with_an_object_missing_is_covered(void **state)
{
    static const struct {
        const char *name;
        uint64_t missing;
        unsigned whole;  // bits of cuts that are there and whole
        size_t n;
    } cases[] = {
        {"the first", 1, 2, 2},
        {"the second", 2, 2, 2},
        {"the first of the second cut", 3, 0, 2},
    };
    struct bench *b = *state;
    b->unbound = true;
    register_stream(b);
    write_two_cuts(b);
    assert_int_equal(seal(b), 5);
    assert_int_equal(memstore_bytes(b->store, name_of(b, 5).p).p[1], 1);
    for (size_t i = 0; i < COUNT(cases); i++) {
        print_message("case %s\n", cases[i].name);
        str name = name_of(b, cases[i].missing);
        str bytes = arena_str(&b->r.arena, memstore_bytes(b->store, name.p));
        memstore_drop(b->store, name.p);
        struct object_log_survey s = look(b);
        assert_int_equal(s.n, cases[i].n);
        assert_int_equal(s.damaged, 0);
        for (size_t k = 0; k < s.n; k++)
            assert_int_equal(s.cuts[k].whole, cases[i].whole >> k & 1);
        memstore_set(b->store, name.p, bytes);
    }
}

static void in_format_1_a_cut_that_vanishes_while_it_is_read_is_covered(void **state)
{
    struct bench *b = *state;
    b->unbound = true;
    register_stream(b);
    write_two_cuts(b);
    struct object_log_survey s = look(b);
    struct reading x = {0};
    struct reading y = {0};
    memstore_drop(b->store, name_of(b, 2).p);
    assert_true(read_cut(b, &s.cuts[0], &x));
    assert_true(x.covered && x.damaged == 0);
    assert_true(read_cut(b, &s.cuts[1], &y));
    assert_true(!y.covered && y.sum == 22);
}

// Between the list and the heads all of the first cut goes.
static enum memstore_fault drop_first(void *arg, const struct memstore_event *ev)
{
    struct bench *b = arg;
    if (ev->op != MEMSTORE_READ) return MEMSTORE_FINE;
    memstore_set_hooks(b->store, NULL, NULL, NULL);
    memstore_drop(b->store, name_of(b, 1).p);
    memstore_drop(b->store, name_of(b, 2).p);
    return MEMSTORE_FINE;
}

static void in_format_1_what_goes_during_a_look_is_covered(void **state)
{
    struct bench *b = *state;
    b->unbound = true;
    write_two_cuts(b);
    memstore_set_hooks(b->store, drop_first, NULL, b);
    struct object_log_survey s = look(b);
    assert_int_equal(s.n, 1);
    assert_true(s.cuts[0].whole && s.cuts[0].cut == 2);
}

// All of them, one by one: each is told, with the entries that it had, and the rest is read.
static void a_missing_object_that_nothing_covers_is_lost(void **state)
{
    static const struct {
        uint64_t missing;
        size_t cut;       // that lacks it
        uint64_t sum[2];  // of the seqs that can be read of each cut
    } cases[] = {{1, 0, {3, 22}}, {2, 0, {3, 22}}, {3, 1, {6, 18}}};
    struct bench *b = *state;
    register_stream(b);
    write_two_cuts(b);
    assert_int_equal(seal(b), 5);
    for (size_t i = 0; i < COUNT(cases); i++) {
        str name = name_of(b, cases[i].missing);
        str bytes = arena_str(&b->r.arena, memstore_bytes(b->store, name.p));
        memstore_drop(b->store, name.p);
        struct object_log_survey s = look(b);
        assert_true(s.n == 2 && s.damaged == 1 && s.lost == 1 && s.cutless == 0);
        assert_int_equal(s.bad, cases[i].missing);
        assert_non_null(strstr(s.why.msg, name.p));
        assert_true(s.sealed && s.top == 5);
        for (size_t k = 0; k < 2; k++) {
            struct reading x = {0};
            assert_true(s.cuts[k].whole && s.cuts[k].damaged == (k == cases[i].cut));
            assert_in_range(s.cuts[k].bytes, 1, 1000);  // of those that are there
            assert_int_equal(s.cuts[k].first_seq, k ? 4 : 1);
            assert_int_equal(s.cuts[k].last_seq, k ? 7 : 3);
            assert_true(read_cut(b, &s.cuts[k], &x));
            assert_int_equal(x.sum, cases[i].sum[k]);
            assert_int_equal(x.damaged, k == cases[i].cut);
            assert_false(x.covered);
        }
        memstore_set(b->store, name.p, bytes);
    }
}

// All of the oldest cut is lost. The objects above know where it began.
static void a_lost_cut_has_the_entries_that_it_had(void **state)
{
    struct bench *b = *state;
    register_stream(b);
    write_two_cuts(b);
    memstore_drop(b->store, name_of(b, 1).p);
    memstore_drop(b->store, name_of(b, 2).p);
    struct object_log_survey s = look(b);
    struct reading x = {0};
    assert_true(s.n == 2 && s.lost == 2 && s.cutless == 0);
    assert_true(s.cuts[0].cut == 1 && s.cuts[0].first == 1 && s.cuts[0].last == 2);
    assert_true(s.cuts[0].first_seq == 1 && s.cuts[0].last_seq == 3 && s.cuts[0].damaged);
    assert_true(read_cut(b, &s.cuts[0], &x) && x.damaged == 2 && x.seqs == 0);
    assert_true(s.cuts[1].whole && !s.cuts[1].damaged);
}

static void what_is_told_to_be_covered_is_not_looked_at(void **state)
{
    struct bench *b = *state;
    register_stream(b);
    write_two_cuts(b);
    object_log_covered(&b->shelf, 1);
    next_cut(b);
    write_one(b, 1);
    memstore_drop(b->store, name_of(b, 2).p);  // 1 stays, though it was deleted
    assert_int_equal(seal(b), 6);
    struct object_log_survey s = look(b);
    assert_true(s.n == 2 && s.damaged == 0);
    assert_true(s.cuts[0].cut == 2 && s.cuts[1].cut == 3);
    // The seal repeats it, so damage of the newest object changes nothing.
    memstore_flip(b->store, name_of(b, 5).p, 20, 3);
    s = look(b);
    assert_true(s.damaged == 1 && s.lost == 0 && s.n == 1 && s.cuts[0].cut == 2);
}

// A writer told that it covered a cut, and deletes it, after a reader has listed it.
static enum memstore_fault delete_meanwhile(void *arg, const struct memstore_event *ev)
{
    struct bench *b = arg;
    if (ev->op != MEMSTORE_READ) return MEMSTORE_FINE;
    memstore_set_hooks(b->store, NULL, NULL, NULL);
    object_log_covered(&b->shelf, 1);
    write_one(b, 1);
    trim(b, LATE);
    return MEMSTORE_FINE;
}

static void what_a_writer_deletes_meanwhile_is_covered(void **state)
{
    struct bench *b = *state;
    register_stream(b);
    write_two_cuts(b);
    memstore_set_hooks(b->store, delete_meanwhile, NULL, b);
    struct object_log_survey s = look(b);
    assert_true(s.damaged == 0 && s.n == 1 && s.cuts[0].cut == 2);
    // And after the look.
    object_log_covered(&b->shelf, 2);
    next_cut(b);
    write_one(b, 1);
    trim(b, LATE);
    there(b, "6");
    struct reading x = {0};
    assert_true(read_cut(b, &s.cuts[0], &x));
    assert_true(x.covered && x.damaged == 0);
}

static void what_is_missing_of_a_stream_that_is_not_registered_is_covered(void **state)
{
    struct bench *b = *state;
    write_two_cuts(b);
    assert_int_equal(seal(b), 5);
    struct object_log_survey before = look(b);
    memstore_drop(b->store, name_of(b, 1).p);
    struct object_log_survey s = look(b);
    assert_true(s.n == 0 && s.damaged == 0 && s.sealed);
    struct reading x = {0};
    assert_true(read_cut(b, &before.cuts[0], &x));
    assert_true(x.covered && x.damaged == 0);
}

// Whatever is asked for, one time or several something on the way says that it is not there.
static void a_false_404_is_asked_again(void **state)
{
    struct bench *b = *state;
    register_stream(b);
    write_two_cuts(b);
    for (uint64_t nth = 1; nth <= 12; nth++) {
        for (uint64_t count = 1; count <= 3; count++) {
            struct reading x = {0};
            uint64_t number = 0;
            memstore_fail(b->store, MEMSTORE_READ, MEMSTORE_FORGETS, nth, count);
            err why = {0};
            // One that is denied again and again is a failure, and its caller comes again.
            if (!object_log_seal(b->store, &b->r, STREAM, &sealer, &number, &why)) {
                assert_int_equal(why.code, ERR_UNAVAILABLE);
                assert_ok(object_log_seal(b->store, &b->r, STREAM, &sealer, &number, e));
            }
            assert_int_equal(number, 5);
            struct object_log_survey s = look(b);
            assert_true(s.n == 2 && s.damaged == 0 && s.cuts[0].whole && s.cuts[1].whole);
            assert_true(read_cut(b, &s.cuts[0], &x) && read_cut(b, &s.cuts[1], &x));
            assert_true(x.seqs == 7 && x.sum == 28 && x.damaged == 0);
            memstore_heal(b->store);
        }
    }
    there(b, "1 2 3 4 5");
}

// A LIST whose end is missing on the way is whole to all appearance.
static void a_list_that_lacks_its_end_loses_nothing(void **state)
{
    struct bench *b = *state;
    register_stream(b);
    write_two_cuts(b);
    assert_int_equal(seal(b), 5);
    for (uint64_t nth = 1; nth <= 6; nth++) {
        struct object_log_survey s = {0};
        err why = {0};
        bool ok = false;
        memstore_fail(b->store, MEMSTORE_LIST, MEMSTORE_ENDS, nth, 1);
        for (int tries = 0; tries < 2 && !ok; tries++) {
            object_log_survey_release(&s);
            ok = object_log_look(b->store, &b->r, STREAM, 5, &s, &why);
        }
        assert_true(ok && s.n == 2 && s.damaged == 0 && s.sealed && s.top == 5);
        for (size_t i = 0; i < 2; i++) {
            struct reading x = {0};
            memstore_fail(b->store, MEMSTORE_LIST, MEMSTORE_ENDS, nth, 1);
            assert_true(read_cut(b, &s.cuts[i], &x));
            assert_true(x.seqs == (i ? 4 : 3) && x.damaged == 0 && !x.covered);
        }
        object_log_survey_release(&s);
        memstore_heal(b->store);
    }
    memstore_fail(b->store, MEMSTORE_LIST, MEMSTORE_ENDS, 1, 2);
    assert_int_equal(seal(b), 5);
    there(b, "1 2 3 4 5");
}

// A LIST shows it, and it is never there: it is damaged, and not covered.
static enum memstore_fault deny_second(void *arg, const struct memstore_event *ev)
{
    struct bench *b = arg;
    return ev->op == MEMSTORE_READ && str_eq(ev->name, name_of(b, 2)) ? MEMSTORE_FORGETS
                                                                      : MEMSTORE_FINE;
}

static void what_is_listed_and_never_there_is_damage(void **state)
{
    struct bench *b = *state;
    for (int unbound = 0; unbound < 2; unbound++) {
        struct reading x = {0};
        b->unbound = unbound;
        if (!unbound) write_two_cuts(b);
        memstore_set_hooks(b->store, deny_second, NULL, b);
        struct object_log_survey s = look(b);
        assert_true(s.n == 2 && s.damaged == 1 && s.lost == 0 && s.bad == 2);
        assert_non_null(strstr(s.why.msg, "a list shows it"));
        assert_true(s.cuts[0].whole && s.cuts[0].damaged && s.cuts[1].whole);
        assert_true(read_cut(b, &s.cuts[0], &x));
        assert_true(x.sum == 3 && x.damaged == 1 && !x.covered);
        memstore_set_hooks(b->store, NULL, NULL, NULL);
        // The same objects, of a program before.
        struct object_log_writer w;
        for (uint64_t i = 1; i <= 4; i++)
            memstore_drop(b->store, name_of(b, i).p);
        object_log_release(&b->w);
        object_log_init(&w, b->store, STREAM, NULL);
        b->w = w;
        b->unbound = true;
        object_log_shelf_release(&b->shelf);
        b->seq = b->cut = b->cut_first_seq = 1;
        if (!unbound) write_two_cuts(b);
    }
}

// A store that said "created" and has nothing.
static void a_creation_without_effect_loses_its_own_entries_alone(void **state)
{
    for (uint64_t nth = 1; nth <= 3; nth++) {
        struct bench *b = *state;
        struct reading x = {0};
        register_stream(b);
        memstore_fail(b->store, MEMSTORE_CREATE, MEMSTORE_PRETENDS, nth, 1);
        write_two_cuts(b);
        assert_int_equal(seal(b), 5);
        struct object_log_survey s = look(b);
        assert_true(s.n == 2 && s.lost == 1 && s.bad == nth);
        for (size_t i = 0; i < 2; i++)
            assert_true(read_cut(b, &s.cuts[i], &x) && !x.covered);
        assert_int_equal(x.damaged, 1);
        assert_int_equal(x.seqs, nth == 1 ? 5 : 6);
        (void)tear_down(state);
        (void)set_up(state);
    }
}

static void damage_names_the_object(void **state)
{
    struct bench *b = *state;
    write_two_cuts(b);
    struct object_log_survey s = look(b);
    size_t n = memstore_bytes(b->store, name_of(b, 2).p).n;
    memstore_flip(b->store, name_of(b, 2).p, n - 7, 0);
    struct reading x = {0};
    assert_true(read_cut(b, &s.cuts[0], &x));
    assert_true(x.damaged == 1 && x.sum == 3);
    assert_non_null(strstr(x.why.msg, name_of(b, 2).p));
    assert_true(read_cut(b, &s.cuts[1], &x));
    // Objects of another stream in the place of these.
    str other = arena_str(&b->r.arena, memstore_bytes(b->store, name_of(b, 4).p));
    memstore_set(b->store, name_of(b, 3).p, other);
    s = look(b);
    assert_true(s.damaged == 1 && s.bad == 3 && s.cuts[1].damaged);
}

// A stream that is sealed, and little memory for whoever comes now.
static void write_many(struct bench *b, uint64_t many, struct mem_budget *tight)
{
    mem_budget_init(tight, "tight", NULL, (size_t)1 << 20);
    object_log_page_max = 256;
    memstore_set_page(b->store, 100);
    memstore_set_turns(b->store, 64, 0);
    register_stream(b);
    for (uint64_t i = 0; i < many; i++) {
        write_one(b, 1);
        req_release(&b->r);
        req_init(&b->r, RANK_DUTY, tight, 64 << 10, 0);
    }
    memstore_reset_totals(b->store);
    assert_int_equal(seal(b), many + 1);
}

static void end_many(struct bench *b, struct mem_budget *tight)
{
    req_release(&b->r);
    assert_int_equal(tight->used, 0);
    object_log_page_max = (size_t)1 << 14;
}

// The memory of a request does not grow with their number, nor the time of an object. With
// FLAMETREE_NIGHTLY=1 there are ten times as many.
static void any_number_of_objects_is_read(void **state)
{
    const char *nightly = getenv("FLAMETREE_NIGHTLY");
    const uint64_t many = nightly && strcmp(nightly, "1") == 0 ? 200000 : 20000;
    struct bench *b = *state;
    struct reading x = {0};
    struct mem_budget tight;
    struct object_log_survey s;
    write_many(b, many, &tight);
    assert_ok(object_log_look(b->store, &b->r, STREAM, many + 1, &s, e));
    assert_true(s.n == 1 && s.cuts[0].last == many);
    assert_true(read_cut(b, &s.cuts[0], &x));
    assert_true(x.seqs == many && x.damaged == 0);
    object_log_survey_release(&s);
    // Each object is read twice, many of them at once; the lists come to a few pages for each.
    assert_in_range(memstore_totals(b->store).turns, 1, 4 * many / 64 + 8 * many / 100);
    end_many(b, &tight);
}

static void any_number_of_objects_is_copied_and_deleted(void **state)
{
    const uint64_t many = 3000;
    struct bench *b = *state;
    struct mem_budget tight;
    uint64_t kept = 0;
    uint64_t removed = 0;
    bool done = false;
    write_many(b, many, &tight);
    b->shelf.v[0].damaged = true;
    assert_ok(object_log_keep(&b->shelf, b->store, &b->r, STREAM, &kept, e));
    assert_int_equal(kept, many);
    assert_ok(stream_unregister(b->store, &b->r, STREAM, e));
    for (uint64_t i = 0; !done; i++) {
        uint64_t some = 0;
        assert_ok(object_log_clear(b->store, &b->r, STREAM, 0, &some, &done, e));
        removed += some;
        assert_in_range(i, 0, many / 100);  // a batch at least
    }
    assert_int_equal(removed, many);
    assert_int_equal(memstore_count(b->store, "v1/log/"), 1);
    assert_int_equal(memstore_count(b->store, "v1/damaged/"), many);
    end_many(b, &tight);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(in_format_1_a_cut_with_an_object_missing_is_covered),
        TEST(in_format_1_a_cut_that_vanishes_while_it_is_read_is_covered),
        TEST(in_format_1_what_goes_during_a_look_is_covered),
        TEST(a_missing_object_that_nothing_covers_is_lost),
        TEST(a_lost_cut_has_the_entries_that_it_had),
        TEST(what_is_told_to_be_covered_is_not_looked_at),
        TEST(what_a_writer_deletes_meanwhile_is_covered),
        TEST(what_is_missing_of_a_stream_that_is_not_registered_is_covered),
        TEST(a_false_404_is_asked_again),
        TEST(a_list_that_lacks_its_end_loses_nothing),
        TEST(what_is_listed_and_never_there_is_damage),
        TEST(a_creation_without_effect_loses_its_own_entries_alone),
        TEST(damage_names_the_object),
        TEST(any_number_of_objects_is_read),
        TEST(any_number_of_objects_is_copied_and_deleted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
