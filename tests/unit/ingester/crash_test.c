// SPDX-License-Identifier: Apache-2.0
//
// A process that pushes is killed at a named point, or its disk fails there; afterwards every
// acknowledged profile must be there once. The process is this program, run again.
#include "sys/clock.h"
#include "sys/thread.h"
#include "whole.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define THREADS 6
#define PUSHES  15  // a thread
#define TOTAL   (THREADS * PUSHES)

// The same in parent and child.
static struct fact fact_number(int64_t base_ns, uint32_t number)
{
    struct dice d = {(uint64_t)number * 1000003};
    struct fact f = fact_roll(&d, base_ns, 3600 * NS_PER_S);
    f.sampled = false;
    return f;
}

// ---- the child: test child DIR BASE_NS MODE

struct child {
    struct whole w;
    int64_t base_ns;
    bool retry;
};

struct child_thread {
    struct child *child;
    uint32_t first;
};

// Tells the number on stdout: only then the parent counts on it.
static void tell(uint32_t number)
{
    if (write(STDOUT_FILENO, &number, sizeof number) != sizeof number) _exit(3);
}

static void *child_push(void *arg)
{
    struct child_thread *t = arg;
    for (uint32_t i = 0; i < PUSHES; i++) {
        struct fact f = fact_number(t->child->base_ns, t->first + i);
        err e = {0};
        bool ok = false;
        AWAIT((ok = whole_push(&t->child->w, &f, 1, &e)) || !t->child->retry ||
              e.code != ERR_UNAVAILABLE);
        if (!ok && t->child->retry) _exit(4);
        if (ok) tell(t->first + i);
    }
    return NULL;
}

