// SPDX-License-Identifier: Apache-2.0
//
// loop.c - a thread that runs libuv, and the queue by which other threads reach it.
#include "loop/loop.h"

#include "base/mem.h"
#include "sys/lock.h"
#include "sys/thread.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct loop {
    uv_loop_t uv;
    uv_poll_t wake;
    int wake_fd;         // an eventfd: written when the inbox becomes non-empty
    atomic_uint waking;  // threads that are about to write to it
    _Atomic uint64_t woken;
    pthread_t thread;
    char name[32];

    struct lock lock;  // of the inboxes
    struct loop_task *first;
    struct loop_task *last;
    struct loop_task *_Atomic later;  // of loop_post_later, newest first
};

static _Thread_local const struct loop *here;

static void run_all(struct loop_task *t)
{
    while (t) {
        struct loop_task *next = t->next;  // t may be posted again or freed by run
        assert(t->run);
        t->run(t);
        t = next;
    }
}

// Takes the whole inbox at once, so that the lock is held only for a moment. Tasks posted meanwhile
// run in the next turn, after the sockets had theirs.
static void on_wake(uv_poll_t *p, int status, int events)
{
    struct loop *l = CONTAINER_OF(p, struct loop, wake);
    loop_assert(l);
    (void)status;
    (void)events;
    // Read before the inbox is taken: a task posted right after that writes again, and this read
    // must not swallow it.
    uint64_t count = 0;
    while (read(l->wake_fd, &count, sizeof count) < 0 && errno == EINTR)
        ;
    lock_take(&l->lock);
    struct loop_task *t = l->first;
    l->first = NULL;
    l->last = NULL;
    lock_give(&l->lock);
    run_all(t);
    loop_catch_up(l);
}

static void *loop_main(void *arg)
{
    struct loop *l = arg;
    here = l;
    // Until the last handle is closed (loop_free); there is always the eventfd's.
    uv_run(&l->uv, UV_RUN_DEFAULT);
    here = NULL;
    return NULL;
}

struct loop *loop_new(const char *name, err *e)
{
    struct loop *l = mem_must(sizeof *l);
    snprintf(l->name, sizeof l->name, "%s", name);
    lock_init(&l->lock, LOCK_LOOP);
    int failed = uv_loop_init(&l->uv);
    if (failed) {
        err_set(e, ERR_RESOURCE_EXHAUSTED, "loop %s: %s", name, uv_strerror(failed));
        goto fail_init;
    }
    l->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (l->wake_fd < 0) {
        err_set(e, ERR_RESOURCE_EXHAUSTED, "loop %s: eventfd: %s", name, strerror(errno));
        goto fail_loop;
    }
    failed = uv_poll_init(&l->uv, &l->wake, l->wake_fd);
    if (failed) {
        err_set(e, ERR_RESOURCE_EXHAUSTED, "loop %s: %s", name, uv_strerror(failed));
        goto fail_fd;
    }
    failed = uv_poll_start(&l->wake, UV_READABLE, on_wake);
    if (!failed && thread_start(&l->thread, l->name, loop_main, l, e)) return l;
    if (failed) err_set(e, ERR_RESOURCE_EXHAUSTED, "loop %s: %s", name, uv_strerror(failed));
    uv_close((uv_handle_t *)&l->wake, NULL);
    uv_run(&l->uv, UV_RUN_DEFAULT);  // lets libuv forget the handle
fail_fd:
    (void)close(l->wake_fd);
fail_loop:
    uv_loop_close(&l->uv);
fail_init:
    lock_release(&l->lock);
    mem_must_free(l);
    return NULL;
}

struct closing {
    struct loop_task task;
    struct loop *loop;
};

static void close_wake(struct loop_task *t)
{
    struct closing *c = CONTAINER_OF(t, struct closing, task);
    uv_close((uv_handle_t *)&c->loop->wake, NULL);
}

static void on_leak(uv_handle_t *h, void *arg)
{
    const struct loop *l = arg;
    fprintf(stderr, "flametree: loop %s ends with an open %s handle\n", l->name,
            uv_handle_type_name(h->type));
}

