// SPDX-License-Identifier: Apache-2.0
#include "lib/test.h"
#include "sys/signal.h"
#include "sys/thread.h"

#include <signal.h>

static void signals_come_one_by_one(void **state)
{
    (void)state;
    static const struct {
        int number;
        enum signal_event want;
    } cases[] = {{SIGTERM, SIGNAL_STOP}, {SIGINT, SIGNAL_STOP}, {SIGHUP, SIGNAL_RELOAD}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(kill(getpid(), cases[i].number), 0);
        assert_int_equal(signal_next(), cases[i].want);
    }
}

static void *wake(void *arg)
{
    signal_wake();
    return arg;
}

static void another_thread_may_wake_the_waiter(void **state)
{
    (void)state;
    pthread_t t;
    assert_ok(thread_start(&t, "waker", wake, NULL, e));
    assert_int_equal(signal_next(), SIGNAL_WAKE);
    thread_join(t);
}

static void a_closed_pipe_does_not_end_the_process(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(write(ends[1], "x", 1), -1);
    assert_int_equal(close(ends[1]), 0);
}

static void *block(void *arg)
{
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    *(bool *)arg = sigismember(&set, SIGTERM) == 1;
    return NULL;
}

static void threads_do_not_take_the_signals(void **state)
{
    (void)state;
    bool blocked = false;
    pthread_t t;
    assert_ok(thread_start(&t, "blocked", block, &blocked, e));
    thread_join(t);
    assert_true(blocked);
    assert_true(thread_cpus() >= 1);
}

int main(void)
{
    signal_begin();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_come_one_by_one),
        cmocka_unit_test(another_thread_may_wake_the_waiter),
        cmocka_unit_test(a_closed_pipe_does_not_end_the_process),
        cmocka_unit_test(threads_do_not_take_the_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
