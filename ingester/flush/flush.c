// SPDX-License-Identifier: Apache-2.0
//
// flush.c - the flush thread: which cut is tried when, what becomes of a covered one, and flushes
// on demand (flush.h has the protocol; flush_cut.c writes one cut, flush_inspect.c compares with
// the store).
#include "ingester/flush/flush.h"

#include "base/fault.h"
#include "ingester/flush/flush_int.h"
#include "ingester/head/recent_ids.h"
#include "ingester/metrics.h"
#include "service/process.h"
#include "sys/clock.h"
#include "sys/rand.h"

#include <inttypes.h>
#include <stdio.h>

#define TICK_NS       ((uint64_t)NS_PER_S)
#define DRAIN_TICK_NS ((uint64_t)(10 * NS_PER_MS))
#define BACKOFF_NS    ((uint64_t)NS_PER_S)
#define BACKOFF_MAX   ((uint64_t)(60 * NS_PER_S))

// A drain that waits logs what it waits for after the first of these, then after each second one.
#define DRAIN_TELL_FIRST_NS ((uint64_t)NS_PER_S)
#define DRAIN_TELL_NS       ((uint64_t)(10 * NS_PER_S))

// How often a drop gives way to readers, a tick each time, before it makes them wait.
#define POLITE_TRIES 60

// ---- life

struct flush *flush_new(struct ingester *in, err *e)
{
    static const char below[] = "/ingester/past";
    struct flush *f = mem_must(sizeof *f);
    size_t room = strlen(in->process->data_dir) + sizeof below;
    f->recent_ids_dir = mem_must(room);
    snprintf(f->recent_ids_dir, room, "%s%s", in->process->data_dir, below);
    f->in = in;
    f->store = in->process->store;
    mem_budget_init(&f->budget, "ingester.flush_memory", in->process->memory,
                    ingester_settings(in)->flush_memory);
    lock_init(&f->lock, LOCK_FLUSH);
    cond_init(&f->wake);
    cond_init(&f->change);
    req_init(&f->whole, RANK_DUTY, &f->budget, SIZE_MAX, 0);
    f->manifests = manifests_open(f->store, in->process->memory, NULL, e);
    head_remember(in->head);
    if (f->manifests) {
        manifests_limit(f->manifests, "ingester.manifest_memory",
                        (size_t)ingester_settings(in)->manifest_memory);
        process_watch_budget(manifests_budget(f->manifests));
        if (manifests_rest_after(f->manifests, MANIFESTS_REST, e)) return f;
    }
    flush_free(f);
    return NULL;
}

static void closed_free(struct closed_cut *c)
{
    arena_release(&c->arena);
    mem_free(NULL, c, sizeof *c);
}

struct manifests *flush_manifests(struct flush *f)
{
    return f->manifests;
}

void flush_free(struct flush *f)
{
    if (!f) return;
    assert(!f->started);
    for (size_t i = 0; i < f->n; i++)
        closed_free(f->cuts[i]);
    mem_free(NULL, (void *)f->cuts, f->cap * sizeof(struct closed_cut *));
    if (f->manifests) process_unwatch_budget(manifests_budget(f->manifests));
    manifests_close(f->manifests);
    req_release(&f->whole);
    assert(atomic_load(&f->budget.used) == 0);
    cond_release(&f->change);
    cond_release(&f->wake);
    lock_release(&f->lock);
    mem_must_free(f->recent_ids_dir);
    mem_must_free(f);
}

// ---- ids of what left

bool flush_recall(struct flush *f)
{
    char text[LOG_QUOTE_MAX];
    err e = {0};
    if (head_load_recent_ids(f->in->head, f->recent_ids_dir, &f->budget, &e)) return true;
    log_warn(NULL, "past.unread", "fault=%s then=\"%s\"", log_quote(text, str_of(e.msg)),
             "profiles with ids that may be repeated are loose for half an hour");
    return false;
}

