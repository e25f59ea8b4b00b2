// SPDX-License-Identifier: Apache-2.0
//
// adopt.c - the threads of adopt.h; takeover.c has step 4.
#include "ingester/adopt.h"

#include "codec/pb.h"
#include "ingester/ingester_int.h"
#include "ingester/log/object_log.h"
#include "ingester/metrics.h"
#include "ingester/ownerless.h"
#include "ingester/streams.h"
#include "manifest/stream.h"
#include "rpc/peer.h"
#include "sys/clock.h"

#include <inttypes.h>

#define TICK_NS        ((uint64_t)NS_PER_S)
#define LOOK_NS        ((uint64_t)(500 * NS_PER_MS))
#define PROBE_NS       ((uint64_t)(700 * NS_PER_MS))
#define ASK_NS         ((uint64_t)(2 * NS_PER_S))
#define ROUND_NS       ((uint64_t)(20 * NS_PER_S))
#define WORK_MAX       ((size_t)64 << 20)
#define HURRY_NS       (5 * NS_PER_S)
#define SWEEP_LIMIT_NS ((uint64_t)(20 * NS_PER_S))
#define REPLY_MAX      ((size_t)4 << 20)
#define STREAMS        "/flametree.v1.IngesterService/Streams"

// One of the ingesters clears away what is left of logs, so often; for so long at a time.
#define SWEEP_NS      ((uint64_t)(3600 * NS_PER_S))
#define SWEEP_STEP_NS ((uint64_t)(10 * NS_PER_S))

// Streams that are adopted at once. A process leaves two or three, of which one has rows.
#define ADOPTIONS_MAX 4

// After a failure of the store a stream is tried again so soon, and so often before its turn
// passes: as long as it is tried here no other ingester does.
#define AGAIN_NS  ((uint64_t)(5 * NS_PER_S))
#define AGAIN_MAX 3

// The list of streams may show one that was taken back, for so long and longer. It does no harm to
// take it back twice.
#define STALE_NS ((uint64_t)(60 * NS_PER_S))

// A stream that this ingester adopts, has adopted, or could not adopt. It is not looked at before
// that time.
struct passed {
    id128 stream;
    uint64_t until_mono_ns;
    unsigned failures;  // of the store, in a row
    bool busy;          // a worker has it
    bool adopted;
    bool damaged;  // an object was damaged: once all had a turn, the rest of it is read
};

struct worker {
    struct adopt *adopt;
    pthread_t thread;
    // With the lock:
    bool busy;  // then the others are the worker's
    id128 stream;
    id128 boot;
    bool same_node;
    char node[LOG_QUOTE_MAX];
};

// A thread that does something again and again.
struct beat {
    struct adopt *adopt;
    pthread_t thread;
    const char *name;
    void (*fn)(struct adopt *a);
    uint64_t every_ns;
};

struct adopt {
    struct ingester *in;
    struct worker workers[ADOPTIONS_MAX];
    size_t worker_count;
    struct beat beats[3];
    size_t beat_count;
    uint64_t sweep_mono_ns;  // the next one
    struct object_log_sweep sweep;
    bool sweeping;
    uint64_t hurry_mono_ns;  // not before it another list of streams
    struct lock lock;        // of what follows
    struct cond wake;
    bool stopping;
    struct silences silences;
    struct passed *passed;
    size_t passed_count;
    size_t passed_cap;
};

// A process that has registered streams, or a member.
struct other {
    id128 boot;
    str address;  // empty: of one without streams
    bool same_node;
    int64_t age_ns;  // of its last answer
};

// One look; of a worker only the members.
struct look {
    struct adopt *a;
    struct req *req;
    struct registered_stream *streams;
    size_t stream_count;
    struct other *others;
    size_t other_count;
    struct member *members;  // ingesters
    size_t member_count;
};

static const struct node_identity *me(const struct adopt *a)
{
    return a->in->process->identity;
}

// ---- 1. who answers

static struct other *find_other(struct look *l, id128 boot)
{
    for (size_t i = 0; i < l->other_count; i++)
        if (id128_eq(l->others[i].boot, boot)) return &l->others[i];
    return NULL;
}

