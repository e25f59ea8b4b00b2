// SPDX-License-Identifier: Apache-2.0
#include "lib/test.h"
#include "model/slot.h"

static void a_border_ends_one_slot_and_begins_the_next(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t time_ns;
        int64_t of;
        int64_t after;
    } cases[] = {
        {"the epoch", 0, -1, 0},
        {"a nanosecond after it", 1, 0, 0},
        {"a nanosecond before it", -1, -1, -1},
        {"the end of hour 0", SLOT_HOUR, 0, 1},
        {"the end of hour -2", -SLOT_HOUR, -2, -1},
        {"the last time", INT64_MAX, INT64_MAX / SLOT_HOUR, INT64_MAX / SLOT_HOUR},
        {"the first time", INT64_MIN, INT64_MIN / SLOT_HOUR - 1, INT64_MIN / SLOT_HOUR - 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (slot_of(cases[i].time_ns, SLOT_HOUR) != cases[i].of) fail_msg("%s", cases[i].name);
        if (slot_after(cases[i].time_ns, SLOT_HOUR) != cases[i].after)
            fail_msg("after %s", cases[i].name);
    }
}

static void the_start_of_a_slot_saturates(void **state)
{
    (void)state;
    assert_int_equal(slot_start(2, SLOT_DAY), 2 * SLOT_DAY);
    assert_int_equal(slot_start(INT64_MAX, SLOT_DAY), INT64_MAX);
    assert_int_equal(slot_start(INT64_MIN, SLOT_DAY), INT64_MIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_border_ends_one_slot_and_begins_the_next),
        cmocka_unit_test(the_start_of_a_slot_saturates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