// Saves the ids of dropped rows before the log drops the cut; until then a restart learns them from
// the log. A failure is only logged: a full disk must not keep the log from shrinking.
static void save_recent_ids(struct flush *f)
{
    char text[LOG_QUOTE_MAX];
    err e = {0};
    bool ok = head_save_recent_ids(f->in->head, f->recent_ids_dir, &f->budget, &e);
    bool failed = atomic_exchange(&f->recent_ids_fails, !ok);
    if (!ok && !failed) {
        log_warn(NULL, "past.unsaved", "fault=%s do=\"%s\"", log_quote(text, str_of(e.msg)),
                 "make room on this disk: else the next start takes profiles with ids as loose for "
                 "half an hour");
        known_ids_note_unsaved(&f->in->known_ids);
    }
    if (ok && failed) known_ids_note_saved(&f->in->known_ids);
}

// Told once each time that it begins.
static void tell_lacks(struct flush *f)
{
    uint64_t known_ns = head_knows_ids_ns(f->in->head);
    bool lacks = known_ns < RECENT_IDS_NS;
    if (!atomic_exchange(&f->ids_lack, lacks) && lacks) {
        log_warn(NULL, "ids.let_go", "known_seconds=%llu do=\"%s\"",
                 (unsigned long long)(known_ns / (uint64_t)NS_PER_S),
                 "raise ingester.head_memory: ids of the last half hour have no room, so profiles "
                 "that may be repeated are loose, of the tenants that have most of them");
    }
}

void flush_wake(struct flush *f)
{
    lock_take(&f->lock);
    cond_wake_all(&f->wake);
    lock_give(&f->lock);
}

// ---- the table of cuts

static struct closed_cut *find(struct flush *f, id128 stream, uint64_t number)
{
    for (size_t i = 0; i < f->n; i++) {
        if (f->cuts[i]->number == number && id128_eq(f->cuts[i]->stream, stream)) return f->cuts[i];
    }
    return NULL;
}

static bool adopt_one(struct flush *f, const struct wal_cut *w, err *e)
{
    struct closed_cut *c = find(f, w->stream, w->number);
    if (!c) {
        if (!mem_grow(NULL, (void *)&f->cuts, &f->cap, f->n + 1, sizeof(struct closed_cut *), e) ||
            !(c = mem_alloc(NULL, sizeof *c, e))) {
            return false;
        }
        c->cut = w->cut;
        c->stream = w->stream;
        c->number = w->number;
        c->found = w->found;
        c->opened_wall_ns = w->opened_wall_ns;
        c->ticket = ++f->tickets;
        c->asker = &f->whole;
        arena_init(&c->arena, &f->budget, SIZE_MAX);
        f->cuts[f->n++] = c;
    }
    // Written only if they differ. Once a worker reads them without the lock the cut is closed and
    // they differ no more, and a write of an equal value would be a race all the same.
    if (c->bytes != w->bytes) c->bytes = w->bytes;
    if (c->newest_boot_ns != w->newest_boot_ns) c->newest_boot_ns = w->newest_boot_ns;
    c->ready = w->ready;
    c->awaited = w->awaited;
    return true;
}

bool flush_adopt(struct flush *f, err *e)
{
    size_t n = wal_list_cuts(f->in->wal, NULL, 0);
    const size_t bytes = (n + 1) * sizeof(struct wal_cut);
    struct wal_cut *v = mem_alloc(NULL, bytes, e);
    if (!v) return false;
    n = MIN(n, wal_list_cuts(f->in->wal, v, n));
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        if (v[i].closed && v[i].entries) ok = adopt_one(f, &v[i], e);
    }
    mem_free(NULL, v, bytes);
    return ok;
}

static void forget(struct flush *f, struct closed_cut *c)
{
    size_t kept = 0;
    assert(c->covered && c->users == 0 && !c->listing);
    for (size_t i = 0; i < f->n; i++) {
        if (f->cuts[i] != c) f->cuts[kept++] = f->cuts[i];
    }
    f->n = kept;
    closed_free(c);
    cond_wake_all(&f->change);
}