// Streams come in the order of their beginnings: the last one has the newest address.
static void note_streams(struct look *l)
{
    for (size_t i = 0; i < l->stream_count; i++) {
        const struct registered_stream *s = &l->streams[i];
        struct other *o = find_other(l, s->boot);
        if (s->log != STREAM_LOG_OBJECT) continue;
        if (!o) o = &l->others[l->other_count++];
        *o = (struct other){.boot = s->boot,
                            .address = s->address,
                            .same_node = str_eq(s->node, me(l->a)->node),
                            .age_ns = INT64_MAX};
    }
}

// Those of which the list has no stream are noted as well: lists are rare, and when one shows that
// such a process has streams after all, its silence is known from its beginning.
static void note_member(struct look *l, const struct member_facts *m, uint64_t now)
{
    struct other *o = find_other(l, m->boot);
    if (m->member.kind != MEMBER_INGESTER || id128_eq(m->boot, me(l->a)->boot)) return;
    if (m->answered_mono_ns == 0 || m->answered_mono_ns > now) return;
    if (!o) {
        o = &l->others[l->other_count++];
        *o = (struct other){.boot = m->boot, .age_ns = INT64_MAX};
    }
    o->age_ns = MIN(o->age_ns, (int64_t)(now - m->answered_mono_ns));
}

static bool list_others(struct look *l, err *e)
{
    size_t n = 0;
    struct members *members = l->a->in->process->members;
    const struct member_facts *v = members ? members_facts(members, &l->req->arena, &n) : NULL;
    uint64_t now = clock_mono_ns();
    l->others = ARENA_ARRAY(&l->req->arena, struct other, l->stream_count + n + 1);
    if (!arena_ok(&l->req->arena, e)) return false;
    note_streams(l);
    for (size_t i = 0; i < n; i++)
        note_member(l, &v[i], now);
    return true;
}

// Those of which nothing was heard lately are asked.
static bool probe(struct look *l, err *e)
{
    struct req r;
    struct buf message;
    struct client *client = l->a->in->process->client;
    size_t n = 0;
    struct peer_call *calls = ARENA_ARRAY(&l->req->arena, struct peer_call, l->other_count + 1);
    struct call **waits = ARENA_ARRAY(&l->req->arena, struct call *, l->other_count + 1);
    struct other **of = ARENA_ARRAY(&l->req->arena, struct other *, l->other_count + 1);
    if (!calls || !waits || !of) return arena_fail(&l->req->arena, e);
    buf_init(&message, NULL, NODE_MESSAGE_MAX);
    req_init(&r, RANK_DUTY, NULL, WORK_MAX, PROBE_NS);
    node_put_probe(me(l->a), &message);
    for (size_t i = 0; client && i < l->other_count; i++) {
        struct other *o = &l->others[i];
        if (o->age_ns < 2 * NS_PER_S || o->address.n == 0) continue;
        peer_start(client, &r, &calls[n], o->address, NODE_PROBE, buf_view(&message), RANK_INGESTER,
                   NODE_MESSAGE_MAX);
        waits[n] = &calls[n].http.call;
        of[n++] = o;
    }
    err ignored = {0};
    if (n) (void)!call_gather(&r, waits, n, 0, false, &ignored);
    for (size_t i = 0; i < n; i++) {
        str bytes = {0};
        struct node_answer answer;
        err why = {0};
        bool ok = peer_answer(&calls[i], &bytes, &why) && node_read_answer(bytes, &answer, &why);
        // Another process may have that address by now.
        if (ok && id128_eq(answer.node.boot, of[i]->boot)) of[i]->age_ns = 0;
        peer_release(&calls[i]);
    }
    req_release(&r);
    buf_release(&message);
    return true;
}

static bool note_silences(struct look *l, err *e)
{
    struct adopt *a = l->a;
    struct sighting *v = ARENA_ARRAY(&l->req->arena, struct sighting, l->other_count + 1);
    if (!v) return arena_fail(&l->req->arena, e);
    for (size_t i = 0; i < l->other_count; i++)
        v[i] = (struct sighting){l->others[i].boot, l->others[i].age_ns};
    lock_take(&a->lock);
    bool ok = silences_look(&a->silences, v, l->other_count, clock_mono_ns(), e);
    lock_give(&a->lock);
    return ok;
}

