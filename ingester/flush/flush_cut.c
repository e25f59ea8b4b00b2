// SPDX-License-Identifier: Apache-2.0
//
// flush_cut.c - the pieces of one cut, each on its way into the store.
#include "base/fault.h"
#include "ingester/flush/flush_int.h"
#include "ingester/head/head_segment.h"
#include "ingester/metrics.h"
#include "sys/clock.h"

#include <inttypes.h>

// One piece may take so long, a store that hangs included.
#define PIECE_NS ((uint64_t)(300 * NS_PER_S))

// An owner that may have slept so long compares a piece before it writes it.
#define ASLEEP_NS (3600 * NS_PER_S)

// Longer than the pause between two tries of a cut.
#define TOO_LARGE    "flush.limit"
#define TOO_LARGE_NS ((uint64_t)(180 * NS_PER_S))

// How often a piece is looked up again because of what its creation met.
#define LOOKS_MAX 4

// ---- which pieces there are

static bool list(struct flush *f, struct closed_cut *c, err *e)
{
    struct head_piece *v = NULL;
    size_t n = 0;
    arena_init(&c->arena, &f->budget, SIZE_MAX);
    bool ok = head_pieces(f->in->head, c->cut, &c->arena, &v, &n, e);
    struct piece *pieces = ok ? ARENA_ARRAY(&c->arena, struct piece, n) : NULL;
    ok = ok && arena_ok(&c->arena, e);
    if (!ok) {
        arena_release(&c->arena);
        return false;
    }
    c->rows = 0;
    for (size_t i = 0; i < n; i++) {
        pieces[i] = (struct piece){.is = v[i],
                                   .inspect = c->found,
                                   .since_ns = c->found ? c->opened_wall_ns : 0};
        c->rows += v[i].rows;
    }
    c->pieces = pieces;
    c->n = n;
    return true;
}

// Waits for `change` until the request ends. With the lock.
static bool await_change(struct flush *f, struct req *r, err *e)
{
    (void)cond_wait_until(&f->change, &f->lock, clock_mono_ns() + (uint64_t)(100 * NS_PER_MS));
    return req_alive(r, e);
}

bool closed_list(struct flush *f, struct req *r, struct closed_cut *c, err *e)
{
    bool ok = true;
    lock_take(&f->lock);
    while (ok && c->listing)
        ok = await_change(f, r, e);
    bool mine = ok && !c->listed;
    c->listing = c->listing || mine;
    lock_give(&f->lock);
    if (!mine) return ok;
    ok = list(f, c, e);
    lock_take(&f->lock);
    c->listing = false;
    c->listed = ok;
    cond_wake_all(&f->change);
    lock_give(&f->lock);
    return ok;
}

bool piece_take(struct flush *f, struct req *r, struct piece *p, err *e)
{
    bool ok = true;
    lock_take(&f->lock);
    while (ok && p->busy)
        ok = await_change(f, r, e);
    if (ok) p->busy = true;
    lock_give(&f->lock);
    return ok;
}

void piece_give(struct flush *f, struct piece *p)
{
    lock_take(&f->lock);
    p->busy = false;
    cond_wake_all(&f->change);
    lock_give(&f->lock);
}

// ---- writing one

static uint64_t about_bytes(struct flush *f, const struct closed_cut *c, const struct piece *p)
{
    lock_take(&f->lock);
    double bytes = (double)c->bytes;
    lock_give(&f->lock);
    return c->rows ? (uint64_t)(bytes * (double)p->is.rows / (double)c->rows) : 0;
}

struct put {
    struct store_upload *upload;
    bool too_large;  // the store refuses it for that
    bool tried;      // the object may be there
    bool existed;
    struct block_written written;
};

static bool upload(void *arg, str bytes, err *e)
{
    struct put *put = arg;
    if (store_write(put->upload, bytes, e)) return true;
    put->too_large = e->code == ERR_OUT_OF_RANGE;
    return false;
}

static bool fill(struct flush *f, struct req *r, const struct closed_cut *c, const struct piece *p,
                 struct put *put, err *e)
{
    struct head_segment ask = {
        .cut = c->cut, .piece = p->is, .memory = &f->budget, .sink = upload, .arg = put};
    if (!head_segment(f->in->head, r, &ask, &put->written, e)) return false;
    if (FAULT_ERRNO("flush.put")) return err_set(e, ERR_UNAVAILABLE, "segment: %m");
    if (put->written.rows == p->is.rows) return true;
    return err_set(e, ERR_INTERNAL, "a segment has %" PRIu64 " of %" PRIu64 " rows",
                   put->written.rows, p->is.rows);
}

