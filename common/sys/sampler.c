// SPDX-License-Identifier: Apache-2.0
//
// sampler.c - a timer for each thread, the signal's handler, and the slots of threads.
#include "sys/sampler.h"

#include "base/mem.h"
#include "base/str.h"
#include "sys/clock.h"
#include "sys/lock.h"
#include "sys/rand.h"
#include "sys/sampler_int.h"
#include "sys/thread.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define SLOTS         4096
#define NO_SLOT       UINT32_MAX
#define COMPONENTS    64  // as many as a label of a metric takes
#define COMPONENT_MAX 32
#define QUEUE_MIN     64
#define QUEUE_MAX     2048
#define READS_PER_S   5  // the queue holds what all processors make in this part of a second

// A thread. The fields that the handler reads without a lock change only while tid is 0; except
// component, because a library may name its thread late.
struct slot {
    _Atomic pid_t tid;  // 0: free
    _Atomic uint32_t component;
    uint64_t low;   // of the stack
    uint64_t high;  // 0: unknown
    uint64_t outermost;
    timer_t timer;
    bool timed;
    bool library;
    bool seen;  // by the running scan
    uint32_t next_free;
};

static struct lock lock = LOCK_INIT(LOCK_SAMPLER);
static struct slot slots[SLOTS];
static uint32_t slot_end;  // slots from here on were never used
static uint32_t free_slots = NO_SLOT;
static char components[COMPONENTS][COMPONENT_MAX] = {"other"};
static uint32_t component_count = 1;
static unsigned rate;  // 0: not running
static uint32_t timed_threads;
static uint32_t timed_libraries;
static pid_t process;

static struct queue queue;  // its cells live for ever, once there are any
static atomic_bool running;
static _Atomic uint64_t taken;
static _Atomic uint64_t dropped;
static _Atomic uint64_t refused;

// ---- in the handler

static void take(const siginfo_t *info, const void *context)
{
    uint32_t i = (uint32_t)info->si_value.sival_int;
    if (i >= SLOTS) return;
    // A signal may arrive after its slot went to another thread.
    const struct slot *s = &slots[i];
    if (atomic_load_explicit(&s->tid, memory_order_acquire) != gettid()) return;
    uint64_t at = 0;
    struct cell *c = queue_claim(&queue, &at);
    if (!c) {
        atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed);
        return;
    }
    struct walk w = {.high = s->high, .outermost = s->outermost, .process = process};
    (void)sampler_registers(context, &w);  // cannot fail: sampler_start has tried it
    bool elsewhere = w.sp < s->low || w.sp >= s->high;
    if (s->high && elsewhere) w.high = w.sp;  // on an alternate stack: reads nothing
    sampler_walk(&w, &c->trace);
    c->component = atomic_load_explicit(&s->component, memory_order_relaxed);
    c->weight = 1 + (uint32_t)MAX(info->si_overrun, 0);
    queue_publish(&queue, at);
    atomic_fetch_add_explicit(&taken, 1, memory_order_relaxed);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number;
    // A signal may come between a system call and the look at its errno.
    int saved = errno;
    bool wanted = atomic_load_explicit(&running, memory_order_acquire);
    if (wanted && info->si_code == SI_TIMER) take(info, context);
    errno = saved;
}

// ---- slots; all under the lock

static uint32_t find_slot(pid_t tid)
{
    for (uint32_t i = 0; i < slot_end; i++) {
        if (atomic_load_explicit(&slots[i].tid, memory_order_relaxed) == tid) return i;
    }
    return NO_SLOT;
}

static uint32_t take_slot(void)
{
    assert(lock_is_mine(&lock));
    uint32_t i = free_slots;
    if (i != NO_SLOT) {
        free_slots = slots[i].next_free;
        return i;
    }
    return slot_end < SLOTS ? slot_end++ : NO_SLOT;
}

static void end_timer(struct slot *s)
{
    if (!s->timed) return;
    assert(timed_threads > 0);
    timer_delete(s->timer);
    s->timed = false;
    timed_threads--;
    if (s->library) timed_libraries--;
}

static void give_slot(uint32_t i)
{
    assert(i < slot_end);
    struct slot *s = &slots[i];
    end_timer(s);
    // From here on the handler ignores signals for this slot that are still under way.
    atomic_store_explicit(&s->tid, 0, memory_order_relaxed);
    s->next_free = free_slots;
    free_slots = i;
}

// The CPU clock of a thread of this process, as the kernel numbers them (pthread_getcpuclockid
// gives the same number, but only to those who hold a pthread_t).
static clockid_t clock_of(pid_t tid)
{
    return (clockid_t)(~(unsigned)tid << 3 | 6);
}