void adopt_put(struct adopt *a, struct buf *out)
{
    if (!a) return;
    lock_take(&a->lock);
    for (size_t i = 0; i < a->silences.n; i++) {
        const struct silence *s = &a->silences.v[i];
        if (silence_is_short(&a->silences, s, clock_mono_ns()))
            pb_put_bytes(out, 2, str_make(s->boot.b, sizeof s->boot.b));
    }
    lock_give(&a->lock);
}

// ---- 2. what is due

static bool is_over(struct adopt *a)
{
    lock_take(&a->lock);
    bool over = a->stopping;
    lock_give(&a->lock);
    return over;
}

// With the lock.
static struct passed *find_passed(struct adopt *a, id128 stream)
{
    assert(lock_is_mine(&a->lock));
    for (size_t i = 0; i < a->passed_count; i++)
        if (id128_eq(a->passed[i].stream, stream)) return &a->passed[i];
    return NULL;
}

// What is known of the stream; zeros if nothing is.
static struct passed known(struct adopt *a, id128 stream)
{
    lock_take(&a->lock);
    const struct passed *p = find_passed(a, stream);
    struct passed copy = p ? *p : (struct passed){.stream = stream};
    lock_give(&a->lock);
    return copy;
}

// Forgets streams that are not registered any more.
static void prune_passed(struct look *l)
{
    struct adopt *a = l->a;
    size_t kept = 0;
    lock_take(&a->lock);
    for (size_t i = 0; i < a->passed_count; i++) {
        bool there = a->passed[i].busy;
        for (size_t k = 0; k < l->stream_count && !there; k++)
            there = id128_eq(l->streams[k].stream, a->passed[i].stream);
        if (there) a->passed[kept++] = a->passed[i];
    }
    a->passed_count = kept;
    lock_give(&a->lock);
}

// Replaces what is known of the stream. Without memory it is looked at again sooner.
static void note_passed(struct adopt *a, const struct passed *now)
{
    err none = {0};
    lock_take(&a->lock);
    struct passed *p = find_passed(a, now->stream);
    if (!p && mem_grow(NULL, &a->passed, &a->passed_cap, a->passed_count + 1, sizeof *p, &none))
        p = &a->passed[a->passed_count++];
    if (p) *p = *now;
    lock_give(&a->lock);
}

static bool is_due(struct look *l, const struct registered_stream *s, uint32_t *scratch)
{
    struct adopt *a = l->a;
    const struct other *o = find_other(l, s->boot);
    const struct passed p = known(a, s->stream);
    if (!o || p.busy || wal_has_stream(a->in->wal, s->stream)) return false;
    if (clock_mono_ns() < p.until_mono_ns) return false;
    if (o->same_node) return o->age_ns == INT64_MAX || o->age_ns >= OWNERLESS_NS;
    size_t rank = ownerless_rank(l->members, l->member_count, me(a)->node, s->stream, scratch);
    // Only this thread writes the silences.
    return ownerless_is_due(silences_of(&a->silences, s->boot), rank);
}

// Gives the stream to a worker. False: all are busy, or there is no memory; the next look does it.
static bool hand_over(struct look *l, const struct registered_stream *s)
{
    struct adopt *a = l->a;
    struct worker *w = NULL;
    err none = {0};
    lock_take(&a->lock);
    for (size_t i = 0; i < a->worker_count && !w; i++)
        if (!a->workers[i].busy) w = &a->workers[i];
    struct passed *p = find_passed(a, s->stream);
    if (w && !p &&
        mem_grow(NULL, &a->passed, &a->passed_cap, a->passed_count + 1, sizeof *p, &none)) {
        p = &a->passed[a->passed_count++];
        *p = (struct passed){.stream = s->stream};
    }
    if (w && p) {
        const struct other *o = find_other(l, s->boot);
        p->busy = w->busy = true;
        w->stream = s->stream;
        w->boot = s->boot;
        w->same_node = o && o->same_node;
        (void)log_quote(w->node, s->node);
        cond_wake_all(&a->wake);
    }
    lock_give(&a->lock);
    return w && p;
}

