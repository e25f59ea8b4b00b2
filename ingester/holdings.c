// SPDX-License-Identifier: Apache-2.0
//
// holdings.c - one inspection of the store, every quarter of a minute (holdings.h):
//
//     1. The object of this directory is created, unless it is there. Then the directory is marked
//        on disk, so that the next start need not wait for the store before it takes pushes.
//     2. All objects of this id are listed. Each other directory is probed at its address, and
//        becomes a notice. The use of this directory is noted if it must be (needs_note).
//     3. If all cuts of an earlier moment are flushed, the next number is created (roll.h).
//
// An inspection that fails is repeated a second later while this directory has no object.
#include "ingester/holdings.h"

#include "base/fault.h"
#include "codec/json.h"
#include "codec/pb.h"
#include "ingester/ingester_int.h"
#include "ingester/metrics.h"
#include "ingester/roll.h"
#include "manifest/holding.h"
#include "rpc/peer.h"
#include "service/tenant.h"
#include "sys/clock.h"
#include "sys/file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <time.h>

#define TICK_NS    ((uint64_t)NS_PER_S)
#define INSPECT_NS ((uint64_t)(15 * NS_PER_S))
#define LIMIT_NS   ((uint64_t)(5 * NS_PER_S))  // of one inspection
#define PROBE_NS   ((uint64_t)NS_PER_S)
#define END_NS     ((uint64_t)(5 * NS_PER_S))
#define WORK_MAX   ((size_t)16 << 20)
#define LOST_MAX   256
#define LOST_TEXT  400
#define TIME_TEXT  32

// Times of profiles may be ahead of this machine's clock by so much at least: clocks of machines
// differ.
#define SLACK_NS (INT64_C(3600) * NS_PER_S)

// Another data directory of this id, which may have rows that no process answers for.
struct lost {
    id128 directory;
    int64_t from_ns;
    int64_t until_ns;      // wall clock when it took the last profiles; INT64_MAX: it may take more
    char about[300];       // of its notice
    char text[LOST_TEXT];  // in answers
};

struct holdings {
    struct ingester *in;
    pthread_t thread;
    int64_t boot_wall_ns;
    struct roll roll;  // the thread's, like the next four
    int64_t made_ns;
    int64_t seen_ns;       // of the newest object that this process created; 0: it has created none
    int64_t age_ns;        // the largest head_age so far
    int64_t noted_age_ns;  // that of the newest object
    struct lock lock;      // of what follows
    struct cond wake;
    bool stopping;
    bool inspect_now;
    bool noted;
    bool tried;         // an inspection ended, well or not
    bool listed;        // an inspection ended well
    err fault;          // of the last inspection
    struct lost *lost;  // LOST_MAX
    size_t lost_count;
};

static const struct node_identity *me(const struct holdings *h)
{
    return h->in->process->identity;
}

