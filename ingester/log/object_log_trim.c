// SPDX-License-Identifier: Apache-2.0
//
// object_log_trim.c - deletes what an open stream has of covered cuts, and copies damaged ones. Why
// a deletion is told first is explained in object_log.h.
#include "ingester/log/object_log.h"
#include "ingester/log/object_log_int.h"

#define OBJECT_BYTES_MAX ((size_t)2 << 30)

// Objects of which it is found out at once whether they were copied.
#define KEEP_MANY ((size_t)1024)

void object_log_shelf_release(struct object_log_shelf *s)
{
    mem_free(NULL, s->v, s->cap * sizeof *s->v);
    *s = (struct object_log_shelf){0};
}

bool object_log_shelf_room(struct object_log_shelf *s, err *e)
{
    return mem_grow(NULL, &s->v, &s->cap, s->n + 1, sizeof *s->v, e);
}

bool object_log_may_return(const struct object_log_writer *w)
{
    return w->tries > 1 || w->store->kind->remote;
}

void object_log_landed(struct object_log_shelf *s, const struct object_log_writer *w, uint64_t cut,
                       int64_t boot_ns)
{
    uint64_t number = w->number - 1;
    assert(number > 0 && w->bytes.n == 0);
    bool is_new = s->n == 0 || s->v[s->n - 1].cut != cut;
    if (is_new) {
        assert(s->n < s->cap && (s->n == 0 || s->v[s->n - 1].cut < cut));
        s->v[s->n++] = (struct object_log_place){.cut = cut, .first = number};
    }
    struct object_log_place *last = &s->v[s->n - 1];
    last->last = number;
    if (object_log_may_return(w))
        last->until_boot_ns = MAX(last->until_boot_ns, boot_ns + OBJECT_LOG_LATE_NS);
}

// ---- keeping

struct keep {
    struct store *store;
    struct req *r;
    id128 stream;
    struct buf bytes;
    uint64_t *kept;
    struct object_log_listed there[KEEP_MANY];
    struct object_log_listed copies[KEEP_MANY];
};

static bool keep_one(struct keep *k, uint64_t number, err *e)
{
    bool existed = false;
    err why = {0};
    struct arena a;
    arena_init(&a, k->r->arena.budget, 4096);
    str from = name_log_object(&a, k->stream, number);
    str to = name_damaged_object(&a, k->stream, number);
    buf_clear(&k->bytes);
    bool ok = arena_ok(&a, e);
    if (ok && !store_get(k->store, k->r, from, &k->bytes, &why)) {
        ok = why.code == ERR_NOT_FOUND;  // somebody else has copied it
        if (!ok) *e = why;
    } else if (ok) {
        ok = store_put(k->store, k->r, to, buf_view(&k->bytes), &existed, e);
        *k->kept += ok && !existed;
    }
    arena_release(&a);
    return ok;
}

// Copies those of a page that have no copy yet.
static bool keep_page(struct keep *k, size_t n, err *e)
{
    struct arena a;
    size_t at = 0;
    arena_init(&a, k->r->arena.budget, 4096);
    // There is no copy without its object, but for those that are gone by now.
    struct object_log_pager p = {.prefix = name_damaged(&a, k->stream),
                                 .after = k->there[0].number - 1,
                                 .v = k->copies,
                                 .most = KEEP_MANY};
    bool ok = arena_ok(&a, e) && object_log_page(k->store, k->r, &p, e);
    arena_release(&a);
    for (size_t i = 0; ok && i < n; i++) {
        while (at < p.n && k->copies[at].number < k->there[i].number)
            at++;
        bool is_copied = at < p.n && k->copies[at].number == k->there[i].number;
        if (!is_copied) ok = keep_one(k, k->there[i].number, e);
    }
    return ok;
}

static bool keep_place(struct keep *k, const struct object_log_place *place, err *e)
{
    struct arena a;
    struct object_log_pace pace = object_log_pace(k->r);
    arena_init(&a, k->r->arena.budget, 4096);
    struct object_log_pager p = {.prefix = name_log(&a, k->stream),
                                 .after = place->first - 1,
                                 .v = k->there};
    bool ok = arena_ok(&a, e);
    for (bool more = true; ok && more && p.after < place->last; more = p.more) {
        p.most = (size_t)MIN((uint64_t)KEEP_MANY, place->last - p.after);
        ok = object_log_page(k->store, k->r, &p, e);
        if (!ok || p.n == 0) break;
        p.after = k->there[p.n - 1].number;
        size_t n = p.n;
        while (n > 0 && k->there[n - 1].number > place->last)
            n--;
        ok = n == 0 || keep_page(k, n, e);
        object_log_go_on(&pace);
    }
    arena_release(&a);
    return ok;
}

bool object_log_keep(struct object_log_shelf *s, struct store *store, struct req *r, id128 stream,
                     uint64_t *kept, err *e)
{
    bool any = false;
    *kept = 0;
    for (size_t i = 0; i < s->n; i++)
        any |= s->v[i].damaged;
    if (!any) return true;
    struct keep *k = mem_alloc(r->arena.budget, sizeof *k, e);
    if (!k) return false;
    k->store = store;
    k->r = r;
    k->stream = stream;
    k->kept = kept;
    buf_init(&k->bytes, r->arena.budget, OBJECT_BYTES_MAX);
    bool ok = true;
    for (size_t i = 0; ok && i < s->n; i++) {
        if (!s->v[i].damaged) continue;
        ok = keep_place(k, &s->v[i], e);
        if (ok) s->v[i].damaged = false;
    }
    buf_release(&k->bytes);
    mem_free(r->arena.budget, k, sizeof *k);
    return ok;
}

// ---- deleting

void object_log_covered(struct object_log_shelf *s, uint64_t cut)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i].cut == cut) s->v[i].covered = true;
}

// How many places may go, from the first on. None does before the one before it: so what is told is
// never more than what is there.
static size_t may_go(const struct object_log_shelf *s, const struct object_log_told *told,
                     int64_t boot_ns)
{
    size_t n = 0;
    while (n < s->n && s->v[n].covered && s->v[n].last < told->covered.below &&
           boot_ns >= s->v[n].until_boot_ns)
        n++;
    return n;
}

static bool trim_place(struct object_log_place *p, struct store *store, struct req *r, id128 stream,
                       err *e)
{
    if (!p->begun) {
        if (!object_log_remove_first(store, r, stream, p->first, e)) return false;
        p->begun = true;
        p->first++;
    }
    return object_log_remove(store, r, stream, &p->first, p->last, e);
}

bool object_log_trim(struct object_log_shelf *s, struct store *store, struct req *r, id128 stream,
                     const struct object_log_told *told, int64_t boot_ns, err *e)
{
    size_t n = may_go(s, told, boot_ns);
    size_t gone = 0;
    struct object_log_sought teller = {.number = told->number};
    if (n == 0) return true;
    if (!object_log_seek(store, r, stream, &teller, 1, e)) return false;
    if (!teller.there) {
        err why = {0};
        object_log_tell_lost(stream, told->number, &why);
        return err_set(e, ERR_UNAVAILABLE, "%s", why.msg);
    }
    bool ok = true;
    while (ok && gone < n) {
        ok = trim_place(&s->v[gone], store, r, stream, e);
        gone += ok;
    }
    if (gone) memmove(s->v, s->v + gone, (s->n - gone) * sizeof *s->v);
    s->n -= gone;
    return ok;
}
