// SPDX-License-Identifier: Apache-2.0
#include "lib/await.h"
#include "sys/clock.h"
#include "sys/sampler_int.h"
#include "sys/sampler_names.h"
#include "sys/thread.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>

// ---- the walk, over stacks made by hand

#define WORDS 64

// A stack of 64 words that ends at an unreadable page; words are numbered from its lowest one, and
// frame pointers are given as such numbers.
struct frame_case {
    const char *name;
    int sp;
    int fp;
    int outermost;  // -1: unknown
    struct {
        int at;
        int next;  // -1: 0
        int skew;  // added to the address
        uint64_t ret;
    } records[4];
    enum sample_end end;
    uint32_t depth;
};

static const struct frame_case frame_cases[] = {
    {"three frames to the outermost",
     0,
     4,
     60,
     {{4, 10, 0, 101}, {10, 20, 0, 201}, {20, 60, 0, 301}},
     SAMPLE_WHOLE,
     4},
    {"interrupted in the outermost", 0, 60, 60, {{60, 62, 0, 101}}, SAMPLE_WHOLE, 1},
    {"chain ends with a null frame pointer",
     0,
     4,
     -1,
     {{4, 10, 0, 101}, {10, -1, 0, 201}},
     SAMPLE_WHOLE,
     3},
    {"frame pointer below the stack pointer", 8, 4, 60, {{4, 60, 0, 101}}, SAMPLE_LOST, 1},
    {"frame pointer beyond the end", 0, 64, 60, {{0}}, SAMPLE_LOST, 1},
    {"frame pointer far away", 0, 1 << 20, 60, {{0}}, SAMPLE_LOST, 1},
    {"half a record at the end", 0, 63, 60, {{0}}, SAMPLE_LOST, 1},
    {"frame pointer between words", 0, 4, 60, {{4, 10, 3, 101}, {10, 60, 0, 201}}, SAMPLE_LOST, 2},
    {"a frame that is its own caller", 0, 4, 60, {{4, 4, 0, 101}}, SAMPLE_LOST, 2},
    {"a caller below its callee", 0, 20, 60, {{20, 10, 0, 101}, {10, 60, 0, 201}}, SAMPLE_LOST, 2},
    {"no return address", 0, 4, 60, {{4, 10, 0, 0}, {10, 60, 0, 201}}, SAMPLE_LOST, 1},
};

static uint64_t address_of(const uint64_t *stack, int word)
{
    return word < 0 ? 0 : (uint64_t)stack + (uint64_t)word * sizeof *stack;
}

static void walk_stays_inside_and_ends(void **state)
{
    (void)state;
    struct trace *t = mem_must(sizeof *t);
    for (size_t i = 0; i < COUNT(frame_cases); i++) {
        const struct frame_case *c = &frame_cases[i];
        uint64_t zero[WORDS] = {0};
        uint64_t *stack = (uint64_t *)(uintptr_t)tail_guard(zero, sizeof zero);  // NOLINT: writable
        for (size_t k = 0; k < COUNT(c->records); k++) {
            if (c->records[k].next == 0) break;
            stack[c->records[k].at] =
                address_of(stack, c->records[k].next) + (uint64_t)c->records[k].skew;
            stack[c->records[k].at + 1] = c->records[k].ret;
        }
        struct walk w = {.pc = 77,
                         .sp = address_of(stack, c->sp),
                         .fp = address_of(stack, c->fp),
                         .high = address_of(stack, WORDS),
                         .outermost = address_of(stack, c->outermost)};
        sampler_walk(&w, t);
        if (t->end != c->end || t->second != c->depth) {
            fail_msg("%s: ends %d after %u, wanted %d after %u", c->name, (int)t->end, t->second,
                     (int)c->end, c->depth);
        }
        assert_int_equal(t->pcs[0], 77);
        for (uint32_t k = 1; k < t->second; k++)
            assert_int_equal(t->pcs[k], 100 * k);
        assert_int_equal(t->top_words, WORDS - c->sp);
    }
    mem_must_free(t);
}

static void deep_chain_is_cut_at_the_cap(void **state)
{
    (void)state;
    struct trace *t = mem_must(sizeof *t);
    uint64_t stack[4 * SAMPLER_DEPTH_MAX];
    for (int i = 0; i + 2 < (int)COUNT(stack); i += 2) {
        stack[i] = address_of(stack, i + 2);
        stack[i + 1] = 5;
    }
    struct walk w = {.pc = 4, .sp = (uint64_t)stack, .fp = (uint64_t)stack};
    w.high = address_of(stack, (int)COUNT(stack));
    w.outermost = address_of(stack, (int)COUNT(stack) - 2);
    sampler_walk(&w, t);
    assert_int_equal(t->end, SAMPLE_DEEP);
    assert_int_equal(t->depth, SAMPLER_DEPTH_MAX);
    assert_int_equal(t->second, SAMPLER_DEPTH_MAX);
    mem_must_free(t);
}

