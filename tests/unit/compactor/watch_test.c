// SPDX-License-Identifier: Apache-2.0
//
// When leaves may expire: what LISTs of data directories say, and which leaves it holds for.
#include "compactor/watch.h"
#include "lib/test.h"

static struct mem_budget memory;
static struct watch watch;

static int set_up(void **state)
{
    (void)state;
    mem_budget_init(&memory, "test", NULL, 0);
    watch_init(&watch, &memory);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    watch_release(&watch);
    return (int)atomic_load(&memory.used);
}

// A LIST: names and numbers; 0: it is not there. Returns the last round that is over.
static uint64_t saw(uint64_t a, uint64_t b, uint64_t c)
{
    struct holding_at v[3];
    size_t n = 0;
    if (c) v[n++] = (struct holding_at){S("z/c"), c};
    if (a) v[n++] = (struct holding_at){S("n/a"), a};
    if (b) v[n++] = (struct holding_at){S("n/b"), b};
    assert_ok(watch_saw(&watch, 7, v, n, e));
    return watch.over;
}

static void a_round_ends_when_each_directory_has_two_numbers_more(void **state)
{
    (void)state;
    assert_int_equal(saw(5, 1, 0), 0);
    assert_int_equal(watch.begun, 1);
    assert_int_equal(saw(6, 3, 0), 0);
    assert_int_equal(watch.count, 1);
    assert_true(str_is(watch.dirs[0].directory, "n/a"));
    assert_int_equal(saw(6, 9, 0), 0);
    assert_int_equal(watch.begun, 1);
    assert_int_equal(saw(7, 9, 0), 1);
    assert_int_equal(watch.begun, 2);  // of what this LIST had
    assert_int_equal(saw(9, 10, 0), 1);
    assert_int_equal(saw(9, 11, 0), 2);
}

static void a_directory_that_went_or_began_anew_has_flushed(void **state)
{
    (void)state;
    assert_int_equal(saw(5, 4, 9), 0);
    assert_int_equal(saw(5, 0, 9), 0);
    assert_int_equal(saw(5, 4, 1), 0);  // it came back: it was seen gone, and that is enough
    assert_int_equal(watch.count, 1);
    assert_int_equal(saw(0, 4, 2), 1);
}

static void one_that_is_new_is_of_the_next_round(void **state)
{
    (void)state;
    assert_int_equal(saw(1, 0, 0), 0);
    assert_int_equal(saw(2, 1, 0), 0);
    assert_int_equal(saw(3, 2, 0), 1);
    assert_int_equal(saw(5, 2, 0), 1);
    assert_int_equal(saw(5, 4, 0), 2);
}

static void where_there_is_none_rounds_end_at_once(void **state)
{
    (void)state;
    assert_int_equal(saw(0, 0, 0), 1);
    assert_int_equal(saw(0, 0, 0), 2);
    assert_int_equal(saw(1, 0, 0), 2);
    assert_int_equal(saw(0, 0, 0), 4);
}

static id128 leaf(uint8_t n)
{
    return (id128){{n}};
}

static bool note(struct wish *s, bool granted, uint8_t first, uint8_t n)
{
    id128 v[8];
    for (uint8_t i = 0; i < n; i++)
        v[i] = leaf((uint8_t)(first + n - 1 - i));
    return wish_note(s, &memory, &watch, granted, v, n);
}

static void leaves_go_after_a_round_that_began_after_they_were_noted(void **state)
{
    (void)state;
    struct wish s = {0};
    assert_int_equal(saw(1, 0, 0), 0);  // a round is under way already
    assert_false(note(&s, false, 1, 0));
    assert_true(note(&s, false, 1, 3));
    assert_int_equal(saw(3, 0, 0), 1);
    assert_false(wish_grants(&s, watch.over, leaf(1)));
    assert_true(note(&s, false, 1, 4));  // a fourth one waits for the next wish
    assert_int_equal(saw(5, 0, 0), 2);
    for (uint8_t i = 0; i < 6; i++) {
        if (wish_grants(&s, watch.over, leaf(i)) != (i >= 1 && i <= 3)) fail_msg("leaf %d", i);
        if (wish_grants(&s, watch.over - 1, leaf(i))) fail_msg("leaf %d, too early", i);
    }
    assert_true(note(&s, true, 4, 1));  // those that were granted are not gone yet
    assert_true(wish_grants(&s, watch.over, leaf(2)));
    assert_true(note(&s, false, 4, 1));
    assert_false(wish_grants(&s, watch.over, leaf(2)) || wish_grants(&s, watch.over, leaf(4)));
    assert_int_equal(saw(7, 0, 0), 3);  // the round that was under way
    assert_false(wish_grants(&s, watch.over, leaf(4)));
    assert_int_equal(saw(9, 0, 0), 4);
    assert_true(wish_grants(&s, watch.over, leaf(4)));
    wish_release(&s, &memory);
}

static void a_list_that_is_under_way_is_too_early(void **state)
{
    (void)state;
    struct wish s = {0};
    watch.listing = true;
    assert_true(note(&s, false, 1, 1));
    assert_int_equal(saw(0, 0, 0), 1);
    watch.listing = false;
    assert_false(wish_grants(&s, watch.over, leaf(1)));
    assert_int_equal(saw(0, 0, 0), 2);
    assert_true(wish_grants(&s, watch.over, leaf(1)));
    wish_release(&s, &memory);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_round_ends_when_each_directory_has_two_numbers_more),
        CASE(a_directory_that_went_or_began_anew_has_flushed),
        CASE(one_that_is_new_is_of_the_next_round),
        CASE(where_there_is_none_rounds_end_at_once),
        CASE(leaves_go_after_a_round_that_began_after_they_were_noted),
        CASE(a_list_that_is_under_way_is_too_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
