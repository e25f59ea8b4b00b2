// SPDX-License-Identifier: Apache-2.0
//
// streams.c - the thread of streams.h. One round:
//
//     1. Every quarter of a minute, and until it has succeeded once: all streams are listed. Each
//        other directory of this id is probed at its address, and becomes a notice. With the log in
//        the store only every two minutes, as a list costs a request; and when a process is silent
//        (streams_hurry). A registration that cannot be read stops nobody: if it is of this id,
//        queries name its stream until somebody can read it.
//     2. Registrations follow the log (roll_step).
//
// Rounds come once a second, or as often as streams may end; and when the log has begun a stream.
#include "ingester/streams.h"

#include "base/fault.h"
#include "codec/json.h"
#include "codec/pb.h"
#include "ingester/forget.h"
#include "ingester/ingester_int.h"
#include "ingester/metrics.h"
#include "ingester/presence.h"
#include "ingester/roll.h"
#include "ingester/stream_json.h"
#include "manifest/forgotten.h"
#include "manifest/registry.h"
#include "service/tenant.h"
#include "sys/clock.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define TICK_NS       NS_PER_S
#define INSPECT_NS    ((uint64_t)(15 * NS_PER_S))
#define QUIET_NS      ((uint64_t)(120 * NS_PER_S))
#define LOOK_LIMIT_NS ((uint64_t)(10 * NS_PER_S))  // of step 1
#define ROLL_LIMIT_NS ((uint64_t)(5 * NS_PER_S))   // of step 2
#define END_NS        ((uint64_t)(5 * NS_PER_S))
#define END_TRIES     5
#define IDLE_NS       (3600 * NS_PER_S)
#define WORK_MAX      ((size_t)64 << 20)
#define AGAIN_NS      (20 * NS_PER_MS)
#define FIRST_LIST_NS ((uint64_t)NS_PER_S)  // most that an answer waits for the first list
#define LOST_MAX      256
#define LOST_TEXT     400

// Times of profiles may be ahead of this machine's clock by so much at least: clocks of machines
// differ.
#define AHEAD_NS (INT64_C(3600) * NS_PER_S)

// Another data directory of this id, with what is registered of it.
struct lost {
    id128 directory;
    str address;  // of the newest registration; lent, while it is judged
    int64_t newest_ns;
    int64_t oldest_ns;
    int64_t from_ns;
    int64_t until_ns;      // wall clock when it took the last profiles; INT64_MAX: it may take more
    bool in_store;         // all its logs are there: nothing is lost with it
    char about[300];       // of its notice
    char text[LOST_TEXT];  // in answers
};

struct streams {
    struct ingester *in;
    pthread_t thread;
    int64_t boot_wall_ns;
    struct roll roll;
    struct registry *registry;
    struct registered list;  // the thread's; others read it with the lock
    // The thread's.
    bool cleared;          // objects of former programs are gone
    bool sorted;           // so is the log (ingester_int.h), and the list is newer than that
    id128 seen[LOST_MAX];  // other directories that it has seen
    size_t seen_count;
    int64_t after_ns;  // the newest registration of another directory of this id
    int64_t met_ns;    // the same when it was seen first
    uint64_t next_inspect_mono_ns;
    uint64_t next_list_mono_ns;
    struct lock lock;  // of what follows
    struct cond wake;
    struct cond asked;  // the store was asked, well or not
    bool stopping;
    struct req *looks;  // of step 1, under way; or NULL
    bool wake_now;
    bool inspect_now;
    bool tried;         // a list was tried, well or not
    bool listed;        // a list succeeded
    err fault;          // of the last round
    struct lost *lost;  // LOST_MAX
    size_t lost_count;
};

static const struct node_identity *me(const struct streams *s)
{
    return s->in->process->identity;
}

static struct store *store_of(const struct streams *s)
{
    return s->in->process->store;
}

static uint32_t log_of(const struct ingester *in)
{
    return wal_is_remote(in->wal) ? STREAM_LOG_OBJECT : STREAM_LOG_LOCAL;
}

// ---- other directories of this id

