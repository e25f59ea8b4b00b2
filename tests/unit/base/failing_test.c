// SPDX-License-Identifier: Apache-2.0
//
// What lib/test.h does with a test that fails while threads of it run. The failing program is this
// one, run again.
#include "lib/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

// ---- the failing program

// Not in the test's frame: once the test has failed that frame belongs to whatever the main thread
// calls next, and a write to it may end the program before it has told why.
static _Atomic unsigned rounds;

static void *work(void *arg)
{
    (void)arg;
    for (;;)
        atomic_fetch_add(&rounds, 1);
    return NULL;
}

static void fails_while_its_thread_runs(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, work, NULL), 0);
    while (atomic_load(&rounds) == 0)
        usleep(100);
    assert_int_equal(malloc(1) == NULL, 7);  // and a leak
}

static void is_not_run(void **state)
{
    (void)state;
    puts("the next test ran");
}

static int failing_program(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fails_while_its_thread_runs),
        cmocka_unit_test(is_not_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// ---- the test

static void a_failing_test_ends_its_program_and_tells_why(void **state)
{
    (void)state;
    static char text[1 << 16];
    FILE *f = popen("exec /proc/$PPID/exe fail 2>&1", "r");  // lint: allow this program
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = 0;
    int status = pclose(f);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 1) fail_msg("status %d:\n%s", status, text);
    assert_non_null(strstr(text, "[  FAILED  ]"));
    assert_non_null(strstr(text, "failing_test.c:"));
    assert_non_null(strstr(text, "1 tests after it were not run"));
    assert_null(strstr(text, "the next test ran"));
    assert_null(strstr(text, "Sanitizer"));
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) return failing_program();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failing_test_ends_its_program_and_tells_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
