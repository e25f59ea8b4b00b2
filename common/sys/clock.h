// SPDX-License-Identifier: Apache-2.0
//
// clock.h - three clocks, which never mix: *_wall_ns, *_mono_ns, *_boot_ns.
//
//     wall   what people and profiles call time. It jumps, by hours or years, if somebody sets it
//            or a machine wakes. For: times of profiles and the window in which a push may lie,
//            "now" of a query, names (ULIDs), log lines, certificates. Nothing waits for it, and
//            nothing that was acknowledged is dropped because of it alone.
//     mono   goes on evenly, stands still while the machine sleeps. For: deadlines, timeouts, time
//            limits of connections, rates and quotas, how long something took, when to look again.
//     boot   as mono, but goes on while the machine sleeps. For: ages of what is kept (cuts of the
//            log), which a process counts from its start on. What it finds there from an earlier
//            process has only wall times; ingester/log/wal.h says how far they are believed.
//
// In builds with fault points FLAMETREE_CLOCK names a file of three native int64: nanoseconds by
// which wall, boot and mono are off. Tests write to it while the process runs. Without the third,
// mono is right.
#pragma once

#include "base/base.h"

#ifdef FT_FAULTS
// By which the wall clock is off for the calling thread, besides: the machines of one process of
// tests, whose clocks differ.
extern _Thread_local int64_t clock_wall_here;
#endif

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

int64_t clock_wall_ns(void);   // Unix nanoseconds
uint64_t clock_mono_ns(void);  // since some fixed point; never goes back
int64_t clock_boot_ns(void);   // since some fixed point; never goes back

// Of the processor, that the calling thread has had so far: what something costs on a busy machine.
uint64_t clock_thread_ns(void);

// What the kernel's clock shows at that time of mono, for those who let it wait until then.
uint64_t clock_mono_kernel_ns(uint64_t mono_ns);
