// SPDX-License-Identifier: Apache-2.0
//
// roll.c - one step: compares the log's streams (wal_serves) with the table of registrations.
#include "ingester/roll.h"

#include "base/fault.h"
#include "model/slot.h"
#include "sys/clock.h"

#include <errno.h>

// Clocks of machines differ, and a profile may be that much older than ingester.head_age.
#define SLACK_NS (2 * SLOT_HOUR)

void roll_init(struct roll *l, struct wal *wal, struct store *s,
               const struct registered_stream *own)
{
    *l = (struct roll){.wal = wal, .store = s, .own = *own};
    lock_init(&l->lock, LOCK_ROLL);
}

void roll_release(struct roll *l)
{
    lock_release(&l->lock);
    mem_free(NULL, l->v, l->cap * sizeof *l->v);
    l->v = NULL;
    l->n = l->cap = 0;
}

// ---- the table

static struct rolled *find(struct roll *l, id128 stream)
{
    for (size_t i = 0; i < l->n; i++) {
        if (id128_eq(l->v[i].stream, stream)) return &l->v[i];
    }
    return NULL;
}

static bool add(struct roll *l, const struct rolled *row, err *e)
{
    lock_take(&l->lock);
    bool ok = mem_grow(NULL, &l->v, &l->cap, l->n + 1, sizeof *l->v, e);
    if (ok) l->v[l->n++] = *row;
    lock_give(&l->lock);
    return ok;
}

static void take_out(struct roll *l, size_t i)
{
    lock_take(&l->lock);
    memmove(&l->v[i], &l->v[i + 1], (l->n - i - 1) * sizeof *l->v);
    l->n--;
    lock_give(&l->lock);
}

// The log's streams, the planned one last.
static bool look(struct roll *l, struct arena *a, struct wal_served **v, size_t *n, err *e)
{
    size_t cap = wal_serves(l->wal, NULL, 0);
    do {
        cap += 2;  // one may begin between the two calls
        *v = ARENA_ARRAY(a, struct wal_served, cap);
        if (!*v) return arena_fail(a, e);
        *n = wal_serves(l->wal, *v, cap);
    } while (*n > cap);
    return true;
}

static bool has(const struct wal_served *v, size_t n, id128 stream)
{
    for (size_t i = 0; i < n; i++) {
        if (id128_eq(v[i].stream, stream)) return true;
    }
    return false;
}

bool roll_lacks(struct roll *l, struct arena *a, const struct registered *list, bool *lacks, err *e)
{
    struct wal_served *v = NULL;
    size_t n = 0;
    *lacks = false;
    if (!look(l, a, &v, &n, e)) return false;
    for (size_t i = 0; i < l->n; i++)
        *lacks |= l->v[i].registered && !registered_find(list, l->v[i].stream);
    for (size_t i = 0; i < n; i++)
        *lacks |= v[i].held && !v[i].open && !registered_find(list, v[i].stream);
    return true;
}

bool roll_saw(struct roll *l, const struct registered *list, err *e)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct registered_stream *s = registered_find(list, l->v[i].stream);
        if (s || !l->v[i].registered) continue;
        // A person deleted it. It is registered anew, and settles again.
        lock_take(&l->lock);
        l->v[i].registered = l->v[i].admitted = false;
        lock_give(&l->lock);
    }
    for (size_t i = 0; i < list->n; i++) {
        const struct registered_stream *s = &list->v[i];
        if (!id128_eq(s->directory, l->own.directory) || !str_eq(s->node, l->own.node)) continue;
        // Of a log in the store an earlier process may have written more than this directory knows:
        // what the log does not have is adopted (adopt.h).
        if (s->log == STREAM_LOG_OBJECT && !id128_eq(s->boot, l->own.boot)) continue;
        // Nothing is acknowledged in a stream of an earlier process any more, so it need not
        // settle.
        const struct rolled row = {.stream = s->stream,
                                   .registered = true,
                                   .admitted = true,
                                   .rows_age_ns = INT64_MAX,
                                   .made_ns = s->made_ns};
        if (!find(l, s->stream) && !add(l, &row, e)) return false;
    }
    return true;
}

// ---- steps