static void time_text(int64_t ns, char text[TIME_TEXT])
{
    struct tm tm;
    time_t s = (time_t)(ns / NS_PER_S);
    // A time that no calendar has stays empty: it is only shown.
    text[0] = '\0';
    if (gmtime_r(&s, &tm)) (void)!strftime(text, TIME_TEXT, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

// ---- the mark: a file in the data directory, which says that the store has its object

static void mark_path(const struct holdings *h, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/ingester/noted", h->in->process->data_dir);
}

// Names directory and cluster, so that the mark of a copied data directory, or of another store,
// does not count.
static bool mark_text(const struct holdings *h, char text[2 * ULID_TEXT + 1])
{
    id128 cluster;
    char of[ULID_TEXT];
    char in[ULID_TEXT];
    assert(node_knows(me(h)->directory));  // holdings_start looked
    if (!process_cluster(h->in->process, &cluster)) return false;
    ulid_print(me(h)->directory, of);
    ulid_print(cluster, in);
    snprintf(text, 2 * ULID_TEXT + 1, "%s %s\n", of, in);
    return true;
}

static bool is_marked(const struct holdings *h)
{
    char path[PATH_MAX];
    char want[2 * ULID_TEXT + 1];
    struct buf text;
    err ignored = {0};
    mark_path(h, path);
    buf_init(&text, NULL, 4096);
    bool same =
        mark_text(h, want) && file_read(path, &text, &ignored) && str_is(buf_view(&text), want);
    buf_release(&text);
    return same;
}

static bool mark(const struct holdings *h, err *e)
{
    char path[PATH_MAX];
    char text[2 * ULID_TEXT + 1];
    mark_path(h, path);
    return mark_text(h, text) && file_write(path, str_of(text), e);
}

// ---- the object of this directory

// No profile in the log is older: the opening of the oldest cut, less the age that a profile may
// have when it arrives.
static int64_t rows_from(const struct holdings *h)
{
    struct wal *wal = h->in->wal;
    int64_t oldest = clock_wall_ns();
    err ignored = {0};
    size_t n = wal_list_cuts(wal, NULL, 0);
    const size_t bytes = (n + 1) * sizeof(struct wal_cut);
    struct wal_cut *v = mem_alloc(NULL, bytes, &ignored);
    // Without memory the loss is said to be larger than it may be, never smaller.
    if (!v) return 0;
    n = MIN(n, wal_list_cuts(wal, v, n));
    for (size_t i = 0; i < n; i++)
        oldest = MIN(oldest, v[i].opened_wall_ns);
    mem_free(NULL, v, bytes);
    // The largest age that was ever set here: rows may have come under that setting.
    assert(h->age_ns >= 0);
    return oldest > h->age_ns + SLACK_NS ? oldest - h->age_ns - SLACK_NS : 0;
}

static struct holding own_now(struct holdings *h)
{
    h->age_ns = MAX(h->age_ns, ingester_settings(h->in)->head_age);
    // The next number, because an object is never replaced: the newest one counts.
    return (struct holding){.node = me(h)->node,
                            .directory = me(h)->directory,
                            .number = h->roll.number + 1,
                            .boot = me(h)->boot,
                            .address = me(h)->address,
                            .made_ns = h->made_ns ? h->made_ns : clock_wall_ns(),
                            .rows_from_ns = rows_from(h),
                            .seen_ns = clock_wall_ns()};
}

static void note_own(struct holdings *h, const struct holding *own)
{
    h->seen_ns = own->seen_ns;
    h->noted_age_ns = h->age_ns;
}

// Takes over number and time of the objects that the store has of this directory. False: none.
static bool adopt(struct holdings *h, const struct holding *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!id128_eq(v[i].directory, me(h)->directory) || v[i].number == 0) continue;
        h->made_ns = v[i].made_ns;
        roll_noted(&h->roll, v[i].number, clock_boot_ns());
        return true;
    }
    return false;
}

static bool note(struct holdings *h, struct req *r, err *e)
{
    struct store *s = h->in->process->store;
    struct holding *v = NULL;
    size_t n = 0;
    assert(s && !lock_is_mine(&h->lock));  // the store may take long
    bool existed = false;
    if (!holdings_list(s, r, &r->arena, me(h)->node, &v, &n, e)) return false;
    if (!adopt(h, v, n)) {
        const struct holding own = own_now(h);
        if (!holding_create(s, r, &own, &existed, e)) return false;
        roll_noted(&h->roll, own.number, clock_boot_ns());
        // If it existed, an earlier try had succeeded after all, and its times are in the store.
        if (!existed) note_own(h, &own);
    }
    // The object first: a mark without one would let the next start take pushes that nothing tells
    // of.
    if (!mark(h, e)) return e->code == ERR_OK && err_set(e, ERR_UNAVAILABLE, "no cluster is known");
    lock_take(&h->lock);
    h->noted = true;
    lock_give(&h->lock);
    return true;
}

// ---- other directories of this id