static bool hand_over_due(struct look *l, err *e)
{
    uint32_t *scratch = ARENA_ARRAY(&l->req->arena, uint32_t, l->member_count + 1);
    if (!scratch) return arena_fail(&l->req->arena, e);
    prune_passed(l);
    if (!adopt_may(l->a->in)) return true;
    bool room = true;
    for (size_t i = 0; i < l->stream_count && room; i++)
        if (is_due(l, &l->streams[i], scratch)) room = hand_over(l, &l->streams[i]);
    return true;
}

static bool reaches_enough(const struct look *l)
{
    size_t reached = 0;
    for (size_t i = 0; i < l->member_count; i++)
        reached += l->members[i].alive || str_eq(l->members[i].id, me(l->a)->node);
    return ownerless_may(reached, l->member_count);
}

// ---- 3. what others say

// The processes that other ingesters have seen lately, and the streams that they have.
struct hearsay {
    struct id_list {
        id128 *v;
        size_t n;
        size_t cap;
    } boots, streams;
};

static bool add_id(struct arena *a, struct id_list *l, str id, err *e)
{
    if (id.n != sizeof(id128)) return true;
    if (!arena_grow(a, &l->v, &l->cap, l->n + 1, sizeof *l->v)) return arena_fail(a, e);
    memcpy(l->v[l->n++].b, id.p, id.n);
    return true;
}

static bool has_id(const struct id_list *l, id128 id)
{
    for (size_t i = 0; i < l->n; i++)
        if (id128_eq(l->v[i], id)) return true;
    return false;
}

static bool read_hearsay(struct arena *a, str bytes, struct hearsay *h, err *e)
{
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.type != PB_BYTES || (r.field != 2 && r.field != 3)) continue;
        if (!add_id(a, r.field == 2 ? &h->boots : &h->streams, r.bytes, e)) return false;
    }
    return pb_done(&r, e);
}

// An ingester that does not answer is not counted: it adopts nothing now, or it is gone.
static bool ask_members(struct look *l, struct hearsay *h, err *e)
{
    struct req r;
    struct adopt *a = l->a;
    struct client *client = a->in->process->client;
    size_t n = 0;
    struct peer_call *calls = ARENA_ARRAY(&l->req->arena, struct peer_call, l->member_count + 1);
    struct call **waits = ARENA_ARRAY(&l->req->arena, struct call *, l->member_count + 1);
    if (!calls || !waits) return arena_fail(&l->req->arena, e);
    req_init(&r, RANK_DUTY, NULL, WORK_MAX, ASK_NS);
    for (size_t i = 0; client && i < l->member_count; i++) {
        const struct member *m = &l->members[i];
        if (!m->alive || str_eq(m->id, me(a)->node)) continue;
        peer_start(client, &r, &calls[n], m->address, STREAMS, S(""), RANK_INGESTER, REPLY_MAX);
        waits[n] = &calls[n].http.call;
        n++;
    }
    err ignored = {0};
    bool ok = true;
    if (n) (void)!call_gather(&r, waits, n, 0, false, &ignored);
    for (size_t i = 0; i < n; i++) {
        str bytes = {0};
        err why = {0};
        if (ok && peer_answer(&calls[i], &bytes, &why))
            ok = read_hearsay(&l->req->arena, bytes, h, e);
        peer_release(&calls[i]);
    }
    req_release(&r);
    return ok;
}

static bool is_registered(struct look *l, id128 stream, bool *is, err *e)
{
    id128 *v = NULL;
    size_t n = 0;
    *is = false;
    if (!stream_names(l->a->in->process->store, l->req, &l->req->arena, &v, &n, e)) return false;
    for (size_t i = 0; i < n && !*is; i++)
        *is = id128_eq(v[i], stream);
    return true;
}

// ---- 4. taking over, on a worker's thread

// How many ingesters take turns, this one with them.
static size_t turns(const struct look *l)
{
    size_t n = 1;
    for (size_t i = 0; i < l->member_count; i++)
        n += l->members[i].alive && !str_eq(l->members[i].id, me(l->a)->node);
    return n;
}

// What may be over in a moment; no other ingester could do better.
static bool is_passing_fault(const err *e)
{
    return e->code == ERR_UNAVAILABLE || e->code == ERR_DEADLINE_EXCEEDED;
}

