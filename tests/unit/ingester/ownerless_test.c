// SPDX-License-Identifier: Apache-2.0
#include "ingester/ownerless.h"
#include "lib/test.h"
#include "sys/clock.h"

#define SECOND ((uint64_t)NS_PER_S)

static const id128 one = {{1}};
static const id128 two = {{2}};
static const struct sighting fresh = {.boot = {{1}}, .age_ns = 0};
static const struct sighting silent = {.boot = {{1}}, .age_ns = INT64_MAX};

// Looks every second for so long, with the same result each time.
static void look(struct silences *s, const struct sighting *v, size_t n, uint64_t *now,
                 unsigned seconds)
{
    err e = {0};
    for (unsigned i = 0; i < seconds; i++) {
        *now += SECOND;
        assert_true(silences_look(s, v, n, *now, &e));
    }
}

static void a_process_that_answers_is_not_silent(void **state)
{
    struct silences s = {0};
    uint64_t now = SECOND;
    (void)state;
    look(&s, &fresh, 1, &now, 100);
    assert_int_equal(silences_of(&s, one), 0);
    assert_int_equal(silences_of(&s, two), 0);
    assert_true(silence_is_short(&s, &s.v[0], now));
    silences_release(&s);
}

static void silence_counts_from_the_last_answer(void **state)
{
    struct silences s = {0};
    uint64_t now = SECOND;
    (void)state;
    look(&s, &fresh, 1, &now, 1);
    for (int64_t age = 1; age < 3; age++)
        look(&s, &(struct sighting){one, age * NS_PER_S}, 1, &now, 1);
    assert_int_equal(silences_of(&s, one), 2 * NS_PER_S);
    look(&s, &(struct sighting){one, 3 * NS_PER_S}, 1, &now, 1);
    assert_int_equal(silences_of(&s, one), 3 * NS_PER_S);
    look(&s, &silent, 1, &now, 11);
    assert_false(ownerless_is_due(silences_of(&s, one), 0));
    assert_true(silence_is_short(&s, &s.v[0], now));
    assert_false(silence_is_short(&s, &s.v[0], now + SECOND));  // who asks between two looks
    look(&s, &silent, 1, &now, 1);
    assert_true(ownerless_is_due(silences_of(&s, one), 0));
    assert_false(silence_is_short(&s, &s.v[0], now));
    look(&s, &fresh, 1, &now, 1);
    assert_int_equal(silences_of(&s, one), 0);
    silences_release(&s);
}

static void who_was_stopped_itself_has_not_seen_a_silence(void **state)
{
    struct silences s = {0};
    uint64_t now = SECOND;
    (void)state;
    look(&s, &fresh, 1, &now, 3);
    now += 3600 * SECOND;
    look(&s, &silent, 1, &now, 1);
    assert_int_equal(silences_of(&s, one), 2 * NS_PER_S);
    silences_release(&s);
}

static void a_process_that_was_never_seen_is_ownerless_as_late(void **state)
{
    struct silences s = {0};
    uint64_t now = SECOND;
    (void)state;
    look(&s, &silent, 1, &now, 15);
    assert_false(ownerless_is_due(silences_of(&s, one), 0));
    assert_false(silence_is_short(&s, &s.v[0], now));  // nothing to tell to others
    look(&s, &silent, 1, &now, 1);
    assert_true(ownerless_is_due(silences_of(&s, one), 0));
    silences_release(&s);
}

static void processes_that_are_not_registered_any_more_are_forgotten(void **state)
{
    struct silences s = {0};
    const struct sighting both[] = {silent, {two, INT64_MAX}};
    uint64_t now = SECOND;
    (void)state;
    look(&s, both, 2, &now, 10);
    assert_int_equal(silences_of(&s, two), 9 * NS_PER_S);
    look(&s, both, 1, &now, 1);
    assert_int_equal(silences_of(&s, two), 0);
    assert_int_equal(silences_of(&s, one), 10 * NS_PER_S);
    silences_release(&s);
}

static void turns_come_one_after_the_other(void **state)
{
    (void)state;
    assert_false(ownerless_is_due(OWNERLESS_NS - 1, 0));
    assert_true(ownerless_is_due(OWNERLESS_NS, 0));
    assert_false(ownerless_is_due(OWNERLESS_NS + TURN_NS - 1, 1));
    assert_true(ownerless_is_due(OWNERLESS_NS + TURN_NS, 1));
    assert_true(ownerless_is_due(OWNERLESS_NS + 2 * TURN_NS, 2));
}

// Each living ingester has another rank, whoever asks; and streams are spread over all of them.
static void living_ingesters_have_ranks_of_their_own(void **state)
{
    struct member m[4] = {{.id = S("a"), .alive = true},
                          {.id = S("b"), .alive = false},
                          {.id = S("c"), .alive = true},
                          {.id = S("d"), .alive = true}};
    uint32_t scratch[4];
    unsigned first[4] = {0};
    (void)state;
    for (uint8_t i = 0; i < 200; i++) {
        const id128 stream = {{i, 7}};
        unsigned seen = 0;
        for (size_t k = 0; k < 4; k++) {
            size_t rank = ownerless_rank(m, 4, m[k].id, stream, scratch);
            if (!m[k].alive) continue;
            assert_true(rank < 3);
            seen |= 1u << rank;
            first[k] += rank == 0;
        }
        assert_int_equal(seen, 7);
    }
    for (size_t k = 0; k < 4; k++)
        assert_true(m[k].alive == (first[k] > 40));
    assert_int_equal(ownerless_rank(m, 4, S("x"), one, scratch), 4);
    assert_int_equal(ownerless_rank(NULL, 0, S("x"), one, scratch), 0);
}

static void who_reaches_less_than_half_adopts_nothing(void **state)
{
    (void)state;
    assert_true(ownerless_may(0, 0));
    assert_true(ownerless_may(1, 1));
    assert_true(ownerless_may(1, 2));
    assert_false(ownerless_may(1, 3));
    assert_true(ownerless_may(2, 4));
    assert_false(ownerless_may(49, 99));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_that_answers_is_not_silent),
        cmocka_unit_test(silence_counts_from_the_last_answer),
        cmocka_unit_test(who_was_stopped_itself_has_not_seen_a_silence),
        cmocka_unit_test(a_process_that_was_never_seen_is_ownerless_as_late),
        cmocka_unit_test(processes_that_are_not_registered_any_more_are_forgotten),
        cmocka_unit_test(turns_come_one_after_the_other),
        cmocka_unit_test(living_ingesters_have_ranks_of_their_own),
        cmocka_unit_test(who_reaches_less_than_half_adopts_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
