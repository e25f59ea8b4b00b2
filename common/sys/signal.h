// SPDX-License-Identifier: Apache-2.0
//
// signal.h - signals as events that the main thread waits for; no handlers.
//
// signal_begin blocks SIGTERM, SIGINT and SIGHUP in the calling thread, and so in every thread
// started after it, and ignores SIGPIPE. signal_next takes them one by one.
#pragma once

#include "base/base.h"

enum signal_event {
    SIGNAL_NONE,    // time is up
    SIGNAL_STOP,    // SIGTERM or SIGINT
    SIGNAL_RELOAD,  // SIGHUP
};

void signal_begin(void);

// Waits up to timeout_ns for the next one.
enum signal_event signal_next(uint64_t timeout_ns);
