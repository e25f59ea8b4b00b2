// SPDX-License-Identifier: Apache-2.0
//
// io.c - operations on files, by a ring or by threads (io_int.h).
//
//     io_run, by a ring     fill: as many as the depth allows -> fly: submit, reap -> until all
//     ended
//                           finish_rest: what the ring left undone, by system calls
//     io_run, by threads    do_chain on this thread and on idle ones of the lane (run_crowd)
//
// Once the kernel has an operation, its memory may be written until it ended. So nothing returns
// before that, whatever the deadline says.
#include "loop/lane.h"
#include "store/io_int.h"
#include "sys/lock.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include <liburing.h>

#define WIDTH     16
#define WIDTH_MAX 128
#define RINGS     16  // in use at once; a caller that finds none free uses threads
#define HELPERS   15  // at most so many threads help one caller
#define QUEUE_MAX 256

struct ring {
    struct io_uring uring;
    bool made;
    bool busy;
};

struct io {
    struct lock lock;  // of `rings`: who has which
    struct ring rings[RINGS];
    bool uring;
    unsigned width;
    struct lane *lane;
};

// ---- by system calls

static void advance(struct io_op *o, size_t n)
{
    assert(n <= o->n - o->done);
    o->done += n;
    while (n > 0 && n >= o->v->iov_len) {
        n -= o->v->iov_len;
        o->v += 1;
        o->v_n -= 1;
    }
    if (n == 0) return;
    o->v->iov_base = (char *)o->v->iov_base + n;
    o->v->iov_len -= n;
}

static ssize_t once(const struct io_op *o)
{
    // IO_SYNC is fsync, not fdatasync: the size of a new file is part of what must be durable.
    off_t at = (off_t)(o->at + o->done);
    if (o->what == IO_SYNC) return fsync(o->fd);
    if (o->what == IO_WRITE) return pwritev(o->fd, o->v, o->v_n, at);
    return preadv(o->fd, o->v, o->v_n, at);
}

// Does the rest of an operation by system calls.
static void finish(struct io_op *o)
{
    assert(o->done <= o->n);
    o->error = 0;
    do {
        ssize_t n = once(o);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) o->error = errno;
        if (n <= 0) break;
        advance(o, (size_t)n);
    } while (o->done < o->n);
    // write(2) of more than 0 bytes never returns 0 on a file that can be written.
    if (o->what == IO_WRITE && !o->error && o->done < o->n) o->error = EIO;
    o->complete = true;
}

static bool follows_failure(const struct io_op *v, size_t i)
{
    return v[i].after && v[i - 1].error;
}

// Does the operation at i and those that come after it.
static void do_chain(struct io_op *v, size_t n, size_t i)
{
    for (size_t at = i; at < n && (at == i || v[at].after); at++) {
        assert(v[at].fd >= 0);
        v[at].began = true;
        if (follows_failure(v, at)) {
            v[at].error = v[at - 1].error;
        } else {
            finish(&v[at]);
        }
    }
}

// ---- with the help of threads

struct crowd {
    void (*fn)(void *arg, size_t i);
    void *arg;
    size_t n;
    bool ends;  // when the request ends, calls that have not begun do not begin any more
    struct req *req;
    atomic_size_t next;
    struct lock lock;
    struct cond gone;
    unsigned inside;  // helpers that have not ended; under the lock
};

struct helper {
    struct job job;
    struct crowd *crowd;
    bool sent;
};

static void take_part(struct crowd *c)
{
    err ended = {0};
    while (!c->ends || req_alive(c->req, &ended)) {
        // Relaxed: the numbers only have to differ. What the calls write is seen by the caller
        // through the lock in leave().
        size_t i = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed);
        if (i >= c->n) return;
        c->fn(c->arg, i);
    }
}

static void leave(struct crowd *c)
{
    lock_take(&c->lock);
    assert(c->inside > 0);
    if (--c->inside == 0) cond_wake_one(&c->gone);
    // Under the lock, because the crowd is on the caller's stack and is gone once it sees 0.
    lock_give(&c->lock);
}