static void begin_timer(uint32_t i)
{
    struct slot *s = &slots[i];
    assert(rate > 0 && !s->timed);
    pid_t tid = atomic_load_explicit(&s->tid, memory_order_relaxed);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
    event.sigev_value.sival_int = (int)i;
    event.sigev_notify_thread_id = tid;
    assert(tid != 0);
    int64_t period = NS_PER_S / rate;
    if (timer_create(clock_of(tid), &event, &s->timer) == 0) {
        // The first sample at a random moment: threads that live for less than a period count too.
        struct itimerspec t = {.it_interval = {.tv_sec = period / NS_PER_S,
                                               .tv_nsec = period % NS_PER_S},
                               .it_value = {.tv_nsec =
                                                1 + (long)(rand_u64() % (uint64_t)(period - 1))}};
        s->timed = timer_settime(s->timer, 0, &t, NULL) == 0;
        if (!s->timed) timer_delete(s->timer);
    }
    if (!s->timed) {
        atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
        return;
    }
    timed_threads++;
    if (s->library) timed_libraries++;
}

// Threads that differ by a number at the end of their names are one component.
static uint32_t component_of(const char *name)
{
    size_t n = strnlen(name, COMPONENT_MAX - 1);
    while (n > 0 && name[n - 1] >= '0' && name[n - 1] <= '9')
        n--;
    while (n > 0 && strchr(".-_:", name[n - 1]))
        n--;
    if (n == 0) return 0;
    for (uint32_t i = 0; i < component_count; i++) {
        if (strlen(components[i]) == n && memcmp(components[i], name, n) == 0) return i;
    }
    // Names are never removed: samples in the queue refer to them by number.
    if (component_count == COMPONENTS) return 0;
    memcpy(components[component_count], name, n);
    return component_count++;
}

struct stack {
    uint64_t low;
    uint64_t high;
    uint64_t outermost;
};

static void add_thread(pid_t tid, const char *name, const struct stack *known)
{
    bool library = known == NULL;
    uint32_t component = component_of(name);
    uint32_t i = find_slot(tid);
    if (i != NO_SLOT && library) {  // its name may have changed, or it is a thread of ours by now
        if (slots[i].library)
            atomic_store_explicit(&slots[i].component, component, memory_order_relaxed);
        return;
    }
    if (i != NO_SLOT) give_slot(i);  // a scan has taken it for a library's thread
    i = take_slot();
    if (i == NO_SLOT) {
        atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
        return;
    }
    assert(atomic_load_explicit(&slots[i].tid, memory_order_relaxed) == 0);
    struct slot *s = &slots[i];
    atomic_store_explicit(&s->component, component, memory_order_relaxed);
    s->low = known ? known->low : 0;
    s->high = known ? known->high : 0;
    s->outermost = known ? known->outermost : 0;
    s->library = library;
    s->seen = true;
    // Release: the handler that finds its tid here reads the rest.
    atomic_store_explicit(&s->tid, tid, memory_order_release);
    if (rate) begin_timer(i);
}

// ---- threads of ours

void sampler_thread_begin(const char *name, const void *outermost)
{
    struct stack stack = {.outermost = (uint64_t)outermost};
    pthread_attr_t a;
    if (pthread_getattr_np(pthread_self(), &a) == 0) {
        void *low = NULL;
        size_t size = 0;
        if (pthread_attr_getstack(&a, &low, &size) == 0) {
            stack.low = (uint64_t)low;
            stack.high = stack.low + size;
        }
        pthread_attr_destroy(&a);
    }
    lock_take(&lock);
    add_thread(gettid(), name, &stack);
    lock_give(&lock);
}

void sampler_thread_end(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    pthread_sigmask(SIG_BLOCK, &set, NULL);  // a signal under way must not find the slot given away
    lock_take(&lock);
    uint32_t i = find_slot(gettid());
    if (i != NO_SLOT) give_slot(i);
    lock_give(&lock);
}

// ---- threads of libraries

struct scan {
    size_t n;
    pid_t tids[SLOTS];
};

// False if not all could be listed: then a missing thread may still live.
static bool list_threads(struct scan *s)
{
    DIR *d = opendir("/proc/self/task");
    if (!d) return false;
    errno = 0;
    const struct dirent *f = readdir(d);
    for (; f && s->n < SLOTS; f = readdir(d)) {
        uint64_t tid = 0;
        if (str_u64(str_of(f->d_name), &tid)) s->tids[s->n++] = (pid_t)tid;
        errno = 0;
    }
    bool whole = !f && errno == 0;
    closedir(d);
    return whole;
}

// Drops our own threads from the list. Gives back the slots of libraries' threads that are not in
// it: such a thread has ended, so its handler cannot run any more.
static void compare_threads(struct scan *s)
{
    assert(lock_is_mine(&lock));
    size_t kept = 0;
    for (uint32_t i = 0; i < slot_end; i++)
        slots[i].seen = false;
    for (size_t i = 0; i < s->n; i++) {
        uint32_t k = find_slot(s->tids[i]);
        if (k != NO_SLOT) slots[k].seen = true;
        if (k == NO_SLOT || slots[k].library) s->tids[kept++] = s->tids[i];
    }
    s->n = kept;
    for (uint32_t i = 0; i < slot_end; i++) {
        bool used = atomic_load_explicit(&slots[i].tid, memory_order_relaxed) != 0;
        if (used && slots[i].library && !slots[i].seen) give_slot(i);
    }
}

