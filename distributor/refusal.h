// SPDX-License-Identifier: Apache-2.0
//
// refusal.h - log lines of refused pushes, so that the people who run the server see the messages
// that agents get.
//
//     level=warn event=push.refused tenant=a req=01H… reason=rate_limited code=resource_exhausted
//     protocol=push service=shop why="…"
//
// There is one line per interval for each tenant and reason. Further refusals are counted, and the
// next line of that tenant and reason says again=N. Agents choose tenants, so the table is bounded
// as well: refusals that find it full are counted, and the next line of any tenant says unlisted=N.
// Metrics count all refusals. Thread-safe; the time is an argument.
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "model/losses.h"
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
    bool stored;  // of a push that was stored with losses: its reasons have names of their own
    uint64_t again;
    uint64_t unlisted;
};

void refusals_init(struct refusals *r);
void refusals_release(struct refusals *r);

// Whether there is to be a line for x->tenant and x->reason; then sets the two counts of x. Returns
// a site for log_write that no other call gets in this interval; NULL: no line.
struct log_site *refusals_admit(struct refusals *r, struct refusal *x, uint64_t mono_ns);

// Writes a line of a push that was stored, but not as it was sent (model/losses.h), if there is to
// be one: `n` parts for that reason. It is the line of a refusal in all else:
//
//     level=warn event=push.mended tenant=a req=01H… reason=unknown_stack parts=3 stored=true
//     protocol=ingest service=shop text="samples whose stack is not in the file"
void refusals_log_loss(struct refusals *r, const struct log_fields *f, enum loss why, uint64_t n,
                       const char *protocol, str service);

// Writes the line, if there is to be one. An empty reason stands for the name of e's code.
void refusals_log(struct refusals *r, const struct log_fields *f, str reason, const char *protocol,
                  str service, const err *e);