static void help(struct job *j)
{
    struct helper *h = CONTAINER_OF(j, struct helper, job);
    take_part(h->crowd);
    leave(h->crowd);
}

static void help_not(struct job *j, const err *e)
{
    (void)e;  // the caller checks its request itself, and does the calls that are left
    leave(CONTAINER_OF(j, struct helper, job)->crowd);
}

static void run_crowd(struct io *io, struct crowd *c)
{
    struct helper helpers[HELPERS];
    assert(c->n > 1 && io->width > 1);
    // One less than the calls, because this thread takes part.
    size_t n = MIN(MIN(c->n - 1, (size_t)io->width - 1), COUNT(helpers));
    for (size_t i = 0; i < n; i++) {
        helpers[i] = (struct helper){.job = {.req = c->req, .run = help, .refuse = help_not},
                                     .crowd = c,
                                     .sent = true};
        lock_take(&c->lock);
        c->inside += 1;
        lock_give(&c->lock);
        err busy = {0};
        if (lane_submit(io->lane, &helpers[i].job, &busy)) continue;
        // A full lane is no fault: this thread does what nobody helps with.
        helpers[i].sent = false;
        leave(c);
    }
    take_part(c);
    // Helpers that have not begun are taken back: they would find nothing to do, and waiting for
    // them would mean waiting for other callers' jobs.
    for (size_t i = 0; i < n; i++) {
        if (helpers[i].sent && lane_withdraw(io->lane, &helpers[i].job)) leave(c);
    }
    lock_take(&c->lock);
    while (c->inside > 0)
        cond_wait(&c->gone, &c->lock);
    lock_give(&c->lock);
}

static void gather(struct io *io, struct crowd *c)
{
    // Without a request there is no deadline, and a job needs one.
    if (c->n <= 1 || !c->req || io->width == 1) {
        take_part(c);
        return;
    }
    lock_init(&c->lock, LOCK_STORE);
    cond_init(&c->gone);
    run_crowd(io, c);
    cond_release(&c->gone);
    lock_release(&c->lock);
}

struct ops {
    struct io_op *v;
    size_t n;
};

static void do_op(void *arg, size_t i)
{
    const struct ops *ops = arg;
    if (!ops->v[i].after) do_chain(ops->v, ops->n, i);
}

static void run_threads(struct io *io, struct req *r, struct io_op *v, size_t n)
{
    struct ops ops = {v, n};
    struct crowd c = {.fn = do_op, .arg = &ops, .n = n, .ends = r != NULL, .req = r};
    gather(io, &c);
}

void io_each(struct io *io, struct req *r, size_t n, void (*fn)(void *arg, size_t i), void *arg)
{
    struct crowd c = {.fn = fn, .arg = arg, .n = n, .req = r};
    gather(io, &c);
}

// ---- by io_uring

// Errors after which a system call may still succeed: the ring cannot do the operation, or it
// belonged to a chain that broke.
static bool worth_a_call(int error)
{
    return error == EINTR || error == EAGAIN || error == ECANCELED || error == EOPNOTSUPP ||
           error == EINVAL || error == ENOMEM;
}

static void note_result(struct io_op *o, int result)
{
    assert(o->began && !o->complete);
    if (result < 0 && worth_a_call(-result)) return;
    if (result < 0) o->error = -result;
    if (result > 0) advance(o, (size_t)result);
    // A read that is short but not at the end goes on by system calls (finish_rest).
    o->complete = result < 0 || o->done >= o->n || (o->what == IO_READ && result == 0);
}

static void prepare(struct io_uring_sqe *sqe, struct io_op *o, bool more)
{
    assert(sqe && o->v_n >= 0);
    switch (o->what) {
    case IO_READ:
        io_uring_prep_readv(sqe, o->fd, o->v, (unsigned)o->v_n, o->at);
        break;
    case IO_WRITE:
        io_uring_prep_writev(sqe, o->fd, o->v, (unsigned)o->v_n, o->at);
        break;
    case IO_SYNC:
        io_uring_prep_fsync(sqe, o->fd, 0);
        break;
    }
    io_uring_sqe_set_data(sqe, o);
    if (more) io_uring_sqe_set_flags(sqe, IOSQE_IO_LINK);
    o->began = true;
}