// Whether a process with this directory answers at the object's address.
static bool is_alive(struct holdings *h, const struct holding *o, struct node_identity *who,
                     struct arena *a)
{
    const struct process *p = h->in->process;
    struct peer_call c;
    struct req r;
    struct buf message;
    struct node_answer answer;
    str bytes = {0};
    err why = {0};
    if (!p->client || o->address.n == 0) return false;
    // A request of its own, because the caller's has the time limit of the whole inspection.
    buf_init(&message, NULL, NODE_MESSAGE_MAX);
    req_init(&r, RANK_DUTY, NULL, WORK_MAX, PROBE_NS);
    node_put_probe(me(h), &message);
    peer_start(p->client, &r, &c, o->address, NODE_PROBE, buf_view(&message), RANK_INGESTER,
               NODE_MESSAGE_MAX);
    bool ok = call_wait(&r, &c.http.call, &why) && peer_answer(&c, &bytes, &why) &&
              node_read_answer(arena_str(a, bytes), &answer, &why);
    // arena_str copied what the answer lends: it goes with the call.
    peer_release(&c);
    req_release(&r);
    buf_release(&message);
    if (!ok || !id128_eq(answer.node.directory, o->directory)) return false;
    // Another process may have that address by now.
    *who = answer.node;
    return true;
}

static void describe(const struct holdings *h, const struct holding *o, bool alive, struct lost *l)
{
    char ulid[ULID_TEXT];
    char made[TIME_TEXT];
    ulid_print(o->directory, ulid);
    time_text(o->made_ns, made);
    snprintf(l->about, sizeof l->about, "%s/%s", h->in->process->id, ulid);
    snprintf(l->text, sizeof l->text, "%.200s: data directory %s of %s is %s", h->in->process->id,
             ulid, made, alive ? "of another process" : "gone");
}

static void tell(const struct holdings *h, const struct holding *o, const struct lost *l)
{
    struct notices *n = h->in->process->notices;
    char made[TIME_TEXT];
    time_text(o->made_ns, made);
    notice_raise(n, "node.lost", str_of(l->about), NOTICE_FOREVER,
                 "this data directory was used under the same id from %s on, and is not the one of "
                 "this process; what it had not given to the store is missing, and answers say so: "
                 "mount it again, or accept the loss with `flametree node forget --accept-loss %s`",
                 made, l->about);
}

// Until when another directory took profiles (holdings.h). own_made_ns is 0 if the store has no
// object of this one. A process that sees a directory which is newer than its own notes its use
// again (needs_note), so the times in the store tell which of the two was used last.
static int64_t took_until(const struct holdings *h, const struct holding *o, bool alive,
                          int64_t own_made_ns)
{
    if (alive || MAX(o->made_ns, o->seen_ns) > h->boot_wall_ns) return INT64_MAX;
    bool is_over = o->seen_ns > 0 && MAX(o->made_ns, o->seen_ns) < own_made_ns;
    return is_over ? own_made_ns : h->boot_wall_ns;
}

static void judge(struct holdings *h, const struct holding *o, int64_t own_made_ns, struct arena *a,
                  struct lost *l)
{
    struct node_identity who;
    bool alive = is_alive(h, o, &who, a);
    *l = (struct lost){.directory = o->directory,
                       .from_ns = o->rows_from_ns,
                       .until_ns = took_until(h, o, alive, own_made_ns)};
    assert(!id128_eq(o->directory, me(h)->directory));
    describe(h, o, alive, l);
    if (alive) node_tell_twin(h->in->process, &who);
    tell(h, o, l);
}

static bool is_among(const struct lost *v, size_t n, id128 directory)
{
    for (size_t i = 0; i < n; i++) {
        if (id128_eq(v[i].directory, directory)) return true;
    }
    return false;
}

static void replace(struct holdings *h, const struct lost *v, size_t n)
{
    lock_take(&h->lock);
    for (size_t i = 0; i < h->lost_count; i++) {
        if (!is_among(v, n, h->lost[i].directory))
            notice_end(h->in->process->notices, "node.lost", str_of(h->lost[i].about));
    }
    assert(n <= LOST_MAX);
    // Notices of directories that are still lost were raised again by judge, with their new times.
    if (n) memcpy(h->lost, v, n * sizeof *v);
    h->lost_count = n;
    h->listed = true;
    lock_give(&h->lock);
    metric_set(&ingester_lost_directories, (int64_t)n);
}

