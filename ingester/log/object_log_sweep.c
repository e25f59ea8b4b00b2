// SPDX-License-Identifier: Apache-2.0
//
// object_log_sweep.c - clears away logs that nobody needs: of streams that are covered and not
// registered any more, and of those that nobody has.
//
// The sweep lists the folders before the registrations: a stream is registered before it has an
// object, so one that has objects and is not registered is covered, or was given up by a person.
// The list of registrations only tells which to ask for: it may be an old one. Its objects go, the
// lowest first. Its seal stays for two days by the store's clock, so that an
// owner who was asleep meets it. If there is none, one is made.
//
// So does what is right below the seal and is a seal as well, or cannot be read: a seal may be put
// above one that is damaged, and the owner would meet the lower one.
#include "ingester/log/object_log.h"
#include "ingester/log/object_log_int.h"
#include "manifest/stream.h"
#include "sys/clock.h"

// Bytes of their names.
#define SCRATCH ((size_t)512 << 10)

// ---- objects

bool object_log_remove_first(struct store *s, struct req *r, id128 stream, uint64_t number, err *e)
{
    struct arena a;
    bool lacks = false;
    arena_init(&a, r->arena.budget, SCRATCH);
    str name = name_log_object(&a, stream, number);
    bool ok = arena_ok(&a, e) && store_delete(s, r, name, e) && store_lacks(s, r, name, &lacks, e);
    if (ok && !lacks)
        ok = err_set(e, ERR_UNAVAILABLE, "object %.*s was deleted, and is there all the same",
                     STR(name));
    arena_release(&a);
    return ok;
}

bool object_log_remove_batch(struct store *s, struct req *r, object_log_naming *name, id128 stream,
                             const uint64_t *numbers, size_t n, err *e)
{
    struct arena a;
    arena_init(&a, r->arena.budget, SCRATCH);
    struct store_removal *v = ARENA_ARRAY(&a, struct store_removal, n);
    for (size_t i = 0; v && i < n; i++)
        v[i].name = name(&a, stream, numbers[i]);
    bool ok = arena_ok(&a, e);
    if (ok) store_delete_many(s, r, v, n);
    for (size_t i = 0; ok && i < n; i++) {
        ok = v[i].ok;
        if (!ok) *e = v[i].fault;
    }
    arena_release(&a);
    return ok;
}

bool object_log_remove(struct store *s, struct req *r, id128 stream, uint64_t *first, uint64_t last,
                       err *e)
{
    struct object_log_pace pace = object_log_pace(r);
    uint64_t numbers[OBJECT_LOG_REMOVE];
    while (*first <= last) {
        size_t n = (size_t)MIN(last - *first + 1, (uint64_t)OBJECT_LOG_REMOVE);
        for (size_t i = 0; i < n; i++)
            numbers[i] = *first + i;
        if (!object_log_remove_batch(s, r, name_log_object, stream, numbers, n, e)) return false;
        *first += n;
        object_log_go_on(&pace);
    }
    return true;
}

// ---- one stream

struct ending {
    uint64_t v[OBJECT_LOG_WINDOW];  // the highest numbers, in a ring
    uint64_t seen;
    uint64_t lowest;
};

static bool see_ending(void *arg, const struct object_log_listed *o, err *e)
{
    struct ending *x = arg;
    (void)e;
    if (x->seen == 0) x->lowest = o->number;
    x->v[x->seen++ % OBJECT_LOG_WINDOW] = o->number;
    return true;
}

// The lowest of the objects that stay with the seal; 0: the highest is no seal. Something that is
// said not to be there decides nothing, and the next call comes again.
static bool find_stay(struct store *s, struct req *r, id128 stream, const struct ending *x,
                      uint64_t *stay, err *e)
{
    size_t n = (size_t)MIN(x->seen, (uint64_t)OBJECT_LOG_WINDOW);
    *stay = 0;
    for (size_t i = 0; i < n; i++) {
        struct log_object_head h = {0};
        char bytes[LOG_OBJECT_HEAD_MAX];
        uint64_t number = x->v[(x->seen - 1 - i) % OBJECT_LOG_WINDOW];
        err why = {0};
        bool read = object_log_head(s, r, stream, number, bytes, &h, &why);
        if (!read && why.code != ERR_DATA_LOSS) {
            *e = why;
            return false;
        }
        bool stays = read ? h.seal : i > 0;
        if (!stays || (*stay && number + 1 != *stay)) break;
        *stay = number;
    }
    return true;
}

// A stream that is cleared away.
struct clearing {
    struct store *store;
    struct req *r;
    id128 stream;
    uint64_t until_mono_ns;
    uint64_t *removed;
    struct ending of;
    uint64_t stay;
    uint64_t v[OBJECT_LOG_REMOVE];
    size_t n;
    bool late;
};

static bool clear_batch(struct clearing *x, err *e)
{
    if (x->n && !object_log_remove_batch(x->store, x->r, name_log_object, x->stream, x->v, x->n, e))
        return false;
    *x->removed += x->n;
    x->n = 0;
    x->late = clock_mono_ns() >= x->until_mono_ns;
    return true;
}

static bool see_to_clear(void *arg, const struct object_log_listed *o, err *e)
{
    struct clearing *x = arg;
    if (x->n == OBJECT_LOG_REMOVE && !clear_batch(x, e)) return false;
    if (x->late) return false;
    x->v[x->n++] = o->number;
    return true;
}