static void broken_chain_is_searched_for_a_saved_frame_pointer(void **state)
{
    (void)state;
    struct trace *t = mem_must(sizeof *t);
    uint64_t stack[WORDS] = {0};
    stack[3] = address_of(stack, 30);  // saved by who used the register for something else
    stack[5] = address_of(stack, 41);  // leads nowhere
    stack[30] = address_of(stack, 40);
    stack[31] = 101;
    stack[40] = address_of(stack, 60);
    stack[41] = 201;
    struct walk w = {.pc = 77, .sp = (uint64_t)stack, .fp = 12345};
    w.high = address_of(stack, WORDS);
    w.outermost = address_of(stack, 60);
    sampler_walk(&w, t);
    assert_int_equal(t->end, SAMPLE_LOST);
    assert_int_equal(t->second, 1);
    assert_int_equal(t->depth, 3);
    assert_int_equal(t->pcs[1], 100);
    assert_int_equal(t->frames[1], 30 * sizeof(uint64_t));
    assert_int_equal(t->pcs[2], 200);
    assert_int_equal(t->frames[2], 40 * sizeof(uint64_t));
    mem_must_free(t);
}

static void unknown_bounds_are_read_through_the_kernel(void **state)
{
    (void)state;
    struct trace *t = mem_must(sizeof *t);
    uint64_t stack[WORDS] = {0};
    stack[4] = 8;  // no address of ours: the kernel refuses it
    stack[5] = 101;
    struct walk w = {.pc = 77,
                     .sp = (uint64_t)stack,
                     .fp = address_of(stack, 4),
                     .process = getpid()};
    sampler_walk(&w, t);
    assert_int_equal(t->end, SAMPLE_LOST);
    assert_int_equal(t->depth, 2);
    stack[4] = (uint64_t)1 << 46;
    sampler_walk(&w, t);
    assert_int_equal(t->end, SAMPLE_LOST);
    assert_int_equal(t->depth, 2);
    mem_must_free(t);
}

// ---- the queue

static void full_queue_refuses_and_goes_on(void **state)
{
    (void)state;
    struct queue q = {.size = 4};
    q.cells = mem_must(4 * sizeof *q.cells);
    uint32_t written = 0;
    uint32_t read = 0;
    for (int round = 0; round < 5; round++) {
        uint64_t at = 0;
        struct cell *c = NULL;
        while ((c = queue_claim(&q, &at))) {
            c->weight = written++;
            queue_publish(&q, at);
        }
        assert_int_equal(written - read, 4);
        for (int i = 0; i < 3; i++, queue_pop(&q))
            assert_int_equal(queue_peek(&q)->weight, read++);
    }
    mem_must_free(q.cells);
}

static void cell_that_is_not_filled_stops_the_reader(void **state)
{
    (void)state;
    struct queue q = {.size = 4};
    q.cells = mem_must(4 * sizeof *q.cells);
    uint64_t first = 0;
    uint64_t second = 0;
    assert_non_null(queue_claim(&q, &first));
    assert_non_null(queue_claim(&q, &second));
    queue_publish(&q, second);
    assert_null(queue_peek(&q));
    queue_publish(&q, first);
    assert_non_null(queue_peek(&q));
    mem_must_free(q.cells);
}

#define WRITERS 4
#define WRITES  3000

struct pump {
    struct queue q;
    _Atomic uint32_t number;
};

static void *write_many(void *arg)
{
    struct pump *p = arg;
    uint32_t writer = atomic_fetch_add(&p->number, 1);
    for (uint32_t i = 0; i < WRITES;) {
        uint64_t at = 0;
        struct cell *c = queue_claim(&p->q, &at);
        if (!c) {
            sched_yield();
            continue;
        }
        c->component = writer;
        c->weight = i++;
        queue_publish(&p->q, at);
    }
    return NULL;
}