// Waits until at least one operation is done; returns how many. Never gives up: as long as an
// operation is under way, the kernel may write into memory of the caller.
static unsigned reap(struct io_uring *u)
{
    for (;;) {
        struct io_uring_cqe *cqe = NULL;
        unsigned head = 0;
        unsigned n = 0;
        io_uring_for_each_cqe(u, head, cqe)
        {
            note_result(io_uring_cqe_get_data(cqe), cqe->res);
            n += 1;
        }
        if (n > 0) {
            io_uring_cq_advance(u, n);
            return n;
        }
        // An error here does not mean that the operations ended. A pause keeps it from spinning.
        int failed = io_uring_wait_cqe(u, &cqe);
        if (failed && failed != -EINTR) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

// At least 2, because a chain is submitted as a whole, and the longest is a write and its sync.
static unsigned ring_depth(const struct io *io)
{
    return MAX(io->width, 2u);
}

struct flight {
    size_t next;       // not yet given to the ring
    unsigned waiting;  // in the ring, not yet given to the kernel
    unsigned flying;
};

// Fills the ring with whole chains: links do not reach across two submissions.
static void fill(struct io *io, struct io_uring *u, struct io_op *v, size_t n, struct flight *f)
{
    while (f->next < n) {
        size_t end = f->next + 1;
        while (end < n && v[end].after)
            end += 1;
        assert(!v[f->next].after);  // chains begin at their first operation
        size_t chain = end - f->next;
        if (f->waiting + f->flying + chain > ring_depth(io) || io_uring_sq_space_left(u) < chain)
            return;
        for (; f->next < end; f->next++) {
            prepare(io_uring_get_sqe(u), &v[f->next], f->next + 1 < end);
            f->waiting += 1;
        }
    }
}

// Submits what waits in the ring and waits for operations that are done. False: the kernel accepts
// nothing any more. The ring must then be closed, so that operations in it do not begin later.
static bool fly(struct io_uring *u, struct flight *f)
{
    if (f->waiting > 0) {
        int taken = io_uring_submit(u);
        // With operations under way the kernel may take more once some of them are done.
        if (taken <= 0 && taken != -EINTR && f->flying == 0) return false;
        if (taken > 0) {
            assert((unsigned)taken <= f->waiting);
            f->waiting -= (unsigned)taken;
            f->flying += (unsigned)taken;
        }
    }
    // If the kernel took only the beginning of a chain, the link to its rest is lost. So the
    // beginning is waited for before the rest is submitted.
    do {
        if (f->flying > 0) f->flying -= reap(u);
    } while (f->waiting > 0 && f->flying > 0);
    return true;
}

// False: the ring must not be used again. Operations may be left that began and are not complete:
// finish_rest does them.
static bool run_ring(struct io *io, struct io_uring *u, struct req *r, struct io_op *v, size_t n)
{
    struct flight f = {0};
    err ended = {0};
    for (;;) {
        if (!r || req_alive(r, &ended)) fill(io, u, v, n, &f);
        if (f.waiting + f.flying == 0) return true;
        if (!fly(u, &f)) return false;
    }
}

// Does by system calls what the ring left undone. A short write breaks its chain on some kernels
// and not on others. So if a write was finished here, the sync after it is done again in any case.
static void finish_rest(struct io_op *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!v[i].began || v[i].complete) continue;
        assert(i > 0 || !v[i].after);
        if (!follows_failure(v, i)) finish(&v[i]);
        if (v[i].complete && i + 1 < n && v[i + 1].after && !v[i + 1].error)
            v[i + 1].complete = false;
        if (!v[i].complete) v[i].error = v[i - 1].error;
    }
}

