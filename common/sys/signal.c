// SPDX-License-Identifier: Apache-2.0
//
// signal.c - signals that are blocked and taken one by one.
#include "sys/signal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

static int signals = -1;  // a signalfd
static int wake = -1;     // an eventfd

static void must(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "flametree: %s: %s\n", what, strerror(errno));
    abort();
}

void signal_begin(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    must(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0, "pthread_sigmask");
    must(sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL) == 0, "sigaction");
    // Again in tests; once in a process.
    if (signals >= 0) return;
    signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    must(signals >= 0, "signalfd");
    wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    must(wake >= 0, "eventfd");
}

// Takes an event without waiting. False: there is none.
static bool take(enum signal_event *event)
{
    struct signalfd_siginfo info;
    if (read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
        assert(signals >= 0 && wake >= 0);
        *event = info.ssi_signo == SIGHUP ? SIGNAL_RELOAD : SIGNAL_STOP;
        return true;
    }
    uint64_t n = 0;
    *event = SIGNAL_WAKE;
    return read(wake, &n, sizeof n) == (ssize_t)sizeof n;
}

enum signal_event signal_next(void)
{
    assert(signals >= 0);
    enum signal_event event = SIGNAL_WAKE;
    while (!take(&event)) {  // another signal may have ended the poll
        struct pollfd fds[] = {{.fd = signals, .events = POLLIN}, {.fd = wake, .events = POLLIN}};
        must(poll(fds, COUNT(fds), -1) >= 0 || errno == EINTR, "poll");
    }
    return event;
}

void signal_wake(void)
{
    uint64_t one = 1;
    assert(wake >= 0);
    ssize_t n = write(wake, &one, sizeof one);
    must(n == (ssize_t)sizeof one || errno == EAGAIN, "eventfd");
}
