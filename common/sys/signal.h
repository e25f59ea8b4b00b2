// SPDX-License-Identifier: Apache-2.0
//
// signal.h - signals as events that the main thread waits for; no handlers.
//
// signal_begin blocks SIGTERM, SIGINT and SIGHUP in the calling thread, and so in every thread
// started after it, and ignores SIGPIPE. signal_next takes them one by one; one thread at a time.
// Before main the dynamic loader works for some ms. A signal then has its default effect, unless
// the parent process has blocked it: then it waits, too.
#pragma once

#include "base/base.h"

enum signal_event {
    SIGNAL_WAKE,    // signal_wake was called
    SIGNAL_STOP,    // SIGTERM or SIGINT
    SIGNAL_RELOAD,  // SIGHUP
};

void signal_begin(void);

// Waits for the next one.
enum signal_event signal_next(void);
void signal_wake(void);  // any thread