static void describe(const struct streams *s, bool alive, struct lost *l)
{
    char ulid[ULID_TEXT];
    char made[CLOCK_TEXT];
    ulid_print(l->directory, ulid);
    clock_text(made, l->oldest_ns);
    snprintf(l->about, sizeof l->about, "%s/%s", s->in->process->id, ulid);
    snprintf(l->text, sizeof l->text, "%.200s: data directory %s of %s is %s", s->in->process->id,
             ulid, made, alive ? "of another process" : "gone");
}

static void tell(const struct streams *s, const struct lost *l)
{
    char made[CLOCK_TEXT];
    clock_text(made, l->oldest_ns);
    notice_raise(s->in->process->notices, "node.lost", str_of(l->about), NOTICE_FOREVER,
                 "this data directory was used under the same id from %s on, and is not the one of "
                 "this process; what it had not given to the store is missing, and answers say so: "
                 "mount it again, or accept the loss with `flametree stream forget --accept-loss "
                 "%s`",
                 made, l->about);
}

// Until when another directory took profiles (streams.h).
static int64_t took_until(const struct streams *s, const struct lost *l, bool alive)
{
    int64_t own_ns = (int64_t)uuid_ms(me(s)->directory) * NS_PER_MS;
    if (alive || l->newest_ns > s->boot_wall_ns) return INT64_MAX;
    return l->newest_ns < own_ns ? own_ns : s->boot_wall_ns;
}

static void judge(struct streams *s, struct lost *l, const struct presence *seen)
{
    assert(!id128_eq(l->directory, me(s)->directory) && id128_eq(l->directory, seen->directory));
    l->until_ns = took_until(s, l, seen->there);
    describe(s, seen->there, l);
    if (seen->there) node_tell_twin(s->in->process, &seen->who);
    tell(s, l);
    l->address = (str){0};
}

static struct lost *find_lost(struct lost *v, size_t n, id128 directory)
{
    for (size_t i = 0; i < n; i++) {
        if (id128_eq(v[i].directory, directory)) return &v[i];
    }
    return NULL;
}

static void replace(struct streams *s, struct lost *v, size_t n)
{
    lock_take(&s->lock);
    for (size_t i = 0; i < s->lost_count; i++) {
        if (!find_lost(v, n, s->lost[i].directory))
            notice_end(s->in->process->notices, "node.lost", str_of(s->lost[i].about));
    }
    assert(n <= LOST_MAX);
    // Notices of directories that are still lost were raised again by judge, with their new times.
    if (n) memcpy(s->lost, v, n * sizeof *v);
    s->lost_count = n;
    s->listed = true;
    cond_wake_all(&s->asked);
    lock_give(&s->lock);
    metric_set(&ingester_lost_directories, (int64_t)n);
}

// Adds a registration of another directory to what is known of that one.
static void join(struct lost *v, size_t *n, const struct registered_stream *o)
{
    struct lost *l = find_lost(v, *n, o->directory);
    if (!l && *n == LOST_MAX) return;
    if (!l) {
        l = &v[(*n)++];
        *l = (struct lost){.directory = o->directory,
                           .in_store = true,
                           .newest_ns = INT64_MIN,
                           .oldest_ns = INT64_MAX,
                           .from_ns = INT64_MAX};
    }
    // Streams are in the order of their beginnings, so the last one has the newest address.
    l->address = o->address;
    l->in_store = l->in_store && o->log == STREAM_LOG_OBJECT;
    l->newest_ns = MAX(l->newest_ns, o->made_ns);
    l->oldest_ns = MIN(l->oldest_ns, o->made_ns);
    l->from_ns = MIN(l->from_ns, o->rows_from_ns);
}

// A directory that this process sees for the first time: a stream that is registered later says
// that this one is in use as well.
static void meet(struct streams *s, const struct lost *l)
{
    id128 planned;
    err ignored = {0};
    for (size_t i = 0; i < s->seen_count; i++) {
        if (id128_eq(s->seen[i], l->directory)) return;
    }
    if (s->seen_count < LOST_MAX) s->seen[s->seen_count++] = l->directory;
    s->met_ns = MAX(s->met_ns, l->newest_ns);
    if (l->newest_ns < roll_newest_ns(&s->roll)) return;
    if (wal_plan_stream(s->in->wal, &planned, &ignored)) wal_unplan_stream(s->in->wal, planned);
}