// What goes up in parts goes up in parts of megabytes at least, so a limit below that can only be
// told. The cut is tried again, later and later, until somebody has raised it.
static void tell_too_large(struct flush *f, uint64_t rows, const err *e)
{
    const struct process *process = f->in->process;
    metric_add(&ingester_flush_too_large, 1);
    notice_raise(process->notices, TOO_LARGE, str_of(process->id), TOO_LARGE_NS,
                 "the object store, or a proxy before it, does not take a segment of %" PRIu64
                 " profiles, so it stays in memory and log; let both take bodies of 32 MiB: %s",
                 rows, e->msg);
}

static bool put_part(struct flush *f, struct req *r, const struct closed_cut *c,
                     const struct piece *p, struct put *put, err *e)
{
    const struct segment_name name = {p->is.hour, c->stream, c->number, p->first_part};
    str object = name_segment(&r->arena, p->is.tenant, &name);
    if (!arena_ok(&r->arena, e) || !tenants_note(f->manifests, r, p->is.tenant, e)) return false;
    FAULT("flush.tenant.after");
    put->upload = store_begin(f->store, r, object, about_bytes(f, c, p), e);
    if (!put->upload) return false;
    if (!fill(f, r, c, p, put, e)) {
        store_abandon(put->upload);
        if (put->too_large) tell_too_large(f, p->is.rows, e);
        return false;
    }
    put->tried = true;
    if (!store_commit(put->upload, &put->existed, e)) {
        if (e->code == ERR_OUT_OF_RANGE) tell_too_large(f, p->is.rows, e);
        return false;
    }
    notice_end(f->in->process->notices, TOO_LARGE, str_of(f->in->process->id));
    if (FAULT_ERRNO("flush.put.after")) return err_set(e, ERR_UNAVAILABLE, "segment: %m");
    return true;
}

static void count(struct flush *f, const struct put *put)
{
    metric_add(&ingester_flush_segments, 1);
    metric_add(&ingester_flush_profiles, put->written.rows);
    metric_add(&ingester_flush_bytes, put->written.bytes);
    lock_take(&f->lock);
    f->totals.segments++;
    f->totals.rows += put->written.rows;
    f->totals.bytes += put->written.bytes;
    lock_give(&f->lock);
}

static void set_inspect(struct flush *f, struct piece *p)
{
    lock_take(&f->lock);
    p->inspect = true;
    lock_give(&f->lock);
}

static void set_since(struct flush *f, struct piece *p)
{
    lock_take(&f->lock);
    p->since_ns = clock_wall_ns();
    lock_give(&f->lock);
}

static void set_covered(struct flush *f, struct piece *p)
{
    lock_take(&f->lock);
    p->state = PIECE_COVERED;
    lock_give(&f->lock);
}

// Where there was doubt what the store has, a part of this name may have been absorbed before it
// was created once more; leaves would then hide it.
static bool is_hidden(struct flush *f, struct req *r, struct inspection *l,
                      const struct closed_cut *c, const struct piece *p, bool *hidden, err *e)
{
    *hidden = false;
    if (!p->inspected) return true;
    inspection_forget(l);
    if (!inspection_take(f, r, l, p->is.tenant, e)) return false;
    *hidden = inspection_absorbed(l, c, p, p->first_part);
    return true;
}

// A log in the store may have been adopted while this process was asleep, and what the adopter
// wrote may be absorbed and deleted by now: then the names of parts are free again. That takes two
// hours.
static bool may_be_adopted(const struct flush *f, const struct closed_cut *c)
{
    int64_t age = MAX(clock_boot_ns() - c->newest_boot_ns, clock_wall_ns() - c->opened_wall_ns);
    return age > ASLEEP_NS && wal_is_remote(f->in->wal);
}