static void writers_lose_and_double_nothing(void **state)
{
    (void)state;
    struct pump p = {.q = {.size = 8}};
    p.q.cells = mem_must(8 * sizeof *p.q.cells);
    pthread_t threads[WRITERS];
    uint32_t next[WRITERS] = {0};
    for (int i = 0; i < WRITERS; i++)
        assert_ok(thread_start(&threads[i], "writer", write_many, &p, e));
    for (uint32_t n = 0; n < WRITERS * WRITES;) {
        const struct cell *c = queue_peek(&p.q);
        if (!c) {
            sched_yield();
            continue;
        }
        assert_int_equal(c->weight, next[c->component]++);
        queue_pop(&p.q);
        n++;
    }
    for (int i = 0; i < WRITERS; i++)
        thread_join(threads[i]);
    mem_must_free(p.q.cells);
}

// ---- real stacks

#define SAMPLES_WANTED 20

// ThreadSanitizer keeps signals until the thread calls something that it replaces, and then runs
// the handler on a stack that has changed meanwhile. So there is nothing to see but that all goes
// well.
#if defined(__SANITIZE_THREAD__)
#define EXACT false
#else
#define EXACT true
#endif

static _Thread_local volatile uint64_t sink;
static atomic_bool enough;

static bool is_enough(void)
{
    if (!EXACT) (void)clock_mono_ns();
    return atomic_load(&enough);
}

__attribute__((noinline)) static void work_inner(void)
{
    for (int i = 0; i < 200000; i++)
        sink += (uint64_t)i;
}

__attribute__((noinline)) static void work_middle(void)
{
    work_inner();
    sink++;
}

__attribute__((noinline)) static void *work_outer(void *arg)
{
    while (!is_enough())
        work_middle();
    return arg;
}

static char block[1 << 16];

__attribute__((noinline)) static void *fill_blocks(void *arg)
{
    for (unsigned char c = 0; !is_enough(); c++) {
        memset(block, c, sizeof block);
        __asm__ volatile("" : : "r"(block) : "memory");
    }
    return arg;
}

static int compare(const void *a, const void *b)
{
    const uint32_t *x = a;
    const uint32_t *y = b;
    return (*x > *y) - (*x < *y);
}

__attribute__((noinline)) static void *sort_numbers(void *arg)
{
    static uint32_t numbers[4096];
    while (!is_enough()) {
        for (uint32_t i = 0; i < COUNT(numbers); i++)
            numbers[i] = i * 2654435761u;
        qsort(numbers, COUNT(numbers), sizeof numbers[0], compare);
    }
    return arg;
}

__attribute__((noinline)) static void *take_memory(void *arg)
{
    void *blocks[64];
    for (size_t size = 1; !is_enough(); size = size * 7 % 4099 + 1) {
        for (size_t i = 0; i < COUNT(blocks); i++)
            blocks[i] = mem_try(size + i * 16);
        for (size_t i = 0; i < COUNT(blocks); i++)
            mem_try_free(blocks[(i * 29) % COUNT(blocks)]);
    }
    return arg;
}

struct reader {
    struct sampler_names *names;
    const char *component;
    const char *wanted[4];  // names that must follow one another, innermost first
    bool at_leaf;
    uint32_t samples;
    uint32_t seen;   // of these, with the wanted names
    uint32_t whole;  // of these, to the root
};

static bool is_named(struct sampler_names *n, uint64_t pc, const char *name)
{
    struct sampler_place p;
    assert_ok(sampler_names_find(n, pc, &p, e));
    for (uint32_t i = 0; i < p.count; i++) {
        if (str_is(sampler_names_function(n, p.lines[i].function)->name, name)) return true;
    }
    return false;
}

static bool has_chain(struct reader *r, const uint64_t *pcs, uint32_t depth)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < depth && k < COUNT(r->wanted) && r->wanted[k]; i++)
        k = is_named(r->names, pcs[i], r->wanted[k]) ? k + 1 : 0;
    return k == COUNT(r->wanted) || !r->wanted[k];
}

static void on_sample(void *ctx, const struct sample *s)
{
    struct reader *r = ctx;
    if (strcmp(s->component, r->component) != 0) return;
    uint64_t pcs[SAMPLER_DEPTH_MAX];
    enum sample_end end = SAMPLE_LOST;
    uint32_t depth = sampler_names_repair(r->names, s, pcs, &end);
    assert_in_range(depth, 1, SAMPLER_DEPTH_MAX);
    assert_true(end == SAMPLE_WHOLE || end == SAMPLE_LOST);
    assert_true(s->weight >= 1);
    r->samples++;
    if (!has_chain(r, pcs, depth)) return;
    r->seen++;
    bool root = is_named(r->names, pcs[depth - 1], r->wanted[0]) || r->wanted[1];
    if (end == SAMPLE_WHOLE && root) r->whole++;
}

