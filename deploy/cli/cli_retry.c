// SPDX-License-Identifier: Apache-2.0
#include "deploy/cli/cli_retry.h"

#include "sys/clock.h"

#include <time.h>

#define BACKOFF_NS     (NS_PER_S / 2)
#define BACKOFF_MOST_S UINT64_C(30)

void cli_sleep_ns(int64_t ns)
{
    assert(ns >= 0);
    struct timespec t = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    nanosleep(&t, NULL);
}

bool cli_pace_read(struct cli *c, struct cli_pace *p, err *e)
{
    double megabytes = 0;
    if (!cli_args_fraction(&c->args, OPT_RATE, 0.000001, 1e9, &megabytes, e)) return false;
    *p = (struct cli_pace){.rate = megabytes * 1e6, .begin_ns = clock_mono_ns()};
    return true;
}

void cli_pace_bytes(struct cli_pace *p, uint64_t bytes)
{
    if (p->rate > 0) {
        double due = (double)p->bytes / p->rate * (double)NS_PER_S;
        double past = (double)(clock_mono_ns() - p->begin_ns);
        if (due > past) cli_sleep_ns((int64_t)(due - past));
    }
    p->bytes += bytes;
}

bool cli_may_pass(const struct cli_call *call, const err *e)
{
    assert(e->code);
    unsigned status = call->status;
    bool busy = status == 429 || status == 502 || status == 503 || status == 504;
    return busy && !strstr(e->msg, "larger than") && !strstr(e->msg, "exceeds");
}

int64_t cli_pause_of(const struct cli_call *call, uint64_t attempt)
{
    // A header may have a date instead of seconds; then the pause is our own.
    uint64_t seconds = 0;
    if (str_u64(call->retry_after, &seconds) && seconds > 0)
        return (int64_t)MIN(seconds, BACKOFF_MOST_S) * NS_PER_S;
    // Half a second times 64 is above the limit, so more than 6 doublings change nothing; without
    // the limit on the shift it would overflow.
    return MIN(BACKOFF_NS << MIN(attempt, 6), (int64_t)BACKOFF_MOST_S * NS_PER_S);
}