static bool is_other(const struct streams *s, const struct registered_stream *o)
{
    return str_eq(o->node, me(s)->node) && !id128_eq(o->directory, me(s)->directory);
}

// Looks which of them are in use, and takes out those whose logs are in the store and that no
// process has: their streams are adopted (adopt.h). NULL: there is no memory.
static struct presence *keep_lost(struct streams *s, struct arena *a, struct lost *v, size_t *n)
{
    size_t kept = 0;
    struct presence *seen = ARENA_ARRAY(a, struct presence, *n + 1);
    for (size_t i = 0; seen && i < *n; i++)
        seen[i] = (struct presence){.address = v[i].address, .directory = v[i].directory};
    if (seen) presence_ask(s->in->process, a, seen, *n);
    for (size_t i = 0; seen && i < *n; i++) {
        if (v[i].in_store && !seen[i].there) continue;
        seen[kept] = seen[i];
        v[kept++] = v[i];
    }
    *n = kept;
    return seen;
}

// An ingester with its log on disk does not read those in the store.
static void tell_left(const struct streams *s, const struct registered *list)
{
    struct notices *notices = s->in->process->notices;
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++)
        n += list->v[i].log == STREAM_LOG_OBJECT && str_eq(list->v[i].node, me(s)->node);
    if (log_of(s->in) == STREAM_LOG_OBJECT || n == 0) {
        notice_end(notices, "log.left", me(s)->node);
        return;
    }
    notice_raise(notices, "log.left", me(s)->node, NOTICE_FOREVER,
                 "%zu streams of this node are in the object store, and ingester.log is local: an "
                 "ingester with ingester.log: object takes them over; if there is none, start this "
                 "one with that, and stop it, which flushes them",
                 n);
}

static void tell_unread(const struct streams *s, const struct registered *list)
{
    struct notices *notices = s->in->process->notices;
    const struct registered_stream *first = NULL;
    char ulid[ULID_TEXT];
    for (size_t i = 0; i < list->n && !first; i++)
        if (list->v[i].node.n == 0) first = &list->v[i];
    if (!first || list->untried) {  // else the next round reads on
        if (!first) notice_end(notices, "stream.unread", me(s)->node);
        return;
    }
    ulid_print(first->stream, ulid);
    notice_raise(notices, "stream.unread", me(s)->node, NOTICE_FOREVER,
                 "%zu of %zu registrations of streams cannot be read, the first is that of %s: "
                 "%.*s; nobody knows whose these streams are, so answers name them; look at the "
                 "store",
                 list->unread, list->n, ulid, STR(first->why));
}

// Who deleted a registration of this process has perhaps given up its stream: then that is noted.
// It could not be reached, or that would have been refused.
static bool look_for_forgotten(struct streams *s, struct req *r, err *e)
{
    id128 *rolled = NULL;
    id128 *held = NULL;
    id128 *v = NULL;
    size_t rolled_count = 0;
    size_t held_count = 0;
    size_t n = 0;
    bool lacks = false;
    if (!roll_lacks(&s->roll, &r->arena, &s->list, &lacks, e)) return false;
    // While the log is being sorted it has streams that are about to leave it.
    if (!lacks || !s->sorted) return true;
    if (!roll_ids(&s->roll, &r->arena, &rolled, &rolled_count, e) ||
        !wal_all_streams(s->in->wal, &r->arena, &held, &held_count, e) ||
        !forgotten_names(store_of(s), r, &r->arena, &v, &n, e))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!id128_among(v[i], rolled, rolled_count) && !id128_among(v[i], held, held_count))
            continue;
        // Of one that it took over it has the rows as its own, and confirms deletions for them.
        if (wal_is_adopted(s->in->wal, v[i])) continue;
        atomic_store(&s->in->forgotten, true);
        duty_wake(s->in);
    }
    return true;
}

// Not before streams that were forgotten have left the log: they would be registered anew.
static bool may_roll(const struct streams *s)
{
    return s->sorted && !atomic_load(&s->in->forgotten);
}