// Runs fn as a thread with this component until enough of its samples came.
static void sample_thread(struct reader *r, void *(*fn)(void *arg))
{
    char name[64];
    pthread_t thread;
    snprintf(name, sizeof name, "%s.7", r->component);
    atomic_store(&enough, false);
    assert_ok(sampler_start(1000, e));
    assert_ok((r->names = sampler_names_new(NULL, 1000, e)) != NULL);
    assert_ok(thread_start(&thread, name, fn, NULL, e));
    while (r->samples < SAMPLES_WANTED || (EXACT && r->whole == 0))
        sampler_read(on_sample, r);
    atomic_store(&enough, true);
    thread_join(thread);
    sampler_stop();
    sampler_names_free(r->names);
}

static void busy_functions_are_seen_in_order(void **state)
{
    (void)state;
    struct reader r = {.component = "busy", .wanted = {"work_inner", "work_middle", "work_outer"}};
    sample_thread(&r, work_outer);
    if (!EXACT) return;
    assert_true(r.seen > r.samples / 2);
    assert_int_equal(r.whole, r.seen);
}

static void callers_of_a_library_are_found(void **state)
{
    (void)state;
    struct reader r = {.component = "fill", .wanted = {"fill_blocks"}};
    sample_thread(&r, fill_blocks);
    if (EXACT) assert_true(r.whole > r.samples / 2);
}

static void callers_of_callbacks_of_a_library_end_marked_or_whole(void **state)
{
    (void)state;
    struct reader r = {.component = "sort", .wanted = {"sort_numbers"}};
    sample_thread(&r, sort_numbers);
}

static void signals_inside_malloc_do_no_harm(void **state)
{
    (void)state;
    struct reader r = {.component = "malloc", .wanted = {"take_memory"}};
    sample_thread(&r, take_memory);
}

// ---- threads

static void ignore_sample(void *ctx, const struct sample *s)
{
    (void)ctx;
    (void)s;
}

static void samples_that_nobody_reads_are_counted(void **state)
{
    (void)state;
    struct sampler_stats before;
    struct sampler_stats now;
    pthread_t thread;
    sampler_stats(&before);
    atomic_store(&enough, false);
    assert_ok(sampler_start(1000, e));
    assert_ok(thread_start(&thread, "busy", work_outer, NULL, e));
    do {
        sampler_stats(&now);
    } while (now.dropped == before.dropped);
    assert_true(now.taken > before.taken);
    assert_true(now.threads >= 1);
    atomic_store(&enough, true);
    thread_join(thread);
    sampler_stop();
    assert_true(sampler_read(ignore_sample, NULL) > 0);
    assert_int_equal(sampler_read(ignore_sample, NULL), 0);
}

static void starting_twice_is_refused(void **state)
{
    (void)state;
    err again = {0};
    assert_ok(sampler_start(10, e));
    assert_false(sampler_start(10, &again));
    assert_int_equal(again.code, ERR_FAILED_PRECONDITION);
    sampler_stop();
    sampler_stop();
}

static void system_without_timers_is_told_and_survived(void **state)
{
    (void)state;
    err fault = {0};
    struct rlimit usual;
    struct sampler_stats before;
    struct sampler_stats now;
    sampler_stats(&before);
    assert_int_equal(getrlimit(RLIMIT_SIGPENDING, &usual), 0);
    struct rlimit none = {.rlim_cur = 0, .rlim_max = usual.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_SIGPENDING, &none), 0);
    assert_false(sampler_start(100, &fault));
    assert_int_equal(setrlimit(RLIMIT_SIGPENDING, &usual), 0);
    assert_int_equal(fault.code, ERR_UNAVAILABLE);
    sampler_stats(&now);
    assert_true(now.refused > before.refused);
    assert_int_equal(now.threads, 0);
    assert_ok(sampler_start(100, e));
    sampler_stop();
}

static void *library_thread(void *arg)
{
    pthread_setname_np(pthread_self(), "foreign-3");
    return work_outer(arg);
}

