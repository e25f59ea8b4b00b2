// SPDX-License-Identifier: Apache-2.0
#include "lib/test.h"
#include "sys/bell.h"
#include "sys/thread.h"

#define ROUNDS 20000

static void a_ring_before_the_wait_needs_no_sleep(void **state)
{
    (void)state;
    struct bell b = {0};
    assert_false(bell_ring(&b));
    assert_false(bell_ring(&b));  // is the same ring
    assert_false(bell_await(&b));
    assert_int_equal(atomic_load(&b.state), 0);  // silent again
    assert_false(bell_ring(&b));
    assert_false(bell_await(&b));
}

// Two threads hand a number to and fro; each may touch it only between its ring and the next.
struct pair {
    struct bell there;
    struct bell back;
    int number;
    int slept;
    int woke;
};

static void *answer(void *arg)
{
    struct pair *p = arg;
    for (int i = 0; i < ROUNDS; i++) {
        p->slept += bell_await(&p->there);
        p->number++;
        p->woke += bell_ring(&p->back);
    }
    return NULL;
}

static void whoever_is_rung_sees_what_was_written(void **state)
{
    (void)state;
    struct pair p = {0};
    pthread_t t = 0;
    int slept = 0;
    int woke = 0;
    assert_ok(thread_start(&t, "answer", answer, &p, e));
    for (int i = 0; i < ROUNDS; i++) {
        assert_int_equal(p.number, 2 * i);
        p.number++;
        woke += bell_ring(&p.there);
        slept += bell_await(&p.back);
    }
    thread_join(t);
    assert_int_equal(p.number, 2 * ROUNDS);
    assert_int_equal(woke, p.slept);  // the kernel is asked for those that sleep, and for no other
    assert_int_equal(p.woke, slept);
}

// The bell lies on the stack of who waits, and goes with it.
static struct bell *_Atomic at;

static void *ring_one(void *arg)
{
    (void)arg;
    for (int left = ROUNDS / 10; left > 0;) {
        struct bell *b = atomic_exchange(&at, NULL);
        if (!b) continue;
        (void)bell_ring(b);
        left--;
    }
    return NULL;
}

static void a_bell_may_go_once_it_rang(void **state)
{
    (void)state;
    pthread_t t = 0;
    assert_ok(thread_start(&t, "ring", ring_one, NULL, e));
    for (int i = 0; i < ROUNDS / 10; i++) {
        struct bell b = {0};
        atomic_store(&at, &b);
        (void)bell_await(&b);
        assert_int_equal(atomic_load(&b.state), 0);
    }
    thread_join(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_before_the_wait_needs_no_sleep),
        cmocka_unit_test(whoever_is_rung_sees_what_was_written),
        cmocka_unit_test(a_bell_may_go_once_it_rang),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