// Reads the list, and keeps it.
static bool read_list(struct streams *s, struct req *r, err *e)
{
    struct registered list;
    if (FAULT_ERRNO("manifest.streams")) return err_set(e, ERR_UNAVAILABLE, "%s", strerror(errno));
    if (!registry_read(s->registry, r, NULL, &list, e)) {
        registered_release(&list);
        return false;
    }
    lock_take(&s->lock);  // streams_others reads it
    struct registered former = s->list;
    s->list = list;
    lock_give(&s->lock);
    registered_release(&former);
    tell_left(s, &s->list);
    tell_unread(s, &s->list);
    return true;
}

static bool list(struct streams *s, struct req *r, bool *done, err *e)
{
    size_t n = 0;
    if (!read_list(s, r, e)) return false;
    // In the arena, not on the stack: LOST_MAX of them are 200 kB.
    struct lost *lost = ARENA_ARRAY(&r->arena, struct lost, LOST_MAX);
    if (!lost) return arena_fail(&r->arena, e);
    if (!look_for_forgotten(s, r, e) || !roll_saw(&s->roll, &s->list, e)) return false;
    for (size_t i = 0; i < s->list.n; i++) {
        const struct registered_stream *o = &s->list.v[i];
        if (!is_other(s, o)) continue;
        join(lost, &n, o);
        s->after_ns = MAX(s->after_ns, o->made_ns);
    }
    const struct presence *seen = keep_lost(s, &r->arena, lost, &n);
    if (!seen) return arena_fail(&r->arena, e);
    for (size_t i = 0; i < n; i++)
        meet(s, &lost[i]);
    // Told only once it is in the store that this directory is in use after the other one.
    *done = n == 0 || roll_newest_ns(&s->roll) > s->met_ns;
    if (!*done) return true;
    for (size_t i = 0; i < n; i++)
        judge(s, &lost[i], &seen[i]);
    // Built aside and swapped in: answers see the former list until the new one is complete.
    replace(s, lost, n);
    return true;
}

// Former programs had objects of data directories in the store, which nobody reads any more.
static bool clear_former(struct streams *s, struct req *r, err *e)
{
    if (s->cleared) return true;
    s->cleared = streams_clear_former(store_of(s), r, me(s)->node, e);
    return s->cleared;
}

// ---- the thread

static bool inspect(struct streams *s, struct req *r, err *e)
{
    id128 cluster;
    uint64_t now = clock_mono_ns();
    if (now < s->next_inspect_mono_ns) return true;
    if (!process_cluster(s->in->process, &cluster))
        return err_set(e, ERR_UNAVAILABLE, "the id of the store's cluster is not known yet");
    bool done = now < s->next_list_mono_ns;
    if (!closings_refresh(s->in->closings, r, e)) return false;
    if (!done && !list(s, r, &done, e)) return false;
    if (!clear_former(s, r, e)) return false;
    // What there was no time to read is read in the next round.
    if (!done || s->list.untried) return true;
    s->next_inspect_mono_ns = now + INSPECT_NS;
    // Where logs are in the store no list is needed while all answer (streams_hurry).
    if (now >= s->next_list_mono_ns)
        s->next_list_mono_ns = now + (log_of(s->in) == STREAM_LOG_OBJECT ? QUIET_NS : INSPECT_NS);
    return true;
}

static struct roll_settings settings(const struct streams *s)
{
    const struct ingester_config *c = ingester_settings(s->in);
    const struct process *p = s->in->process;
    // The all-in-one asks itself, and behind a Unix socket nobody else does: no other process holds
    // a list of streams that matters. Where there is only the socket, queriers are other processes.
    bool alone =
        p->all_in_one && p->internal_address && str_starts(str_of(p->internal_address), S("unix:"));
    return (struct roll_settings){.stream_age_ns = c->stream_age,
                                  .idle_ns = IDLE_NS,
                                  .settle_ns = alone ? 0 : c->stream_settle,
                                  .rows_age_ns = c->head_age,
                                  .after_ns = s->after_ns,
                                  .asked_boot_ns = closings_asked_ns(s->in->closings)};
}

// Step 1, within its own time limit: whatever it takes, there is time to register a stream.
static bool look(struct streams *s, err *e)
{
    struct req r;
    req_init(&r, RANK_DUTY, NULL, WORK_MAX, LOOK_LIMIT_NS);
    lock_take(&s->lock);
    s->looks = &r;
    if (s->stopping) atomic_store(&r.canceled, true);
    lock_give(&s->lock);
    bool ok = inspect(s, &r, e);
    lock_take(&s->lock);
    s->looks = NULL;
    lock_give(&s->lock);
    req_release(&r);
    return ok;
}

