// SPDX-License-Identifier: Apache-2.0
//
// refusal.h - log lines of pushes that were refused, so that who runs the server sees what agents
// are told.
//
//     level=warn event=push.refused tenant=a req=01H… reason=rate_limited code=resource_exhausted
//     protocol=push service=shop why="…"
//
// One line per interval for each tenant and reason; further ones are counted and told with the next
// line of the same tenant and reason, as again=N. Agents choose tenants, so the number of lines is
// bounded as well: what finds the table full is told as unlisted=N with the next line of anybody.
// Metrics count all of them. Thread-safe; the time is an argument.
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "sys/lock.h"
#include "sys/log.h"

#define REFUSAL_INTERVAL_S 10
#define REFUSAL_ROWS       64

struct refusals {
    struct lock lock;
    struct refusal_row {
        uint64_t key;  // hash of tenant and reason; 0 = free
        uint64_t begun_mono_ns;
        uint64_t again;
        struct log_site site;
    } rows[REFUSAL_ROWS];
    uint64_t unlisted;
};

struct refusal {
    str tenant;
    str reason;
    uint64_t again;
    uint64_t unlisted;
};

void refusals_init(struct refusals *r);
void refusals_release(struct refusals *r);

// Is there to be a line for x->tenant and x->reason? Then x has what was counted meanwhile. The
// site is one for log_write that no one else uses in this interval; NULL: no line.
struct log_site *refusals_admit(struct refusals *r, struct refusal *x, uint64_t mono_ns);

// Writes the line, if there is to be one. Without a reason that is the name of e's code.
void refusals_log(struct refusals *r, const struct log_fields *f, str reason, const char *protocol,
                  str service, const err *e);
