// SPDX-License-Identifier: Apache-2.0
#include "lib/test.h"
#include "loop/lane.h"
#include "loop/metrics.h"
#include "sys/clock.h"
#include "sys/lock.h"

#include <sched.h>

#define JOBS_MAX 64

// What jobs did, and a gate at which they wait.
static struct {
    struct lock lock;
    struct cond change;
    bool open;
    int at_gate;
    int done;
    char order[JOBS_MAX + 1];
    enum err_code refused;
} world;

struct test_job {
    struct job job;
    struct req req;
    char mark;
};

static struct test_job jobs[JOBS_MAX];

static void reset(void)
{
    memset(&world, 0, sizeof world);
    lock_init(&world.lock, LOCK_GROUP);
    cond_init(&world.change);
}

static void run_at_gate(struct job *j)
{
    struct test_job *t = CONTAINER_OF(j, struct test_job, job);
    lock_take(&world.lock);
    world.at_gate++;
    cond_wake_all(&world.change);
    while (!world.open)
        cond_wait(&world.change, &world.lock);
    world.order[world.done++] = t->mark;
    cond_wake_all(&world.change);
    lock_give(&world.lock);
}

static void refuse(struct job *j, const err *e)
{
    struct test_job *t = CONTAINER_OF(j, struct test_job, job);
    lock_take(&world.lock);
    world.refused = e->code;
    world.order[world.done++] = (char)(t->mark - 'a' + 'A');
    lock_give(&world.lock);
}

static void await_at_gate(int n)
{
    lock_take(&world.lock);
    while (world.at_gate < n)
        cond_wait(&world.change, &world.lock);
    lock_give(&world.lock);
}

static void open_gate(void)
{
    lock_take(&world.lock);
    world.open = true;
    cond_wake_all(&world.change);
    lock_give(&world.lock);
}

static struct lane *new_lane(unsigned width, unsigned queue, uint64_t age_ns)
{
    struct lane_options o = {.name = "test.public",
                             .rank = RANK_PUBLIC,
                             .width = width,
                             .queue_max = queue,
                             .queue_age_ns = age_ns};
    struct lane *l = NULL;
    assert_ok((l = lane_new(&o, e)) != NULL);
    reset();
    return l;
}

static struct job *make_job(size_t i, const char *tenant, char mark)
{
    struct test_job *t = &jobs[i];
    req_init(&t->req, RANK_PUBLIC, NULL, 1 << 16, 0);
    t->req.tenant = str_of(tenant);
    t->mark = mark;
    t->job = (struct job){.req = &t->req, .run = run_at_gate, .refuse = refuse};
    return &t->job;
}

static void finish(struct lane *l)
{
    open_gate();
    lane_drain(l);
    lane_free(l);
    cond_release(&world.change);
    lock_release(&world.lock);
}

static void tenants_take_turns(void **state)
{
    (void)state;
    struct lane *l = new_lane(1, 20, 0);
    assert_ok(lane_submit(l, make_job(0, "x", 'x'), e));
    await_at_gate(1);
    const char *greedy = "aaaaa";
    for (size_t i = 0; greedy[i]; i++)
        assert_ok(lane_submit(l, make_job(1 + i, "a", 'a'), e));
    assert_ok(lane_submit(l, make_job(10, "b", 'b'), e));
    assert_ok(lane_submit(l, make_job(11, "c", 'c'), e));
    assert_ok(lane_submit(l, make_job(12, "b", 'b'), e));
    finish(l);
    assert_string_equal(world.order, "xabcabaaa");
}

static void a_full_lane_refuses_with_its_limit(void **state)
{
    (void)state;
    struct lane *l = new_lane(2, 1, 0);
    assert_ok(lane_submit(l, make_job(0, "a", 'a'), e));
    assert_ok(lane_submit(l, make_job(1, "a", 'a'), e));
    assert_ok(lane_submit(l, make_job(2, "a", 'a'), e));
    err fault = {0};
    assert_false(lane_submit(l, make_job(3, "b", 'b'), &fault));
    assert_int_equal(fault.code, ERR_RESOURCE_EXHAUSTED);
    assert_string_equal(fault.msg, "lane test.public: 3 requests wait or run, limit 3");
    finish(l);
    assert_string_equal(world.order, "aaa");
}

static void threads_start_on_demand(void **state)
{
    (void)state;
    struct lane *l = new_lane(3, 10, 0);
    for (size_t i = 0; i < 5; i++)
        assert_ok(lane_submit(l, make_job(i, "a", 'a'), e));
    await_at_gate(3);  // hangs unless three of them run at once
    finish(l);
    assert_int_equal(world.at_gate, 5);
}