static bool follow_log(struct streams *s, int64_t *soon_ns, err *e)
{
    struct req r;
    req_init(&r, RANK_DUTY, NULL, WORK_MAX, ROLL_LIMIT_NS);
    // Before anything is acknowledged in a stream of this process.
    bool ok = known_ids_settle(&s->in->known_ids, store_of(s), &r, &s->list, me(s), e);
    if (ok && roll_wants_asking(&s->roll, closings_asked_ns(s->in->closings)))
        ok = closings_refresh(s->in->closings, &r, e);
    const struct roll_settings t = settings(s);
    ok = ok && (!may_roll(s) || roll_step(&s->roll, &r, &t, soon_ns, e));
    req_release(&r);
    return ok;
}

// Returns when the next round is due.
static uint64_t go_round(struct streams *s)
{
    err e = {0};
    int64_t soon_ns = INT64_MAX;
    // What was forgotten while the log was being sorted shows in a list that begins now.
    if (!s->sorted && atomic_load(&s->in->sorted)) {
        s->sorted = true;
        s->next_inspect_mono_ns = s->next_list_mono_ns = 0;
    }
    bool listed = look(s, &e);
    // Not before the first list: what it has of an earlier process would be taken for new.
    bool ok = listed && follow_log(s, &soon_ns, &e);
    bool opened = wal_state(s->in->wal) == WAL_OPEN;
    lock_take(&s->lock);
    s->tried |= s->listed || !ok;
    if (s->tried) cond_wake_all(&s->asked);
    s->fault = ok ? (err){0} : e;
    bool stopping = s->stopping;
    lock_give(&s->lock);
    if (ok) {
        notice_end(s->in->process->notices, "stream.unregistered", me(s)->node);
    } else if (!stopping && (opened || !listed)) {
        // While the log is being read or opened again, it tells so itself.
        notice_raise(s->in->process->notices, "stream.unregistered", me(s)->node, INSPECT_NS * 3,
                     "streams of this ingester could not be registered or looked up in the "
                     "store%s: %s",
                     roll_is_open(&s->roll) ? "" : ", and pushes wait until they are", e.msg);
    }
    int64_t pause = MIN(TICK_NS, ingester_settings(s->in)->stream_age);
    if (s->next_inspect_mono_ns == 0) pause = MIN(pause, AGAIN_NS);
    return clock_mono_ns() + (uint64_t)(ok ? MIN(pause, MAX(soon_ns, 0)) : TICK_NS);
}

static void *run_streams(void *arg)
{
    struct streams *s = arg;
    lock_take(&s->lock);
    while (!s->stopping) {
        if (s->inspect_now) s->next_inspect_mono_ns = s->next_list_mono_ns = 0;
        s->inspect_now = s->wake_now = false;
        lock_give(&s->lock);
        // Without the lock: answers to queries take it (streams_put), and the store may be slow.
        uint64_t next = go_round(s);
        lock_take(&s->lock);
        while (!s->stopping && !s->wake_now && cond_wait_until(&s->wake, &s->lock, next))
            ;
    }
    lock_give(&s->lock);
    return NULL;
}

static void release(struct streams *s)
{
    cond_release(&s->asked);
    cond_release(&s->wake);
    lock_release(&s->lock);
    roll_release(&s->roll);
    registered_release(&s->list);
    registry_free(s->registry);
    mem_must_free(s->lost);
    mem_must_free(s);
}

bool streams_start(struct ingester *in, struct streams **out, err *e)
{
    const struct process *p = in->process;
    *out = NULL;
    if (!p->store || !p->identity || !node_knows(p->identity->directory)) return true;
    struct streams *s = mem_must(sizeof *s);
    s->in = in;
    s->boot_wall_ns = clock_wall_ns();
    s->lost = mem_must(LOST_MAX * sizeof *s->lost);
    s->registry = registry_new(p->store, p->memory, "ingester");
    const struct registered_stream own = {.node = me(s)->node,
                                          .boot = me(s)->boot,
                                          .address = me(s)->address,
                                          .directory = me(s)->directory,
                                          .log = log_of(in)};
    roll_init(&s->roll, in->wal, p->store, &own);
    arena_init(&s->list.arena, NULL, WORK_MAX);
    lock_init(&s->lock, LOCK_STREAMS);
    cond_init(&s->wake);
    cond_init(&s->asked);
    if (thread_start(&s->thread, "ingester.streams", run_streams, s, e)) {
        *out = s;
        return true;
    }
    release(s);
    return false;
}