// ---- trying again

// 1 s, 2 s ... 1 min, a quarter more or less, so that ingesters whose store comes back do not all
// try in the same second.
static uint64_t backoff(unsigned failures)
{
    assert(failures > 0);
    uint64_t ns = BACKOFF_NS << MIN(failures - 1, 6u);
    uint64_t random = 0;
    rand_bytes(&random, sizeof random);
    ns = MIN(ns, BACKOFF_MAX);
    return ns - ns / 4 + random % (ns / 2);
}

static bool is_of_store(const err *e)
{
    return e->code == ERR_UNAVAILABLE || e->code == ERR_DEADLINE_EXCEEDED;
}

static void note_failure(struct flush *f, struct closed_cut *c, const err *e)
{
    lock_take(&f->lock);
    uint64_t now = clock_mono_ns();
    bool first = f->failing_since == 0;
    f->failed++;
    f->failed_try = f->tries;
    f->fault = *e;
    c->try_at = now + backoff(++c->failures);
    // A store that is away fails every cut, so no other one is tried either; any other error may be
    // of this cut alone.
    if (is_of_store(e)) f->try_at = now + backoff(++f->failures);
    if (first) f->failing_since = now;
    metric_add(&ingester_flush_failures, 1);
    cond_wake_all(&f->change);
    lock_give(&f->lock);
    if (!first) return;
    char text[LOG_QUOTE_MAX];
    char stream[ULID_TEXT];
    ulid_print(c->stream, stream);
    log_warn(NULL, "flush.failing",
             "stream=%s cut=%" PRIu64 " fault=%s do=\"see that the store takes new objects; until "
             "then profiles stay in memory and log, and pushes are refused when these are full\"",
             stream, c->number, log_quote(text, str_of(e->msg)));
}

static void note_success(struct flush *f, struct closed_cut *c)
{
    lock_take(&f->lock);
    uint64_t since = f->failing_since;
    bool failing = false;
    assert(!c->covered && !c->dropping);
    c->covered = true;
    c->failures = 0;
    f->failures = 0;
    f->try_at = 0;
    f->totals.cuts++;
    for (size_t i = 0; i < f->n; i++)
        failing = failing || f->cuts[i]->failures > 0;
    // The store works again: cuts that failed because it did not need not wait any longer.
    for (size_t i = 0; since && i < f->n; i++)
        f->cuts[i]->try_at = 0;
    if (!failing) f->failing_since = 0;
    cond_wake_all(&f->change);
    lock_give(&f->lock);
    if (since && !failing) {
        log_info(NULL, "flush.recovered", "after_s=%" PRIu64,
                 (clock_mono_ns() - since) / (uint64_t)NS_PER_S);
    }
}

// ---- dropping

// With the lock. A cut that is not ready any more had a failed write: it waits for the log.
static bool may_drop(const struct closed_cut *c)
{
    return c->covered && c->ready && c->users == 0 && !c->dropping;
}

// Whether the drop makes readers wait: it gave way often enough, a request or the drain waits for
// it, or the head is three quarters full and needs the memory.
static bool insists(struct flush *f, const struct closed_cut *c)
{
    const struct mem_budget *b = head_budget(f->in->head);
    size_t limit = atomic_load_explicit(&b->limit, memory_order_relaxed);
    size_t used = atomic_load_explicit(&b->used, memory_order_relaxed);
    return c->polite >= POLITE_TRIES || f->demands > 0 || f->draining || used > limit / 4 * 3;
}

static void end_drop(struct flush *f, struct closed_cut *c, enum drop_end how)
{
    lock_take(&f->lock);
    assert(c->dropping && c->users == 0);
    c->dropping = false;
    c->polite += how == DROP_POLITELY_NOT;
    c->dropped = how != DROP_POLITELY_NOT;
    if (how == DROP_DONE) forget(f, c);
    cond_wake_all(&f->change);
    lock_give(&f->lock);
}

