// SPDX-License-Identifier: Apache-2.0
#include "lib/test.h"
#include "loop/call.h"
#include "loop/lane.h"
#include "loop/loop.h"
#include "sys/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

// An operation that finishes when its loop says so: at once, or when it is stopped.
struct op {
    struct call call;
    struct loop_task start;
    struct loop_task end;
    struct loop *loop;
    enum err_code code;  // ERR_OK = goes well
    bool waits_for_stop;
    bool stopped;  // on the loop
};

static struct loop *loop;

static void end(struct op *o, enum err_code code)
{
    if (code == ERR_OK) {
        call_finish(&o->call, NULL);
        return;
    }
    err fault = {0};
    err_set(&fault, code, "the operation failed");
    call_finish(&o->call, &fault);
}

static void on_start(struct loop_task *t)
{
    struct op *o = CONTAINER_OF(t, struct op, start);
    if (!o->waits_for_stop) end(o, o->code);
}

static void on_end(struct loop_task *t)
{
    struct op *o = CONTAINER_OF(t, struct op, end);
    if (!o->waits_for_stop || o->stopped) return;
    o->stopped = true;
    end(o, ERR_CANCELED);
}

static void stop(struct call *c)
{
    struct op *o = CONTAINER_OF(c, struct op, call);
    loop_post(o->loop, &o->end);
}

static void start(struct op *o, enum err_code code, bool waits_for_stop)
{
    *o = (struct op){.start.run = on_start,
                     .end.run = on_end,
                     .loop = loop,
                     .code = code,
                     .waits_for_stop = waits_for_stop};
    call_begin(&o->call, RANK_INGESTER, stop);
    loop_post(loop, &o->start);
}

static void nothing(void *arg)
{
    (void)arg;
}

// Tasks posted by stop may still be in the inbox when the wait is over.
static void run_posted(void)
{
    loop_run(loop, nothing, NULL);
}

static int make_loop(void **state)
{
    (void)state;
    err e = {0};
    loop = loop_new("test", &e);
    return loop ? 0 : -1;
}

static int free_loop(void **state)
{
    (void)state;
    loop_free(loop);
    return 0;
}

static struct req *new_req(uint64_t timeout_ns)
{
    static struct req r;
    req_init(&r, RANK_PUBLIC, NULL, 1 << 16, timeout_ns);
    return &r;
}

static void a_call_that_goes_well_is_waited_for(void **state)
{
    (void)state;
    for (int i = 0; i < 500; i++) {  // either side may come first
        struct op o;
        start(&o, ERR_OK, false);
        assert_ok(call_wait(new_req(0), &o.call, e));
        assert_true(o.call.done && o.call.ok);
    }
}

static void a_fault_is_handed_over(void **state)
{
    (void)state;
    struct op o;
    start(&o, ERR_NOT_FOUND, false);
    err fault = {0};
    assert_false(call_wait(new_req(0), &o.call, &fault));
    assert_int_equal(fault.code, ERR_NOT_FOUND);
    assert_string_equal(fault.msg, "the operation failed");
}

static void a_call_may_finish_before_the_wait(void **state)
{
    (void)state;
    struct op o;
    start(&o, ERR_OK, false);
    run_posted();
    assert_ok(call_wait(new_req(0), &o.call, e));
}

struct watched {
    struct op *ops;
    size_t n;
    unsigned looks;
};

static void stop_in_turn(void *arg)
{
    struct watched *w = arg;
    if (w->looks < w->n) call_stop(&w->ops[w->looks].call);
    w->looks++;
}

static void who_watches_may_end_single_calls(void **state)
{
    (void)state;
    struct op ops[3];
    struct call *calls[3];
    struct watched w = {ops, 2, 0};
    const struct call_watch watch = {.look = stop_in_turn, .arg = &w};
    for (size_t i = 0; i < 3; i++) {
        start(&ops[i], ERR_OK, i < 2);
        calls[i] = &ops[i].call;
    }
    err fault = {0};
    assert_true(call_gather_watched(new_req(0), calls, 3, 1, false, &watch, &fault));
    assert_true(w.looks >= 2);
    assert_true(ops[0].stopped && ops[1].stopped && ops[2].call.ok);
    assert_int_equal(ops[0].call.fault.code, ERR_CANCELED);
    run_posted();
}

static void the_deadline_stops_a_call(void **state)
{
    (void)state;
    struct op o;
    start(&o, ERR_OK, true);
    err fault = {0};
    assert_false(call_wait(new_req((uint64_t)NS_PER_MS), &o.call, &fault));
    assert_int_equal(fault.code, ERR_DEADLINE_EXCEEDED);
    assert_true(o.call.done);
    run_posted();
}

