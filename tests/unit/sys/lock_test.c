// SPDX-License-Identifier: Apache-2.0
#include "lib/test.h"
#include "sys/clock.h"
#include "sys/lock.h"
#include "sys/rand.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

static void locks_are_taken_upwards(void **state)
{
    (void)state;
    struct lock low;
    struct lock high;
    lock_init(&low, LOCK_CONFIG);
    lock_init(&high, LOCK_METRIC);
    lock_take(&low);
    lock_take(&high);
    assert_true(lock_is_mine(&low));
    lock_give(&low);  // order of giving is free
    assert_false(lock_is_mine(&low));
    lock_give(&high);
    lock_release(&low);
    lock_release(&high);
}

static void against_the_rank(void)
{
    struct lock low = LOCK_INIT(LOCK_CONFIG);
    struct lock high = LOCK_INIT(LOCK_METRIC);
    lock_take(&high);
    lock_take(&low);
}

static void taking_against_the_rank_ends_the_process(void **state)
{
    (void)state;
    fflush(NULL);
    pid_t child = fork();
    assert_int_not_equal(child, -1);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(0);
        sigaction(SIGABRT, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
        against_the_rank();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
}

static void a_wait_ends_at_its_time(void **state)
{
    (void)state;
    struct lock l = LOCK_INIT(LOCK_GROUP);
    struct cond c;
    cond_init(&c);
    lock_take(&l);
    uint64_t until = clock_mono_ns() + 2000000;
    assert_false(cond_wait_until(&c, &l, until));
    assert_true(clock_mono_ns() >= until);
    lock_give(&l);
    cond_release(&c);
}

static void random_numbers_differ(void **state)
{
    (void)state;
    assert_int_not_equal(rand_u64(), rand_u64());
}

static void clocks_run(void **state)
{
    (void)state;
    uint64_t a = clock_mono_ns();
    assert_true(clock_mono_ns() >= a);
    assert_true(clock_wall_ns() > INT64_C(1700000000) * NS_PER_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locks_are_taken_upwards),
        cmocka_unit_test(taking_against_the_rank_ends_the_process),
        cmocka_unit_test(a_wait_ends_at_its_time),
        cmocka_unit_test(random_numbers_differ),
        cmocka_unit_test(clocks_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
