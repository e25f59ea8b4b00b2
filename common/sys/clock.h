// SPDX-License-Identifier: Apache-2.0
//
// clock.h - three clocks, which never mix: *_wall_ns, *_mono_ns, *_boot_ns.
//
//     wall   the time of people and profiles. It jumps, by hours or years, when it is set or the
//            machine wakes. For: times of profiles and the window in which a push may lie, "now" of
//            a query, names (ULIDs), log lines, certificates. No code waits for it, and no
//            acknowledged data is dropped because of it alone.
//     mono   runs evenly, and stands still while the machine sleeps. For: deadlines, timeouts, time
//            limits of connections, rates and quotas, durations, times of the next check.
//     boot   as mono, but runs on while the machine sleeps. For: ages of data on disk (cuts of the
//            log), which a process counts from its start. Data of an earlier process has only wall
//            times; ingester/log/wal.h describes how far they are trusted.
//
// In builds with fault points FLAMETREE_CLOCK names a file of three native int64: nanoseconds to
// add to wall, boot and mono. Tests write to it while the process runs. A shorter file adds 0.
#pragma once

#include "base/base.h"

#ifdef FT_FAULTS
// Added to the wall clock of the calling thread as well: tests run several machines in one process,
// and their clocks differ.
extern _Thread_local int64_t clock_wall_here;
#endif

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

int64_t clock_wall_ns(void);   // Unix nanoseconds
uint64_t clock_mono_ns(void);  // since some fixed point; never goes back
int64_t clock_boot_ns(void);   // since some fixed point; never goes back

// A time of the wall clock in UTC as 2026-01-31T12:00:00Z; empty if no calendar has it.
#define CLOCK_TEXT 32
const char *clock_text(char text[CLOCK_TEXT], int64_t wall_ns);

// Processor time that the calling thread has used: the cost of work, even on a busy machine.
uint64_t clock_thread_ns(void);

// The kernel's CLOCK_MONOTONIC at that time of mono, for system calls that wait until then.
uint64_t clock_mono_kernel_ns(uint64_t mono_ns);
