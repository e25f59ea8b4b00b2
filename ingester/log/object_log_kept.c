// SPDX-License-Identifier: Apache-2.0
//
// object_log_kept.c - copies of damaged cuts (object_log_keep) obey deletions, too: they go when
// they are OBJECT_LOG_KEPT_NS old, by the store's clock, and earlier if they have, or may have,
// something of a tenant that is being deleted.
//
// They are made in the order of their numbers, so a copy is at least as old as those behind it.
#include "ingester/log/object_log.h"
#include "ingester/log/object_log_int.h"
#include "sys/clock.h"

#define SCRATCH       ((size_t)4096)
#define LOG_BYTES_MAX ((size_t)2 << 30)

struct sweep_kept {
    struct object_log_sweep *x;
    struct store *store;
    struct req *r;
    id128 stream;
    struct store_names closed;  // the tenants that are being deleted; names of v1/closed/
    uint64_t until_mono_ns;
    struct object_log_listed page[OBJECT_LOG_REMOVE];
};

static bool age_of_copy(struct sweep_kept *k, uint64_t number, int64_t *age_ns, err *e)
{
    struct arena a;
    err why = {0};
    arena_init(&a, k->r->arena.budget, SCRATCH);
    str name = name_damaged_object(&a, k->stream, number);
    bool ok = arena_ok(&a, &why) && store_age(k->store, k->r, name, age_ns, &why);
    arena_release(&a);
    // A person has deleted it meanwhile, or it is said to be gone: the next sweep sees.
    if (!ok && why.code == ERR_NOT_FOUND) *age_ns = 0;
    if (ok || why.code == ERR_NOT_FOUND) return true;
    *e = why;
    return false;
}

static bool drop_copies(struct sweep_kept *k, const uint64_t *numbers, size_t n, err *e)
{
    if (n &&
        !object_log_remove_batch(k->store, k->r, name_damaged_object, k->stream, numbers, n, e))
        return false;
    k->x->dropped += n;
    return true;
}

// How many of a page are too old.
static bool count_old(struct sweep_kept *k, size_t n, size_t *old, err *e)
{
    int64_t age_ns = 0;
    *old = 0;
    if (!age_of_copy(k, k->page[n - 1].number, &age_ns, e)) return false;
    if (age_ns >= OBJECT_LOG_KEPT_NS) {
        *old = n;
        return true;
    }
    for (; *old + 1 < n; ++*old) {
        if (!age_of_copy(k, k->page[*old].number, &age_ns, e)) return false;
        if (age_ns < OBJECT_LOG_KEPT_NS) break;
    }
    return true;
}

static bool is_closed(const struct sweep_kept *k, str tenant)
{
    for (size_t i = 0; i < k->closed.n; i++) {
        str name = k->closed.v[i].name;
        if (str_eq(str_slice(name, name_all_closed().n, name.n), tenant)) return true;
    }
    return false;
}

// Whether the copy has, or may have, something of a tenant that is being deleted.
static bool may_have_closed(struct sweep_kept *k, uint64_t number, bool *may, err *e)
{
    struct arena a;
    struct buf bytes;
    struct log_object o;
    struct log_object_entry x;
    err why = {0};
    arena_init(&a, k->r->arena.budget, SCRATCH);
    buf_init(&bytes, k->r->arena.budget, LOG_BYTES_MAX);
    str name = name_damaged_object(&a, k->stream, number);
    bool ok = arena_ok(&a, e) && store_get(k->store, k->r, name, &bytes, e);
    *may = ok && !log_object_decode(buf_view(&bytes), k->stream, number, &o, &why);
    if (ok && !*may) {
        str rest = o.entries;
        while (!*may && log_object_next(&rest, &x))
            *may = is_closed(k, x.tenant);
    }
    buf_release(&bytes);
    arena_release(&a);
    return ok;
}

static bool drop_closed(struct sweep_kept *k, size_t from, size_t n, err *e)
{
    if (k->closed.n == 0) return true;
    for (size_t i = from; i < n; i++) {
        bool may = false;
        if (!may_have_closed(k, k->page[i].number, &may, e)) return false;
        if (may && !drop_copies(k, &k->page[i].number, 1, e)) return false;
    }
    return true;
}

// *done stays false if the time is up: the next call goes on with what was not deleted.
static bool sweep_copies(struct sweep_kept *k, bool *done, err *e)
{
    struct arena a;
    struct object_log_pace pace = object_log_pace(k->r);
    arena_init(&a, k->r->arena.budget, SCRATCH);
    struct object_log_pager p = {.prefix = name_damaged(&a, k->stream),
                                 .v = k->page,
                                 .most = COUNT(k->page)};
    bool ok = arena_ok(&a, e);
    *done = true;
    for (bool more = true; ok && more && *done;) {
        uint64_t numbers[OBJECT_LOG_REMOVE];
        size_t old = 0;
        ok = object_log_page(k->store, k->r, &p, e);
        if (!ok || p.n == 0) break;
        ok = count_old(k, p.n, &old, e);
        for (size_t i = 0; ok && i < old; i++)
            numbers[i] = k->page[i].number;
        ok = ok && drop_copies(k, numbers, old, e) && drop_closed(k, old, p.n, e);
        more = p.more && (old == p.n || k->closed.n > 0);
        p.after = k->page[p.n - 1].number;
        *done = !more || old < p.n || clock_mono_ns() < k->until_mono_ns;
        object_log_go_on(&pace);
    }
    arena_release(&a);
    return ok;
}

bool object_log_sweep_kept(struct object_log_sweep *x, struct store *s, struct req *r,
                           uint64_t until_mono_ns, err *e)
{
    struct sweep_kept k = {.x = x, .store = s, .r = r, .until_mono_ns = until_mono_ns};
    id128 *streams = NULL;
    size_t n = 0;
    if (!object_log_folders(s, r, &r->arena, true, &streams, &n, e) ||
        (n > 0 && !store_names(s, r, name_all_closed(), &r->arena, &k.closed, e)))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (memcmp(streams[i].b, x->next.b, sizeof x->next.b) < 0) continue;
        k.stream = streams[i];
        bool done = true;
        bool ok = sweep_copies(&k, &done, e);
        if (!ok || done) x->next = object_log_next_stream(streams[i]);
        if (!ok) return false;
        if (!done || clock_mono_ns() >= until_mono_ns) return true;
    }
    x->done = true;
    return true;
}
