// SPDX-License-Identifier: Apache-2.0
//
// wal_object_size.c - how large the objects of a log in the store may be.
//
// A store takes gigabytes in one object, but something on the way may not: nginx refuses bodies of
// more than 1 MB unless it is told otherwise. What a push and its neighbours in a group have is
// never refused together for that:
//
//     an object of n bytes is refused    Its stream is over (wal_object.c). Trial objects below
//                                        v1/check/ show how much is taken, t (store/check.h). From
//                                        now on no object has more than t.
//     trials of n bytes are taken        So the size is not all, or a rule is for some names only:
//                                        for a while no object has n bytes or more.
//     an object of n bytes fails, and    It may be too large for the time that it has. Objects are
//     the store takes the seal in its    filled up to half of n.
//     place
//
// An object gets no further push once it has half of what is taken: a push brings news, of which
// nobody knows the size before they are asked for, and what was asked for and has no place is asked
// for anew, with all that the cut has already. A push that is too large even alone is refused, at
// once if its rows show that.
//
// Something on the way may fail large objects in another way than by refusing them: with 500, or
// 403 with a page. That may pass, so such a push is put off and not refused. Each try takes as long
// as the store's client is patient, and all others wait meanwhile; so after the second one that
// failed alone, pushes that are as large are put off at once for SHY_NS.
//
// The limit is kept until it is seen to be over. Every OBJECT_AGAIN_NS it is tried, by trial
// objects and not by a push; where trials do not show it, it ends then, and a push finds out.
#include "ingester/log/wal_object_int.h"
#include "ingester/metrics.h"
#include "store/check.h"
#include "sys/clock.h"
#include "sys/log.h"

#include <stdio.h>

#define TRIAL_NS        ((uint64_t)(10 * NS_PER_S))
#define OBJECT_AGAIN_NS (600 * NS_PER_S)

// A push that failed alone and is smaller has not failed for its size.
#define SHY_LEAST  ((size_t)4 << 10)
#define SHY_FAILED 2
#define SHY_NS     (60 * NS_PER_S)

// An object of fewer bytes is not slow because of them.
#define SLOW_LEAST ((size_t)256 << 10)

// How much is taken, at most `top`; 0: that cannot be found out now.
static size_t find_taken(struct wal *w, size_t top)
{
    struct req r;
    err why = {0};
    err e = {0};
    size_t taken = 0;
    objects_req(w, &r, TRIAL_NS);
    bool ok = store_check_size(w->options.store, w->options.directory, &r, top, &taken, &why, &e);
    req_release(&r);
    return ok ? taken : 0;
}

static size_t largest(const struct object_size *z)
{
    return z->most < SIZE_MAX ? z->most : z->full;
}

static bool is_limited(const struct object_size *z)
{
    return z->full < OBJECT_BYTES || z->most < SIZE_MAX;
}

// With w->lock.
static void set_size(struct wal *w, const struct object_size *z)
{
    assert(z->full > 0 && z->most > 0);
    w->objects->size = *z;
    w->objects->size.since_boot_ns = w->options.boot_ns();
    w->group_bytes = z->full;
}

static void change_size(struct wal *w, const struct object_size *z)
{
    assert(w->led);
    lock_take(&w->lock);
    set_size(w, z);
    lock_give(&w->lock);
}

void objects_init_size(struct wal *w)
{
    size_t max = w->options.object_max;
    struct object_size z = {.full = OBJECT_BYTES, .most = SIZE_MAX};
    if (max && max < OBJECT_BYTES) {
        z = (struct object_size){.full = MAX(max / 2, 1), .most = max, .tried = true};
        snprintf(z.why, sizeof z.why, "a trial at the start found that");
    }
    lock_take(&w->lock);
    set_size(w, &z);
    lock_give(&w->lock);
}

void objects_note_refused(struct wal *w, size_t n, const char *why)
{
    char text[LOG_QUOTE_MAX];
    size_t top = MIN(n, OBJECT_BYTES);
    size_t taken = top > STORE_SIZE_LEAST ? find_taken(w, top) : 0;
    struct object_size z = w->objects->size;
    z.tried = taken > 0 && taken < top;
    z.refused = n;
    z.most = z.tried ? taken : MAX(n - 1, 1);
    z.full = MAX(MIN(z.full, z.tried ? taken / 2 : n / 2), 1);
    snprintf(z.why, sizeof z.why, "%s", why);
    change_size(w, &z);
    metric_add(&ingester_log_refused_objects, 1);
    log_warn(NULL, "log.object_refused", "bytes=%zu most=%zu fault=%s do=\"%s\"", n, z.most,
             log_quote(text, str_of(why)),
             "let the store, and every proxy before it, take larger bodies: until then objects of "
             "the log are smaller, and pushes that need larger ones are refused");
}