// One that is not adopted is not looked at again before all ingesters had a turn, unless the store
// failed for a moment.
static void pass(const struct look *l, const struct worker *w, const err *why)
{
    char stream[ULID_TEXT];
    char text[LOG_QUOTE_MAX];
    uint64_t now = clock_mono_ns();
    struct passed p = known(l->a, w->stream);
    bool again = is_passing_fault(why) && ++p.failures < AGAIN_MAX;
    if (!again) p.failures = 0;
    p.until_mono_ns = now + (again ? AGAIN_NS : turns(l) * (uint64_t)TURN_NS);
    p.damaged = p.damaged || why->code == ERR_DATA_LOSS;
    note_passed(l->a, &p);
    ulid_print(w->stream, stream);
    metric_add(&ingester_adoption_failures, 1);
    log_warn(NULL, "stream.not_adopted", "stream=%s fault=%s then=\"%s\"", stream,
             log_quote(text, str_of(why->msg)),
             again ? "it is tried again" : "another ingester has its turn");
}

static void adopt_one(const struct look *l, const struct worker *w)
{
    struct adopt *a = l->a;
    uint64_t began = clock_mono_ns();
    char stream[ULID_TEXT];
    err e = {0};
    size_t cuts = 0;
    struct passed p = known(a, w->stream);
    // Another one that is alive may be able to read what this one cannot.
    if (!adopt_take_over(a->in, w->stream, p.damaged || turns(l) == 1, &cuts, &e)) {
        if (!duty_is_over(a->in)) pass(l, w, &e);
        return;
    }
    p.adopted = true;
    note_passed(a, &p);
    ulid_print(w->stream, stream);
    metric_add(&ingester_adopted, 1);
    log_info(NULL, "stream.adopted", "stream=%s node=%s cuts=%zu took_ms=%" PRIu64, stream, w->node,
             cuts, (clock_mono_ns() - began) / (uint64_t)NS_PER_MS);
    streams_wake(a->in->streams);
}

// Step 3, and if it finds nothing against it, step 4.
static bool consider(struct look *l, const struct worker *w, err *e)
{
    struct hearsay h = {0};
    struct members *members = l->a->in->process->members;
    bool is = false;
    if (members)
        l->members = members_of(members, &l->req->arena, MEMBER_INGESTER, &l->member_count);
    if (!arena_ok(&l->req->arena, e)) return false;
    if (!reaches_enough(l)) return true;
    if (!ask_members(l, &h, e)) return false;
    // A former process of this node is gone, whoever saw it last.
    bool seen = has_id(&h.boots, w->boot) && !w->same_node;
    if (seen || has_id(&h.streams, w->stream)) return true;
    if (!is_registered(l, w->stream, &is, e)) return false;
    if (is) adopt_one(l, w);
    return true;
}

static void tell_waiting(const err *e)
{
    char text[LOG_QUOTE_MAX];
    log_warn(NULL, "stream.adoption_waits", "fault=%s", log_quote(text, str_of(e->msg)));
}

static void serve_task(struct adopt *a, const struct worker *w)
{
    struct req r;
    struct look l = {.a = a, .req = &r};
    err e = {0};
    req_init(&r, RANK_DUTY, NULL, WORK_MAX, ROUND_NS);
    r.asker = &a->in->adopting;
    if (!consider(&l, w, &e) && !is_over(a)) tell_waiting(&e);
    req_release(&r);
}

static void *run_worker(void *arg)
{
    struct worker *w = arg;
    struct adopt *a = w->adopt;
    lock_take(&a->lock);
    while (!a->stopping) {
        if (!w->busy) {
            cond_wait(&a->wake, &a->lock);
            continue;
        }
        lock_give(&a->lock);
        serve_task(a, w);
        lock_take(&a->lock);
        struct passed *p = find_passed(a, w->stream);
        if (p) p->busy = false;
        w->busy = false;
    }
    lock_give(&a->lock);
    return NULL;
}

// ---- 5. registrations that are left

bool adopt_may(struct ingester *in)
{
    lock_take(&in->lock);
    bool ready = in->phase == INGESTER_READY;
    lock_give(&in->lock);
    return ready && wal_state(in->wal) == WAL_OPEN;
}

