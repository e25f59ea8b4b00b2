// SPDX-License-Identifier: Apache-2.0
//
// process.c - tunes the allocator, and reads /proc and the budgets when metrics are printed.
#include "service/process.h"

#include "cluster/metrics.h"
#include "loop/metrics.h"
#include "manifest/metrics.h"
#include "net/metrics.h"
#include "rpc/metrics.h"
#include "s3/metrics.h"
#include "service/metrics.h"
#include "service/service.h"
#include "store/metrics.h"
#include "sys/clock.h"
#include "sys/file.h"
#include "sys/lock.h"
#include "sys/log.h"

#include <dirent.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#define WATCHED_MAX 32

static struct lock lock = LOCK_INIT(LOCK_PROCESS);
static struct mem_budget *watched[WATCHED_MAX];
static size_t watched_count;
static int64_t started_wall_ns;

void process_tune_malloc(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    // With the default of eight arenas a core, freed memory of a burst stays in arenas that no
    // thread uses again. A fixed mmap threshold keeps malloc from raising it to 32 MiB.
    mallopt(M_ARENA_MAX, 4);
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    mallopt(M_TRIM_THRESHOLD, 8 << 20);
#endif
}

void process_freed(size_t bytes)
{
    static _Atomic size_t freed;
    // Not at each time: a trim walks over all free memory.
    size_t sum = atomic_fetch_add_explicit(&freed, bytes, memory_order_relaxed) + bytes;
    if (sum < PROCESS_GIVE_BACK) return;
    // Of several threads that get here at once only one does it.
    if (atomic_exchange_explicit(&freed, 0, memory_order_relaxed) < PROCESS_GIVE_BACK) return;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    (void)malloc_trim(0);
#endif
    metric_add(&service_memory_given_back, 1);
}

void process_raise_files(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) != 0 || l.rlim_cur == l.rlim_max) return;
    // Each cut of the log, each connection and each object that is read takes one.
    l.rlim_cur = l.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &l) != 0) log_warn(NULL, "process.few_files", "%s", "");
}

static void show_budgets(void)
{
    struct mem_budget *now[WATCHED_MAX];
    lock_take(&lock);
    size_t n = watched_count;
    assert(n <= WATCHED_MAX);
    memcpy(now, watched, sizeof now);
    for (size_t i = 0; i < n; i++) {
        const struct mem_budget *b = now[i];
        str name = str_of(b->name);
        metric_set_to(&service_memory_used, name, (int64_t)atomic_load(&b->used));
        metric_set_to(&service_memory_limit, name, (int64_t)atomic_load(&b->limit));
        metric_set_to(&service_memory_peak, name, (int64_t)atomic_load(&b->peak));
        metric_mirror_to(&service_memory_refused, name, atomic_load(&b->refused));
    }
    // Budgets are read under the lock, or one could be unwatched and freed meanwhile.
    lock_give(&lock);
}

static int64_t count_entries(const char *path)
{
    DIR *d = opendir(path);
    if (!d) return 0;
    int64_t n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;  // . and ..
}

// Sizes in pages are the first two numbers of /proc/self/statm.
static void show_memory(void)
{
    struct buf text;
    err ignored = {0};
    buf_init(&text, NULL, 4096);
    if (file_read("/proc/self/statm", &text, &ignored)) {
        str rest = buf_view(&text);
        uint64_t pages[2] = {0};
        bool ok = true;
        for (size_t i = 0; i < 2; i++)
            ok = ok && str_u64(str_split(rest, ' ', &rest), &pages[i]);
        int64_t page = sysconf(_SC_PAGESIZE);
        if (ok) metric_set(&service_virtual_memory, (int64_t)pages[0] * page);
        if (ok) metric_set(&service_resident, (int64_t)pages[1] * page);
    }
    buf_release(&text);
}

static uint64_t ns_of(struct timeval t)
{
    return (uint64_t)t.tv_sec * (uint64_t)NS_PER_S + (uint64_t)t.tv_usec * 1000;
}

static void on_print(void *arg)
{
    (void)arg;
    show_budgets();
    show_memory();
    struct rusage use;
    if (getrusage(RUSAGE_SELF, &use) == 0)
        metric_mirror(&service_cpu, ns_of(use.ru_utime) + ns_of(use.ru_stime));
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        metric_set(&service_max_fds, (int64_t)files.rlim_cur);
    metric_set(&service_open_fds, count_entries("/proc/self/fd") - 1);  // without that of opendir
    metric_set(&service_threads, count_entries("/proc/self/task"));
    metric_set(&service_start_time, started_wall_ns / NS_PER_S);
    metric_set_to(&service_build_info, str_of(service_version), 1);
}

void process_metrics_begin(void)
{
    started_wall_ns = clock_wall_ns();
    metric_register(loop_metrics, loop_metric_count);
    metric_register(store_metrics, store_metric_count);
    metric_register(manifest_metrics, manifest_metric_count);
    metric_register(net_metrics, net_metric_count);
    metric_register(s3_metrics, s3_metric_count);
    metric_register(rpc_metrics, rpc_metric_count);
    metric_register(cluster_metrics, cluster_metric_count);
    metric_register(service_metrics, service_metric_count);
    metric_on_print(on_print, NULL);
}

void process_metrics_end(void)
{
    metric_off_print(on_print, NULL);
}

void process_watch_budget(struct mem_budget *b)
{
    lock_take(&lock);
    assert(b && watched_count < WATCHED_MAX);
    for (size_t i = 0; i < watched_count; i++)
        assert(watched[i] != b);  // it would be watched on when it is gone
    watched[watched_count++] = b;
    lock_give(&lock);
}

void process_unwatch_budget(struct mem_budget *b)
{
    lock_take(&lock);
    for (size_t i = 0; i < watched_count; i++) {  // a budget that is not watched is fine
        if (watched[i] != b) continue;
        watched[i] = watched[--watched_count];
        break;
    }
    lock_give(&lock);
}
