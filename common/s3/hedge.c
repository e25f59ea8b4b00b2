// SPDX-License-Identifier: Apache-2.0
//
// hedge.c - second requests for reads that take unusually long. A service answers most reads at
// once and a few of them late, for reasons of its own; of the many reads of a query one is likely
// to be late, and all wait for it. The same request once more, on another connection, is usually
// answered at once (Dean and Barroso, The Tail at Scale, 2013).
//
//     when        a read has taken SLOW_TIMES of what 95 % of the reads take lately, and 10 ms more
//     how many    five of a hundred reads; none while more than half of the connections are in use,
//                 because a service that is slow for all must not get twice the load
//     then        whichever is answered first counts, and the other one is ended
#include "s3/engine.h"
#include "s3/metrics.h"
#include "sys/clock.h"

#define SLOW_TIMES   2
#define SLOW_MORE    (10 * NS_PER_MS)
#define SLOW_START   (100 * NS_PER_MS)  // until something is known
#define SLOW_LEAST   (2 * NS_PER_MS)
#define SLOW_MOST    (10 * NS_PER_S)
#define LOOK_NS      (5 * NS_PER_MS)
#define TOKENS_EACH  5
#define TOKENS_MOST  1000
#define TOKENS_SPENT 100
#define WAITS_MAX    64

// A quantile that follows its samples: each one moves it up by 19 parts or down by one part, so
// that it rests where 19 of 20 are below. Racing threads may lose a step, which does no harm.
static void note(struct s3_latency *l, uint64_t ns)
{
    uint64_t slow = atomic_load(&l->slow_ns);
    if (slow == 0) slow = (uint64_t)SLOW_START;
    uint64_t part = slow / 200 + 1;
    slow = ns > slow ? slow + 19 * part : slow - part;
    slow = MAX(slow, (uint64_t)SLOW_LEAST);
    atomic_store(&l->slow_ns, MIN(slow, (uint64_t)SLOW_MOST));
    if (atomic_load(&l->tokens) < TOKENS_MOST) atomic_fetch_add(&l->tokens, TOKENS_EACH);
}

static uint64_t patience_ns(const struct s3_latency *l)
{
    uint64_t slow = atomic_load(&l->slow_ns);
    return SLOW_TIMES * (slow ? slow : (uint64_t)SLOW_START) + (uint64_t)SLOW_MORE;
}

struct watching {
    struct s3 *s;
    struct req *r;
    struct s3_op *const *v;
    size_t n;
};

static bool may_hedge(struct s3 *s)
{
    struct s3_latency *l = &s->latency;
    if (atomic_load(&l->under_way) * 2 > (int64_t)s->width) return false;
    if (atomic_fetch_sub(&l->tokens, TOKENS_SPENT) >= TOKENS_SPENT) return true;
    atomic_fetch_add(&l->tokens, TOKENS_SPENT);
    return false;
}

static bool is_good(const struct http_call *c)
{
    return c->call.ok && c->status < 400;
}

// By the thread that waits.
static void look(void *arg)
{
    struct watching *w = arg;
    uint64_t now = clock_mono_ns();
    uint64_t patience = patience_ns(&w->s->latency);
    for (size_t i = 0; i < w->n; i++) {
        struct s3_op *o = w->v[i];
        if (!o->running || o->action != S3_GET || call_is_over(&o->call.call)) continue;
        if (o->hedged) {
            // Only a good answer ends the first request: it may get one yet.
            if (call_is_over(&o->second.call) && is_good(&o->second)) call_stop(&o->call.call);
        } else if (now - o->began_ns > patience && may_hedge(w->s)) {
            const struct http_call *c = &o->call;
            o->second = (struct http_call){.method = c->method,
                                           .address = c->address,
                                           .path = c->path,
                                           .headers = c->headers,
                                           .answer_max = c->answer_max,
                                           .stall_s = c->stall_s,
                                           .tls = c->tls};
            o->hedged = true;
            http_start(w->s->client, w->r, &o->second, RANK_DISK);
        }
    }
}

// Ends the second requests, and puts their answers in the place of the first ones' where these have
// none.
static void join_hedges(struct req *r, struct s3_op *const *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct s3_op *o = v[i];
        struct call *second = &o->second.call;
        err ignored = {0};
        if (!o->hedged) continue;
        if (!call_is_over(second)) call_stop(second);
        (void)!call_gather(r, &second, 1, 0, false, &ignored);
        bool won = !is_good(&o->call) && is_good(&o->second);
        if (won) {
            struct http_call first = o->call;
            o->call = o->second;
            o->second = first;
        }
        http_call_release(&o->second);
        o->hedged = false;
        metric_add_to(&s3_hedges, won ? S("won") : S("lost"), 1);
    }
}

void s3_await(struct s3 *s, struct req *r, struct s3_op *const *v, size_t n)
{
    struct call *calls[WAITS_MAX];
    struct watching w = {s, r, v, n};
    const struct call_watch watch = {look, &w, (uint64_t)LOOK_NS};
    err ignored = {0};
    size_t running = 0;
    bool reads = false;
    assert(n <= WAITS_MAX);
    for (size_t i = 0; i < n; i++) {
        if (!v[i]->running) continue;
        calls[running++] = &v[i]->call.call;
        reads = reads || v[i]->action == S3_GET;
    }
    if (!running) return;
    atomic_fetch_add(&s->latency.under_way, (int64_t)running);
    (void)!call_gather_watched(r, calls, running, 0, false, reads ? &watch : NULL, &ignored);
    atomic_fetch_sub(&s->latency.under_way, (int64_t)running);
    for (size_t i = 0; i < n; i++) {
        const struct s3_op *o = v[i];
        if (o->running && o->action == S3_GET && o->call.call.ok)
            note(&s->latency, o->call.call.ended_mono_ns - o->began_ns);
    }
    join_hedges(r, v, n);
}