// Nothing of the stream is needed, and its registration is left: this process adopted it and has
// given all of it to the store since, or it had nothing in it; or a former process of this
// directory covered it, and ended before it took the registration back.
static bool is_left(struct adopt *a, const struct registered_stream *s)
{
    struct wal *wal = a->in->wal;
    const struct passed p = known(a, s->stream);
    if (id128_eq(s->boot, me(a)->boot) || p.busy) return false;
    if (clock_mono_ns() < p.until_mono_ns) return false;
    return wal_is_covered(wal, s->stream) || (p.adopted && !wal_has_stream(wal, s->stream));
}

static bool clear(struct adopt *a, struct req *r, err *e)
{
    struct registered_stream *v = NULL;
    size_t n = 0;
    if (!streams_others(a->in->streams, &r->arena, &v, &n, e)) return false;
    for (size_t i = 0; i < n && !is_over(a); i++) {
        if (!is_left(a, &v[i])) continue;
        if (!stream_unregister(a->in->process->store, r, v[i].stream, e)) return false;
        note_passed(a, &(struct passed){.stream = v[i].stream,
                                        .until_mono_ns = clock_mono_ns() + STALE_NS});
    }
    return true;
}

static void beat_clear(struct adopt *a)
{
    struct req r;
    err e = {0};
    req_init(&r, RANK_DUTY, NULL, WORK_MAX, ROUND_NS);
    r.asker = &a->in->adopting;
    if (!clear(a, &r, &e) && !is_over(a)) tell_waiting(&e);
    req_release(&r);
}

// ---- old logs

// The one that is first in the order of no stream.
static bool sweeps(struct adopt *a, struct req *r)
{
    const id128 none = {{0}};
    size_t n = 0;
    struct members *members = a->in->process->members;
    const struct member *v = members ? members_of(members, &r->arena, MEMBER_INGESTER, &n) : NULL;
    uint32_t *scratch = ARENA_ARRAY(&r->arena, uint32_t, n + 1);
    err ignored = {0};  // without memory nobody sweeps this hour
    return scratch && arena_ok(&r->arena, &ignored) &&
           ownerless_rank(v, n, me(a)->node, none, scratch) == 0;
}

static void beat_sweep(struct adopt *a)
{
    struct req r;
    uint64_t now = clock_mono_ns();
    err e = {0};
    char text[LOG_QUOTE_MAX];
    const struct object_log_sealer by = {.node = me(a)->node,
                                         .nonce = me(a)->boot,
                                         .wall_ns = clock_wall_ns()};
    if (!a->sweeping && now < a->sweep_mono_ns) return;
    req_init(&r, RANK_DUTY, NULL, WORK_MAX, SWEEP_LIMIT_NS);
    r.asker = &a->in->adopting;
    if (!a->sweeping) {
        a->sweep_mono_ns = now + SWEEP_NS;
        a->sweep = (struct object_log_sweep){0};
        a->sweeping = sweeps(a, &r);
    }
    bool ok = !a->sweeping ||
              object_log_sweep(&a->sweep, a->in->process->store, &r, &by, now + SWEEP_STEP_NS, &e);
    req_release(&r);
    a->sweeping = a->sweeping && !a->sweep.done;
    if (a->sweep.done && (a->sweep.removed || a->sweep.dropped))
        log_info(NULL, "log.swept", "objects=%" PRIu64 " copies=%" PRIu64, a->sweep.removed,
                 a->sweep.dropped);
    if (!ok && !is_over(a))
        log_warn(NULL, "log.not_swept", "fault=%s", log_quote(text, str_of(e.msg)));
}

// ---- looking

// Streams that a process registered since the last list are of interest once it is silent.
static void hurry(struct look *l)
{
    struct adopt *a = l->a;
    uint64_t now = clock_mono_ns();
    bool silent = false;
    for (size_t i = 0; i < l->other_count && !silent; i++)
        silent = silences_of(&a->silences, l->others[i].boot) >= HURRY_NS;
    for (size_t i = 0; i < l->member_count && !silent; i++)
        silent = !l->members[i].alive;
    if (!silent || now < a->hurry_mono_ns) return;
    a->hurry_mono_ns = now + (uint64_t)OWNERLESS_NS;
    streams_hurry(a->in->streams);
}

