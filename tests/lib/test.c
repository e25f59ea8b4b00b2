// SPDX-License-Identifier: Apache-2.0
#include "lib/test.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

// ---- which tests start threads

// NULL before the first test and outside of all tests.
static const char *test_name;

// The file that runs, whatever name it was started by.
static const char *program(void)
{
    static char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0) return "?";
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// Whether the file FLAMETREE_THREADS lists this test of this program. "*" stands for all tests.
static bool threads_listed(const char *path, const char *test)
{
    char line[4096];
    bool found = false;
    FILE *f = fopen(path, "re");
    if (!f) {
        fprintf(stderr, "FLAMETREE_THREADS: %s cannot be read: %s\n", path, strerror(errno));
        _exit(1);
    }
    while (!found && fgets(line, sizeof line, f)) {
        char *rest = NULL;
        const char *word = strtok_r(line, ":", &rest);
        if (!word || strcmp(word, program()) != 0) continue;
        const char *name = strtok_r(NULL, "\n", &rest);  // names of variants have a space
        if (!name) continue;
        name += strspn(name, " ");
        found = strcmp(name, "*") == 0 || strcmp(name, test) == 0;
    }
    (void)fclose(f);
    return found;
}

#ifdef __SANITIZE_THREAD__
#define THREADS_ONLY true
#else
#define THREADS_ONLY false
#endif

// The part that runs a build with ThreadSanitizer looks at threads alone, so tests without any have
// no place in it.
static bool left_out(const char *test)
{
    const char *path = THREADS_ONLY ? getenv("FLAMETREE_THREADS") : NULL;
    return path && !threads_listed(path, test);
}

#if defined __SANITIZE_ADDRESS__ && !defined __clang__
// A test has threads; NULL: a fixture of the whole program has, and so all tests.
static void met_threads(const char *test)
{
    const char *path = getenv("FLAMETREE_THREADS");
    if (!test) test = "*";
    if (!path || threads_listed(path, test)) return;
    FILE *f = getenv("FLAMETREE_THREADS_ADD") ? fopen(path, "ae") : NULL;
    fprintf(f ? f : stderr, "%s: %s\n", program(), test);
    if (f) {
        (void)fclose(f);
        return;
    }
    fprintf(stderr, "this test has threads, and %s lacks the row above\n", path);
    _exit(1);
}

// Stands before the one of libasan and the one of libc, also for libraries that start threads.
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    met_threads(test_name);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    return next(thread, attr, start, arg);
}
#else
static void met_threads(const char *test)
{
    (void)test;
}
#endif

// The folder has a link for each thread, one for itself and one from its parent.
static bool other_threads(void)
{
    struct stat st;
    return stat("/proc/self/task", &st) == 0 && st.st_nlink > 3;
}

int test_run(const struct CMUnitTest *tests, size_t n, CMFixtureFunction set_up,
             CMFixtureFunction tear_down)
{
    void *state = NULL;
    int failed = set_up ? set_up(&state) : 0;
    if (failed) fprintf(stderr, "the tests could not be set up: %d\n", failed);
    for (size_t i = 0; i < n && !failed; i++) {
        struct CMUnitTest test = tests[i];
        if (left_out(test.name)) continue;
        if (!test.initial_state) test.initial_state = state;
        test_name = test.name;
        if (other_threads()) met_threads(test_name);  // one that an earlier test has left running
        failed = _cmocka_run_group_tests(test.name, &test, 1, NULL, NULL);
        test_name = NULL;
        if (!failed) continue;
        fprintf(stderr, "%s failed, %zu tests after it were not run\n", test.name, n - i - 1);
    }
    if (failed) {
        fflush(NULL);
        _exit(1);
    }
    return tear_down ? tear_down(&state) : 0;
}

// ---- what ThreadSanitizer takes for a race and is none

#ifdef __SANITIZE_THREAD__
// OpenSSL works out the extensions of a certificate when they are first needed, under a lock, and
// then sets a flag. Who finds the flag set reads them without the lock. The flag is atomic, but
// libcrypto is not instrumented, so ThreadSanitizer sees neither its store nor its load.
//
// RocksDB counts references to its buffers by atomics, and is not instrumented either. Its threads
// copy keys by the C++ library's strings, which then stand alone in the report.
const char *__tsan_default_suppressions(void);

const char *__tsan_default_suppressions(void)
{
    return "race:ASN1_STRING_cmp\nrace:librocksdb\n"
           "race:std::__cxx11::basic_string*_M_mutate\n";
}
#endif

// ---- allocations that fail, memory that ends

static _Thread_local int mem_countdown;
static _Thread_local bool mem_fired;

#ifdef FT_FAULTS
static bool mem_count_down(enum mem_kind kind)
{
    if (kind == MEM_MUST || mem_countdown <= 0 || --mem_countdown > 0) return false;
    mem_fired = true;
    return true;
}
#endif

void mem_fail_at(int n)
{
#ifdef FT_FAULTS
    mem_fault = mem_count_down;
#else
    if (n) skip();
#endif
    mem_countdown = n;
    mem_fired = false;
}

bool mem_fault_fired(void)
{
    return mem_fired;
}

int torture(bool (*fn)(void *arg, err *e), void *arg)
{
    for (int n = 1;; n++) {
        err e = {0};
        mem_fail_at(n);
        bool ok = fn(arg, &e);
        bool fired = mem_fault_fired();
        mem_fail_at(0);
        if (!fired) {
            assert_true(ok);
            return n - 1;
        }
        if (!ok) assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    }
}

const uint8_t *tail_guard(const void *bytes, size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t room = (n + page - 1) / page * page;
    uint8_t *base = mmap(NULL, room + page, PROT_NONE, MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
    assert_ptr_not_equal(base, MAP_FAILED);
    assert_int_equal(mprotect(base, room ? room : page, PROT_READ | PROT_WRITE), 0);
    if (n) memcpy(base + room - n, bytes, n);
    return base + room - n;
}