static bool read_name(pid_t tid, char name[COMPONENT_MAX])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, name, COMPONENT_MAX - 1);
    (void)close(fd);
    if (n <= 0) return false;
    if (name[n - 1] == '\n') n--;
    name[n] = '\0';
    return true;
}

void sampler_scan(void)
{
    err e = {0};
    struct scan *s = mem_alloc(NULL, sizeof *s, &e);
    if (!s) return;  // the next scan finds them
    bool whole = list_threads(s);
    lock_take(&lock);
    if (whole) compare_threads(s);
    lock_give(&lock);
    for (size_t i = 0; i < s->n; i++) {
        char name[COMPONENT_MAX];
        if (!read_name(s->tids[i], name)) continue;
        if (strncmp(name, "iou-", 4) == 0) continue;  // the kernel's own, they take no signals
        lock_take(&lock);
        add_thread(s->tids[i], s->tids[i] == getpid() ? "main" : name, NULL);
        lock_give(&lock);
    }
    mem_free(NULL, s, sizeof *s);
}

// ---- the whole

static bool install(err *e)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART};
    action.sa_sigaction = on_signal;
    // No other signal interrupts the handler, so it needs no more stack than this.
    sigfillset(&action.sa_mask);
    if (sigaction(SIGPROF, &action, NULL) == 0) return true;
    return err_set(e, ERR_UNAVAILABLE, "sampler: sigaction: %s", strerror(errno));
}

static void make_queue(unsigned hz)
{
    if (queue.cells) return;  // a handler may be reading these
    assert(lock_is_mine(&lock));
    process = getpid();
    uint64_t want = (uint64_t)hz * thread_cpus() / READS_PER_S;
    uint64_t size = QUEUE_MIN;
    while (size < want && size < QUEUE_MAX)
        size *= 2;
    queue.cells = mem_must(size * sizeof *queue.cells);
    queue.size = size;
}

bool sampler_start(unsigned hz, err *e)
{
    assert(hz >= 1 && hz <= SAMPLER_HZ_MAX);
    struct walk w = {0};
    ucontext_t here = {0};
    if (!sampler_registers(&here, &w))
        return err_set(e, ERR_UNAVAILABLE, "sampler: not made for this processor");
    // Before the lock is taken: the scan takes it itself, thread by thread.
    sampler_scan();
    lock_take(&lock);
    bool ok = rate == 0;
    if (!ok) err_set(e, ERR_FAILED_PRECONDITION, "sampler: running already");
    ok = ok && install(e);
    if (ok) {
        make_queue(hz);
        rate = hz;
        atomic_store_explicit(&running, true, memory_order_release);
        for (uint32_t i = 0; i < slot_end; i++) {
            if (atomic_load_explicit(&slots[i].tid, memory_order_relaxed)) begin_timer(i);
        }
        ok = timed_threads > 0;
        if (!ok) err_set(e, ERR_UNAVAILABLE, "sampler: the system gives no timers");
        if (!ok) atomic_store_explicit(&running, false, memory_order_release);
        if (!ok) rate = 0;
    }
    lock_give(&lock);
    return ok;
}

// Slots stay with their threads: one of them may be in its handler.
void sampler_stop(void)
{
    lock_take(&lock);
    atomic_store_explicit(&running, false, memory_order_release);
    rate = 0;
    for (uint32_t i = 0; i < slot_end; i++)
        end_timer(&slots[i]);
    lock_give(&lock);
}

size_t sampler_read(void (*fn)(void *ctx, const struct sample *s), void *ctx)
{
    size_t n = 0;
    if (!queue.cells) return 0;
    // At most one round of the queue, so that even a reader slower than the threads returns.
    for (; n < queue.size; n++) {
        const struct cell *c = queue_peek(&queue);
        if (!c) break;
        const struct trace *t = &c->trace;
        struct sample s = {.component = components[c->component],
                           .weight = c->weight,
                           .depth = t->depth,
                           .pcs = t->pcs,
                           .frames = t->frames,
                           .second = t->second,
                           .end = t->end,
                           .rooted = t->rooted,
                           .sp = t->sp,
                           .fp = t->fp,
                           .top = t->top,
                           .top_words = t->top_words};
        fn(ctx, &s);
        // Only now may a handler fill the cell again: fn has read it.
        queue_pop(&queue);
    }
    return n;
}

void sampler_stats(struct sampler_stats *s)
{
    s->taken = atomic_load_explicit(&taken, memory_order_relaxed);
    s->dropped = atomic_load_explicit(&dropped, memory_order_relaxed);
    s->refused = atomic_load_explicit(&refused, memory_order_relaxed);
    lock_take(&lock);
    s->threads = timed_threads;
    s->libraries = timed_libraries;
    lock_give(&lock);
}
