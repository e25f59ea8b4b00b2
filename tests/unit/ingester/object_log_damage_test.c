// SPDX-License-Identifier: Apache-2.0
//
// Objects whose heads are damaged: what their neighbours tell, and what is kept of them.
#include "unit/ingester/object_log_bench.h"

static void hurt(struct bench *b, uint64_t number)
{
    memstore_flip(b->store, name_of(b, number).p, 20, 3);
}

static void is_cut(const struct object_log_cut *c, uint64_t cut, uint64_t first, uint64_t last,
                   uint64_t first_seq, uint64_t last_seq)
{
    assert_int_equal(c->cut, cut);
    assert_int_equal(c->first, first);
    assert_int_equal(c->last, last);
    assert_int_equal(c->first_seq, first_seq);
    assert_int_equal(c->last_seq, last_seq);
    assert_true(c->whole);
}

// Three cuts: objects 1 to 3 with entries 1, 2 and 3; 4 with 4 and 5; 5 and 6 with 6, 7 and 8.
static void write_three_cuts(struct bench *b)
{
    for (int i = 0; i < 3; i++)
        write_one(b, 1);
    next_cut(b);
    write_one(b, 2);
    next_cut(b);
    write_one(b, 1);
    write_one(b, 2);
    assert_int_equal(seal(b), 7);
}

static void within_a_cut_its_neighbours_tell_what_it_was(void **state)
{
    struct bench *b = *state;
    write_three_cuts(b);
    hurt(b, 2);
    struct object_log_survey s = look(b);
    assert_int_equal(s.n, 3);
    assert_true(s.sealed && s.damaged == 1 && s.cutless == 0 && s.bad == 2);
    is_cut(&s.cuts[0], 1, 1, 3, 1, 3);
    is_cut(&s.cuts[1], 2, 4, 4, 4, 5);
    is_cut(&s.cuts[2], 3, 5, 6, 6, 8);
    assert_true(s.cuts[0].damaged && !s.cuts[1].damaged && !s.cuts[2].damaged);
}

static void at_the_end_of_a_cut_the_next_one_tells_where_it_ended(void **state)
{
    struct bench *b = *state;
    write_three_cuts(b);
    hurt(b, 3);
    struct object_log_survey s = look(b);
    assert_int_equal(s.n, 3);
    is_cut(&s.cuts[0], 1, 1, 3, 1, 3);
    assert_true(s.cuts[0].damaged && s.damaged == 1 && s.cutless == 0);
}

static void at_the_beginning_of_a_cut_the_cut_stays_whole(void **state)
{
    struct bench *b = *state;
    write_three_cuts(b);
    hurt(b, 1);
    hurt(b, 5);
    struct object_log_survey s = look(b);
    assert_int_equal(s.n, 3);
    is_cut(&s.cuts[0], 1, 1, 3, 1, 3);
    is_cut(&s.cuts[1], 2, 4, 4, 4, 5);
    is_cut(&s.cuts[2], 3, 5, 6, 6, 8);
    assert_true(s.cuts[0].damaged && !s.cuts[1].damaged && s.cuts[2].damaged);
    assert_true(s.damaged == 2 && s.cutless == 0);
}

static void a_cut_that_is_lost_counts_for_the_one_below(void **state)
{
    struct bench *b = *state;
    write_three_cuts(b);
    hurt(b, 4);
    struct object_log_survey s = look(b);
    assert_int_equal(s.n, 2);
    is_cut(&s.cuts[0], 1, 1, 4, 1, 5);
    is_cut(&s.cuts[1], 3, 5, 6, 6, 8);
    assert_true(s.cuts[0].damaged && !s.cuts[1].damaged);
}

// A damaged object that may be of either of two cuts is counted for the upper one. Otherwise the
// upper cut would seem to lack its first object.
static void an_object_of_either_cut_counts_for_the_upper_one(void **state)
{
    struct bench *b = *state;
    write_three_cuts(b);
    hurt(b, 3);
    hurt(b, 4);
    hurt(b, 5);
    struct object_log_survey s = look(b);
    assert_int_equal(s.n, 2);
    is_cut(&s.cuts[0], 1, 1, 2, 1, 5);
    is_cut(&s.cuts[1], 3, 3, 6, 6, 8);
    assert_int_equal(s.damaged, 3);
}