static void child_threads(struct child *c)
{
    pthread_t threads[THREADS];
    struct child_thread args[THREADS];
    err e = {0};
    for (uint32_t i = 0; i < THREADS; i++) {
        args[i] = (struct child_thread){c, i * PUSHES};
        if (!thread_start(&threads[i], "pusher", child_push, &args[i], &e)) _exit(5);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        thread_join(threads[i]);
}

// A real write error: files may not grow any more; later they may.
static void child_fill_disk(struct child *c)
{
    struct rlimit limit;
    err e = {0};
    getrlimit(RLIMIT_FSIZE, &limit);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 12000;
    setrlimit(RLIMIT_FSIZE, &limit);
    uint32_t number = 0;
    for (bool ok = true; ok && number < TOTAL; number += ok) {
        struct fact f = fact_number(c->base_ns, number);
        ok = whole_push(&c->w, &f, 1, &e);
        if (ok) tell(number);
    }
    if (number == TOTAL || e.code != ERR_UNAVAILABLE) _exit(6);
    limit.rlim_cur = before;
    setrlimit(RLIMIT_FSIZE, &limit);
    for (; number < TOTAL; number++) {
        struct fact f = fact_number(c->base_ns, number);
        AWAIT(whole_push(&c->w, &f, 1, &e));
        tell(number);
    }
}

static int child_main(char **argv)
{
    // A cut every few pushes, and buffers that are flushed on the way.
    static const char flags[] = "--ingester.cut_bytes=8KiB --ingester.log_memory=1MiB";
    static struct child c;
    signal(SIGXFSZ, SIG_IGN);  // lint: allow the write is to fail with an error instead
    int64_t base = 0;
    if (!str_i64(str_of(argv[3]), &base)) return 2;
    c.base_ns = base;
    c.retry = strcmp(argv[4], "retry") == 0;
    bool disk = strcmp(argv[4], "disk") == 0;
    whole_start(&c.w, argv[2], disk ? "" : flags);
    whole_await(&c.w);
    if (disk) {
        child_fill_disk(&c);
    } else {
        child_threads(&c);
    }
    if (strcmp(argv[4], "retry") == 0) {
        for (uint32_t i = 0; i < TOTAL; i++) {  // in memory as well, before any restart
            struct fact f = fact_number(c.base_ns, i);
            if (whole_holds(&c.w, &f) != 1) _exit(7);
        }
    }
    kill(getpid(), SIGKILL);
    return 0;
}

// ---- the parent

static char *program;

// Runs a child; the numbers that it told are set in `told`. Returns its wait status.
static int run_child(const char *dir, int64_t base_ns, const char *mode, const char *faults,
                     bool told[TOTAL])
{
    char base[32];
    int pipes[2];
    snprintf(base, sizeof base, "%lld", (long long)base_ns);
    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char kind[] = "child";
        char where[64];
        char how[16];
        snprintf(where, sizeof where, "%s", dir);
        snprintf(how, sizeof how, "%s", mode);
        char *argv[] = {program, kind, where, base, how, NULL};
        dup2(pipes[1], STDOUT_FILENO);
        close(pipes[0]);
        close(pipes[1]);
        setenv("FLAMETREE_FAULTS", faults, 1);
        execv("/proc/self/exe", argv);
        _exit(9);
    }
    close(pipes[1]);
    uint32_t number = 0;
    while (read(pipes[0], &number, sizeof number) == sizeof number) {
        assert_true(number < TOTAL);
        told[number] = true;
    }
    close(pipes[0]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

// Every told profile once, no other more than once.
static size_t check(const char *dir, int64_t base_ns, const bool told[TOTAL], const char *name)
{
    struct whole w;
    size_t count = 0;
    whole_start(&w, dir, "");
    whole_await(&w);
    for (uint32_t i = 0; i < TOTAL; i++) {
        struct fact f = fact_number(base_ns, i);
        uint64_t held = whole_holds(&w, &f);
        count += told[i];
        if (held > 1 || (told[i] && held != 1)) {
            fail_msg("%s: profile %u is there %u times, acknowledged: %d", name, i, (unsigned)held,
                     told[i]);
        }
    }
    whole_stop(&w);
    return count;
}

static void what_was_acknowledged_survives_a_kill_at_any_point(void **state)
{
    (void)state;
#ifdef FT_FAULTS
    static const char *const points[] = {
        "wal.write.before=die@1",   "wal.write.before=die@7",
        "wal.sync.after=die@9",     "append.apply.before=die@30",
        "append.ack.before=die@33", "wal.cut.close=die@1",
        "wal.begin=die@1",          "none=die",
        "wal.open=die@1",
    };
    for (size_t i = 0; i < COUNT(points); i++) {
        char dir[DIR_MAX];
        dir_new(dir);
        int64_t base = clock_wall_ns() - 7200 * NS_PER_S;
        bool told[TOTAL] = {false};
        int status = run_child(dir, base, "push", points[i], told);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        check(dir, base, told, points[i]);
        // Once more over what is there: retries of the same profiles by the next process.
        status = run_child(dir, base, "retry", "", told);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_int_equal(check(dir, base, told, points[i]), TOTAL);
        dir_remove(dir);
    }
#else
    skip();
#endif
}

static void a_failed_write_is_survived_and_retries_count_once(void **state)
{
    (void)state;
#ifdef FT_FAULTS
    static const char *const points[] = {
        "wal.write.before=eio@3",
        "wal.sync.after=eio@3",
        "wal.write.before=enospc@2;wal.sync.after=eio@5;wal.open=eio@2",
        "wal.cut.close=eio@1;wal.begin=eio@2",
        "wal.begin=eio@1",
    };
    for (size_t i = 0; i < COUNT(points); i++) {
        char dir[DIR_MAX];
        dir_new(dir);
        int64_t base = clock_wall_ns() - 7200 * NS_PER_S;
        bool told[TOTAL] = {false};
        int status = run_child(dir, base, "retry", points[i], told);
        if (!WIFSIGNALED(status)) fail_msg("%s: status %d", points[i], WEXITSTATUS(status));
        assert_int_equal(check(dir, base, told, points[i]), TOTAL);
        dir_remove(dir);
    }
#else
    skip();
#endif
}

static void a_disk_that_takes_nothing_is_survived(void **state)
{
    (void)state;
    char dir[DIR_MAX];
    dir_new(dir);
    int64_t base = clock_wall_ns() - 7200 * NS_PER_S;
    bool told[TOTAL] = {false};
    int status = run_child(dir, base, "disk", "", told);
    if (!WIFSIGNALED(status)) fail_msg("status %d", WEXITSTATUS(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    assert_int_equal(check(dir, base, told, "disk"), TOTAL);
    dir_remove(dir);
}

int main(int argc, char **argv)
{
    program = argv[0];
    if (argc == 5) return child_main(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_acknowledged_survives_a_kill_at_any_point),
        cmocka_unit_test(a_failed_write_is_survived_and_retries_count_once),
        cmocka_unit_test(a_disk_that_takes_nothing_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
