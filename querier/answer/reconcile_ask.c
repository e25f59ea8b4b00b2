// SPDX-License-Identifier: Apache-2.0
//
// How a round of reconcile.h asks the heads: what they are told, and which registered streams were
// answered. What nobody answers for is waited for once, then named.
#include "querier/answer/reconcile_int.h"
#include "querier/head/streams.h"
#include "querier/metrics.h"
#include "service/directories.h"
#include "service/tenant.h"
#include "sys/clock.h"

#include <unistd.h>

// ---- messages

bool reconcile_encode(struct reconciling *s, str *out, err *e)
{
    struct buf b;
    size_t room = s->message.n + (size_t)s->loose.n * LOOSE_KEY_BYTES + s->keeper_count * 64 +
                  s->refresh_count * 64 + s->hide_bytes + 64;
    buf_init(&b, s->a->querier->memory, room);
    buf_str(&b, s->message);
    fetch_put_refresh(s->refresh, s->refresh_count, &b);
    query_put_hides(s->out->hides, s->out->hide_count, &b);
    pb_put_u64_opt(&b, 17, s->identified);
    if (s->listed) fetch_put_loose(s->keepers, s->keeper_count, &s->loose, &b);
    bool ok = buf_ok(&b, e);
    if (ok) *out = arena_str(s->a->arena, buf_view(&b));
    buf_release(&b);
    return ok && arena_ok(s->a->arena, e);
}

// Without a store: marks the answer if an ingester has another data directory than it had before
// (service/directories.h), and profiles of the range may be in the former one.
static bool mark_replaced(struct reconciling *s, err *e)
{
    static const err why = {ERR_UNAVAILABLE, "its ingester answers with another one"};
    struct answer *a = s->a;
    struct directories *known = a->querier->directories;
    const struct fetched *f = &a->fetched;
    if (!known) return true;
    int64_t ahead = tenant_limits(a->querier->config, a->arena, s->out->tenant)->reject_newer_than;
    bool bounded = ahead > 0 && s->q->from_ns > INT64_MIN + ahead;
    for (size_t i = 0; i < f->node_count; i++) {
        const struct fetched_node *n = &f->nodes[i];
        char text[DIRECTORIES_TEXT];
        directories_saw(known, n->node, n->directory);
        if (!directories_lack(known, n->node, n->directory,
                              bounded ? s->q->from_ns - ahead : INT64_MIN, text))
            continue;
        if (!fetch_mark(a->arena, &a->fetched, str_of(text), &why, e)) return false;
    }
    return true;
}

// ---- registered streams

// A registration that was made later than that, after this querier's clock, tells nothing.
#define CLOCKS_DIFFER_NS (3600 * NS_PER_S)

// Whether a profile of the question may be in the stream, as far as its registration tells. Its
// ingester takes no older one (ingester/append.c), as long as its clock was right when it
// registered the stream.
static bool may_have(const struct reconciling *s, const struct registered_stream *o)
{
    return s->q->to_ns > o->rows_from_ns || o->made_ns > s->a->now_wall_ns + CLOCKS_DIFFER_NS;
}

// Are all profiles that heads may have later than the question? An empty list tells nothing: the
// stream of an all-in-one may be newer than it.
static bool is_before_all(const struct reconciling *s, const struct registered *list)
{
    for (size_t i = 0; i < list->n; i++) {
        if (may_have(s, &list->v[i])) return false;
    }
    return list->n > 0;
}

static bool is_listed(const struct registered *list, id128 stream)
{
    for (size_t i = 0; i < list->n; i++) {
        if (id128_eq(list->v[i].stream, stream)) return true;
    }
    return false;
}

// The first streams of the list that nobody speaks for. Those of a node that is missing by its name
// are not told one by one. What was not registered yet in `before`, the list of before the
// question, has no rows that it must show (streams.h): its process may have started while another
// one was waited for.
static size_t find_unserved(struct reconciling *s, const struct registered *list,
                            const struct registered *before, const struct registered_stream **v,
                            size_t max)
{
    const struct fetched *f = &s->a->fetched;
    size_t n = 0;
    for (size_t i = 0; i < list->n && n < max; i++) {
        const struct registered_stream *o = &list->v[i];
        if (!may_have(s, o) || fetch_serves(f, o->stream) || fetch_serves(f, o->directory))
            continue;
        if (o->node.n && fetch_lacks(f, o->node)) continue;
        if (list != before && !is_listed(before, o->stream)) continue;
        v[n++] = o;
    }
    return n;
}

