// SPDX-License-Identifier: Apache-2.0
//
// hold.c - lists the streams that are registered, while leaves wait for their ends (watch.h).
//
//     hold_note      a plan wants leaves gone: their tenant wishes for it
//     hold_inspect   one LIST for all tenants, once a minute while any wish waits; a round may end
//     hold_may_go    the next plan asks whether the wish for a leaf was granted
#include "compactor/metrics.h"
#include "compactor/work_int.h"
#include "manifest/registry.h"
#include "service/notice.h"
#include "service/process.h"
#include "sys/clock.h"

#include <stdio.h>

#define LIST_BYTES ((size_t)64 << 20)
#define LIST_NS    ((uint64_t)30 * NS_PER_S)
#define INSPECT_NS ((uint64_t)60 * NS_PER_S)
#define LONG_NS    (2 * SLOT_HOUR)  // usually it is less than one

// Says which stream a round has waited for too long, or that it came.
static void tell(struct work *w, const char *stream, const char *node)
{
    struct notices *notices = w->process->notices;
    if (!notices) return;
    if (w->told[0] && strcmp(w->told, stream) != 0)
        notice_end(notices, "compactor.holds", str_of(w->told));
    snprintf(w->told, sizeof w->told, "%s", stream);
    if (!stream[0]) return;
    notice_raise(notices, "compactor.holds", str_of(stream), NOTICE_FOREVER,
                 "raw blocks older than compactor.raw_retention stay until this stream of %s has "
                 "ended and is flushed: start that ingester, look why it does not flush, or accept "
                 "the loss with `flametree stream forget --accept-loss %s`",
                 node, stream);
}

static void tell_waiting(struct work *w)
{
    char stream[sizeof w->told] = "";
    char node[200] = "";
    lock_take(&w->lock);
    bool late = w->watch.count && clock_boot_ns() - w->round_boot_ns > LONG_NS;
    if (late) {
        ulid_print(w->watch.streams[0], stream);
        snprintf(node, sizeof node, "%.*s", STR(hold_node(w, w->watch.streams[0])));
    }
    lock_give(&w->lock);
    tell(w, stream, node);
}

static bool list_streams(struct worker *me, err *e)
{
    struct work *w = me->work;
    struct req r;
    struct registered list;
    int64_t now_ns = clock_wall_ns();
    int64_t boot_ns = clock_boot_ns();
    req_init(&r, RANK_DUTY, &w->memory, LIST_BYTES, LIST_NS);
    worker_set_req(me, &r);
    // Only one worker lists at a time (watch.listing), so nobody else changes w->streams.
    bool ok = registry_read(w->registry, &r, &w->memory, &list, e);
    worker_set_req(me, NULL);
    id128 *v = ok ? ARENA_ARRAY(&r.arena, id128, list.n + 1) : NULL;
    if (ok && !v) ok = arena_fail(&r.arena, e);
    for (size_t i = 0; v && i < list.n; i++)
        v[i] = list.v[i].stream;
    lock_take(&w->lock);
    // Times before the LIST: the streams of the round were registered by then.
    uint64_t begun = w->watch.begun;
    ok = ok && watch_saw(&w->watch, now_ns, v, list.n, e);
    if (w->watch.begun > begun) w->round_boot_ns = boot_ns;
    struct registered former = ok ? w->streams : list;
    if (ok) w->streams = list;
    lock_give(&w->lock);
    registered_release(&former);
    req_release(&r);
    if (ok) tell_waiting(w);
    return ok;
}

str hold_node(const struct work *w, id128 stream)
{
    const struct registered_stream *s = registered_find(&w->streams, stream);
    return s && s->node.n ? s->node : S("?");
}

static void tell_failed(const err *e)
{
    char text[LOG_QUOTE_MAX];
    const struct log_fields f = {0};
    if (e->code == ERR_CANCELED) return;
    metric_add(&compactor_failed_inspections, 1);
    log_warn(&f, "compactor.inspect_failed",
             "code=%s fault=%s action=\"look at the store; raw blocks stay longer, and it is tried "
             "again\"",
             err_name(e->code), log_quote(text, str_of(e->msg)));
}

uint64_t hold_inspect(struct worker *me, bool asked)
{
    struct work *w = me->work;
    lock_take(&w->lock);
    uint64_t now = clock_mono_ns();
    bool due = !w->watch.listing && w->leaves_wait && (asked || now >= w->next_hold_mono_ns);
    if (due) {
        // Cleared before the LIST: a wish that is noted meanwhile sets it again.
        w->watch.listing = true;
        w->leaves_wait = false;
        w->next_hold_mono_ns = now + MIN(INSPECT_NS, (uint64_t)work_settings(w)->interval);
        lock_give(&w->lock);
        err e = {0};
        bool ok = list_streams(me, &e);
        if (!ok) tell_failed(&e);
        lock_take(&w->lock);
        assert(w->watch.listing);
        w->watch.listing = false;
        w->leaves_wait |= !ok;  // nothing was learnt: it is listed again
    }
    uint64_t over = w->watch.over;
    lock_give(&w->lock);
    return over;
}

bool hold_may_go(void *arg, id128 leaf)
{
    struct hold *h = arg;
    bool may = wish_grants(h->wish, h->over, leaf);
    h->granted |= may;
    return may;
}

void hold_note(struct work *w, struct tenant_work *t, const struct hold *h, const struct plan *plan)
{
    lock_take(&w->lock);
    t->held_leaves = plan->held_count;
    w->leaves_wait |=
        wish_note(&t->wish, &w->memory, &w->watch, h->granted, plan->held, plan->held_count);
    lock_give(&w->lock);
}
