// SPDX-License-Identifier: Apache-2.0
#include "codec/json.h"
#include "compactor/duties.h"
#include "lib/test.h"

static void the_table_is_json_that_tells_what_is_not_built(void **state)
{
    (void)state;
    struct buf out;
    struct arena a;
    buf_init(&out, NULL, 1 << 16);
    arena_init(&a, NULL, 1 << 16);
    duties_print(&out, true);
    assert_ok(buf_ok(&out, e));
    struct json_reader r;
    json_reader_init(&r, &a, buf_view(&out));
    size_t not_built = 0;
    enum json_token t = JSON_NULL;
    while ((t = json_next(&r)) != JSON_END) {
        if (t == JSON_FAULT) fail_msg("%s", r.fault.msg);
        not_built += t == JSON_STRING && str_is(r.text, "not built");
    }
    size_t n = 0;
    const struct duty *all = duties_list(&n);
    size_t want = 0;
    for (size_t i = 0; i < n; i++)
        want += all[i].state == DUTY_NOT_BUILT;
    assert_int_equal(not_built, want);
    arena_release(&a);
    buf_release(&out);
}

static void every_state_has_a_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < DUTY_STATES; i++)
        assert_true(duty_state_name((enum duty_state)i)[0] != '\0');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_json_that_tells_what_is_not_built),
        cmocka_unit_test(every_state_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