static void a_canceled_request_stops_its_calls(void **state)
{
    (void)state;
    struct op ops[3];
    struct call *calls[3];
    for (size_t i = 0; i < 3; i++) {
        start(&ops[i], ERR_OK, i > 0);
        calls[i] = &ops[i].call;
    }
    struct req *r = new_req(0);
    atomic_store(&r->canceled, true);
    err fault = {0};
    assert_false(call_gather(r, calls, 3, 3, false, &fault));
    assert_int_equal(fault.code, ERR_CANCELED);
    for (size_t i = 0; i < 3; i++)
        assert_true(ops[i].call.done);
    run_posted();
}

static void a_gather_ends_when_its_outcome_is_decided(void **state)
{
    (void)state;
    enum {
        WELL,
        BAD,
        HANGS
    };
    static const struct {
        const char *name;
        int ops[4];
        size_t n;
        size_t need;
        bool stop_rest;
        enum err_code want;
    } cases[] = {
        {"all of all", {WELL, WELL, WELL}, 3, 3, false, ERR_OK},
        {"one of three is bad", {WELL, BAD, WELL}, 3, 3, false, ERR_UNAVAILABLE},
        {"a bad one does not matter for two", {WELL, BAD, WELL}, 3, 2, false, ERR_OK},
        {"a quorum stops the slow one", {WELL, HANGS, WELL}, 3, 2, true, ERR_OK},
        {"the first stops the rest", {HANGS, HANGS, WELL, HANGS}, 4, 1, true, ERR_OK},
        {"out of reach stops the rest", {BAD, HANGS, BAD}, 3, 2, true, ERR_UNAVAILABLE},
        {"none needed", {BAD, BAD}, 2, 0, false, ERR_OK},
        {"no calls", {0}, 0, 0, false, ERR_OK},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct op ops[4];
        struct call *calls[4];
        for (size_t k = 0; k < cases[i].n; k++) {
            bool bad = cases[i].ops[k] == BAD;
            start(&ops[k], bad ? ERR_UNAVAILABLE : ERR_OK, cases[i].ops[k] == HANGS);
            calls[k] = &ops[k].call;
        }
        err fault = {0};
        bool ok =
            call_gather(new_req(0), calls, cases[i].n, cases[i].need, cases[i].stop_rest, &fault);
        if (ok != (cases[i].want == ERR_OK)) fail_msg("%s: %s", cases[i].name, fault.msg);
        if (!ok && fault.code != cases[i].want)
            fail_msg("%s: %s", cases[i].name, err_name(fault.code));
        for (size_t k = 0; k < cases[i].n; k++)
            assert_true(ops[k].call.done);
        run_posted();
    }
}

static void wait_for_equal_rank(struct job *j)
{
    struct op o;
    start(&o, ERR_OK, false);
    err e = {0};
    if (!call_wait(j->req, &o.call, &e)) abort();
}

static void refuse(struct job *j, const err *e)
{
    (void)j;
    (void)e;
}

// Runs in a process of its own: it must end by an assertion.
static void wait_in_ingester_lane(void)
{
    err e = {0};
    loop = loop_new("child", &e);
    struct lane_options o = {.name = "x", .rank = RANK_INGESTER, .width = 1, .queue_max = 1};
    struct lane *l = loop ? lane_new(&o, &e) : NULL;
    struct job j = {.req = new_req(0), .run = wait_for_equal_rank, .refuse = refuse};
    if (!l || !lane_submit(l, &j, &e)) return;
    lane_drain(l);
}

static void waiting_for_an_equal_rank_ends_the_process(void **state)
{
    (void)state;
    fflush(NULL);
    pid_t child = fork();
    assert_int_not_equal(child, -1);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(0);
        sigaction(SIGABRT, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
        wait_in_ingester_lane();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_for_an_equal_rank_ends_the_process),  // before there are threads
        cmocka_unit_test_setup_teardown(a_call_that_goes_well_is_waited_for, make_loop, free_loop),
        cmocka_unit_test_setup_teardown(a_fault_is_handed_over, make_loop, free_loop),
        cmocka_unit_test_setup_teardown(a_call_may_finish_before_the_wait, make_loop, free_loop),
        cmocka_unit_test_setup_teardown(who_watches_may_end_single_calls, make_loop, free_loop),
        cmocka_unit_test_setup_teardown(the_deadline_stops_a_call, make_loop, free_loop),
        cmocka_unit_test_setup_teardown(a_canceled_request_stops_its_calls, make_loop, free_loop),
        cmocka_unit_test_setup_teardown(a_gather_ends_when_its_outcome_is_decided, make_loop,
                                        free_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