// The head comes first, then the log: rows point to the log's cut, which wal_drop frees. If the
// process ends in between, the next start reads the cut, finds its rows in the store and drops it
// again.
enum drop_end closed_drop(struct flush *f, const struct closed_cut *c, bool insist)
{
    size_t rows = 0;
    char stream[ULID_TEXT];
    uint64_t number = c->number;
    err e = {0};
    ulid_print(c->stream, stream);
    assert(c->covered && c->dropping);
    FAULT("flush.covered");
    if (!c->dropped && !duty_drop(f->in, c->cut, insist, &rows)) return DROP_POLITELY_NOT;
    FAULT("flush.dropped");
    save_recent_ids(f);
    tell_lacks(f);
    if (!wal_drop(f->in->wal, c->cut, &e)) {
        char text[LOG_QUOTE_MAX];
        log_warn(NULL, "cut.drop_failed", "fault=%s", log_quote(text, str_of(e.msg)));
        return DROP_NOT_OF_LOG;
    }
    FAULT("flush.done");
    log_info(NULL, "cut.flushed", "stream=%s cut=%" PRIu64 " pieces=%zu rows=%zu", stream, number,
             c->n, rows);
    metric_add(&ingester_flush_cuts, 1);
    return DROP_DONE;
}

// Drops all covered cuts that may go. True if one went. Drops run without the lock, so the table
// may grow meanwhile; only this thread removes from it, so i stays the place of the next one.
static bool drop_covered(struct flush *f)
{
    bool any = false;
    size_t i = 0;
    enum wal_state log = wal_state(f->in->wal);
    if (log != WAL_OPEN && log != WAL_DRAINED) return false;  // wal_drop would only refuse
    for (;;) {
        struct closed_cut *c = NULL;
        bool insist = false;
        lock_take(&f->lock);
        while (i < f->n && !may_drop(f->cuts[i]))
            i++;
        if (i < f->n) {
            c = f->cuts[i];
            c->dropping = true;
            insist = insists(f, c);
        }
        lock_give(&f->lock);
        if (!c) return any;
        enum drop_end how = closed_drop(f, c, insist);
        end_drop(f, c, how);
        any = any || how == DROP_DONE;
        i += how != DROP_DONE;
    }
}

// ---- the thread

// The oldest cut that may be tried now.
static struct closed_cut *pick(struct flush *f)
{
    struct closed_cut *c = NULL;
    err none = {0};  // without memory the next tick tries again
    lock_take(&f->lock);
    uint64_t now = clock_mono_ns();
    (void)flush_adopt(f, &none);
    // Oldest first; a cut that backs off lets younger ones pass.
    for (size_t i = 0; !c && i < f->n && now >= f->try_at; i++) {
        if (f->cuts[i]->ready && !f->cuts[i]->covered && now >= f->cuts[i]->try_at) c = f->cuts[i];
    }
    f->tries += c != NULL;
    lock_give(&f->lock);
    return c;
}

// True if there may be more to do at once. Before the log was read to its end nothing is flushed:
// an unread cut would lack rows.
static bool step(struct flush *f)
{
    err e = {0};
    if (!ingester_answers(f->in, &e)) return false;
    bool went = drop_covered(f);
    struct closed_cut *c = pick(f);
    if (!c) return went;
    if (closed_cover(f, c, &e)) {
        note_success(f, c);
    } else if (!atomic_load(&f->whole.canceled)) {  // the end of a drain is no failure of the store
        note_failure(f, c, &e);
    }
    return true;
}