static void note_since(struct fetched *f, int64_t since_wall_ns)
{
    if (f->since_wall_ns == 0 || since_wall_ns < f->since_wall_ns) f->since_wall_ns = since_wall_ns;
}

// Names the ingesters of the list that are away and have one of these streams.
static bool name_away(struct reconciling *s, const struct registered_stream *const *v, size_t n,
                      err *e)
{
    struct fetched *f = &s->a->fetched;
    for (size_t i = 0; i < f->away_count; i++) {
        const struct fetched_away *x = &f->away[i];
        size_t needed = 0;
        for (size_t k = 0; k < n; k++)
            needed += str_eq(v[k]->node, x->member) || str_eq(v[k]->address, x->address);
        metric_add(&querier_missing_streams, needed);
        if (needed && !fetch_mark(s->a->arena, f, x->member, x->fault, e)) return false;
    }
    return true;
}

static bool name_unserved(struct reconciling *s, const struct registered_stream *o, err *e)
{
    err why = {ERR_UNAVAILABLE, "it is registered in the store and nobody answered for it"};
    struct answer *a = s->a;
    char ulid[ULID_TEXT];
    if (o->why.n) {
        err_set(&why, ERR_UNAVAILABLE,
                "nobody answered for it, and whose it is is not known: its registration cannot be "
                "read: %.*s",
                STR(o->why));
    }
    streams_waited(a->querier->streams, o->stream);
    if (o->node.n && fetch_lacks(&a->fetched, o->node)) return true;  // its ingester says it all
    ulid_print(o->stream, ulid);
    str name = o->node.n ? arena_printf(a->arena, "stream %s of %.*s", ulid, STR(o->node))
                         : arena_printf(a->arena, "stream %s", ulid);
    if (!arena_ok(a->arena, e)) return false;
    metric_add(&querier_missing_streams, 1);
    return fetch_mark(a->arena, &a->fetched, name, &why, e);
}

// The list; if the asker takes an answer without a store, it leaves an eighth of the time.
static bool list_streams(struct answer *a, uint64_t not_before, const struct registered **list,
                         err *e)
{
    struct req *r = &a->x->req;
    uint64_t deadline = r->deadline_mono_ns;
    if (a->takes == FETCH_ANY && deadline) r->deadline_mono_ns = deadline - req_left_ns(r) / 8;
    bool ok = streams_take(a->querier->streams, r, not_before, list, e);
    r->deadline_mono_ns = deadline;
    return ok;
}

static bool serves(void *arg, id128 stream)
{
    return fetch_serves(arg, stream);
}

#define UNSERVED_MAX 1024
#define WAIT_NS      ((uint64_t)200 * NS_PER_MS)

// May the question wait for streams? Not so long that there is no time to send a marked answer.
static bool has_time(const struct answer *a)
{
    const struct req *r = &a->x->req;
    uint64_t now = clock_mono_ns();
    if (now - a->began_mono_ns >= (uint64_t)a->config->wait_for_streams) return false;
    if (a->takes == FETCH_EXACT || !r->deadline_mono_ns) return true;
    return req_left_ns(r) > (r->deadline_mono_ns - a->began_mono_ns) / 8;
}