// Deletes what is below `stay`. *done: all of it.
static bool clear_below(struct clearing *x, bool *done, err *e)
{
    const struct object_log_span below = {x->stream, x->of.lowest, x->stay - 1};
    err why = {0};
    *done = x->of.lowest >= x->stay;
    if (*done) return true;
    if (!object_log_remove_first(x->store, x->r, x->stream, x->of.lowest, e)) return false;
    ++*x->removed;
    bool ok =
        object_log_each(x->store, x->r, &below, see_to_clear, x, &why) && clear_batch(x, &why);
    *done = ok;
    if (ok || x->late) return true;
    *e = why;
    return false;
}

// What there is, and what of it stays.
static bool begin_clearing(struct clearing *x, err *e)
{
    const struct object_log_span all = {.stream = x->stream};
    return object_log_each(x->store, x->r, &all, see_ending, &x->of, e) &&
           (x->of.seen == 0 || find_stay(x->store, x->r, x->stream, &x->of, &x->stay, e));
}

bool object_log_clear(struct store *s, struct req *r, id128 stream, uint64_t until_mono_ns,
                      uint64_t *removed, bool *done, err *e)
{
    struct clearing x = {
        .store = s, .r = r, .stream = stream, .until_mono_ns = until_mono_ns, .removed = removed};
    bool gone = false;
    *removed = 0;
    *done = false;
    if (!stream_has_ended(s, r, stream, &gone, e)) return false;
    if (!gone) return true;
    if (!begin_clearing(&x, e)) return false;
    *done = x.of.seen == 0;
    if (*done) return true;
    if (x.stay == 0)
        return err_set(e, ERR_UNAVAILABLE, "the highest object of the log is no seal any more");
    return clear_below(&x, done, e);
}

// ---- the sweep

// The seal of a stream of which nothing else is left goes when it is old enough.
static bool sweep_seal(struct clearing *x, err *e)
{
    int64_t age_ns = 0;
    uint64_t top = x->of.v[(x->of.seen - 1) % OBJECT_LOG_WINDOW];
    uint64_t first = x->stay;
    err why = {0};
    struct arena a;
    arena_init(&a, x->r->arena.budget, SCRATCH);
    str seal = name_log_object(&a, x->stream, top);
    bool ok = arena_ok(&a, &why) && store_age(x->store, x->r, seal, &age_ns, &why);
    arena_release(&a);
    if (!ok) {
        if (why.code == ERR_NOT_FOUND) return true;  // somebody else is at it
        *e = why;
        return false;
    }
    bool unregistered = false;
    if (age_ns < OBJECT_LOG_SEAL_NS) return true;
    if (!stream_has_ended(x->store, x->r, x->stream, &unregistered, e)) return false;
    if (!unregistered) return true;
    if (!object_log_remove(x->store, x->r, x->stream, &first, top, e)) return false;
    *x->removed += top - x->stay + 1;
    return true;
}

static bool sweep_stream(struct clearing *x, const struct object_log_sealer *by, bool *done, err *e)
{
    uint64_t sealed = 0;
    err why = {0};
    *done = true;
    if (!begin_clearing(x, &why)) {
        if (why.code == ERR_NOT_FOUND) return true;  // somebody else is at it
        *e = why;
        return false;
    }
    if (x->of.seen == 0) return true;
    bool unregistered = x->stay && x->of.lowest >= x->stay;  // nothing but seals: not asked yet
    if (!unregistered && !stream_has_ended(x->store, x->r, x->stream, &unregistered, e))
        return false;
    if (!unregistered) return true;
    // The next sweep finds the seal.
    if (x->stay == 0) return object_log_seal(x->store, x->r, x->stream, by, &sealed, e);
    if (!clear_below(x, done, e)) return false;
    return !*done || sweep_seal(x, e);
}

static bool has(const id128 *v, size_t n, id128 stream)
{
    size_t from = 0;  // they ascend
    while (from < n) {
        size_t middle = from + (n - from) / 2;
        int order = memcmp(v[middle].b, stream.b, sizeof stream.b);
        if (order == 0) return true;
        if (order < 0) from = middle + 1;
        if (order > 0) n = middle;
    }
    return false;
}

id128 object_log_next_stream(id128 stream)
{
    for (size_t i = sizeof stream.b; i > 0 && ++stream.b[i - 1] == 0; i--)
        ;
    return stream;
}

static bool sweep_logs(struct object_log_sweep *x, struct store *s, struct req *r,
                       const struct object_log_sealer *by, uint64_t until_mono_ns, err *e)
{
    id128 *logs = NULL;
    id128 *registered = NULL;
    size_t n = 0;
    size_t count = 0;
    struct object_log_pace pace = object_log_pace(r);
    if (!object_log_streams(s, r, &r->arena, &logs, &n, e) ||
        !stream_names(s, r, &r->arena, &registered, &count, e)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        bool done = true;
        if (memcmp(logs[i].b, x->next.b, sizeof x->next.b) < 0 || has(registered, count, logs[i]))
            continue;
        // One that fails is passed over for this time: the others must not wait for it.
        struct clearing one = {.store = s,
                               .r = r,
                               .stream = logs[i],
                               .until_mono_ns = until_mono_ns,
                               .removed = &x->removed};
        bool ok = sweep_stream(&one, by, &done, e);
        if (!ok || done) x->next = object_log_next_stream(logs[i]);
        if (!ok) return false;
        object_log_go_on(&pace);
        if (!done || clock_mono_ns() >= until_mono_ns) return true;
    }
    x->logs_done = true;
    x->next = (id128){{0}};
    return true;
}

bool object_log_sweep(struct object_log_sweep *x, struct store *s, struct req *r,
                      const struct object_log_sealer *by, uint64_t until_mono_ns, err *e)
{
    if (!x->logs_done && !sweep_logs(x, s, r, by, until_mono_ns, e)) return false;
    return !x->logs_done || object_log_sweep_kept(x, s, r, until_mono_ns, e);
}