void streams_drain(struct streams *s)
{
    if (!s) return;
    struct req r;
    err e = {0};
    char text[LOG_QUOTE_MAX];
    lock_take(&s->lock);
    s->stopping = true;
    if (s->looks) atomic_store(&s->looks->canceled, true);
    cond_wake_all(&s->wake);
    cond_wake_all(&s->asked);
    lock_give(&s->lock);
    thread_join(s->thread);
    req_init(&r, RANK_DUTY, NULL, WORK_MAX, END_NS);
    // Nobody looks after this, so what had no effect is done again.
    bool ok = roll_end(&s->roll, &r, &e);
    for (int i = 1; !ok && i < END_TRIES; i++) {
        usleep((useconds_t)(AGAIN_NS / 1000));
        e = (err){0};
        ok = roll_end(&s->roll, &r, &e);
    }
    // One that stays has nothing in it; the next process with this directory takes it back.
    if (!ok) {
        log_warn(NULL, "stream.stays_registered", "why=%s do=\"%s\"",
                 log_quote(text, str_of(e.msg)),
                 "nothing, if this data directory is used again; else flametree stream forget");
    }
    req_release(&r);
}

void streams_stop(struct streams *s)
{
    if (s) release(s);
}

static void wake(struct streams *s, bool inspects)
{
    lock_take(&s->lock);
    s->wake_now = true;
    s->inspect_now |= inspects;
    cond_wake_all(&s->wake);
    lock_give(&s->lock);
}

void streams_wake(struct streams *s)
{
    if (s) wake(s, false);
}

void streams_hurry(struct streams *s)
{
    if (s) wake(s, true);
}

// ---- questions

struct roll *streams_roll(struct streams *s)
{
    return s ? &s->roll : NULL;
}

bool streams_blame(struct streams *s, err *e)
{
    lock_take(&s->lock);
    err fault = s->fault;
    lock_give(&s->lock);
    return err_set(e, ERR_UNAVAILABLE,
                   "the stream of this ingester is not registered in the store yet, which comes "
                   "before the first push: %s",
                   fault.code ? fault.msg : "it is being done");
}

bool streams_inspected(struct streams *s)
{
    if (!s) return true;
    lock_take(&s->lock);
    bool inspected = s->tried;
    lock_give(&s->lock);
    return inspected;
}

// How far profiles of a query's tenants may be ahead of the clock; INT64_MAX: no limit.
static int64_t ahead_most(const struct streams *s, struct arena *a, const struct head_query *q)
{
    int64_t most = AHEAD_NS;
    for (size_t i = 0; i < q->tenant_count; i++) {
        int64_t limit = tenant_limits(s->in->process->config, a, q->tenants[i])->reject_newer_than;
        most = MAX(most, limit > 0 ? limit : INT64_MAX);
    }
    return most;
}

void streams_put(struct streams *s, struct arena *a, const struct head_query *q, struct buf *out)
{
    if (!s) return;
    int64_t ahead = ahead_most(s, a, q);
    uint64_t until_mono_ns = clock_mono_ns() + FIRST_LIST_NS;
    lock_take(&s->lock);
    // A process that has just begun will know in a moment, so its first answers need not be marked.
    while (!s->listed && !s->tried && !s->stopping &&
           cond_wait_until(&s->asked, &s->lock, until_mono_ns))
        ;
    for (size_t i = 0; i < s->lost_count; i++) {
        const struct lost *l = &s->lost[i];
        int64_t until = l->until_ns > INT64_MAX - ahead ? INT64_MAX : l->until_ns + ahead;
        if (q->to_ns > l->from_ns && q->from_ns < until) pb_put_bytes(out, 17, str_of(l->text));
        pb_put_bytes(out, 20, str_make(l->directory.b, sizeof l->directory.b));
    }
    // Nothing is known yet: the answer says that, rather than that all is there.
    if (!s->listed) {
        struct buf text;
        buf_init(&text, NULL, 4096);
        buf_printf(&text, "%s: the store could not be asked whether a data directory is gone",
                   s->in->process->id);
        pb_put_bytes(out, 17, buf_view(&text));
        buf_release(&text);
    }
    lock_give(&s->lock);
}

