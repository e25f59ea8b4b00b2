// SPDX-License-Identifier: Apache-2.0
//
// duty.c - the thread that looks after the log.
//
// At the start it replays the log, reads the ids of flushed rows and begins a stream. Then, once a
// second: it sets limits that the configuration changed, tells of a full or damaged log, and closes
// the open cut if it is due, or if the head is short of room (relief.h). With a store it wakes the
// flush; without one it drops cuts that are too old. After a failed write it opens the log again
// and replays what that left.
//
// All changes of ingester.phase are made here.
#include "base/fault.h"
#include "ingester/aside.h"
#include "ingester/flush/flush.h"
#include "ingester/ingester_int.h"
#include "ingester/metrics.h"
#include "ingester/streams.h"
#include "service/process.h"
#include "sys/clock.h"

#include <inttypes.h>

#define TICK_NS ((uint64_t)NS_PER_S)

#define FULL_TOLD_NS (10 * TICK_NS)

// How often head_drop gives way to readers, a tick each time, before it makes them wait.
#define POLITE_TRIES 60

// The moves that ingester_int.h draws, and no others.
static void set_phase(struct ingester *in, enum ingester_phase phase, const err *fault)
{
    static const bool allowed[][4] = {
        [INGESTER_REPLAYING] =
            {[INGESTER_READY] = true, [INGESTER_REOPENING] = true, [INGESTER_FAILED] = true},
        [INGESTER_READY] = {[INGESTER_REOPENING] = true, [INGESTER_FAILED] = true},
        [INGESTER_REOPENING] =
            {[INGESTER_READY] = true, [INGESTER_REOPENING] = true, [INGESTER_FAILED] = true},
        [INGESTER_FAILED] = {false},
    };
    assert(phase != INGESTER_FAILED || fault);
    lock_take(&in->lock);
    assert(allowed[in->phase][phase]);
    in->phase = phase;
    in->fault = fault ? *fault : (err){0};
    lock_give(&in->lock);
}

bool duty_is_over(struct ingester *in)
{
    lock_take(&in->lock);
    bool stop = in->stopping;
    lock_give(&in->lock);
    return stop;
}

// Sleeps for a tick, or until woken.
static void wait(struct ingester *in)
{
    lock_take(&in->lock);
    // One wait, not a loop: to be woken early is what duty_wake is for.
    if (!in->stopping) (void)cond_wait_until(&in->wake, &in->lock, clock_mono_ns() + TICK_NS);
    lock_give(&in->lock);
}

void duty_wake(struct ingester *in)
{
    lock_take(&in->lock);
    cond_wake_all(&in->wake);
    lock_give(&in->lock);
}

// Tells a failure once a minute, or when it is another one.
static void tell_reopen(struct ingester *in, const err *e)
{
    static const uint64_t again_ns = 60 * TICK_NS;
    char text[LOG_QUOTE_MAX];
    uint64_t now = clock_mono_ns();
    bool same = in->phase == INGESTER_REOPENING && strcmp(in->fault.msg, e->msg) == 0;
    if (same && now - in->reopen_told_ns < again_ns) return;
    in->reopen_told_ns = now;
    log_warn(NULL, "log.reopen_failed", "fault=%s", log_quote(text, str_of(e->msg)));
}

// Each step may fail and is tried again at the next tick. A log that is RECOVERED already, because
// the replay failed after the open, is not closed again.
static void reopen(struct ingester *in)
{
    err e = {0};
    assert(in->phase == INGESTER_REOPENING);  // this thread sets it
    bool ok = wal_state(in->wal) != WAL_BROKEN || wal_recover(in->wal, &e);
    if (ok && replay_run(in, &e) && wal_begin(in->wal, &e)) {
        streams_wake(in->streams);
        set_phase(in, INGESTER_READY, NULL);
        log_info(NULL, "log.reopened", "cuts=%zu", wal_cuts(in->wal, NULL, 0));
        return;
    }
    tell_reopen(in, &e);
    set_phase(in, INGESTER_REOPENING, &e);
}

static size_t held(const struct ingester *in)
{
    return atomic_load_explicit(&head_budget(in->head)->used, memory_order_relaxed);
}

// Pushes go on meanwhile, so `after` may be larger than `before`; then nothing is given back.
bool duty_drop(struct ingester *in, struct cut *c, bool insist, size_t *rows)
{
    assert(c->closed);
    size_t before = held(in);
    if (!head_drop(in->head, c, insist, rows)) return false;
    size_t after = held(in);
    if (after < before) process_freed(before - after);
    return true;
}

