// SPDX-License-Identifier: Apache-2.0
//
// ready: asks a server whether it is ready, once, or until it is.
#include "deploy/cli/cli_ask.h"
#include "sys/clock.h"

#include <time.h>

#define READY_MAX ((size_t)1 << 20)
#define PAUSE_NS  (INT64_C(100) * NS_PER_MS)

// *more: the lines after the first one. They have notices, which a ready server may have as well.
static bool ask_once(struct cli *c, str *more, err *e)
{
    assert(c->timeout_ns > 0);
    struct cli_call call;
    str body = {0};
    cli_call_start(c, &call, "GET", "/ready", NULL, body);
    bool ok = cli_call_wait(c, &call, &body, e);
    if (ok) *more = arena_str(&c->arena, str_slice(body, str_find(body, '\n') + 1, body.n));
    cli_call_release(&call);
    return ok;
}

bool cli_ready(struct cli *c, int *status, err *e)
{
    int64_t wait_ns = 0;
    if (!cli_duration(c, OPT_WAIT, &wait_ns, e)) return cli_wrong(status);
    assert(wait_ns >= 0);
    uint64_t end = clock_mono_ns() + (uint64_t)wait_ns;
    int64_t timeout_ns = c->timeout_ns;
    bool ready = false;
    str more = {0};
    for (;;) {
        int64_t left = (int64_t)(end - MIN(end, clock_mono_ns()));
        // A server that takes connections and never answers must not hold us beyond --wait. 0 would
        // be no limit at all.
        if (wait_ns) c->timeout_ns = MAX(MIN(timeout_ns, left), NS_PER_MS);
        // Of the try before: only the last one is told.
        c->hint[0] = '\0';
        ready = ask_once(c, &more, e);
        if (ready || clock_mono_ns() + (uint64_t)PAUSE_NS >= end) break;
        struct timespec pause = {.tv_nsec = PAUSE_NS};
        nanosleep(&pause, NULL);
    }
    if (!ready)
        return wait_ns ? err_wrap(e, "not ready within %s", cli_args_get(&c->args, OPT_WAIT))
                       : false;
    struct buf b;
    buf_init(&b, NULL, READY_MAX);
    buf_z(&b, "ready\n");
    text_filter(&b, more);
    bool ok = cli_write(c, &b, e);
    buf_release(&b);
    return ok;
}