static void put_registration(struct streams *s, const struct registered_stream *o,
                             const struct wal_served *mine, struct buf *out)
{
    bool own = id128_eq(o->directory, me(s)->directory) || mine;
    const char *state = mine && mine->adopted ? "adopted" : "held";
    buf_byte(out, '{');
    stream_put_id(out, "stream", o->stream);
    buf_z(out, ",\"node\":");
    json_put_string(out, o->node);
    buf_byte(out, ',');
    stream_put_id(out, "directory", o->directory);
    buf_z(out, ",\"address\":");
    json_put_string(out, o->address);
    buf_printf(out, ",\"log\":\"%s\"", stream_log_name(o->log));
    stream_put_time(out, "made", o->made_ns);
    stream_put_time(out, "rows_from", o->rows_from_ns);
    if (o->why.n) buf_z(out, ",\"unread\":");
    if (o->why.n) json_put_string(out, o->why);
    if (mine && mine->open) state = "open";
    if (mine && mine->planned) state = "next";
    if (mine && mine->oldest_ns) stream_put_time(out, "oldest", mine->oldest_ns);
    buf_printf(out, ",\"answering\":%s", own ? "true" : "false");
    if (own) buf_printf(out, ",\"state\":\"%s\"", mine ? state : "ended");
    buf_byte(out, '}');
}

bool streams_print(struct streams *s, struct req *r, struct buf *out, err *e)
{
    struct registered list;
    size_t n = wal_serves(s->in->wal, NULL, 0) + 8;  // some may begin between the two calls
    struct wal_served *v = ARENA_ARRAY(&r->arena, struct wal_served, n);
    if (!v) return arena_fail(&r->arena, e);
    bool ok = registry_read(s->registry, r, r->arena.budget, &list, e);
    size_t served = wal_serves(s->in->wal, v, n);
    if (served > n) served = 0;
    buf_z(out, "{\"streams\":[");
    for (size_t i = 0; ok && i < list.n; i++) {
        const struct wal_served *mine = NULL;
        for (size_t k = 0; k < served; k++) {
            if (id128_eq(v[k].stream, list.v[i].stream)) mine = &v[k];
        }
        if (i) buf_byte(out, ',');
        put_registration(s, &list.v[i], mine, out);
    }
    buf_z(out, "]}\n");
    registered_release(&list);
    return ok && buf_ok(out, e);
}

bool streams_others(struct streams *s, struct arena *a, struct registered_stream **v, size_t *n,
                    err *e)
{
    lock_take(&s->lock);
    const struct registered *list = &s->list;
    *v = ARENA_ARRAY(a, struct registered_stream, list->n + 1);
    *n = 0;
    for (size_t i = 0; *v && i < list->n; i++) {
        struct registered_stream o = list->v[i];
        if (o.node.n == 0 || id128_eq(o.boot, me(s)->boot)) continue;
        o.node = arena_str(a, o.node);
        o.address = arena_str(a, o.address);
        (*v)[(*n)++] = o;
    }
    lock_give(&s->lock);
    return arena_ok(a, e);
}

void streams_gauges(struct streams *s)
{
    int64_t oldest_ns = 0;
    if (!s) return;
    size_t n = roll_registered(&s->roll, &oldest_ns);
    metric_set(&ingester_registered, (int64_t)n);
    metric_set(&ingester_registered_age, n ? (clock_wall_ns() - oldest_ns) / NS_PER_S : 0);
}

bool streams_forget(struct streams *s, struct req *r, const struct forget *what, size_t *n, err *e)
{
    bool ok = forget_streams(s->in->process, s->registry, r, what, n, e);
    // So that answers soon stop to mention what was forgotten.
    if (ok) wake(s, true);
    return ok;
}
