// SPDX-License-Identifier: Apache-2.0
//
// When leaves may expire: what LISTs of streams say, and which leaves it holds for.
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

// A LIST: names. Returns the last round that is over.
static uint64_t saw(const char *streams)
{
    id128 v[8];
    size_t n = 0;
    for (; streams[n]; n++)
        v[n] = (id128){{(uint8_t)streams[n]}};
    assert_ok(watch_saw(&watch, 7, v, n, e));
    return watch.over;
}

static void a_round_ends_when_each_stream_is_gone(void **state)
{
    (void)state;
    assert_int_equal(saw("ab"), 0);
    assert_int_equal(watch.begun, 1);
    assert_int_equal(saw("acd"), 0);
    assert_int_equal(watch.count, 1);
    assert_int_equal(watch.streams[0].b[0], 'a');
    assert_int_equal(watch.begun, 1);
    assert_int_equal(saw("cd"), 1);
    assert_int_equal(watch.begun, 2);  // of what this LIST had
    assert_int_equal(saw("de"), 1);
    assert_int_equal(saw("ef"), 2);
}

static void one_that_was_seen_gone_is_over(void **state)
{
    (void)state;
    assert_int_equal(saw("abc"), 0);
    assert_int_equal(saw("ac"), 0);
    assert_int_equal(saw("abc"), 0);  // it came back
    assert_int_equal(watch.count, 2);
    assert_int_equal(saw("b"), 1);
}

static void one_that_is_new_is_of_the_next_round(void **state)
{
    (void)state;
    assert_int_equal(saw("a"), 0);
    assert_int_equal(saw("ab"), 0);
    assert_int_equal(saw("bc"), 1);
    assert_int_equal(saw("cd"), 1);
    assert_int_equal(saw("d"), 2);
}

static void where_there_is_none_rounds_end_at_once(void **state)
{
    (void)state;
    assert_int_equal(saw(""), 1);
    assert_int_equal(saw(""), 2);
    assert_int_equal(saw("a"), 2);
    assert_int_equal(saw(""), 4);
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
    assert_int_equal(saw("a"), 0);  // a round is under way already
    assert_false(note(&s, false, 1, 0));
    assert_true(note(&s, false, 1, 3));
    assert_int_equal(saw("b"), 1);
    assert_false(wish_grants(&s, watch.over, leaf(1)));
    assert_true(note(&s, false, 1, 4));  // a fourth one waits for the next wish
    assert_int_equal(saw("c"), 2);
    for (uint8_t i = 0; i < 6; i++) {
        if (wish_grants(&s, watch.over, leaf(i)) != (i >= 1 && i <= 3)) fail_msg("leaf %d", i);
        if (wish_grants(&s, watch.over - 1, leaf(i))) fail_msg("leaf %d, too early", i);
    }
    assert_true(note(&s, true, 4, 1));  // those that were granted are not gone yet
    assert_true(wish_grants(&s, watch.over, leaf(2)));
    assert_true(note(&s, false, 4, 1));
    assert_false(wish_grants(&s, watch.over, leaf(2)) || wish_grants(&s, watch.over, leaf(4)));
    assert_int_equal(saw("d"), 3);  // the round that was under way
    assert_false(wish_grants(&s, watch.over, leaf(4)));
    assert_int_equal(saw("e"), 4);
    assert_true(wish_grants(&s, watch.over, leaf(4)));
    wish_release(&s, &memory);
}

static void a_list_that_is_under_way_is_too_early(void **state)
{
    (void)state;
    struct wish s = {0};
    watch.listing = true;
    assert_true(note(&s, false, 1, 1));
    assert_int_equal(saw(""), 1);
    watch.listing = false;
    assert_false(wish_grants(&s, watch.over, leaf(1)));
    assert_int_equal(saw(""), 2);
    assert_true(wish_grants(&s, watch.over, leaf(1)));
    wish_release(&s, &memory);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_round_ends_when_each_stream_is_gone),
        CASE(one_that_was_seen_gone_is_over),
        CASE(one_that_is_new_is_of_the_next_round),
        CASE(where_there_is_none_rounds_end_at_once),
        CASE(leaves_go_after_a_round_that_began_after_they_were_noted),
        CASE(a_list_that_is_under_way_is_too_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