// Without a store: drops cuts whose newest profile arrived more than head_age ago. *tries counts
// how often readers were in the way. The head drops first: rows point to the cut, which wal_drop
// frees.
static void expire(struct ingester *in, unsigned *tries)
{
    int64_t keep_ns = ingester_settings(in)->head_age;
    err none = {0};
    size_t n = wal_cuts(in->wal, NULL, 0);
    const size_t bytes = (n + 1) * sizeof(struct cut *);
    struct cut **cuts = mem_alloc(NULL, bytes, &none);
    if (!cuts) return;  // the next tick tries again
    n = MIN(n, wal_cuts(in->wal, cuts, n));
    for (size_t i = 0; i < n && !duty_is_over(in); i++) {
        struct cut *c = cuts[i];
        uint64_t number = c->number;
        char stream[ULID_TEXT];
        size_t rows = 0;
        err e = {0};
        if (!wal_cut_is_past(in->wal, c, keep_ns)) continue;
        FAULT("cut.expire");
        // Readers are in the way. The oldest cut comes first, so the others wait for it.
        if (!duty_drop(in, c, *tries >= POLITE_TRIES, &rows)) {
            ++*tries;
            break;
        }
        *tries = 0;
        // wal_drop frees c, so its names are copied before.
        ulid_print(c->stream, stream);
        if (!wal_drop(in->wal, c, &e)) {
            char text[LOG_QUOTE_MAX];
            log_warn(NULL, "cut.drop_failed", "fault=%s", log_quote(text, str_of(e.msg)));
            break;
        }
        metric_add(&ingester_expired_cuts, 1);
        metric_add(&ingester_expired_profiles, rows);
        log_info(NULL, "cut.expired", "stream=%s cut=%" PRIu64 " rows=%zu", stream, number, rows);
    }
    mem_free(NULL, (void *)cuts, bytes);
}

// From 15/16 on: a push that is larger than the rest is refused already.
static bool is_full(uint64_t used, uint64_t limit)
{
    return limit > 0 && used >= limit - limit / 16;
}

// An ingester that is full of cuts which the store does not take refuses every push. A person who
// looks at /ready has to see that it needs its store, not a larger disk.
static void tell_full(struct ingester *in)
{
    const struct ingester_config *c = ingester_settings(in);
    const struct mem_budget *b = head_budget(in->head);
    struct wal_counts w = wal_count(in->wal);
    uint64_t used = atomic_load_explicit(&b->used, memory_order_relaxed);
    bool log = is_full(w.bytes, c->log_disk);
    err why = {0};
    if (!log && !is_full(used, c->head_memory)) {
        notice_end(in->process->notices, "ingester.full", str_of(in->process->id));
        return;
    }
    err_set(&why, ERR_RESOURCE_EXHAUSTED,
            "%s hold%s %" PRIu64 " of %" PRIu64 " bytes (ingester.%s) in %" PRIu64
            " closed and %" PRIu64 " open cuts, so pushes are refused until some leave",
            log ? "the log" : "profiles in memory", log ? "s" : "", log ? w.bytes : used,
            (uint64_t)(log ? c->log_disk : c->head_memory), log ? "log_disk" : "head_memory",
            w.closed_cuts, w.open_cuts);
    if (in->flush) (void)flush_blame(in->flush, &why);
    notice_raise(in->process->notices, "ingester.full", str_of(in->process->id), FULL_TOLD_NS, "%s",
                 why.msg);
}

// What the store, or a proxy before it, does not take is refused, so a person has to know the
// limit.
static void tell_limit(struct ingester *in)
{
    struct wal_object_limit l;
    char refused[80] = "";
    wal_object_limit(in->wal, &l);
    if (!l.limited) {
        notice_end(in->process->notices, "log.object_limit", str_of(in->process->id));
        return;
    }
    if (l.refused)
        snprintf(refused, sizeof refused, ", since one of %zu bytes was refused", l.refused);
    notice_raise(in->process->notices, "log.object_limit", str_of(in->process->id), NOTICE_FOREVER,
                 "objects of the log have at most %zu bytes%s, and a push that takes more is "
                 "refused; let the object store, and every proxy before it, take larger bodies, "
                 "which is tried every ten minutes: %s",
                 l.most, refused, l.why);
}

// The readable rest of a damaged log goes to the store, and after an hour answers do not mention
// the loss any more. This notice stays until the process ends: acknowledged profiles are gone for
// good, and a person should look at the disk.
static void tell_damaged(struct ingester *in)
{
    struct wal_counts w = wal_count(in->wal);
    if (w.lost_entries == 0) return;
    notice_raise(in->process->notices, "log.damaged", str_of(in->process->id), NOTICE_FOREVER,
                 "%" PRIu64 " acknowledged pushes (at least %" PRIu64
                 " profiles) cannot be read from the log any more; the rest is served. Look at the "
                 "disk; the lines log.damaged name the cuts, and a restart ends this notice",
                 w.lost_entries, w.lost_rows);
}