// Whether the use of this directory is to be noted in the store, beside its number: at the start,
// or it would seem unused since an earlier process; when another directory was made since; and when
// older profiles are taken than the newest object says.
static bool needs_note(const struct holdings *h, const struct holding *v, size_t n)
{
    bool needs = h->seen_ns == 0 || ingester_settings(h->in)->head_age > h->noted_age_ns;
    for (size_t i = 0; i < n && !needs; i++)
        needs = !id128_eq(v[i].directory, me(h)->directory) && v[i].made_ns > h->seen_ns;
    return needs;
}

static bool note_use(struct holdings *h, struct req *r, const struct holding *v, size_t n, err *e)
{
    struct holding own = own_now(h);
    // Not before any other directory was made, also where that was by a clock that is ahead.
    for (size_t i = 0; i < n; i++)
        own.seen_ns = MAX(own.seen_ns, v[i].made_ns);
    assert(own.number > 0);
    if (!holding_renew(h->in->process->store, r, &own, e)) return false;
    note_own(h, &own);
    return true;
}

static bool list(struct holdings *h, struct req *r, err *e)
{
    struct holding *v = NULL;
    size_t n = 0;
    size_t count = 0;
    if (!holdings_list(h->in->process->store, r, &r->arena, me(h)->node, &v, &n, e)) return false;
    // In the arena, not on the stack: LOST_MAX of them are 200 kB.
    struct lost *lost = ARENA_ARRAY(&r->arena, struct lost, LOST_MAX);
    if (!lost) return arena_fail(&r->arena, e);
    bool own = adopt(h, v, n);
    int64_t own_made_ns = own ? h->made_ns : 0;
    if (own && needs_note(h, v, n) && !note_use(h, r, v, n, e)) return false;
    for (size_t i = 0; i < n && count < LOST_MAX; i++) {
        if (id128_eq(v[i].directory, me(h)->directory)) continue;
        judge(h, &v[i], own_made_ns, &r->arena, &lost[count++]);
    }
    // Built aside and swapped in: answers see the former list until the new one is complete.
    replace(h, lost, count);
    if (own) return true;
    lock_take(&h->lock);
    h->noted = false;  // a person deleted the object: pushes wait until it is there again
    lock_give(&h->lock);
    return true;
}

// ---- the thread

static bool roll(struct holdings *h, struct req *r, err *e)
{
    const struct holding own = own_now(h);
    int64_t interval = ingester_settings(h->in)->holding_interval;
    lock_take(&h->lock);
    bool noted = h->noted;
    lock_give(&h->lock);
    // Without its object the directory is noted anew first, at the next inspection.
    assert(h->roll.number > 0 || !noted);
    if (!noted) return true;
    uint64_t before = h->roll.number;
    if (!roll_step(&h->roll, h->in->wal, h->in->process->store, r, &own, interval, e)) return false;
    if (h->roll.number != before) note_own(h, &own);
    return true;
}

static bool ask_store(struct holdings *h, struct req *r, err *e)
{
    id128 cluster;
    lock_take(&h->lock);
    bool noted = h->noted;
    // Only this thread sets it; the lock is for those that read it meanwhile.
    lock_give(&h->lock);
    if (FAULT_ERRNO("manifest.holdings")) return err_set(e, ERR_UNAVAILABLE, "%s", strerror(errno));
    if (!process_cluster(h->in->process, &cluster))
        return err_set(e, ERR_UNAVAILABLE, "the id of the store's cluster is not known yet");
    if (!closings_refresh(h->in->closings, r, e)) return false;
    return (noted || note(h, r, e)) && list(h, r, e) && roll(h, r, e);
}

static void inspect(struct holdings *h)
{
    struct req r;
    err e = {0};
    req_init(&r, RANK_DUTY, NULL, WORK_MAX, LIMIT_NS);
    bool ok = ask_store(h, &r, &e);
    req_release(&r);
    lock_take(&h->lock);
    h->tried = true;
    h->fault = e;
    bool waits = !h->noted;
    lock_give(&h->lock);
    const char *event = "node.unnoted";
    // A store that answers while the object is missing is a notice as well: pushes wait.
    if (ok && !waits) {
        notice_end(h->in->process->notices, event, me(h)->node);
    } else {
        notice_raise(h->in->process->notices, event, me(h)->node, INSPECT_NS * 3,
                     "the store could not be asked for data directories of this id%s: %s",
                     waits ? ", and pushes wait until this one is noted there" : "", e.msg);
    }
}