static void a_job_that_waited_too_long_is_refused(void **state)
{
    (void)state;
    struct lane *l = new_lane(1, 10, 1);  // a nanosecond
    assert_ok(lane_submit(l, make_job(0, "a", 'a'), e));
    finish(l);
    assert_string_equal(world.order, "A");
    assert_int_equal(world.refused, ERR_RESOURCE_EXHAUSTED);
}

static void a_job_whose_time_is_over_is_refused(void **state)
{
    (void)state;
    struct lane *l = new_lane(1, 10, 0);
    struct job *late = make_job(0, "a", 'a');
    late->req->deadline_mono_ns = clock_mono_ns();
    assert_ok(lane_submit(l, late, e));
    lane_drain(l);
    assert_int_equal(world.refused, ERR_DEADLINE_EXCEEDED);
    finish(l);

    l = new_lane(1, 10, 0);
    struct job *orphan = make_job(0, "a", 'a');
    atomic_store(&orphan->req->canceled, true);
    assert_ok(lane_submit(l, orphan, e));
    lane_drain(l);
    assert_int_equal(world.refused, ERR_CANCELED);
    finish(l);
}

static void a_draining_lane_takes_no_jobs(void **state)
{
    (void)state;
    struct lane *l = new_lane(1, 10, 0);
    lane_drain(l);
    err fault = {0};
    assert_false(lane_submit(l, make_job(0, "a", 'a'), &fault));
    assert_int_equal(fault.code, ERR_UNAVAILABLE);
    finish(l);
}

static int rank_seen;

static void run_rank(struct job *j)
{
    (void)j;
    rank_seen = lane_rank_here();
}

static void a_worker_has_the_rank_of_its_lane(void **state)
{
    (void)state;
    struct lane *l = new_lane(1, 10, 0);
    struct job *j = make_job(0, "a", 'a');
    j->run = run_rank;
    assert_int_equal(lane_rank_here(), -1);
    assert_ok(lane_submit(l, j, e));
    finish(l);
    assert_int_equal(rank_seen, RANK_PUBLIC);
}

static void whoever_enters_counts_as_a_job(void **state)
{
    (void)state;
    struct lane *l = new_lane(2, 10, 0);
    int before[3] = {0};
    assert_true(lane_enter(l, &before[0]));
    assert_int_equal(lane_rank_here(), RANK_PUBLIC);
    assert_true(lane_enter(l, &before[1]));
    assert_false(lane_enter(l, &before[2]));  // the width
    assert_ok(lane_submit(l, make_job(0, "a", 'a'), e));
    assert_int_equal(world.at_gate, 0);  // there is no place
    lane_leave(l, before[1]);
    assert_int_equal(lane_rank_here(), RANK_PUBLIC);
    await_at_gate(1);
    lane_leave(l, before[0]);
    assert_int_equal(lane_rank_here(), -1);
    assert_true(lane_enter(l, &before[0]));
    assert_ok(lane_submit(l, make_job(1, "a", 'b'), e));
    assert_false(lane_enter(l, &before[1]));  // somebody waits
    lane_leave(l, before[0]);
    finish(l);
    assert_int_equal(world.done, 2);
}

static void nobody_enters_a_draining_lane(void **state)
{
    (void)state;
    struct lane *l = new_lane(2, 10, 0);
    int before = 0;
    lane_drain(l);
    assert_false(lane_enter(l, &before));
    finish(l);
}

static void a_waiting_job_can_be_withdrawn(void **state)
{
    (void)state;
    static const char *const tenants[] = {"a", "a", "b", "a", "c"};
    struct lane *l = new_lane(1, 10, 0);
    struct job *running = make_job(0, "x", 'x');
    assert_ok(lane_submit(l, running, e));
    await_at_gate(1);
    assert_false(lane_withdraw(l, running));
    for (size_t i = 0; i < COUNT(tenants); i++)
        assert_ok(lane_submit(l, make_job(i + 1, tenants[i], (char)('a' + i)), e));
    assert_true(lane_withdraw(l, &jobs[4].job));  // the last of "a"
    assert_true(lane_withdraw(l, &jobs[3].job));  // all of "b", in the middle of the ring
    assert_true(lane_withdraw(l, &jobs[5].job));  // all of "c", at its end
    assert_false(lane_withdraw(l, &jobs[5].job));
    assert_true(lane_withdraw(l, &jobs[1].job));  // the first of "a"
    assert_ok(lane_submit(l, make_job(6, "c", 'f'), e));
    finish(l);
    assert_string_equal(world.order, "xbf");
}

