// SPDX-License-Identifier: Apache-2.0
#include "sys/signal.h"

#include "sys/clock.h"

#include <signal.h>
#include <time.h>

static void awaited(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
}

void signal_begin(void)
{
    sigset_t set;
    awaited(&set);
    int failed = pthread_sigmask(SIG_BLOCK, &set, NULL);
    assert(!failed);
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    failed = sigaction(SIGPIPE, &ignore, NULL);
    assert(!failed);
    (void)failed;
}

enum signal_event signal_next(uint64_t timeout_ns)
{
    sigset_t set;
    awaited(&set);
    struct timespec t = {.tv_sec = (time_t)(timeout_ns / (uint64_t)NS_PER_S),
                         .tv_nsec = (long)(timeout_ns % (uint64_t)NS_PER_S)};
    int got = sigtimedwait(&set, NULL, &t);
    if (got == SIGTERM || got == SIGINT) return SIGNAL_STOP;
    return got == SIGHUP ? SIGNAL_RELOAD : SIGNAL_NONE;
}
