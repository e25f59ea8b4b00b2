// SPDX-License-Identifier: Apache-2.0
//
// probe.c - the thread of the rounds, and what each answer tells about its node.
#include "cluster/probe.h"

#include "cluster/metrics.h"
#include "sys/clock.h"
#include "sys/lock.h"
#include "sys/log.h"
#include "sys/thread.h"

#include <stdatomic.h>

#define ROUND_MEMORY ((size_t)4 << 20)

struct prober {
    struct prober_options options;
    struct buf message;
    pthread_t thread;
    bool skips;  // the last round was left out for lack of memory
    struct lock lock;
    struct cond wake;
    bool stopping;    // under the lock
    struct req *now;  // of the round under way, under the lock
};

struct round {
    struct req req;
    struct member *members;
    struct peer_call *calls;
    struct call **waits;
    size_t n;
    uint64_t limit_ns;
    uint64_t began_mono_ns;
};

void members_note_call(struct members *m, enum member_kind kind, str id, const struct peer_call *c,
                       const err *fault)
{
    assert(c->http.call.done);
    if (c->http.call.ok && fault->code != ERR_UNAVAILABLE)
        members_heard(m, kind, id, c->http.call.ended_mono_ns);
    else if (!c->http.call.ok && fault->code == ERR_UNAVAILABLE)
        members_failed(m, kind, id, str_of(fault->msg));
}

// ---- a round

// Chooses the members to ask: all but the process itself. Fails for lack of memory.
static bool choose(struct prober *p, struct round *r, err *e)
{
    const struct prober_options *o = &p->options;
    struct arena *a = &r->req.arena;
    size_t n = 0;
    if (o->weight) members_weigh(o->members, o->self->address, o->weight(o->arg));
    r->members = members_all(p->options.members, a, &n);
    for (size_t i = 0; i < n; i++) {
        if (!str_eq(r->members[i].address, p->options.self->address))
            r->members[r->n++] = r->members[i];
    }
    assert(r->n <= n);
    r->calls = ARENA_ARRAY(a, struct peer_call, r->n);
    r->waits = ARENA_ARRAY(a, struct call *, r->n);
    return arena_ok(a, e);
}

// Without probes a frozen node is waited for, and a dead one is not asked again: that is told, but
// each stretch of such rounds only once.
static void note_skip(struct prober *p, const err *fault)
{
    char quoted[LOG_QUOTE_MAX];
    if (fault->code) metric_add(&cluster_rounds_skipped, 1);
    if (fault->code && !p->skips)
        log_warn(NULL, "member.probes_skipped", "why=%s", log_quote(quoted, str_of(fault->msg)));
    p->skips = fault->code != ERR_OK;
}

static void note(struct prober *p, struct round *r, size_t i, bool stood_still)
{
    const struct member *x = &r->members[i];
    struct members *m = p->options.members;
    struct node_answer answer;
    str message = {0};
    err e = {0};
    const struct call *c = &r->calls[i].http.call;
    assert(c->done);
    if (peer_answer(&r->calls[i], &message, &e)) {
        metric_add_to(&cluster_probes, S("answered"), 1);
        bool read = node_read_answer(message, &answer, &e);
        if (read && answer.node.node.n && !str_eq(answer.node.node, x->id))
            members_moved(m, x->kind, x->id);
        if (read)
            members_seen(m, x->kind, x->id, c->ended_mono_ns, &answer);
        else  // of another version, maybe; but it lives
            members_heard(m, x->kind, x->id, c->ended_mono_ns);
        return;
    }
    // A status that is no error of the network came from a node, or from a proxy before it.
    bool answered = c->ok;
    bool nobody = e.code == ERR_UNAVAILABLE;
    metric_add_to(&cluster_probes, answered ? S("refused") : S("failed"), 1);
    if (answered && !nobody)
        members_heard(m, x->kind, x->id, c->ended_mono_ns);
    else if (nobody)
        members_probe_failed(m, x->kind, x->id, str_of(e.msg));
    else if (!stood_still && (e.code == ERR_DEADLINE_EXCEEDED || e.code == ERR_CANCELED))
        members_probe_failed(m, x->kind, x->id, S("a probe was not answered in time"));
}