static bool look(struct adopt *a, struct req *r, err *e)
{
    struct look l = {.a = a, .req = r};
    struct members *members = a->in->process->members;
    if (!streams_others(a->in->streams, &r->arena, &l.streams, &l.stream_count, e)) return false;
    if (members) l.members = members_of(members, &r->arena, MEMBER_INGESTER, &l.member_count);
    if (!arena_ok(&r->arena, e) || !list_others(&l, e)) return false;
    if (!probe(&l, e) || !note_silences(&l, e)) return false;
    hurry(&l);
    return hand_over_due(&l, e);
}

static void beat_look(struct adopt *a)
{
    struct req r;
    err e = {0};
    req_init(&r, RANK_DUTY, NULL, WORK_MAX, ROUND_NS);
    if (!look(a, &r, &e)) tell_waiting(&e);
    req_release(&r);
}

void adopt_gauges(struct adopt *a)
{
    int64_t busy = 0;
    if (!a) return;
    lock_take(&a->lock);
    for (size_t i = 0; i < a->worker_count; i++)
        busy += a->workers[i].busy;
    lock_give(&a->lock);
    metric_set(&ingester_adoptions, busy);
    metric_set(&ingester_adoptions_limit, ADOPTIONS_MAX);
}

// ---- the threads

static void *run_beat(void *arg)
{
    struct beat *b = arg;
    struct adopt *a = b->adopt;
    while (!is_over(a)) {
        uint64_t next = clock_mono_ns() + b->every_ns;
        b->fn(a);
        lock_take(&a->lock);
        while (!a->stopping && cond_wait_until(&a->wake, &a->lock, next))
            ;
        lock_give(&a->lock);
    }
    return NULL;
}

static bool start_threads(struct adopt *a, err *e)
{
    static const struct beat beats[] = {
        {.name = "ingester.look", .fn = beat_look, .every_ns = LOOK_NS},
        {.name = "ingester.clear", .fn = beat_clear, .every_ns = TICK_NS},
        {.name = "ingester.sweep", .fn = beat_sweep, .every_ns = TICK_NS}};
    for (size_t i = 0; i < ADOPTIONS_MAX; i++) {
        struct worker *w = &a->workers[i];
        w->adopt = a;
        if (!thread_start(&w->thread, "ingester.adopt", run_worker, w, e)) return false;
        lock_take(&a->lock);  // those that run read it
        a->worker_count++;
        lock_give(&a->lock);
    }
    for (size_t i = 0; i < COUNT(beats); i++) {
        struct beat *b = &a->beats[i];
        *b = beats[i];
        b->adopt = a;
        if (!thread_start(&b->thread, b->name, run_beat, b, e)) return false;
        a->beat_count++;
    }
    return true;
}

bool adopt_start(struct ingester *in, struct adopt **out, err *e)
{
    *out = NULL;
    if (!in->streams || !wal_is_remote(in->wal)) return true;
    struct adopt *a = mem_must(sizeof *a);
    a->in = in;
    a->sweep_mono_ns = clock_mono_ns() + SWEEP_NS;
    lock_init(&a->lock, LOCK_ADOPTION);
    cond_init(&a->wake);
    if (start_threads(a, e)) {
        *out = a;
        return true;
    }
    adopt_stop(a);
    adopt_free(a);
    return false;
}

void adopt_stop(struct adopt *a)
{
    if (!a) return;
    atomic_store(&a->in->adopting.canceled, true);
    lock_take(&a->lock);
    a->stopping = true;
    cond_wake_all(&a->wake);
    lock_give(&a->lock);
    for (size_t i = 0; i < a->beat_count; i++)
        thread_join(a->beats[i].thread);
    for (size_t i = 0; i < a->worker_count; i++)
        thread_join(a->workers[i].thread);
    lock_take(&a->lock);
    a->beat_count = a->worker_count = 0;
    lock_give(&a->lock);
}

void adopt_free(struct adopt *a)
{
    if (!a) return;
    assert(a->beat_count == 0 && a->worker_count == 0);
    silences_release(&a->silences);
    mem_free(NULL, a->passed, a->passed_cap * sizeof *a->passed);
    cond_release(&a->wake);
    lock_release(&a->lock);
    mem_must_free(a);
}