// Whether the thread may end. With the lock. A cut that is not ready, or that the log would not
// drop, does not keep the process: the next start flushes it.
static bool is_over(struct flush *f)
{
    bool left = false;
    for (size_t i = 0; i < f->n; i++)
        left = left || ((f->cuts[i]->ready || f->cuts[i]->awaited) && !f->cuts[i]->dropped);
    return atomic_load(&f->whole.canceled) || (f->draining && !left);
}

// Sleeps for a tick, or until woken. False at the end.
static bool wait(struct flush *f, bool busy)
{
    lock_take(&f->lock);
    // At the end it may wait for appends, of which nobody tells.
    uint64_t tick = f->draining ? DRAIN_TICK_NS : TICK_NS;
    if (!busy && !is_over(f)) (void)cond_wait_until(&f->wake, &f->lock, clock_mono_ns() + tick);
    bool over = is_over(f);
    lock_give(&f->lock);
    return !over;
}

static void *flush_main(void *arg)
{
    struct flush *f = arg;
    bool busy = false;
    do {
        busy = !atomic_load(&f->whole.canceled) && step(f);
    } while (wait(f, busy));
    lock_take(&f->lock);
    f->ended = true;
    cond_wake_all(&f->change);
    lock_give(&f->lock);
    return NULL;
}

bool flush_start(struct flush *f, err *e)
{
    assert(!f->started && !f->draining);
    f->started = thread_start(&f->thread, "ingester.flush", flush_main, f, e);
    return f->started;
}

// What is not in the store yet, and why.
struct left {
    size_t cuts;
    uint64_t bytes;
    char fault[LOG_QUOTE_MAX];
};

// With the lock.
static struct left left_of(struct flush *f)
{
    struct left l = {.cuts = f->n};
    for (size_t i = 0; i < f->n; i++)
        l.bytes += f->cuts[i]->bytes;
    (void)log_quote(l.fault, str_of(f->failing_since ? f->fault.msg : "none"));
    return l;
}

// With the lock, which is given up meanwhile.
static void await_end(struct flush *f, uint64_t deadline_mono_ns)
{
    uint64_t tell = clock_mono_ns() + DRAIN_TELL_FIRST_NS;
    while (!f->ended && clock_mono_ns() < deadline_mono_ns) {
        (void)cond_wait_until(&f->change, &f->lock, MIN(tell, deadline_mono_ns));
        uint64_t now = clock_mono_ns();
        if (f->ended || now < tell || now >= deadline_mono_ns) continue;
        struct left l = left_of(f);
        tell = now + DRAIN_TELL_NS;
        lock_give(&f->lock);
        log_info(NULL, "flush.draining",
                 "cuts=%zu bytes=%" PRIu64 " waits_s=%" PRIu64 " fault=%s then=\"%s\"", l.cuts,
                 l.bytes, (deadline_mono_ns - now) / (uint64_t)NS_PER_S, l.fault,
                 "what is left stays in the log, and the next start flushes it");
        lock_take(&f->lock);
    }
}

void flush_drain(struct flush *f, uint64_t deadline_mono_ns)
{
    if (!f->started) return;
    err none = {0};
    // Before the log was read to its end the thread flushes nothing: there is nothing to wait for.
    bool possible = ingester_answers(f->in, &none);
    lock_take(&f->lock);
    assert(!f->draining);
    (void)flush_adopt(f, &none);
    f->draining = true;
    f->try_at = 0;
    for (size_t i = 0; i < f->n; i++)
        f->cuts[i]->try_at = 0;
    cond_wake_all(&f->wake);
    if (possible) await_end(f, deadline_mono_ns);
    lock_give(&f->lock);
    atomic_store(&f->whole.canceled, true);
    flush_wake(f);
    thread_join(f->thread);
    f->started = false;
    struct left l = left_of(f);  // the thread has ended, so the lock is not needed
    if (!l.cuts) return;
    log_warn(NULL, "flush.left",
             "cuts=%zu bytes=%" PRIu64 " in=log until=next_start lost=nothing fault=%s", l.cuts,
             l.bytes, l.fault);
}

// ---- on demand