static void *run_holdings(void *arg)
{
    struct holdings *h = arg;
    lock_take(&h->lock);
    while (!h->stopping) {
        h->inspect_now = false;
        lock_give(&h->lock);
        // Without the lock: answers to queries take it (holdings_put), and the store may be slow.
        inspect(h);
        lock_take(&h->lock);
        uint64_t pause = MIN(INSPECT_NS, (uint64_t)ingester_settings(h->in)->holding_interval);
        uint64_t next = clock_mono_ns() + (h->noted && h->listed ? pause : TICK_NS);
        while (!h->stopping && !h->inspect_now && cond_wait_until(&h->wake, &h->lock, next))
            ;
    }
    lock_give(&h->lock);
    return NULL;
}

bool holdings_start(struct ingester *in, struct holdings **out, err *e)
{
    const struct process *p = in->process;
    *out = NULL;
    if (!p->store || !p->identity || !node_knows(p->identity->directory)) return true;
    struct holdings *h = mem_must(sizeof *h);
    h->in = in;
    h->boot_wall_ns = clock_wall_ns();
    h->lost = mem_must(LOST_MAX * sizeof *h->lost);
    h->noted = is_marked(h);
    lock_init(&h->lock, LOCK_HOLDINGS);
    cond_init(&h->wake);
    if (thread_start(&h->thread, "ingester.holdings", run_holdings, h, e)) {
        *out = h;
        return true;
    }
    cond_release(&h->wake);
    lock_release(&h->lock);
    mem_must_free(h->lost);
    mem_must_free(h);
    return false;
}

// The mark goes before the object: if the process ends in between, the next start creates the
// object again. In the other order pushes would be taken without one.
static void leave(struct holdings *h)
{
    char path[PATH_MAX];
    char text[LOG_QUOTE_MAX];
    struct req r;
    err e = {0};
    mark_path(h, path);
    req_init(&r, RANK_DUTY, NULL, WORK_MAX, END_NS);
    assert(h->in->process->store);
    if (!file_remove(path, &e) ||
        !holding_delete(h->in->process->store, &r, me(h)->node, me(h)->directory, UINT64_MAX, &e)) {
        log_warn(NULL, "node.stays_noted", "why=%s do=\"%s\"", log_quote(text, str_of(e.msg)),
                 "nothing, if this data directory is used again; else flametree node forget");
    }
    req_release(&r);
}

void holdings_stop(struct holdings *h, bool empty)
{
    if (!h) return;
    lock_take(&h->lock);
    h->stopping = true;
    cond_wake_all(&h->wake);
    lock_give(&h->lock);
    thread_join(h->thread);
    // The thread has ended, so `noted` needs no lock.
    if (empty && h->noted) leave(h);
    cond_release(&h->wake);
    lock_release(&h->lock);
    roll_release(&h->roll);
    mem_must_free(h->lost);
    mem_must_free(h);
}

// ---- questions

bool holdings_noted(struct holdings *h, err *e)
{
    if (!h) return true;
    lock_take(&h->lock);
    bool noted = h->noted;
    err fault = h->fault;
    lock_give(&h->lock);
    return noted || err_set(e, ERR_UNAVAILABLE,
                            "this data directory is not noted in the store yet, which comes before "
                            "the first push: %s",
                            fault.code ? fault.msg : "it is being done");
}

bool holdings_inspected(struct holdings *h)
{
    if (!h) return true;
    lock_take(&h->lock);
    bool inspected = h->tried;
    lock_give(&h->lock);
    return inspected;
}

// How far profiles of a query's tenants may be ahead of the clock; INT64_MAX: no limit.
static int64_t ahead_most(const struct holdings *h, struct arena *a, const struct head_query *q)
{
    int64_t most = SLACK_NS;
    for (size_t i = 0; i < q->tenant_count; i++) {
        int64_t limit = tenant_limits(h->in->process->config, a, q->tenants[i])->reject_newer_than;
        most = MAX(most, limit > 0 ? limit : INT64_MAX);
    }
    return most;
}