static void at_the_top_each_object_had_an_entry_at_least(void **state)
{
    struct bench *b = *state;
    write_three_cuts(b);
    hurt(b, 5);
    hurt(b, 6);
    struct object_log_survey s = look(b);
    assert_int_equal(s.n, 2);
    is_cut(&s.cuts[1], 2, 4, 6, 4, 7);
    assert_true(s.damaged == 2 && s.cutless == 0);
}

// What is not covered begins with a cut of which nothing is left. The others know where it began.
static void where_no_object_is_left_the_others_tell_what_it_was(void **state)
{
    struct bench *b = *state;
    write_three_cuts(b);
    for (uint64_t i = 1; i <= 3; i++)
        hurt(b, i);
    struct object_log_survey s = look(b);
    assert_int_equal(s.n, 3);
    assert_true(s.damaged == 3 && s.cutless == 0);
    is_cut(&s.cuts[0], 1, 1, 3, 1, 3);
    assert_true(s.cuts[0].damaged);
    is_cut(&s.cuts[1], 2, 4, 4, 4, 5);
    for (uint64_t i = 4; i <= 6; i++)
        hurt(b, i);
    s = look(b);
    assert_int_equal(s.n, 1);
    is_cut(&s.cuts[0], 1, 1, 6, 1, 6);
    assert_true(s.sealed && s.damaged == 6 && s.cutless == 0 && s.cuts[0].damaged);
}

static void in_format_1_where_no_cut_is_left_they_are_counted_alone(void **state)
{
    struct bench *b = *state;
    b->unbound = true;
    write_three_cuts(b);
    for (uint64_t i = 1; i <= 3; i++)
        hurt(b, i);
    struct object_log_survey s = look(b);
    assert_int_equal(s.n, 3);
    assert_true(s.damaged == 3 && s.cutless == 3);
    assert_true(!s.cuts[0].whole && s.cuts[0].damaged && s.cuts[0].last == 3);
    is_cut(&s.cuts[1], 2, 4, 4, 4, 5);
    for (uint64_t i = 4; i <= 6; i++)
        hurt(b, i);
    s = look(b);
    assert_int_equal(s.n, 1);
    assert_true(s.sealed && s.damaged == 6 && s.cutless == 6 && !s.cuts[0].whole);
}

// In format 1 all below a missing number is covered, damaged or not, and so is the rest of a cut
// whose first object is gone.
static void in_format_1_covered_objects_are_no_loss(void **state)
{
    struct bench *b = *state;
    b->unbound = true;
    write_three_cuts(b);
    memstore_drop(b->store, name_of(b, 1).p);
    hurt(b, 3);
    struct object_log_survey s = look(b);
    assert_int_equal(s.n, 3);
    assert_true(!s.cuts[0].whole && s.cuts[0].last == 3 && s.damaged == 0);
    memstore_drop(b->store, name_of(b, 4).p);
    s = look(b);
    assert_true(s.n == 2 && s.damaged == 0 && !s.cuts[0].whole);
    is_cut(&s.cuts[1], 3, 5, 6, 6, 8);
}

static void objects_that_cannot_follow_each_other_are_refused(void **state)
{
    struct bench *b = *state;
    struct object_log_survey s;
    err why = {0};
    write_three_cuts(b);
    hurt(b, 2);
    b->seq = 2;  // a third object that leaves no room for the second
    b->cut = 1;
    b->cut_first_seq = 1;
    memstore_drop(b->store, name_of(b, 3).p);
    b->w.number = 3;
    b->w.over = false;
    fill(b, 1);
    assert_int_equal(put(b, &why), OBJECT_LOG_LANDED);
    assert_false(object_log_look(b->store, &b->r, STREAM, 0, &s, &why));
    object_log_survey_release(&s);
    assert_int_equal(why.code, ERR_DATA_LOSS);
}

// An object of a later program is not damaged: nothing is decided about its stream.
static void an_object_of_another_format_is_left_alone(void **state)
{
    struct bench *b = *state;
    struct object_log_survey s;
    err why = {0};
    write_three_cuts(b);
    make_foreign(b, 2);
    assert_false(object_log_look(b->store, &b->r, STREAM, 0, &s, &why));
    object_log_survey_release(&s);
    assert_non_null(strstr(why.msg, "format 3"));
}

