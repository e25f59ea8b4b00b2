// SPDX-License-Identifier: Apache-2.0
//
// cli_retry.h - when a request is sent again, and how fast bytes go: for commands that make many
// requests.
#pragma once

#include "deploy/cli/cli_ask.h"

// Bytes a second from the beginning on, so that the mean is right even if some requests take long.
struct cli_pace {
    double rate;  // bytes a second; 0: as fast as it goes
    uint64_t begin_ns;
    uint64_t bytes;
};
// Reads --rate (in MB/S) and begins.
bool cli_pace_read(struct cli *c, struct cli_pace *p, err *e) MUST_CHECK;
// Counts bytes, after waiting until those before are due.
void cli_pace_bytes(struct cli_pace *p, uint64_t bytes);

void cli_sleep_ns(int64_t ns);

// May a later attempt succeed? After an overload or a restart, yes. A request that is too large
// gets 429 as well, and never succeeds.
bool cli_may_pass(const struct cli_call *call, const err *e);

// How long to wait before the next attempt (from 0): as long as the server says in Retry-After, or
// half a second, doubled with each attempt; half a minute at most.
int64_t cli_pause_of(const struct cli_call *call, uint64_t attempt);