void objects_note_slow(struct wal *w, size_t n)
{
    struct object_size z = w->objects->size;
    if (n < SLOW_LEAST || n / 2 >= z.full) return;
    z.full = n / 2;
    z.tried = true;
    snprintf(z.why, sizeof z.why, "one failed, while the store took smaller ones");
    change_size(w, &z);
    log_warn(NULL, "log.object_slow", "bytes=%zu most=%zu then=\"%s\"", n, z.full,
             "objects of the log are smaller from now on");
}

bool objects_refuse(const struct wal *w, size_t n, err *e)
{
    const struct object_size *z = &w->objects->size;
    metric_add(&ingester_log_refused_pushes, 1);
    return err_set(e, ERR_OUT_OF_RANGE,
                   "the push takes %zu bytes in the log, and the object store, or a proxy before "
                   "it, %s %zu bytes: %s",
                   n, z->tried ? "takes objects of at most" : "has refused an object of",
                   z->tried ? z->most : z->refused, z->why);
}

void objects_note_failed(struct wal *w, size_t n)
{
    struct object_size *z = &w->objects->size;
    assert(w->led);
    if (n < SHY_LEAST) return;
    lock_take(&w->lock);
    bool again = ++z->failed >= SHY_FAILED;
    if (again) {
        z->shy = z->shy ? MIN(z->shy, n) : n;
        z->shy_until_boot_ns = w->options.boot_ns() + SHY_NS;
    }
    lock_give(&w->lock);
    if (!again) return;
    log_warn(NULL, "log.object_put_off", "bytes=%zu do=\"%s\"", z->shy,
             "see why the store, or a proxy before it, fails objects of that size while it takes "
             "smaller ones: pushes that need them are put off");
}

void objects_note_taken(struct wal *w, size_t n)
{
    struct object_size *z = &w->objects->size;
    assert(w->led);
    if (n < SHY_LEAST || (z->shy && n < z->shy)) return;
    lock_take(&w->lock);
    z->shy = 0;
    z->failed = 0;
    lock_give(&w->lock);
}

bool objects_try(const struct wal *w, size_t n, err *e)
{
    const struct object_size *z = &w->objects->size;
    if (!z->shy || n < z->shy || w->options.boot_ns() >= z->shy_until_boot_ns) return true;
    return err_set(e, ERR_ABORTED,
                   "the object store, or a proxy before it, has failed objects of the log of %zu "
                   "bytes while it took smaller ones: a push of %zu bytes is put off",
                   z->shy, n);
}

bool objects_admit(const struct wal *w, size_t rows_bytes, err *e)
{
    assert(lock_is_mine(&w->lock));
    if (!w->objects) return true;
    if (rows_bytes > w->objects->size.most) return objects_refuse(w, rows_bytes, e);
    return objects_try(w, rows_bytes, e);
}

void objects_try_larger(struct wal *w)
{
    lock_take(&w->lock);
    struct object_size z = w->objects->size;
    bool due = is_limited(&z) && w->state == WAL_OPEN &&
               w->options.boot_ns() - z.since_boot_ns >= OBJECT_AGAIN_NS;
    lock_give(&w->lock);
    if (!due) return;
    size_t before = largest(&z);
    size_t taken = z.tried ? find_taken(w, OBJECT_BYTES) : OBJECT_BYTES;
    wal_take_lead(w);
    z = w->objects->size;
    if (largest(&z) == before) {  // no push has met another limit meanwhile
        if (taken == OBJECT_BYTES) {
            z = (struct object_size){.full = OBJECT_BYTES, .most = SIZE_MAX};
        } else if (taken > before) {
            z.full = taken / 2;
            z.most = taken;
        }
        if (largest(&z) != before)
            log_info(NULL, "log.object_larger", "most=%zu before=%zu", largest(&z), before);
        change_size(w, &z);
    }
    wal_give_lead(w);
}

void wal_object_limit(struct wal *w, struct wal_object_limit *out)
{
    *out = (struct wal_object_limit){0};
    lock_take(&w->lock);
    if (w->objects) {
        const struct object_size *z = &w->objects->size;
        out->most = largest(z);
        out->refused = z->refused;
        out->limited = is_limited(z);
        memcpy(out->why, z->why, sizeof out->why);
    }
    lock_give(&w->lock);
}
