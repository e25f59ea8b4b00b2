// SPDX-License-Identifier: Apache-2.0
//
// thread.c - threads with a name and a stack, and functions that run in one for the sake of its
// stack.
#include "sys/thread.h"

#include "base/mem.h"
#include "sys/sampler.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STACK_TIMES 4  // red zones
#else
#define STACK_TIMES 1
#endif

struct start {
    void *(*fn)(void *arg);
    void *arg;
    char name[32];
};

static void *begin(void *arg)
{
    assert(arg);
    struct start s = *(struct start *)arg;
    mem_free(NULL, arg, sizeof s);
    char shown[16];  // all that the kernel keeps
    snprintf(shown, sizeof shown, "%s", s.name);
    pthread_setname_np(pthread_self(), shown);
    // The frame pointer here is that of the outermost frame of ours.
    sampler_thread_begin(s.name, __builtin_frame_address(0));
    void *result = s.fn(s.arg);
    sampler_thread_end();
    return result;
}

static bool start(pthread_t *t, const char *name, size_t stack_bytes, void *(*fn)(void *arg),
                  void *arg, err *e)
{
    pthread_attr_t a;
    assert(fn && name[0] && stack_bytes > 0);
    struct start *s = mem_alloc(NULL, sizeof *s, e);
    if (!s) return err_wrap(e, "thread %s", name);
    int failed = pthread_attr_init(&a);
    if (!failed) failed = pthread_attr_setstacksize(&a, stack_bytes * STACK_TIMES);
    *s = (struct start){.fn = fn, .arg = arg};
    snprintf(s->name, sizeof s->name, "%s", name);
    if (!failed) failed = pthread_create(t, &a, begin, s);
    if (failed) mem_free(NULL, s, sizeof *s);
    pthread_attr_destroy(&a);
    if (!failed) return true;
    return err_set(e, ERR_RESOURCE_EXHAUSTED, "thread %s: %s", name, strerror(failed));
}

bool thread_start(pthread_t *t, const char *name, void *(*fn)(void *arg), void *arg, err *e)
{
    return start(t, name, THREAD_STACK_BYTES, fn, arg, e);
}

void thread_join(pthread_t t)
{
    int failed = pthread_join(t, NULL);
    assert(!failed);
    (void)failed;
}

struct called {
    void (*fn)(void *arg);
    void *arg;
};

static void *on_call(void *arg)
{
    struct called *c = arg;
    c->fn(c->arg);
    return NULL;
}

bool thread_call(const char *name, size_t stack_bytes, void (*fn)(void *arg), void *arg, err *e)
{
    pthread_t t = 0;
    struct called c = {fn, arg};
    if (!start(&t, name, stack_bytes, on_call, &c, e)) return false;
    thread_join(t);
    return true;
}

unsigned thread_cpus(void)
{
    cpu_set_t set;
    // Those that this process may use, which are fewer in a container.
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    int n = CPU_COUNT(&set);
    return n > 0 ? (unsigned)n : 1;
}