// Until all rows of the piece are in the store. The piece is the caller's.
static bool cover(struct flush *f, struct req *r, struct inspection *l, struct closed_cut *c,
                  struct piece *p, err *e)
{
    for (unsigned inspections = 0; p->state == PIECE_WAITS; inspections++) {
        struct put put = {0};
        bool hidden = false;
        if (inspections > LOOKS_MAX) {
            return err_set(e, ERR_ABORTED, "part %" PRIu32 " of a segment is there, and is not",
                           p->first_part);
        }
        if (!p->inspected && may_be_adopted(f, c)) set_inspect(f, p);
        if (p->inspect && !piece_inspect(f, r, l, c, p, e)) return false;
        if (p->state != PIECE_WAITS) break;
        set_since(f, p);
        bool ok = put_part(f, r, c, p, &put, e);
        ok = ok && (put.existed || is_hidden(f, r, l, c, p, &hidden, e));
        if (put.tried && (!ok || put.existed || hidden)) {
            inspection_forget(l);
            set_inspect(f, p);
        }
        if (!ok) return false;
        if (put.existed) {
            metric_add(&ingester_flush_existed, 1);
            continue;
        }
        count(f, &put);
        if (!hidden) set_covered(f, p);
    }
    return true;
}

// ---- all of them

struct round {
    struct flush *flush;
    struct closed_cut *cut;
    _Atomic size_t next;
    atomic_bool stop;  // the store fails: no further pieces
    struct lock lock;  // of fault
    err fault;
    bool failed;
};

static bool is_of_store(const err *e)
{
    return e->code == ERR_UNAVAILABLE || e->code == ERR_DEADLINE_EXCEEDED ||
           e->code == ERR_CANCELED;
}

static void note_fault(struct round *x, const struct piece *p, const err *e)
{
    lock_take(&x->lock);
    if (!x->failed) {
        x->fault = *e;
        err_wrap(&x->fault, "tenant %.*s, hour %" PRId64, STR(p->is.tenant), p->is.hour);
    }
    x->failed = true;
    lock_give(&x->lock);
    if (is_of_store(e)) atomic_store_explicit(&x->stop, true, memory_order_relaxed);
}

static void cover_one(struct round *x, struct inspection *l, struct piece *p)
{
    struct flush *f = x->flush;
    struct req r;
    err e = {0};
    req_init(&r, RANK_DUTY, &f->budget, SIZE_MAX, PIECE_NS);
    r.asker = x->cut->asker;
    r.tenant = p->is.tenant;
    bool ok = req_alive(&r, &e) && piece_take(f, &r, p, &e);
    if (ok) {
        uint64_t began = clock_mono_ns();
        ok = cover(f, &r, l, x->cut, p, &e);
        metric_observe_ns(&ingester_flush_time, clock_mono_ns() - began);
        piece_give(f, p);
    }
    if (!ok) note_fault(x, p, &e);
    req_release(&r);
}

static void *work(void *arg)
{
    struct round *x = arg;
    struct inspection l = {0};
    while (!atomic_load_explicit(&x->stop, memory_order_relaxed)) {
        size_t i = atomic_fetch_add_explicit(&x->next, 1, memory_order_relaxed);
        if (i >= x->cut->n) break;
        struct piece *p = &x->cut->pieces[i];
        lock_take(&x->flush->lock);
        bool waits = p->state == PIECE_WAITS;
        lock_give(&x->flush->lock);
        if (waits) cover_one(x, &l, p);
    }
    inspection_release(&l);
    return NULL;
}

static bool run_pieces(struct flush *f, struct closed_cut *c, size_t width, err *e)
{
    struct round x = {.flush = f, .cut = c};
    pthread_t threads[FLUSH_WIDTH_MAX];
    size_t started = 0;
    err ignored = {0};  // fewer threads do it as well, this one too
    lock_init(&x.lock, LOCK_CUT);
    while (started + 1 < MIN(width, c->n) &&
           thread_start(&threads[started], "ingester.segment", work, &x, &ignored)) {
        started++;
    }
    work(&x);
    for (size_t i = 0; i < started; i++)
        thread_join(threads[i]);
    lock_release(&x.lock);
    if (x.failed) *e = x.fault;
    return !x.failed;
}

bool closed_cover(struct flush *f, struct closed_cut *c, err *e)
{
    FAULT("flush.begin");
    if (!closed_list(f, &f->whole, c, e)) return false;
    size_t width = (size_t)ingester_settings(f->in)->flush_width;
    bool ok = run_pieces(f, c, MIN(width, FLUSH_WIDTH_MAX), e);
    // What did not fit beside others may fit alone.
    if (!ok && width > 1 && e->code == ERR_RESOURCE_EXHAUSTED) ok = run_pieces(f, c, 1, e);
    return ok;
}