// A turn has the name of a tenant from a request that waits, which may be gone before the others.
static void others_of_its_tenant_keep_one_turn_when_a_job_is_withdrawn(void **state)
{
    (void)state;
    struct lane *l = new_lane(1, 10, 0);
    char tenant[] = "a";
    assert_ok(lane_submit(l, make_job(0, "x", 'x'), e));
    await_at_gate(1);
    assert_ok(lane_submit(l, make_job(1, tenant, 'w'), e));
    assert_ok(lane_submit(l, make_job(2, "a", 'a'), e));
    assert_ok(lane_submit(l, make_job(3, "a", 'b'), e));
    assert_true(lane_withdraw(l, &jobs[1].job));
    tenant[0] = '?';  // its memory is something else's now
    assert_ok(lane_submit(l, make_job(4, "c", 'c'), e));
    assert_ok(lane_submit(l, make_job(5, "c", 'd'), e));
    assert_ok(lane_submit(l, make_job(6, "a", 'e'), e));
    finish(l);
    assert_string_equal(world.order, "xacbde");
}

static void use_and_limit_are_metrics(void **state)
{
    (void)state;
    struct lane *l = new_lane(1, 1, 0);
    assert_ok(lane_submit(l, make_job(0, "a", 'a'), e));
    await_at_gate(1);
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    metric_print(&b);
    buf_byte(&b, 0);
    assert_non_null(strstr(b.p, "flametree_lane_jobs{lane=\"test.public\"} 1\n"));
    assert_non_null(strstr(b.p, "flametree_lane_limit{lane=\"test.public\"} 2\n"));
    buf_release(&b);
    finish(l);
}

static void wrong_sizes_are_refused(void **state)
{
    (void)state;
    err fault = {0};
    struct lane_options o = {.name = "x", .rank = RANK_PUBLIC};
    assert_null(lane_new(&o, &fault));
    assert_int_equal(fault.code, ERR_INVALID_ARGUMENT);
}

// Which threads ran jobs, in order.
static pthread_t ran_by[JOBS_MAX];
static atomic_int ran;

static void run_and_tell(struct job *j)
{
    (void)j;
    ran_by[atomic_load(&ran)] = pthread_self();
    atomic_fetch_add(&ran, 1);
}

// Its stack, its pieces of memory and its part of malloc are in the caches.
static void whoever_went_idle_last_comes_first(void **state)
{
    (void)state;
    struct lane *l = new_lane(8, 10, 0);
    for (size_t i = 0; i < 8; i++)
        assert_ok(lane_submit(l, make_job(i, "a", 'a'), e));
    await_at_gate(8);  // so many threads are there now
    open_gate();
    while (lane_sleepers(l) < 8)
        sched_yield();
    atomic_store(&ran, 0);
    for (int i = 0; i < 20; i++) {
        struct job *j = make_job((size_t)i, "a", 'a');
        j->run = run_and_tell;
        assert_ok(lane_submit(l, j, e));
        while (lane_sleepers(l) < 8 || atomic_load(&ran) <= i)
            sched_yield();
    }
    for (int i = 1; i < 20; i++)
        assert_true(pthread_equal(ran_by[i], ran_by[0]));
    finish(l);
}

static atomic_int sum;

static void run_count(struct job *j)
{
    (void)j;
    atomic_fetch_add(&sum, 1);
}

static void every_job_runs_once_under_load(void **state)
{
    (void)state;
    struct lane *l = new_lane(4, JOBS_MAX, 0);
    static const char *const tenants[] = {"a", "b", "c", "d", "e"};
    int want = 0;
    for (int round = 0; round < 50; round++) {
        for (size_t i = 0; i < JOBS_MAX; i++) {
            struct job *j = make_job(i, tenants[i % COUNT(tenants)], 'a');
            j->run = run_count;
            assert_ok(lane_submit(l, j, e));
            want++;
        }
        while (atomic_load(&sum) < want)
            sched_yield();
    }
    finish(l);
    assert_int_equal(atomic_load(&sum), want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tenants_take_turns),
        cmocka_unit_test(a_full_lane_refuses_with_its_limit),
        cmocka_unit_test(threads_start_on_demand),
        cmocka_unit_test(a_job_that_waited_too_long_is_refused),
        cmocka_unit_test(a_job_whose_time_is_over_is_refused),
        cmocka_unit_test(a_draining_lane_takes_no_jobs),
        cmocka_unit_test(a_worker_has_the_rank_of_its_lane),
        cmocka_unit_test(whoever_enters_counts_as_a_job),
        cmocka_unit_test(nobody_enters_a_draining_lane),
        cmocka_unit_test(a_waiting_job_can_be_withdrawn),
        cmocka_unit_test(others_of_its_tenant_keep_one_turn_when_a_job_is_withdrawn),
        cmocka_unit_test(use_and_limit_are_metrics),
        cmocka_unit_test(wrong_sizes_are_refused),
        cmocka_unit_test(whoever_went_idle_last_comes_first),
        cmocka_unit_test(every_job_runs_once_under_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
