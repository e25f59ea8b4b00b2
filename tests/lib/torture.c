// SPDX-License-Identifier: Apache-2.0
#include "lib/torture.h"

#include "base/regex_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <curl/curl.h>
#include <elfutils/libdwfl.h>
#include <libdeflate.h>
#include <liburing.h>
#include <nghttp2/nghttp2.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <rocksdb/c.h>
#include <uv.h>
#include <yaml.h>
#include <zstd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif

#define MOST    400  // positions of a kind in one mode
#define LIMIT_S 300
#define SEED    4711  // of the spread: two runs of one program try the same positions
#define SLOW_MS 1500  // a run that waits for a time limit is worth a look

enum kind {
    ALLOCATION,
    CALL,
    KINDS
};
static const char *const kind_names[KINDS] = {"allocation", "call"};

// What is disturbed now. One work at a time; read by all threads that the work has.
static struct {
    char name[64];  // of the work; empty: none, or it was told where the work ended
    _Atomic enum kind kind;
    _Atomic uint64_t nth;  // 0: only count
    atomic_bool onward;
    bool warming;          // the first run, which makes what is made once and kept
    unsigned descriptors;  // after the run before; 0: this is the first one
    _Atomic bool armed;
    _Atomic uint64_t seen[KINDS];
    _Atomic uint64_t fired;
    _Atomic uint64_t musts;
    const char *_Atomic calls[16];  // that failed, the first ones
    const char *_Atomic last_call;
} now;

static _Thread_local bool spared;

static bool meet(enum kind kind)
{
    if (!atomic_load(&now.armed) || spared) return false;
    uint64_t n = atomic_fetch_add(&now.seen[kind], 1) + 1;
    if (kind != now.kind || !now.nth || n < now.nth || (n > now.nth && !now.onward)) return false;
    atomic_fetch_add(&now.fired, 1);
    return true;
}

static bool meet_call(const char *name)
{
    if (!meet(CALL)) return false;
    atomic_store(&now.last_call, name);
    for (size_t i = 0; i < COUNT(now.calls); i++) {
        const char *none = NULL;
        if (atomic_compare_exchange_strong(&now.calls[i], &none, name) || strcmp(none, name) == 0)
            break;
    }
    return true;
}

#ifdef FT_FAULTS
static bool meet_allocation(enum mem_kind kind)
{
    if (kind == MEM_MAY_FAIL) return meet(ALLOCATION);
    if (atomic_load(&now.armed) && !spared) atomic_fetch_add(&now.musts, 1);
    return false;
}
#endif

// ---- the calls

static inline char *io_error(void)
{
    static const char text[] = "IO error: No space left on device: While appending to file";
    char *p = malloc(sizeof text);
    if (p) memcpy(p, text, sizeof text);
    return p;
}

static inline bool done_all_the_same(void)
{
    return now.nth % 2 == 0;
}

#define FAILED(number, value) (errno = (number), (value))
#define FAIL(number, value) \
    {                       \
        errno = (number);   \
        return value;       \
    }

// A room links only the libraries that it uses: those of the others are never called.
#define CALL(type, name, parameters, arguments, instead)        \
    extern __attribute__((weak)) type __real_##name parameters; \
    static inline type real_##name parameters                   \
    {                                                           \
        return __real_##name arguments;                         \
    }                                                           \
    type __wrap_##name parameters;                              \
    type __wrap_##name parameters                               \
    {                                                           \
        if (meet_call(#name)) instead;                          \
        return real_##name arguments;                           \
    }
#include "lib/torture_calls.def"
#undef CALL

// Sessions of nghttp2 take their memory here. Growing its queues is spared: version 1.52 frees an
// item twice when the queue of streams with data cannot grow.
static void *session_malloc(size_t n, void *arg)
{
    (void)arg;
    return meet_call("nghttp2 malloc") ? NULL : malloc(n);
}

static void *session_calloc(size_t n, size_t size, void *arg)
{
    (void)arg;
    return meet_call("nghttp2 calloc") ? NULL : calloc(n, size);
}

static void *session_realloc(void *p, size_t n, void *arg)
{
    (void)arg;
    return realloc(p, n);
}

static void session_free(void *p, void *arg)
{
    (void)arg;
    free(p);
}

extern __attribute__((weak)) __typeof__(nghttp2_session_server_new3) nghttp2_session_server_new3;
int __wrap_nghttp2_session_server_new2(nghttp2_session **s, const nghttp2_session_callbacks *c,
                                       void *arg, const nghttp2_option *o);
int __wrap_nghttp2_session_server_new2(nghttp2_session **s, const nghttp2_session_callbacks *c,
                                       void *arg, const nghttp2_option *o)
{
    nghttp2_mem mem = {NULL, session_malloc, session_free, session_calloc, session_realloc};
    return nghttp2_session_server_new3(s, c, arg, o, &mem);
}

// Nothing that these tests write need outlive them.
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    (void)fd;
    if (meet_call("fsync")) return FAILED(EIO, -1);
    return 0;
}

// Those with a variable number of arguments.
extern int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    if (meet_call("open")) return FAILED(EMFILE, -1);
    return __real_open(path, flags, mode);
}