// Compares what was answered with the streams that are registered. *wait: somebody is to be asked
// again, a moment later. A stream that nobody speaks for may just have ended, so it is looked up
// again first. Without a list the store is missing, which the snapshot says as well. An ingester
// that is away and has none of these streams is not missed.
static bool check_streams(struct reconciling *s, const struct registered *before, bool *wait,
                          err *e)
{
    const struct registered *list = before;
    struct answer *a = s->a;
    struct streams *streams = a->querier->streams;
    struct req *r = &a->x->req;
    const struct registered_stream **v =
        (void *)ARENA_ARRAY(a->arena, struct registered_stream *, UNSERVED_MAX);
    err why = {0};
    *wait = false;
    if (!v) return arena_fail(a->arena, e);
    streams_answered(streams, list, serves, &a->fetched);
    if (find_unserved(s, list, before, v, UNSERVED_MAX) == 0) {
        streams_keep(streams);
        return true;
    }
    if (!list_streams(a, clock_mono_ns(), &list, &why)) {
        if (!req_alive(r, e) || !arena_ok(a->arena, e)) return false;
        return fetch_miss(a->arena, &a->fetched, S("object store"), &why, e);
    }
    size_t n = find_unserved(s, list, before, v, UNSERVED_MAX);
    bool patient = has_time(a);
    int64_t since = INT64_MAX;
    for (size_t i = 0; i < n; i++) {
        bool worth = false;
        since = MIN(since, streams_miss(streams, list, v[i], a->now_wall_ns, &worth));
        *wait = *wait || (patient && worth);
    }
    if (*wait || n == 0) return true;
    streams_keep(streams);
    note_since(&a->fetched, since);
    if (!name_away(s, v, n, e)) return false;
    for (size_t i = 0; i < n; i++) {
        if (!name_unserved(s, v[i], e)) return false;
    }
    return true;
}

// Asks all heads once. A marked answer must still be sent when an ingester hangs; so ingesters have
// seven eighths of the time that is left. Answers of earlier rounds are dropped; names that were
// noted as missing stay.
static bool ask_once(struct reconciling *s, str message, bool registered, err *e)
{
    struct answer *a = s->a;
    struct req *r = &a->x->req;
    uint64_t deadline = r->deadline_mono_ns;
    uint64_t left = req_left_ns(r);
    if (a->takes != FETCH_EXACT && deadline) r->deadline_mono_ns = deadline - left / 8;
    struct head_replies replies = {0};
    assert(a->fetched.partial_count >= s->from && a->fetched.cut_count >= s->out->cut_from);
    a->fetched.partial_count = s->from;
    a->fetched.cut_count = s->out->cut_from;
    bool ok = a->querier->ask(a->querier->transport, r, s->out->tenant, message, &replies, e);
    r->deadline_mono_ns = deadline;
    replies.registered = registered;
    ok = ok && fetch_choose(a->arena, &replies, &a->fetched, e) && mark_replaced(s, e);
    s->out->cut_to = a->fetched.cut_count;
    a->work.rounds++;
    return ok;
}

// Asks all heads, again until each registered stream is answered or was waited for. The list of
// streams comes before the answers: a stream that is in it and not in them may have ended meanwhile
// (check_streams), and one that is not in it has no rows that the query must show (streams.h).
static bool ask_all(struct reconciling *s, str message, err *e)
{
    struct answer *a = s->a;
    const struct registered *list = NULL;
    err why = {0};
    bool wait = false;
    uint64_t began = a->began_mono_ns;
    uint64_t from = began > STREAMS_SHARED_NS ? began - STREAMS_SHARED_NS : 0;
    if (!a->querier->streams) return ask_once(s, message, false, e);
    if (!list_streams(a, from, &list, &why)) {
        if (!req_alive(&a->x->req, e) || !arena_ok(a->arena, e)) return false;
        if (!fetch_miss(a->arena, &a->fetched, S("object store"), &why, e)) return false;
    }
    if (list && is_before_all(s, list)) {
        a->fetched.partial_count = s->from;
        a->fetched.cut_count = s->out->cut_to = s->out->cut_from;
        metric_add(&querier_headless, 1);
        return true;
    }
    do {
        // A moment, for a process that starts.
        if (wait) metric_add(&querier_stream_waits, 1);
        if (wait) usleep((useconds_t)(WAIT_NS / 1000));
        if (!ask_once(s, message, list != NULL, e)) return false;
        if (fetch_refuses(&a->fetched, a->takes)) return true;
        if (list && !check_streams(s, list, &wait, e)) return false;
    } while (wait && req_alive(&a->x->req, &why));
    return true;
}

bool reconcile_ask(struct reconciling *s, str message, err *e)
{
    struct answer *a = s->a;
    uint64_t began = clock_mono_ns();
    bool ok = ask_all(s, message, e);
    a->work.ns[WORK_HEADS] += clock_mono_ns() - began;
    if (!ok) return false;
    if (req_alive(&a->x->req, e)) return true;
    if (a->fetched.missing_count == 0) return false;
    err ended = *e;
    return err_set(e, ended.code, "%s, waiting for: %.*s", ended.msg,
                   STR(fetch_missing(a->arena, &a->fetched)));
}