// A stream that this process did not begin was registered by that which did.
static bool look_up(struct roll *l, struct req *r, struct rolled *row, err *e)
{
    bool ended = false;
    if (row->ended) return true;
    if (!stream_has_ended(l->store, r, row->stream, &ended, e)) return false;
    lock_take(&l->lock);
    row->ended = ended;
    row->registered = !ended;
    row->admitted = true;  // nothing is acknowledged in it any more, so it need not settle
    row->made_ns = (int64_t)uuid_ms(row->stream) * NS_PER_MS;
    lock_give(&l->lock);
    return true;
}

// An earlier process may have begun the stream. How old its profiles are is not known then, so the
// registration says "not known".
static bool enroll(struct roll *l, struct req *r, const struct wal_served *s,
                   const struct roll_settings *t, err *e)
{
    struct registered_stream object = l->own;
    int64_t now_ns = clock_wall_ns();
    bool is_own = s->planned || s->open;
    bool existed = false;
    struct rolled *row = find(l, s->stream);
    const struct rolled fresh = {.stream = s->stream, .rows_age_ns = INT64_MAX};
    if (!row && !add(l, &fresh, e)) return false;
    row = find(l, s->stream);
    if (!row || row->registered) return true;
    if (s->former) return look_up(l, r, row, e);
    int64_t oldest_ns = 0;
    object.stream = s->stream;
    object.made_ns = MAX(now_ns, t->after_ns + 1);
    if (is_own && !__builtin_sub_overflow(now_ns, t->rows_age_ns, &oldest_ns))
        object.rows_from_ns = MAX(oldest_ns - SLACK_NS, 0);
    if (FAULT_ERRNO("stream.register"))
        return err_set(e, ERR_UNAVAILABLE, "stream: %s", strerror(errno));
    // If it existed, an earlier try that was reported as failed had landed.
    if (!stream_register(l->store, r, &object, &existed, e)) return false;
    lock_take(&l->lock);
    row->registered = true;
    row->since_boot_ns = clock_boot_ns();
    row->made_ns = object.made_ns;
    row->rows_age_ns = is_own ? t->rows_age_ns : INT64_MAX;
    lock_give(&l->lock);
    return true;
}

static void admit(struct roll *l, const struct roll_settings *t, int64_t *soon_ns)
{
    lock_take(&l->lock);
    for (size_t i = 0; i < l->n; i++) {
        struct rolled *row = &l->v[i];
        int64_t left = t->settle_ns - (clock_boot_ns() - row->since_boot_ns);
        if (!row->registered || row->admitted) continue;
        row->admitted = left <= 0 && row->since_boot_ns <= t->asked_boot_ns;
        if (!row->admitted) *soon_ns = MIN(*soon_ns, MAX(left, 0));
    }
    lock_give(&l->lock);
}

static bool is_due(const struct wal_served *open, const struct roll_settings *t)
{
    int64_t now = clock_boot_ns();
    int64_t newest = MAX(open->newest_boot_ns, open->opened_boot_ns);
    return now - open->opened_boot_ns >= t->stream_age_ns || now - newest >= t->idle_ns;
}

// Plans the next stream while the open one is in use, and goes over to it when it is time.
static bool go_on(struct roll *l, const struct wal_served *v, size_t n,
                  const struct roll_settings *t, int64_t *soon_ns, err *e)
{
    const struct wal_served *open = NULL;
    const struct wal_served *planned = NULL;
    id128 next = {0};
    for (size_t i = 0; i < n; i++) {
        if (v[i].open) open = &v[i];
        if (v[i].planned) planned = &v[i];
    }
    // Without an open stream the log is being read, or is at its end.
    if (!open || !roll_admits(l, open->stream)) return true;
    if (!planned) {
        *soon_ns = 0;
        return wal_plan_stream(l->wal, &next, e);
    }
    if (roll_admits(l, planned->stream) && is_due(open, t)) {
        wal_offer_stream(l->wal, planned->stream);
        // The former one may be empty, and then goes with the next step.
        *soon_ns = MIN(*soon_ns, t->stream_age_ns);
    }
    return true;
}