extern int __real_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...)
{
    va_list ap;
    va_start(ap, what);
    void *arg = va_arg(ap, void *);
    va_end(ap);
    if (meet_call("fcntl")) return FAILED(ENOLCK, -1);
    return __real_fcntl(fd, what, arg);
}

extern __attribute__((weak)) CURLcode __real_curl_easy_setopt(CURL *h, CURLoption option, ...);
CURLcode __wrap_curl_easy_setopt(CURL *h, CURLoption option, ...);
CURLcode __wrap_curl_easy_setopt(CURL *h, CURLoption option, ...)
{
    va_list ap;
    va_start(ap, option);
    void *arg = va_arg(ap, void *);  // a long or a curl_off_t passes through as well
    va_end(ap);
    bool copies = option == CURLOPT_URL || option == CURLOPT_PROXY ||  // only these take memory
                  option == CURLOPT_PROTOCOLS_STR || option == CURLOPT_CUSTOMREQUEST ||
                  option == CURLOPT_UNIX_SOCKET_PATH || option >= CURLOPTTYPE_BLOB;
    if (copies && meet_call("curl_easy_setopt")) return CURLE_OUT_OF_MEMORY;
    return __real_curl_easy_setopt(h, option, arg);
}

// ---- saying where it died

static void say_where(void)
{
    char text[256];
    if (!now.name[0]) return;
    const char *call = now.kind == CALL ? atomic_load(&now.last_call) : NULL;
    int n =
        snprintf(text, sizeof text, "torture: it was at FLAMETREE_TORTURE_AT='%s:%s:%llu:%s'%s%s\n",
                 now.name, kind_names[now.kind], (unsigned long long)now.nth,
                 now.onward ? "onward" : "once", call ? ", last failed call: " : "",
                 call ? call : "");
    now.name[0] = '\0';
    if (write(STDERR_FILENO, text, (size_t)n) != n) return;
}

static void on_death(int number)
{
    atomic_store(&now.armed, false);
    say_where();
    if (number == SIGALRM) abort();
    sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    raise(number);
}

static void listen_for_death(void)
{
    static bool listening;
    if (listening) return;
    listening = true;
    atexit(say_where);  // a failed assertion of cmocka jumps out of here
    sigaction(SIGABRT, &(struct sigaction){.sa_handler = on_death}, NULL);
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_death}, NULL);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_set_death_callback(say_where);
#endif
}

static void arm(bool on)
{
    atomic_store(&now.armed, on);
}

#define demand(condition, ...) \
    do {                       \
        if (condition) break;  \
        arm(false);            \
        say_where();           \
        fail_msg(__VA_ARGS__); \
    } while (0)

// ---- runs

