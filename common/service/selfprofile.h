// SPDX-License-Identifier: Apache-2.0
//
// selfprofile.h - the process profiles itself and pushes the result to itself.
//
// A separate thread takes the samples of sys/sampler out of their queue a few times a second, adds
// them up by stack and component, and once per interval encodes them as pprof and sends them to the
// public push path, like any agent:
//
//     POST /push.v1.PusherService/Push   X-Scope-OrgID: <self_profile.tenant>
//     __name__="process_cpu" service_name="flametree" instance="<server.id>"
//     sample label component="ingester.ingester", "loop", ...: the name of the thread without its
//     number; the push path makes a series of each
//
// Types are samples/count and cpu/nanoseconds. A stack that could not be followed to its root has a
// frame "[no frame pointer]" (or "[too deep]") at its root. The first push comes two seconds after
// the listeners are ready, so that a fresh start shows something soon, then one per interval in
// which the process used enough CPU time for a sample. A process without a distributor sends to
// self_profile.url, or nothing if that is empty.
//
// It does not disturb the service: it has a separate memory budget, a push that fails is logged and
// its samples are lost, and samples are only taken while the process uses CPU time.
#pragma once

#include "service/config.h"
#include "service/service.h"

struct self_profile_settings {
#define ROW(key, type, ...) CONFIG_##type key;
#include "service/self_profile.def"
#undef ROW
};

struct selfprofile;

#define SELFPROFILE_PUSH_PATH "/push.v1.PusherService/Push"

// Begins before the services start, so that their recovery is profiled as well. takes_pushes: the
// public listener of this process has the push path. *process is borrowed until selfprofile_stop.
// Returns NULL if it is switched off, has no address to send to, or cannot start (then a line in
// the log has the reason; no service fails for it).
struct selfprofile *selfprofile_start(const struct process *process, bool takes_pushes);

// From now on the listeners answer: pushes begin.
void selfprofile_ready(struct selfprofile *p);

// Ends it and cancels a push under way. To be called before the listeners drain and the client
// ends. NULL is fine.
void selfprofile_stop(struct selfprofile *p);
