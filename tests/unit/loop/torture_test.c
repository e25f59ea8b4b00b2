// SPDX-License-Identifier: Apache-2.0
#include "lib/torture.h"
#include "loop/call.h"
#include "loop/lane.h"
#include "loop/loop.h"

#define JOBS 12

// ---- loops

static void set_to_42(void *arg)
{
    *(int *)arg = 42;
}

static bool run_loop(void *arg, err *e)
{
    (void)arg;
    int given = 0;
    struct loop *l = loop_new("torture", e);
    if (!l) return false;
    loop_run(l, set_to_42, &given);
    loop_free(l);
    assert_int_equal(given, 42);
    return true;
}

static void loops_start_or_tell(void **state)
{
    (void)state;
    struct torture_count n = torture_work(
        &(struct torture_work){.name = "loop.loop", .run = run_loop, .is_start = true});
    assert_true(n.calls >= 4);
}

// ---- lanes

struct errand {
    struct job job;
    struct req req;
    unsigned run;
    unsigned refused;
    bool taken;
};

struct lane_test {
    struct mem_budget budget;
    struct lane *lane;
    struct errand errands[JOBS];
};

static void errand_run(struct job *j)
{
    struct errand *x = CONTAINER_OF(j, struct errand, job);
    x->run += 1;
}

static void errand_refuse(struct job *j, const err *e)
{
    struct errand *x = CONTAINER_OF(j, struct errand, job);
    assert_true(e->msg[0]);
    x->refused += 1;
}

static void lane_begin(void *arg)
{
    struct lane_test *t = arg;
    mem_budget_init(&t->budget, "requests", NULL, 0);
    struct lane_options o = {.name = "torture", .rank = RANK_PUBLIC, .width = 3, .queue_max = JOBS};
    assert_ok((t->lane = lane_new(&o, e)) != NULL);
}

// Each errand that a lane takes is run or refused once, and one that it does not take is neither.
static bool lane_run(void *arg, err *e)
{
    struct lane_test *t = arg;
    bool ok = true;
    for (size_t i = 0; i < JOBS; i++) {
        struct errand *x = &t->errands[i];
        *x =
            (struct errand){.job.req = &x->req, .job.run = errand_run, .job.refuse = errand_refuse};
        req_init(&x->req, RANK_PUBLIC, &t->budget, 1 << 16, 0);
        x->req.tenant = i % 2 ? S("a") : S("b");
        err fault = {0};
        x->taken = lane_submit(t->lane, &x->job, &fault);
        if (x->taken) assert_int_equal(fault.code, ERR_OK);
        if (!x->taken) *e = fault;
        ok = ok && x->taken;
    }
    return ok;
}

static void lane_check(void *arg, bool done)
{
    struct lane_test *t = arg;
    (void)done;
    // Waits for all inside; a fresh lane follows, because this one takes no more.
    lane_drain(t->lane);
    for (size_t i = 0; i < JOBS; i++) {
        struct errand *x = &t->errands[i];
        assert_int_equal(x->run + x->refused, x->taken ? 1 : 0);
        req_release(&x->req);
    }
    assert_int_equal(t->budget.used, 0);
    lane_free(t->lane);
    lane_begin(t);
}

static void lane_end(void *arg)
{
    struct lane_test *t = arg;
    lane_drain(t->lane);
    lane_free(t->lane);
}

static void lanes_run_what_they_take(void **state)
{
    (void)state;
    struct lane_test t;
    struct torture_count n = torture_work(&(struct torture_work){.name = "loop.lane",
                                                                 .begin = lane_begin,
                                                                 .run = lane_run,
                                                                 .check = lane_check,
                                                                 .end = lane_end,
                                                                 .arg = &t});
    assert_true(n.calls >= 2);
}

// ---- requests and calls

struct op {
    struct call call;
    struct loop_task task;
    struct mem_budget *budget;
};

static struct loop *ops_loop;

static void op_stop(struct call *c)
{
    (void)c;
}

// The loop's part of the work takes memory as well.
static void op_on_loop(struct loop_task *t)
{
    struct op *o = CONTAINER_OF(t, struct op, task);
    err e = {0};
    void *p = mem_alloc(o->budget, 100, &e);
    mem_free(o->budget, p, 100);
    call_finish(&o->call, p ? NULL : &e);
}

static bool gather(struct torture_bench *b, void *arg, err *e)
{
    (void)arg;
    struct req r;
    struct op ops[4];
    struct call *calls[COUNT(ops)];
    req_init(&r, RANK_PUBLIC, &b->budget, 1 << 16, UINT64_C(60000000000));
    for (size_t i = 0; i < COUNT(ops); i++) {
        ops[i] = (struct op){.task.run = op_on_loop, .budget = &b->budget};
        calls[i] = &ops[i].call;
        call_begin(&ops[i].call, RANK_INGESTER, op_stop);
        loop_post(ops_loop, &ops[i].task);
    }
    str text = arena_printf(&r.arena, "%s", "gathered");
    bool ok = call_gather(&r, calls, COUNT(calls), COUNT(calls), false, e);
    buf_str(&b->out, text);
    ok = ok && arena_ok(&r.arena, e);
    req_release(&r);
    return ok;
}

static void calls_tell_what_failed(void **state)
{
    (void)state;
    assert_ok((ops_loop = loop_new("ops", e)) != NULL);
    const struct torture_maker m = {.name = "loop.gather", .make = gather};
    torture_make_all(&m, 1);
    loop_free(ops_loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_start_or_tell),
        cmocka_unit_test(lanes_run_what_they_take),
        cmocka_unit_test(calls_tell_what_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