void loop_free(struct loop *l)
{
    if (!l) return;
    assert(!loop_is_here(l));
    struct closing c = {.task.run = close_wake, .loop = l};
    loop_post(l, &c.task);
    thread_join(l->thread);
    assert(!l->first && !atomic_load(&l->later));
    int left = uv_loop_close(&l->uv);
    if (left) uv_walk(&l->uv, on_leak, l);
    assert(left == 0);
    // A thread whose task has already run may still be writing to wake_fd (loop_post).
    while (atomic_load_explicit(&l->waking, memory_order_acquire) > 0)
        sched_yield();
    (void)close(l->wake_fd);
    lock_release(&l->lock);
    mem_must_free(l);
}

uv_loop_t *loop_uv(struct loop *l)
{
    return &l->uv;
}

bool loop_is_here(const struct loop *l)
{
    return here == l;
}

void loop_assert(const struct loop *l)
{
    assert(here == l);
    (void)l;
}

bool loop_is_any_here(void)
{
    return here != NULL;
}

void loop_post(struct loop *l, struct loop_task *t)
{
    assert(t->run);
    t->next = NULL;
    lock_take(&l->lock);
    bool wake = !l->first;  // otherwise the loop is awake, or another thread is waking it
    if (l->last)
        l->last->next = t;
    else
        l->first = t;
    l->last = t;
    if (wake) atomic_fetch_add_explicit(&l->waking, 1, memory_order_relaxed);
    lock_give(&l->lock);
    if (!wake) return;
    atomic_fetch_add_explicit(&l->woken, 1, memory_order_relaxed);
    // Not under the lock, because the woken loop takes it at once. loop_free waits for threads that
    // are here (`waking`). Not by uv_async_send: the loop would spin until the sender has returned
    // from it, and the kernel may have suspended the sender to run the loop. The write fails only
    // if the counter is full, and then the loop is awake.
    while (eventfd_write(l->wake_fd, 1) != 0 && errno == EINTR)
        ;
    atomic_fetch_sub_explicit(&l->waking, 1, memory_order_release);
}

// Release: the loop that takes the task sees the memory that the task is about.
void loop_post_later(struct loop *l, struct loop_task *t)
{
    t->next = atomic_load_explicit(&l->later, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&l->later, &t->next, t, memory_order_release,
                                                  memory_order_relaxed)) {
    }
}

uint64_t loop_woken(const struct loop *l)
{
    return atomic_load_explicit(&l->woken, memory_order_relaxed);
}

void loop_catch_up(struct loop *l)
{
    assert(here == l);
    if (!atomic_load_explicit(&l->later, memory_order_relaxed)) return;
    // All at once: tasks that are posted while these run are for the next turn.
    struct loop_task *t = atomic_exchange_explicit(&l->later, NULL, memory_order_acquire);
    struct loop_task *in_order = NULL;
    while (t) {  // the list is newest first
        struct loop_task *next = t->next;
        t->next = in_order;
        in_order = t;
        t = next;
    }
    run_all(in_order);
}

struct run {
    struct loop_task task;
    void (*fn)(void *arg);
    void *arg;
    struct lock lock;
    struct cond ran;
    bool done;
};

static void run_one(struct loop_task *t)
{
    struct run *r = CONTAINER_OF(t, struct run, task);
    r->fn(r->arg);
    lock_take(&r->lock);
    r->done = true;
    cond_wake_one(&r->ran);
    lock_give(&r->lock);
}

void loop_run(struct loop *l, void (*fn)(void *arg), void *arg)
{
    assert(!loop_is_any_here());
    struct run r = {.task.run = run_one, .fn = fn, .arg = arg};
    lock_init(&r.lock, LOCK_GROUP);
    cond_init(&r.ran);
    loop_post(l, &r.task);
    // r is on this stack, so it must not return before run_one has given the lock back.
    lock_take(&r.lock);
    while (!r.done)
        cond_wait(&r.ran, &r.lock);
    lock_give(&r.lock);
    cond_release(&r.ran);
    lock_release(&r.lock);
}
