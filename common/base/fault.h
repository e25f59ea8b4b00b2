// SPDX-License-Identifier: Apache-2.0
//
// fault.h - named points of the write path at which tests make a process fail.
//
//     FAULT("append.log.before");                        may end the process or wait
//     if (FAULT_ERRNO("wal.write.before")) return ...;   may set errno and be true
//
// Points are armed by the environment of a process built with FT_FAULTS (the debug and sanitizer
// presets): FLAMETREE_FAULTS="append.log.before=die@3;wal.write.before=enospc@1+". An action is die
// (SIGKILL to itself), delay:MS, or the name of an errno (eio, enospc). @n means the n-th time, @n+
// from the n-th time on; without either the point acts every time. In release builds the macros are
// empty.
//
// tests/system/test_kill_points.py finds all points in the sources and kills a process at each. A
// new point that its scenario does not reach fails that test until the scenario is extended.
#pragma once

#include "base/base.h"

#ifdef FT_FAULTS
#define FAULT(name)       ((void)fault_at(name))
#define FAULT_ERRNO(name) fault_at(name)
#else
#define FAULT(name)       ((void)0)
#define FAULT_ERRNO(name) (false)
#endif

// True with errno set if the point's action is an errno; does not return if it is die.
bool fault_at(const char *name);

// For tests that decide while they run: fn is called at each point first, on the thread that
// reached it; if it returns true, with errno set, the point fails. To be set while no other thread
// runs.
typedef bool fault_fn(const char *name);
void fault_on(fault_fn *fn);  // NULL: none