// Threads of ours have names. Joined means that their memory is free, not yet that the kernel
// forgot them.
static bool only_nameless_are_left(void)
{
    char own[32] = "";
    bool only = true;
    assert_int_equal(prctl(PR_GET_NAME, own), 0);
    DIR *d = opendir("/proc/self/task");
    assert_non_null(d);
    for (const struct dirent *at = readdir(d); at; at = readdir(d)) {
        char path[300];
        char name[32] = "";
        if (at->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", at->d_name);
        FILE *f = fopen(path, "r");  // NULL: it went meanwhile
        if (f && fscanf(f, "%31[^\n]", name) == 1) only = only && strcmp(name, own) == 0;
        if (f) fclose(f);
    }
    closedir(d);
    return only;
}

static void threads_of_libraries_are_found_and_let_go(void **state)
{
    (void)state;
    pthread_t thread;
    struct sampler_stats now;
    struct reader r = {.component = "foreign", .wanted = {"work_inner", "work_middle"}};
    AWAIT(only_nameless_are_left());
    assert_ok((r.names = sampler_names_new(NULL, 1000, e)) != NULL);
    assert_ok(sampler_start(1000, e));
    sampler_stats(&now);
    uint32_t others = now.libraries;  // the main thread, and what a sanitizer started
    assert_true(others >= 1);
    atomic_store(&enough, false);
    assert_int_equal(pthread_create(&thread, NULL, library_thread, NULL), 0);
    while (r.seen == 0 && (EXACT || r.samples < SAMPLES_WANTED)) {
        sampler_scan();
        sampler_read(on_sample, &r);
    }
    sampler_stats(&now);
    assert_int_equal(now.libraries, others + 1);
    atomic_store(&enough, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    do {  // joined means that its memory is free, not yet that the kernel forgot it
        sampler_scan();
        sampler_stats(&now);
    } while (now.libraries > others);
    sampler_stop();
    sampler_stats(&now);
    assert_int_equal(now.threads, 0);
    sampler_names_free(r.names);
}

static void *short_life(void *arg)
{
    for (int i = 0; i < 5; i++)
        work_middle();
    return arg;
}

static void *start_many(void *arg)
{
    for (int i = 0; i < 30; i++) {
        pthread_t t;
        assert_ok(thread_start(&t, "short", short_life, NULL, e));
        thread_join(t);
    }
    atomic_fetch_sub((_Atomic int *)arg, 1);
    return NULL;
}

static void threads_come_and_go_while_sampling_starts_and_stops(void **state)
{
    (void)state;
    pthread_t starters[4];
    _Atomic int left = COUNT(starters);
    for (size_t i = 0; i < COUNT(starters); i++)
        assert_ok(thread_start(&starters[i], "starter", start_many, &left, e));
    while (atomic_load(&left) > 0) {
        assert_ok(sampler_start(1000, e));
        for (int i = 0; i < 5; i++) {
            sampler_scan();
            sampler_read(ignore_sample, NULL);
        }
        sampler_stop();
    }
    for (size_t i = 0; i < COUNT(starters); i++)
        thread_join(starters[i]);
    struct sampler_stats now;
    sampler_stats(&now);
    assert_int_equal(now.threads, 0);
}

static void signals_from_elsewhere_are_ignored(void **state)
{
    (void)state;
    struct sampler_stats before;
    struct sampler_stats now;
    assert_ok(sampler_start(1, e));
    sampler_read(ignore_sample, NULL);
    sampler_stats(&before);
    for (int i = 0; i < 100; i++)
        assert_int_equal(raise(SIGPROF), 0);
    sampler_stop();
    assert_int_equal(raise(SIGPROF), 0);
    sampler_stats(&now);
    assert_true(now.taken - before.taken < 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starting_twice_is_refused),  // first: its rate makes the queue small
        cmocka_unit_test(walk_stays_inside_and_ends),
        cmocka_unit_test(deep_chain_is_cut_at_the_cap),
        cmocka_unit_test(broken_chain_is_searched_for_a_saved_frame_pointer),
        cmocka_unit_test(unknown_bounds_are_read_through_the_kernel),
        cmocka_unit_test(full_queue_refuses_and_goes_on),
        cmocka_unit_test(cell_that_is_not_filled_stops_the_reader),
        cmocka_unit_test(writers_lose_and_double_nothing),
        cmocka_unit_test(busy_functions_are_seen_in_order),
        cmocka_unit_test(callers_of_a_library_are_found),
        cmocka_unit_test(callers_of_callbacks_of_a_library_end_marked_or_whole),
        cmocka_unit_test(signals_inside_malloc_do_no_harm),
        cmocka_unit_test(samples_that_nobody_reads_are_counted),
        cmocka_unit_test(system_without_timers_is_told_and_survived),
        cmocka_unit_test(threads_of_libraries_are_found_and_let_go),
        cmocka_unit_test(threads_come_and_go_while_sampling_starts_and_stops),
        cmocka_unit_test(signals_from_elsewhere_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
