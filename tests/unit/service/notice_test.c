// SPDX-License-Identifier: Apache-2.0
#include "lib/await.h"
#include "lib/test.h"
#include "service/notice.h"
#include "sys/clock.h"

#include <stdio.h>

static struct notices *notices;

static void assert_lines(const char *want)
{
    struct buf out;
    buf_init(&out, NULL, 1 << 20);
    notices_print(notices, &out);
    if (!str_is(buf_view(&out), want)) fail_msg("%.*s", STR(buf_view(&out)));
    buf_release(&out);
}

static bool is_empty(void)
{
    struct buf out;
    buf_init(&out, NULL, 1 << 20);
    notices_print(notices, &out);
    bool empty = out.n == 0;
    buf_release(&out);
    return empty;
}

static int set_up(void **state)
{
    (void)state;
    notices = notices_new();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    notices_free(notices);
    return 0;
}

static void a_notice_stands_until_it_is_ended(void **state)
{
    (void)state;
    assert_lines("");
    notice_raise(notices, "a.b", S("x"), NOTICE_FOREVER, "%d", 1);
    notice_raise(notices, "a.b", S("y"), NOTICE_FOREVER, "other");
    notice_raise(notices, "a.b", S("x"), NOTICE_FOREVER, "%d", 2);
    assert_lines("a.b x: 2\na.b y: other\n");
    notice_end(notices, "a.b", S("z"));
    notice_end(notices, "a.c", S("x"));
    notice_end(notices, "a.b", S("x"));
    assert_lines("a.b y: other\n");
    notice_end(notices, "a.b", S("y"));
    assert_lines("");
}

static void a_notice_that_nobody_raises_again_is_over(void **state)
{
    (void)state;
    notice_raise(notices, "a.b", S("x"), (uint64_t)NS_PER_MS, "soon over");
    notice_raise(notices, "a.b", S("y"), (uint64_t)(3600 * NS_PER_S), "stays");
    AWAIT((notice_end(notices, "a.b", S("y")), is_empty()));
}

static void there_are_only_so_many(void **state)
{
    (void)state;
    char about[16];
    for (int i = 0; i < 2 * NOTICES_MAX; i++) {
        snprintf(about, sizeof about, "%d", i);
        notice_raise(notices, "a.b", str_of(about), NOTICE_FOREVER, "x");
    }
    struct buf out;
    size_t lines = 0;
    buf_init(&out, NULL, 1 << 20);
    notices_print(notices, &out);
    for (size_t i = 0; i < out.n; i++)
        lines += out.p[i] == '\n';
    assert_int_equal(lines, NOTICES_MAX);
    buf_release(&out);
}

static void without_notices_nothing_happens(void **state)
{
    (void)state;
    notice_raise(NULL, "a.b", S("x"), NOTICE_FOREVER, "x");
    notice_end(NULL, "a.b", S("x"));
    notices_print(NULL, NULL);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_notice_stands_until_it_is_ended),
        CASE(a_notice_that_nobody_raises_again_is_over),
        CASE(there_are_only_so_many),
        CASE(without_notices_nothing_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