// Is there a member that counts as alive and did not answer, or was not ready? At the start of a
// cluster none is.
static bool is_soon_due(struct prober *p, const struct round *r)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct member *x = &r->members[i];
        if (!x->alive) continue;
        if (!r->calls[i].http.call.ok) return true;
        if (members_is_unready(p->options.members, x->kind, x->id)) return true;
    }
    return false;
}

// Publishes the round's request, so that prober_stop can cancel it, or takes it back (NULL). Both
// under one lock with `stopping`: prober_stop finds either the request or a thread that has not
// begun to wait.
static bool is_stopping(struct prober *p, struct req *now)
{
    lock_take(&p->lock);
    bool stopping = p->stopping;
    p->now = stopping ? NULL : now;
    lock_give(&p->lock);
    return stopping;
}

static void ask(struct prober *p, struct round *r)
{
    err e = {0};
    for (size_t i = 0; i < r->n; i++) {
        peer_start(p->options.client, &r->req, &r->calls[i], r->members[i].address, NODE_PROBE,
                   buf_view(&p->message), RANK_INGESTER, NODE_MESSAGE_MAX);
        r->waits[i] = &r->calls[i].http.call;
    }
    assert(r->n > 0);
    (void)!call_gather(&r->req, r->waits, r->n, r->n, false, &e);
    // If the time limit was noticed much too late, this process stood still, and the others are not
    // to blame.
    bool stood_still = clock_mono_ns() - r->began_mono_ns > 2 * r->limit_ns;
    bool stopped = is_stopping(p, NULL);
    for (size_t i = 0; i < r->n && !stopped; i++)
        note(p, r, i, stood_still);
}

// Returns the time at which the next round is due.
static uint64_t go_round(struct prober *p)
{
    struct round r = {.limit_ns = p->options.interval_ns / 2, .began_mono_ns = clock_mono_ns()};
    uint64_t next = r.began_mono_ns + p->options.interval_ns;
    err fault = {0};
    req_init(&r.req, RANK_DUTY, NULL, ROUND_MEMORY, r.limit_ns);
    bool chosen = choose(p, &r, &fault);
    note_skip(p, &fault);
    if (chosen && r.n > 0 && !is_stopping(p, &r.req)) {
        ask(p, &r);
        // They are asked again after half an interval, so that it shows sooner if one has ended, or
        // has become ready.
        if (is_soon_due(p, &r)) next = r.began_mono_ns + r.limit_ns;
        for (size_t i = 0; i < r.n; i++)
            peer_release(&r.calls[i]);
    }
    req_release(&r.req);
    return next;
}

static void *probe_main(void *arg)
{
    struct prober *p = arg;
    while (!is_stopping(p, NULL)) {
        uint64_t next = go_round(p);
        lock_take(&p->lock);
        // The loop, because a condition may wake without a reason.
        while (!p->stopping && clock_mono_ns() < next)
            cond_wait_until(&p->wake, &p->lock, next);
        lock_give(&p->lock);
    }
    return NULL;
}

// ---- life

static void release(struct prober *p)
{
    buf_release(&p->message);
    cond_release(&p->wake);
    lock_release(&p->lock);
    mem_free(NULL, p, sizeof *p);
}

struct prober *prober_start(const struct prober_options *o, err *e)
{
    struct prober *p = mem_alloc(NULL, sizeof *p, e);
    assert(o->interval_ns > 0);
    if (!p) return NULL;
    p->options = *o;
    lock_init(&p->lock, LOCK_PROBER);
    cond_init(&p->wake);
    buf_init(&p->message, NULL, NODE_MESSAGE_MAX);
    node_put_probe(o->self, &p->message);  // encoded once: all probes are alike
    if (buf_ok(&p->message, e) && thread_start(&p->thread, "prober", probe_main, p, e)) return p;
    release(p);
    return NULL;
}

void prober_stop(struct prober *p)
{
    if (!p) return;
    lock_take(&p->lock);
    p->stopping = true;
    if (p->now) atomic_store(&p->now->canceled, true);
    cond_wake_all(&p->wake);
    lock_give(&p->lock);
    thread_join(p->thread);
    release(p);
}
