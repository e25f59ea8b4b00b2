// SPDX-License-Identifier: Apache-2.0
#include "compactor/compactor.h"

#include "compactor/duties.h"
#include "compactor/metrics.h"

#define PAGE_MAX_BYTES ((size_t)64 << 10)

struct state {
    const struct process *process;
};

static bool start(const struct process *process, void **self, err *e)
{
    struct state *s = mem_alloc(NULL, sizeof *s, e);
    if (!s) return false;
    s->process = process;
    size_t n = 0;
    const struct duty *all = duties_list(&n);
    int64_t count[DUTY_STATES] = {0};
    for (size_t i = 0; i < n; i++)
        count[all[i].state]++;
    for (size_t i = 0; i < DUTY_STATES; i++)
        metric_set_to(&compactor_duties, str_of(duty_state_name((enum duty_state)i)), count[i]);
    *self = s;
    return true;
}

static bool ready(void *self, struct buf *why)
{
    (void)self;
    (void)why;
    return true;  // nothing is asked of it that it could not answer
}

static void stop(void *self)
{
    mem_free(NULL, self, sizeof(struct state));
}

static bool get_duties(void *self, struct http_exchange *x, err *e)
{
    (void)self;
    x->status = 200;
    http_headers_add(&x->answer_headers, &x->req.arena, S("content-type"), S("application/json"));
    buf_release(&x->out);
    buf_init(&x->out, x->req.arena.budget, PAGE_MAX_BYTES);
    duties_print(&x->out);
    return buf_ok(&x->out, e);
}

static const struct http_route public_http[] = {
    {.verbs = "GET,HEAD",
     .path = "/compactor/duties",
     .run = get_duties,
     .auth = ROUTE_OPEN,
     .rank = RANK_PUBLIC},
};

const struct service compactor = {
    .name = "compactor",
    .metrics = compactor_metrics,
    .metric_count = &compactor_metric_count,
    .public_http = public_http,
    .public_http_count = COUNT(public_http),
    .start = start,
    .ready = ready,
    .stop = stop,
    .lane_width = {[RANK_PUBLIC] = 1},
};