// Whether a cut with this ticket or an earlier one is not in the store yet. With the lock.
static bool is_left(const struct flush *f, uint64_t ticket)
{
    for (size_t i = 0; i < f->n; i++) {
        if (f->cuts[i]->ticket <= ticket && !f->cuts[i]->covered) return true;
    }
    return false;
}

static bool await_flush(struct flush *f, struct req *r, uint64_t ticket, uint64_t tries, err *e)
{
    bool ok = true;
    while (ok && is_left(f, ticket)) {
        if (f->failed_try > tries) {  // a try that began after the request
            *e = f->fault;
            return err_wrap(e, "flush");
        }
        if (f->draining) return err_set(e, ERR_UNAVAILABLE, "the ingester is shutting down");
        (void)cond_wait_until(&f->change, &f->lock, clock_mono_ns() + (uint64_t)(100 * NS_PER_MS));
        ok = req_alive(r, e);
    }
    return ok;
}

// Whether a cut that can be flushed is still in the log. With the lock.
static bool is_held(const struct flush *f)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->cuts[i]->ready) return true;
    return false;
}

bool flush_await(struct flush *f, struct req *r, struct flush_totals *all, err *e)
{
    lock_take(&f->lock);
    uint64_t tries = f->tries;
    bool ok = flush_adopt(f, e);
    f->demands++;
    cond_wake_all(&f->wake);
    while (ok && is_held(f)) {
        ok = f->failed_try <= tries;
        if (!ok) {
            *e = f->fault;
            (void)!err_wrap(e, "flush");
            break;
        }
        (void)cond_wait_until(&f->change, &f->lock, clock_mono_ns() + (uint64_t)(100 * NS_PER_MS));
        ok = req_alive(r, e);
        cond_wake_all(&f->wake);
    }
    f->demands--;
    *all = f->totals;
    lock_give(&f->lock);
    return ok;
}

// Closes the open cut of the log. After a failed write the log does not know what that cut has
// until it is read again; a request that waits for the flush waits for that too.
static bool close_cut(struct flush *f, struct req *r, bool wait_for_it, err *e)
{
    err over = {0};
    while (!wal_cut_now(f->in->wal, e)) {
        duty_wake(f->in);
        if (!wait_for_it || e->code != ERR_UNAVAILABLE || !req_alive(r, &over)) return false;
        lock_take(&f->lock);
        bool draining = f->draining;
        if (!draining) {
            (void)cond_wait_until(&f->change, &f->lock,
                                  clock_mono_ns() + (uint64_t)(100 * NS_PER_MS));
        }
        lock_give(&f->lock);
        if (draining) return false;
        *e = (err){0};
    }
    return true;
}

bool flush_now(struct flush *f, struct req *r, bool wait_for_it, struct flush_totals *done, err *e)
{
    if (!ingester_answers(f->in, e)) return false;
    lock_take(&f->lock);
    const struct flush_totals before = f->totals;
    lock_give(&f->lock);
    if (!close_cut(f, r, wait_for_it, e)) return false;
    lock_take(&f->lock);
    if (!flush_adopt(f, e)) {
        lock_give(&f->lock);
        return false;
    }
    uint64_t ticket = f->tickets;
    uint64_t tries = f->tries;
    f->try_at = 0;
    for (size_t i = 0; i < f->n; i++)
        f->cuts[i]->try_at = 0;
    f->demands += wait_for_it;
    cond_wake_all(&f->wake);
    bool ok = !wait_for_it || await_flush(f, r, ticket, tries, e);
    assert(f->demands >= wait_for_it);
    f->demands -= wait_for_it;
    *done = (struct flush_totals){.cuts = f->totals.cuts - before.cuts,
                                  .segments = f->totals.segments - before.segments,
                                  .rows = f->totals.rows - before.rows,
                                  .bytes = f->totals.bytes - before.bytes};
    lock_give(&f->lock);
    return ok;
}