static void tick(struct ingester *in, unsigned *tries)
{
    const struct ingester_config *c = ingester_settings(in);
    // Read anew each time, as they may have been reloaded.
    head_set_limit(in->head, c->head_memory);
    head_set_lexicons(in->head, c->lexicon_memory);
    head_tidy(in->head);
    head_sweep_some(in->head);
    tell_full(in);
    tell_damaged(in);
    tell_limit(in);
    if (wal_state(in->wal) == WAL_OPEN) {
        wal_tick(in->wal);
        relief_tick(in);
    }
    // Asked again: the tick may have broken it.
    if (wal_state(in->wal) == WAL_OPEN) {
        if (in->flush) {
            flush_wake(in->flush);
        } else {
            expire(in, tries);
        }
    } else {
        // The phase is read without the lock: only this thread writes it.
        err fault = {.code = ERR_UNAVAILABLE, .msg = "a write to the log failed"};
        if (in->phase == INGESTER_READY) set_phase(in, INGESTER_REOPENING, &fault);
        reopen(in);
    }
}

static bool is_passing(const err *e)
{
    return e->code == ERR_RESOURCE_EXHAUSTED || e->code == ERR_UNAVAILABLE ||
           e->code == ERR_DEADLINE_EXCEEDED;
}

// From now on the head leaves memory to the flush: if it took all memory of the process, nothing
// could empty it. The replay runs before this, because its rows were acknowledged and must fit.
static void leave_memory(struct ingester *in)
{
    size_t limit = atomic_load_explicit(&in->process->memory->limit, memory_order_relaxed);
    if (in->flush) head_leave(in->head, MIN(ingester_settings(in)->flush_memory, limit / 16));
}

// Looks whether this process has found all ids that earlier processes of this directory knew; if
// not, says which of them are missing.
static void recall(struct ingester *in)
{
    id128 damaged[WAL_DAMAGED_MAX];
    const char *missing = NULL;
    if (!flush_recall(in->flush)) missing = "a file of ids could not be read";
    if (wal_damaged(in->wal, damaged) > 0) missing = "a part of the log is lost";
    if (in->set_aside) missing = "a part of the log was forgotten, and set aside";
    if (wal_was_taken_over(in->wal)) missing = "another node has taken over a stream of this one";
    known_ids_read(&in->known_ids, missing);
}

// A stream of this process was given up while nobody reached it (streams.c). Deletions do not wait
// for it any more, so nothing of it may be answered or flushed; a start sets its log aside.
static void end_forgotten(struct ingester *in)
{
    err e = {0};
    err_set(
        &e, ERR_FAILED_PRECONDITION,
        "a stream of this ingester was forgotten while it ran (`flametree stream forget`): stop "
        "and start this process, which sets the log of that stream aside");
    log_error(NULL, "stream.was_forgotten", "do=\"%s\"", "restart this ingester");
    set_phase(in, INGESTER_FAILED, &e);
}

// Streams that were forgotten leave the log before anything of it is read, or registered.
static bool read_log(struct ingester *in, err *e)
{
    bool any = false;
    if (!atomic_load(&in->sorted)) {
        if (!aside_sort(in, &any, e)) return false;
        in->set_aside |= any;
        atomic_store(&in->sorted, true);
        streams_wake(in->streams);
    }
    return replay_run(in, e);
}

void *duty_main(void *arg)
{
    struct ingester *in = arg;
    unsigned tries = 0;
    err e = {0};
    char text[LOG_QUOTE_MAX];
    bool read = read_log(in, &e);
    // Memory may become free and a disk may come back. Entries that were read before the failure
    // come again, and their ids are known.
    while (!read && is_passing(&e) && !duty_is_over(in)) {
        log_warn(NULL, "log.replay_again", "fault=%s", log_quote(text, str_of(e.msg)));
        wait(in);
        read = read_log(in, &e);
    }
    if (!read && !duty_is_over(in)) {
        log_error(NULL, "log.unreadable", "fault=%s", log_quote(text, str_of(e.msg)));
        set_phase(in, INGESTER_FAILED, &e);
    }
    if (!read) return NULL;
    leave_memory(in);
    // Before the first push: a retry of a row that was flushed must find its id.
    if (in->flush) recall(in);
    // The last step before pushes: until now the state of the log refused them.
    bool begun = wal_begin(in->wal, &e);
    streams_wake(in->streams);
    set_phase(in, begun ? INGESTER_READY : INGESTER_REOPENING, begun ? NULL : &e);
    while (!duty_is_over(in) && !atomic_load(&in->forgotten)) {
        wait(in);
        if (!duty_is_over(in)) tick(in, &tries);
    }
    if (atomic_load(&in->forgotten)) end_forgotten(in);
    return NULL;
}