static void what_is_damaged_is_kept_before_it_goes(void **state)
{
    struct bench *b = *state;
    struct object_log_shelf *shelf = &b->shelf;
    uint64_t kept = 0;
    write_three_cuts(b);
    hurt(b, 2);
    shelf->v[0].damaged = true;
    memstore_fail(b->store, MEMSTORE_CREATE, MEMSTORE_FAILS, 2, 1);
    err why = {0};
    assert_false(object_log_keep(shelf, b->store, &b->r, STREAM, &kept, &why));
    // Of what is listed, no copy is left out because something says that it is not there.
    memstore_fail(b->store, MEMSTORE_READ, MEMSTORE_FORGETS, 1, 3);
    assert_false(object_log_keep(shelf, b->store, &b->r, STREAM, &kept, &why));
    assert_ok(object_log_keep(shelf, b->store, &b->r, STREAM, &kept, e));
    assert_int_equal(kept, 2);
    assert_int_equal(memstore_count(b->store, "v1/damaged/"), 3);
    shelf->v[0].damaged = true;
    assert_ok(object_log_keep(shelf, b->store, &b->r, STREAM, &kept, e));
    assert_int_equal(kept, 0);
    str copy = memstore_bytes(b->store, "v1/damaged/00000000010W00000000000000/0000000000000002");
    assert_true(str_eq(copy, memstore_bytes(b->store, name_of(b, 2).p)));
}

// ---- how long copies stay

static size_t copies(struct bench *b)
{
    return memstore_count(b->store, "v1/damaged/");
}

// A sweep that has no time goes on until it is done.
static void sweep(struct bench *b)
{
    struct object_log_sweep x = {0};
    for (int i = 0; !x.done; i++) {
        assert_ok(object_log_sweep(&x, b->store, &b->r, &sealer, 0, e));
        assert_in_range(i, 0, 20);
    }
}

static void keep_all(struct bench *b)
{
    uint64_t kept = 0;
    for (size_t i = 0; i < b->shelf.n; i++)
        b->shelf.v[i].damaged = true;
    assert_ok(object_log_keep(&b->shelf, b->store, &b->r, STREAM, &kept, e));
}

static void copies_go_before_a_deletion_has_to_be_over(void **state)
{
    struct bench *b = *state;
    write_three_cuts(b);
    hurt(b, 2);
    keep_all(b);
    assert_int_equal(copies(b), 6);
    memstore_pass(b->store, OBJECT_LOG_KEPT_NS - 1);
    sweep(b);
    assert_int_equal(copies(b), 6);
    // Later ones stay.
    memstore_set(b->store, "v1/damaged/00000000010W00000000000000/0000000000000009", S("later"));
    memstore_pass(b->store, 1);
    sweep(b);
    assert_int_equal(copies(b), 1);
    memstore_pass(b->store, OBJECT_LOG_KEPT_NS);
    sweep(b);
    assert_int_equal(copies(b), 0);
    assert_true(OBJECT_LOG_KEPT_NS < INT64_C(3) * 24 * 3600 * 1000000000);
}

// Copies that cannot be read may have something of any tenant.
static void copies_of_a_tenant_that_is_deleted_go_at_once(void **state)
{
    struct bench *b = *state;
    write_three_cuts(b);
    hurt(b, 2);
    keep_all(b);
    memstore_set(b->store, "v1/closed/other", S(""));
    sweep(b);
    assert_int_equal(copies(b), 5);
    memstore_set(b->store, "v1/closed/acme", S(""));
    sweep(b);
    assert_int_equal(copies(b), 0);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(within_a_cut_its_neighbours_tell_what_it_was),
        TEST(at_the_end_of_a_cut_the_next_one_tells_where_it_ended),
        TEST(at_the_beginning_of_a_cut_the_cut_stays_whole),
        TEST(a_cut_that_is_lost_counts_for_the_one_below),
        TEST(an_object_of_either_cut_counts_for_the_upper_one),
        TEST(at_the_top_each_object_had_an_entry_at_least),
        TEST(where_no_object_is_left_the_others_tell_what_it_was),
        TEST(in_format_1_where_no_cut_is_left_they_are_counted_alone),
        TEST(in_format_1_covered_objects_are_no_loss),
        TEST(objects_that_cannot_follow_each_other_are_refused),
        TEST(an_object_of_another_format_is_left_alone),
        TEST(what_is_damaged_is_kept_before_it_goes),
        TEST(copies_go_before_a_deletion_has_to_be_over),
        TEST(copies_of_a_tenant_that_is_deleted_go_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
