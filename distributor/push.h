// SPDX-License-Identifier: Apache-2.0
//
// push.h - push.v1.PusherService/Push: series of pprof profiles.
#pragma once

#include "rpc/route.h"

// Counts and logs a push that was refused before push_run.
void push_refused(void *self, const struct http_exchange *x, const err *e);

// Valid profiles are stored even if others of the request are refused; the answer is then the first
// refusal.
bool push_run(void *self, struct http_exchange *x, str in, struct buf *out, err *e);