static bool take_back(struct roll *l, struct req *r, const struct wal_served *v, size_t n, err *e)
{
    for (size_t i = l->n; i > 0; i--) {
        const struct rolled row = l->v[i - 1];
        if (has(v, n, row.stream)) continue;
        if (FAULT_ERRNO("stream.unregister"))
            return err_set(e, ERR_UNAVAILABLE, "stream: %s", strerror(errno));
        if (!row.ended && !stream_unregister(l->store, r, row.stream, e)) return false;
        take_out(l, i - 1);
    }
    return true;
}

// Streams are registered in the order of their beginnings, and after a failure no later one is: so
// if the open one is admitted, all are registered.
bool roll_step(struct roll *l, struct req *r, const struct roll_settings *t, int64_t *soon_ns,
               err *e)
{
    struct wal_served *v = NULL;
    size_t n = 0;
    *soon_ns = INT64_MAX;
    if (!look(l, &r->arena, &v, &n, e)) return false;
    for (size_t i = 0; i < n; i++) {
        if (!enroll(l, r, &v[i], t, e)) return false;
    }
    admit(l, t, soon_ns);
    return take_back(l, r, v, n, e) && go_on(l, v, n, t, soon_ns, e);
}

bool roll_end(struct roll *l, struct req *r, err *e)
{
    struct wal_served *v = NULL;
    size_t n = 0;
    size_t kept = 0;
    if (!look(l, &r->arena, &v, &n, e)) return false;
    for (size_t i = 0; i < n; i++) {
        if (v[i].held) v[kept++] = v[i];
    }
    return take_back(l, r, v, kept, e);
}

// ---- questions

bool roll_ids(struct roll *l, struct arena *a, id128 **v, size_t *n, err *e)
{
    lock_take(&l->lock);
    *v = ARENA_ARRAY(a, id128, l->n + 1);
    *n = *v ? l->n : 0;
    for (size_t i = 0; i < *n; i++)
        (*v)[i] = l->v[i].stream;
    lock_give(&l->lock);
    return *v || arena_fail(a, e);
}

bool roll_admits(struct roll *l, id128 stream)
{
    lock_take(&l->lock);
    const struct rolled *row = find(l, stream);
    bool admitted = row && row->registered && row->admitted;
    lock_give(&l->lock);
    return admitted;
}

bool roll_wants_asking(struct roll *l, int64_t asked_boot_ns)
{
    bool wants = false;
    lock_take(&l->lock);
    for (size_t i = 0; i < l->n && !wants; i++) {
        const struct rolled *row = &l->v[i];
        wants = row->registered && !row->admitted && row->since_boot_ns > asked_boot_ns;
    }
    lock_give(&l->lock);
    return wants;
}

bool roll_is_open(struct roll *l)
{
    struct wal_place place = {0};
    id128 before;
    err ignored = {0};
    do {
        before = place.stream;
        // Who is asked about a log that is not open is told so by the append itself.
        if (!wal_position(l->wal, &place, &ignored)) return false;
        if (roll_admits(l, place.stream)) return true;
        // The log may have gone over to the next one meanwhile.
    } while (!id128_eq(before, place.stream));
    return false;
}

int64_t roll_rows_age(struct roll *l)
{
    int64_t age = INT64_MAX;
    lock_take(&l->lock);
    for (size_t i = 0; i < l->n; i++)
        age = MIN(age, l->v[i].rows_age_ns);
    lock_give(&l->lock);
    return age;
}

int64_t roll_newest_ns(struct roll *l)
{
    int64_t newest = 0;
    lock_take(&l->lock);
    for (size_t i = 0; i < l->n; i++) {
        if (l->v[i].registered) newest = MAX(newest, l->v[i].made_ns);
    }
    lock_give(&l->lock);
    return newest;
}

size_t roll_registered(struct roll *l, int64_t *oldest_ns)
{
    size_t n = 0;
    *oldest_ns = 0;
    lock_take(&l->lock);
    for (size_t i = 0; i < l->n; i++) {
        if (!l->v[i].registered) continue;
        if (n++ == 0 || l->v[i].made_ns < *oldest_ns) *oldest_ns = l->v[i].made_ns;
    }
    lock_give(&l->lock);
    return n;
}