void holdings_put(struct holdings *h, struct arena *a, const struct head_query *q, struct buf *out)
{
    if (!h) return;
    int64_t ahead = ahead_most(h, a, q);
    lock_take(&h->lock);
    for (size_t i = 0; i < h->lost_count; i++) {
        const struct lost *l = &h->lost[i];
        int64_t until = l->until_ns > INT64_MAX - ahead ? INT64_MAX : l->until_ns + ahead;
        if (q->to_ns > l->from_ns && q->from_ns < until) pb_put_bytes(out, 17, str_of(l->text));
    }
    // Nothing is known yet: the answer says that, rather than that all is there.
    if (!h->listed) {
        struct buf text;
        buf_init(&text, NULL, 4096);
        buf_printf(&text, "%s: the store could not be asked whether a data directory is gone",
                   h->in->process->id);
        pb_put_bytes(out, 17, buf_view(&text));
        buf_release(&text);
    }
    lock_give(&h->lock);
}

static void put_time(struct buf *out, const char *key, int64_t ns)
{
    char text[TIME_TEXT];
    time_text(ns, text);
    buf_printf(out, ",\"%s\":\"%s\"", key, text);
}

bool holdings_print(struct holdings *h, struct req *r, struct buf *out, err *e)
{
    struct holding *v = NULL;
    size_t n = 0;
    if (!holdings_list(h->in->process->store, r, &r->arena, (str){0}, &v, &n, e)) return false;
    buf_z(out, "{\"directories\":[");
    for (size_t i = 0; i < n; i++) {
        char ulid[ULID_TEXT];
        ulid_print(v[i].directory, ulid);
        buf_z(out, i ? ",{\"node\":" : "{\"node\":");
        json_put_string(out, v[i].node);
        buf_printf(out, ",\"directory\":\"%s\",\"address\":", ulid);
        json_put_string(out, v[i].address);
        put_time(out, "made", v[i].made_ns);
        put_time(out, "rows_from", v[i].rows_from_ns);
        bool own = id128_eq(v[i].directory, me(h)->directory);
        buf_printf(out, ",\"answering\":%s}", own ? "true" : "false");
    }
    buf_z(out, "]}\n");
    return buf_ok(out, e);
}

// Whether a running process has that directory.
static bool is_used(struct holdings *h, struct req *r, const struct holding *o)
{
    struct node_identity who;
    return id128_eq(o->directory, me(h)->directory) || is_alive(h, o, &who, &r->arena);
}

static bool forget_one(struct holdings *h, struct req *r, const struct holding *o, err *e)
{
    char ulid[ULID_TEXT];
    char text[LOG_QUOTE_MAX];
    if (!holding_delete(h->in->process->store, r, o->node, o->directory, UINT64_MAX, e))
        return false;
    ulid_print(o->directory, ulid);
    log_warn(NULL, "node.forgotten", "node=%s directory=%s", log_quote(text, o->node), ulid);
    return true;
}

bool holdings_forget(struct holdings *h, struct req *r, str node, const id128 *directory, size_t *n,
                     err *e)
{
    struct store *s = h->in->process->store;
    struct holding *v = NULL;
    size_t count = 0;
    *n = 0;
    if (!holdings_list(s, r, &r->arena, node, &v, &count, e)) return false;
    for (size_t i = 0; i < count; i++) {
        if (directory && !id128_eq(v[i].directory, *directory)) continue;
        bool used = is_used(h, r, &v[i]);
        // Without a directory all of the node's are meant that no process has.
        if (used && !directory) continue;
        if (used) {
            return err_set(e, ERR_FAILED_PRECONDITION,
                           "a process runs with that data directory of %.*s, at %.*s", STR(node),
                           STR(v[i].address));
        }
        if (!forget_one(h, r, &v[i], e)) return false;
        ++*n;
    }
    if (*n == 0)
        return err_set(e, ERR_NOT_FOUND, "the store knows no %s of %.*s without a running process",
                       directory ? "such data directory" : "data directory", STR(node));
    lock_take(&h->lock);
    // So that answers soon stop to mention what was forgotten.
    h->inspect_now = true;
    cond_wake_all(&h->wake);
    lock_give(&h->lock);
    return true;
}