static uint64_t ns_of(clockid_t clock)
{
    struct timespec t;
    return clock_gettime(clock, &t) == 0 ? (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec
                                         : 0;
}

// A thread of the work may have one more open for a moment, before a run or after it: so a number
// that differs counts once it has stayed for a second.
static unsigned await_descriptors(unsigned want)
{
    unsigned n = torture_descriptors();
    for (int tries = 0; n != want && tries < 1000; tries++) {
        usleep(1000);
        n = torture_descriptors();
    }
    return n;
}

unsigned torture_descriptors(void)
{
    unsigned n = 0;
    for (int fd = 0; fd < 512; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static bool leaks(void)
{
#if defined(__SANITIZE_ADDRESS__)
    return __lsan_do_recoverable_leak_check() != 0;
#else
    return false;
#endif
}

void torture_spare(bool on)
{
    spared = on;
}

void torture_end(void)
{
    arm(false);
}

bool torture_disturbs(void)
{
    return atomic_load(&now.armed) && atomic_load(&now.nth);
}

uint64_t torture_failures(void)
{
    return atomic_load(&now.fired);
}

bool torture_failed_call(const char *name)
{
    for (size_t i = 0; i < COUNT(now.calls); i++) {
        const char *call = atomic_load(&now.calls[i]);
        if (call && strcmp(call, name) == 0) return true;
    }
    return false;
}

static void check_error(const struct torture_work *w, const err *e)
{
    uint32_t good = 1u << ERR_RESOURCE_EXHAUSTED | 1u << ERR_UNAVAILABLE | w->codes;
    demand(e->code != ERR_OK, "%s failed without an error", w->name);
    demand(good >> e->code & 1, "%s: unexpected code %s: %s", w->name, err_name(e->code), e->msg);
    demand(e->msg[0] && !strstr(e->msg, "Success"), "%s: %s says nothing true: '%s'", w->name,
           err_name(e->code), e->msg);
}

// One run with now.kind, now.nth and now.onward set; true if something was made to fail.
static bool run_once(const struct torture_work *w, unsigned *failed)
{
    err e = {0};
    unsigned fds = now.descriptors ? await_descriptors(now.descriptors) : torture_descriptors();
    for (int i = 0; i < KINDS; i++)
        atomic_store(&now.seen[i], 0);
    atomic_store(&now.fired, 0);
    atomic_store(&now.musts, 0);
    atomic_store(&now.last_call, NULL);
    for (size_t i = 0; i < COUNT(now.calls); i++)
        atomic_store(&now.calls[i], NULL);
    alarm(w->limit_s ? w->limit_s : LIMIT_S);
    uint64_t began = ns_of(CLOCK_MONOTONIC);
    if (w->begin) w->begin(w->arg);
    arm(true);
    bool ok = w->run(w->arg, &e);
    arm(false);
    spared = false;
    bool fired = atomic_load(&now.fired) > 0;
    demand(w->is_start || !atomic_load(&now.musts), "%s calls mem_must %llu times", w->name,
           (unsigned long long)atomic_load(&now.musts));
    bool hurried = w->hurries && now.nth;
    demand(ok || fired || hurried, "%s fails undisturbed: %s: %s", w->name, err_name(e.code),
           e.msg);
    if (!ok) check_error(w, &e);
    if (w->check) w->check(w->arg, ok);
    if (!ok && !w->no_repeat) {
        ok = w->run(w->arg, &e);
        demand(ok, "%s fails when repeated: %s: %s", w->name, err_name(e.code), e.msg);
        if (w->check) w->check(w->arg, true);
        *failed += 1;
    }
    if (w->end) w->end(w->arg);
    alarm(0);
    uint64_t took_ms = (ns_of(CLOCK_MONOTONIC) - began) / 1000000;
    if (took_ms > SLOW_MS)
        print_message("torture %s: %llu ms at %s:%llu:%s\n", w->name, (unsigned long long)took_ms,
                      kind_names[now.kind], (unsigned long long)now.nth,
                      now.onward ? "onward" : "once");
    bool counts = !now.warming && !w->lives_on;
    unsigned left = counts ? await_descriptors(fds) : torture_descriptors();
    now.descriptors = counts ? left : 0;
    demand(left == fds || !counts, "%s left %u descriptors open, had %u", w->name, left, fds);
    demand(!getenv("FLAMETREE_TORTURE_LEAKS") || !leaks(), "%s leaks", w->name);
    return fired;
}

// ---- positions

static uint64_t mix(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t seed(void)
{
    const char *given = getenv("FLAMETREE_TORTURE_SEED");
    return given ? strtoull(given, NULL, 10) : SEED;
}

// The i-th of `n` positions among `total`: the first half of them are dense, the rest is spread
// over what follows, one in each of equal parts.
static uint64_t position(unsigned i, unsigned n, uint64_t total, uint64_t *state)
{
    unsigned dense = n / 2;
    if (n >= total || i < dense) return i + 1;
    double part = (double)(total - dense) / (n - dense);
    double within = (double)(mix(state) >> 11) / (double)(1ull << 53);
    return dense + 1 + (uint64_t)((i - dense + within) * part);
}

static void disturb(const struct torture_work *w, enum kind kind, uint64_t total,
                    struct torture_count *count)
{
    const char *given = getenv("FLAMETREE_TORTURE");
    bool all = given && strcmp(given, "all") == 0;
    uint64_t most = w->most ? w->most : MOST;
    if (given && !all) {
        uint64_t limit = strtoull(given, NULL, 10);
        demand(limit > 0, "FLAMETREE_TORTURE is a number of positions, or all");
        most = MIN(most, limit);
    }
    uint64_t n = all ? total : MIN(total, most);
    for (int onward = 0; onward < 2; onward++) {
        uint64_t state = seed();
        now.kind = kind;
        now.onward = onward;
        for (unsigned i = 0; i < n; i++) {
            now.nth = position(i, (unsigned)n, total, &state);
            run_once(w, &count->failed);
        }
    }
    now.nth = 0;
    if (n < total)
        print_message("torture %s: %llu of %llu %ss, FLAMETREE_TORTURE_SEED=%llu\n", w->name,
                      (unsigned long long)n, (unsigned long long)total, kind_names[kind],
                      (unsigned long long)seed());
}

// FLAMETREE_TORTURE_AT: 0 = not set, 1 = done, -1 = of another work.
static int only_one(const struct torture_work *w, struct torture_count *count)
{
    const char *at = getenv("FLAMETREE_TORTURE_AT");
    if (!at) return 0;
    size_t n = strlen(w->name);
    if (strncmp(at, w->name, n) != 0 || at[n] != ':') return -1;
    now.kind = strncmp(at + n + 1, kind_names[CALL], 4) == 0 ? CALL : ALLOCATION;
    const char *number = strchr(at + n + 1, ':');
    demand(number, "FLAMETREE_TORTURE_AT is NAME:KIND:NUMBER:once|onward");
    char *mode = NULL;
    now.nth = strtoull(number + 1, &mode, 10);
    now.onward = strcmp(mode, ":onward") == 0;
    run_once(w, &count->failed);
    now.nth = 0;
    return 1;
}

struct torture_count torture_work(const struct torture_work *w)
{
    struct torture_count count = {0};
#ifndef FT_FAULTS
    skip();
#else
    mem_fault = meet_allocation;
#endif
    snprintf(now.name, sizeof now.name, "%s", w->name);
    listen_for_death();
    uint64_t began = ns_of(CLOCK_MONOTONIC);
    now.nth = 0;
    now.warming = true;
    run_once(w, &count.failed);
    now.warming = false;
    run_once(w, &count.failed);
    count.allocations = (unsigned)atomic_load(&now.seen[ALLOCATION]);
    count.calls = (unsigned)atomic_load(&now.seen[CALL]);
    if (only_one(w, &count) == 0) {
        if (!w->no_allocs) disturb(w, ALLOCATION, count.allocations, &count);
        if (!w->no_calls) disturb(w, CALL, count.calls, &count);
    }
    demand(!leaks(), "%s leaks; FLAMETREE_TORTURE_LEAKS=1 says at which position", w->name);
    print_message("torture %s: %u allocations, %u calls, %u failed runs, %llu ms\n", w->name,
                  count.allocations, count.calls, count.failed,
                  (unsigned long long)((ns_of(CLOCK_MONOTONIC) - began) / 1000000));
    now.name[0] = '\0';
#ifdef FT_FAULTS
    mem_fault = NULL;
#endif
    return count;
}

// ---- makers

struct made {
    const struct torture_maker *maker;
    struct torture_bench bench;
    char *first;  // what the first run made
    size_t first_bytes;
};

static void bench_begin(void *arg)
{
    struct torture_bench *b = &((struct made *)arg)->bench;
    mem_budget_init(&b->budget, "bench", NULL, 0);
    arena_init(&b->arena, &b->budget, (size_t)1 << 30);
    buf_init(&b->out, &b->budget, (size_t)1 << 30);
}

static bool bench_run(void *arg, err *e)
{
    struct made *m = arg;
    arena_release(&m->bench.arena);
    buf_clear(&m->bench.out);
    return m->maker->make(&m->bench, m->maker->arg, e) && arena_ok(&m->bench.arena, e) &&
           buf_ok(&m->bench.out, e);
}

static void bench_check(void *arg, bool done)
{
    struct made *m = arg;
    str out = buf_view(&m->bench.out);
    if (!done) return;
    if (!m->first) {
        m->first = malloc(out.n + 1);
        assert_non_null(m->first);
        if (out.n) memcpy(m->first, out.p, out.n);
        m->first_bytes = out.n;
    }
    demand(str_eq(out, str_make(m->first, m->first_bytes)), "%s made something else: %.*s",
           m->maker->name, STR(str_slice(out, 0, 200)));
}

static void bench_end(void *arg)
{
    struct torture_bench *b = &((struct made *)arg)->bench;
    arena_release(&b->arena);
    buf_release(&b->out);
    assert_int_equal(b->budget.used, 0);
}

struct torture_count torture_make(const struct torture_maker *m)
{
    struct made made = {.maker = m};
    struct torture_count n = torture_work(&(struct torture_work){.name = m->name,
                                                                 .begin = bench_begin,
                                                                 .run = bench_run,
                                                                 .check = bench_check,
                                                                 .end = bench_end,
                                                                 .arg = &made,
                                                                 .codes = m->codes,
                                                                 .is_start = m->is_start,
                                                                 .most = m->most});
    free(made.first);
    return n;
}

void torture_make_all(const struct torture_maker *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct torture_count met = torture_make(&v[i]);
        if (met.allocations + met.calls == 0) fail_msg("%s: nothing was met", v[i].name);
    }
}
