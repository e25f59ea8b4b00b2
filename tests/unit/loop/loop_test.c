// SPDX-License-Identifier: Apache-2.0
#include "lib/test.h"
#include "loop/loop.h"
#include "sys/thread.h"

struct note {
    struct loop_task task;
    struct loop *loop;
    int *next;
    int seen;
};

static void on_note(struct loop_task *t)
{
    struct note *n = CONTAINER_OF(t, struct note, task);
    loop_assert(n->loop);
    n->seen = (*n->next)++;
}

static void nothing(void *arg)
{
    (void)arg;
}

static struct loop *new_loop(void)
{
    struct loop *l = NULL;
    assert_ok((l = loop_new("test", e)) != NULL);
    return l;
}

static void tasks_run_in_order_on_the_loop(void **state)
{
    (void)state;
    struct loop *l = new_loop();
    int next = 0;
    struct note notes[100];
    for (int i = 0; i < 100; i++) {
        notes[i] = (struct note){.task.run = on_note, .loop = l, .next = &next, .seen = -1};
        loop_post(l, &notes[i].task);
    }
    loop_run(l, nothing, NULL);  // comes after all of them
    for (int i = 0; i < 100; i++)
        assert_int_equal(notes[i].seen, i);
    assert_false(loop_is_here(l));
    assert_false(loop_is_any_here());
    loop_free(l);
}

static void a_task_for_later_wakes_nobody(void **state)
{
    (void)state;
    struct loop *l = new_loop();
    loop_run(l, nothing, NULL);
    uint64_t before = loop_woken(l);
    int next = 0;
    struct note later[10];
    for (int i = 0; i < 10; i++) {
        later[i] = (struct note){.task.run = on_note, .loop = l, .next = &next, .seen = -1};
        loop_post_later(l, &later[i].task);
    }
    assert_int_equal(loop_woken(l), before);
    struct note last = {.task.run = on_note, .loop = l, .next = &next, .seen = -1};
    loop_post(l, &last.task);
    assert_int_equal(loop_woken(l), before + 1);
    loop_run(l, nothing, NULL);
    loop_free(l);  // what may have come behind has run as well
    assert_int_equal(next, 11);
    for (int i = 1; i < 10; i++)
        assert_true(later[i].seen > later[i - 1].seen);
}

struct asker {
    struct loop *loop;
    struct note *of;
};

static void ask(void *arg)
{
    struct asker *a = arg;
    loop_catch_up(a->loop);
    if (a->of->seen == 0) a->of = NULL;
}

static void a_loop_may_ask_for_later_tasks(void **state)
{
    (void)state;
    struct loop *l = new_loop();
    int next = 0;
    struct note n = {.task.run = on_note, .loop = l, .next = &next, .seen = -1};
    struct asker a = {l, &n};
    loop_post_later(l, &n.task);
    loop_run(l, ask, &a);
    assert_null(a.of);
    loop_free(l);
}

static void here(void *arg)
{
    struct loop *l = *(struct loop **)arg;
    if (loop_is_here(l) && loop_is_any_here()) *(struct loop **)arg = NULL;
}

static void a_loop_knows_its_thread(void **state)
{
    (void)state;
    struct loop *l = new_loop();
    struct loop *arg = l;
    loop_run(l, here, &arg);
    assert_null(arg);
    loop_free(l);
}

struct chain {
    struct loop_task task;
    struct loop *loop;
    int left;
};

static void on_chain(struct loop_task *t)
{
    struct chain *c = CONTAINER_OF(t, struct chain, task);
    if (--c->left > 0) loop_post(c->loop, t);
}

static void look(void *arg)
{
    struct chain *c = *(struct chain **)arg;
    if (c->left == 0) *(struct chain **)arg = NULL;
}

static void a_task_may_post_itself_again(void **state)
{
    (void)state;
    struct loop *l = new_loop();
    struct chain c = {.task.run = on_chain, .loop = l, .left = 50};
    loop_post(l, &c.task);
    struct chain *arg = &c;
    while (arg)
        loop_run(l, look, &arg);
    loop_free(l);
}

struct poster {
    struct loop *loop;
    struct count {
        struct loop_task task;
        int *sum;
    } tasks[200];
    int *sum;
};

static void on_count(struct loop_task *t)
{
    (*CONTAINER_OF(t, struct count, task)->sum)++;
}

static void *post_all(void *arg)
{
    struct poster *p = arg;
    for (size_t i = 0; i < COUNT(p->tasks); i++) {
        p->tasks[i] = (struct count){.task.run = on_count, .sum = p->sum};
        loop_post(p->loop, &p->tasks[i].task);
    }
    return NULL;
}

static void many_threads_may_post(void **state)
{
    (void)state;
    struct loop *l = new_loop();
    static struct poster posters[4];
    int sum = 0;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        posters[i].loop = l;
        posters[i].sum = &sum;
        assert_ok(thread_start(&threads[i], "poster", post_all, &posters[i], e));
    }
    for (int i = 0; i < 4; i++)
        thread_join(threads[i]);
    loop_run(l, nothing, NULL);
    loop_free(l);
    assert_int_equal(sum, 800);
}

struct timed {
    struct loop *loop;
    uv_timer_t timer;
    int fired;
};

static void on_timer(uv_timer_t *t)
{
    struct timed *x = CONTAINER_OF(t, struct timed, timer);
    x->fired++;
    uv_close((uv_handle_t *)t, NULL);
}

static void start_timer(void *arg)
{
    struct timed *t = arg;
    uv_timer_init(loop_uv(t->loop), &t->timer);
    uv_timer_start(&t->timer, on_timer, 1, 0);
}

static void handles_run_before_the_loop_ends(void **state)
{
    (void)state;
    struct timed t = {.loop = new_loop()};
    loop_run(t.loop, start_timer, &t);
    loop_free(t.loop);
    assert_int_equal(t.fired, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_run_in_order_on_the_loop),
        cmocka_unit_test(a_task_for_later_wakes_nobody),
        cmocka_unit_test(a_loop_may_ask_for_later_tasks),
        cmocka_unit_test(a_loop_knows_its_thread),
        cmocka_unit_test(a_task_may_post_itself_again),
        cmocka_unit_test(many_threads_may_post),
        cmocka_unit_test(handles_run_before_the_loop_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