// Prefers a ring that is made already. A new one is made outside the lock, as that takes a while.
static struct ring *ring_take(struct io *io, unsigned depth)
{
    struct ring *found = NULL;
    lock_take(&io->lock);
    for (size_t i = 0; i < RINGS && !(found && found->made); i++) {
        if (!io->rings[i].busy && (!found || io->rings[i].made)) found = &io->rings[i];
    }
    if (found) found->busy = true;
    lock_give(&io->lock);
    if (!found || found->made) return found;
    // It is marked as busy, so no other thread touches it.
    found->made = io_uring_queue_init(depth, &found->uring, 0) == 0;
    if (found->made) return found;
    lock_take(&io->lock);
    found->busy = false;
    lock_give(&io->lock);
    return NULL;
}

static void ring_give(struct io *io, struct ring *ring, bool usable)
{
    assert(ring->busy);
    if (!usable) io_uring_queue_exit(&ring->uring);
    lock_take(&io->lock);
    ring->made = usable;
    ring->busy = false;
    lock_give(&io->lock);
}

void io_run(struct io *io, struct req *r, struct io_op *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert(v[i].fd >= 0 && (!v[i].after || i > 0));
        assert(v[i].v_n >= 0 && v[i].v_n <= IOV_MAX);
        v[i].began = v[i].complete = false;
        v[i].done = 0;
        v[i].error = 0;
    }
    struct ring *ring = io->uring && n > 1 ? ring_take(io, ring_depth(io)) : NULL;
    if (!ring) {
        run_threads(io, r, v, n);
        return;
    }
    // No other thread, and no second queue: the caller submits and waits itself.
    bool usable = run_ring(io, &ring->uring, r, v, n);
    ring_give(io, ring, usable);
    finish_rest(v, n);
    // A ring that broke leaves operations that did not begin. Chains begin whole, so the rest
    // begins with the first operation of a chain.
    size_t begun = 0;
    while (!usable && begun < n && v[begun].began)
        begun += 1;
    if (!usable && begun < n) run_threads(io, r, v + begun, n - begun);
}

// ---- life

bool io_has_uring(const struct io *io)
{
    return io->uring;
}

static bool try_uring(struct io *io)
{
    int failed = io_uring_queue_init(ring_depth(io), &io->rings[0].uring, 0);
    if (failed) {
        // Container runtimes forbid it by default, so this is no warning.
        // The kernel has no io_uring, or forbids it.
        char text[128];
        log_info(NULL, "store.no_uring", "why=\"%s\"", strerror_r(-failed, text, sizeof text));
        return false;
    }
    // Without NODROP (Linux 5.5) a full completion queue loses results, and reap would wait for
    // ever.
    if (io->rings[0].uring.features & IORING_FEAT_NODROP) return io->rings[0].made = true;
    io_uring_queue_exit(&io->rings[0].uring);
    log_info(NULL, "store.no_uring", "why=\"the kernel is too old\"");
    return false;
}

struct io *io_open(unsigned width, bool no_uring, err *e)
{
    struct io *io = mem_must(sizeof *io);
    io->width = width ? MIN(width, WIDTH_MAX) : WIDTH;
    struct lane_options o = {.name = "store.disk",
                             .rank = RANK_DISK,
                             .width = io->width,
                             .queue_max = QUEUE_MAX};
    io->lane = lane_new(&o, e);
    if (!io->lane) {
        mem_must_free(io);
        return NULL;
    }
    lock_init(&io->lock, LOCK_STORE);
    io->uring = !no_uring && try_uring(io);
    return io;
}

void io_close(struct io *io)
{
    if (!io) return;
    // No caller is inside, so no ring is busy; the lane may still have threads that look for work.
    lane_drain(io->lane);
    lane_free(io->lane);
    for (size_t i = 0; i < RINGS; i++) {
        assert(!io->rings[i].busy);
        if (io->rings[i].made) io_uring_queue_exit(&io->rings[i].uring);
    }
    lock_release(&io->lock);
    mem_must_free(io);
}
