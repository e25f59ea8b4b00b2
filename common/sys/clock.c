// SPDX-License-Identifier: Apache-2.0
//
// clock.c - the three clocks of the kernel.
#include "sys/clock.h"

#include <time.h>

#ifdef FT_FAULTS
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    SHIFT_WALL,
    SHIFT_BOOT,
    SHIFT_MONO,
    SHIFTS
};

static _Atomic int64_t no_shifts[SHIFTS];
static _Atomic int64_t *shifts = no_shifts;
static pthread_once_t once = PTHREAD_ONCE_INIT;

// The file stays mapped, so that reading it costs nothing. Bytes behind its end read as zeros.
static void map_shifts(void)
{
    const char *path = getenv("FLAMETREE_CLOCK");
    if (!path) return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *p = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof no_shifts, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        fprintf(stderr, "FLAMETREE_CLOCK: %s: %s\n", path, strerror(errno));
        abort();
    }
    (void)close(fd);
    shifts = p;
}

_Thread_local int64_t clock_wall_here;

static int64_t shift(int which)
{
    pthread_once(&once, map_shifts);
    int64_t here = which == SHIFT_WALL ? clock_wall_here : 0;
    return atomic_load_explicit(&shifts[which], memory_order_relaxed) + here;
}
#else
#define shift(which) INT64_C(0)
#endif

static int64_t read_ns(clockid_t id)
{
    struct timespec t;
    int failed = clock_gettime(id, &t);
    // Only a wrong clock id could make it fail.
    assert(!failed);
    (void)failed;
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

int64_t clock_wall_ns(void)
{
    return read_ns(CLOCK_REALTIME) + shift(SHIFT_WALL);
}

uint64_t clock_mono_ns(void)
{
    return (uint64_t)(read_ns(CLOCK_MONOTONIC) + shift(SHIFT_MONO));
}

uint64_t clock_thread_ns(void)
{
    return (uint64_t)read_ns(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t clock_mono_kernel_ns(uint64_t mono_ns)
{
    return mono_ns - (uint64_t)shift(SHIFT_MONO);
}

int64_t clock_boot_ns(void)
{
    return read_ns(CLOCK_BOOTTIME) + shift(SHIFT_BOOT);
}

const char *clock_text(char text[CLOCK_TEXT], int64_t wall_ns)
{
    struct tm tm = {0};
    time_t s = (time_t)(wall_ns / NS_PER_S);
    if (!gmtime_r(&s, &tm) || !strftime(text, CLOCK_TEXT, "%Y-%m-%dT%H:%M:%SZ", &tm))
        text[0] = '\0';
    return text;
}
