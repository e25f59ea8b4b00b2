// SPDX-License-Identifier: Apache-2.0
//
// object_log_trim.c - deletes covered cuts, in the order that object_log.h explains.
#include "ingester/log/object_log.h"
#include "ingester/log/object_log_int.h"

#define OBJECT_BYTES_MAX ((size_t)2 << 30)

// Objects in one call of the store.
#define REMOVE_MANY ((size_t)128)

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

bool object_log_found(struct object_log_shelf *s, const struct object_log_survey *survey,
                      int64_t boot_ns, err *e)
{
    assert(s->n == 0);
    for (size_t i = 0; i < survey->n; i++) {
        const struct object_log_cut *c = &survey->cuts[i];
        if (!object_log_shelf_room(s, e)) return false;
        s->v[s->n++] = (struct object_log_place){.cut = c->cut,
                                                 .first = c->first,
                                                 .last = c->last,
                                                 .until_boot_ns = boot_ns + OBJECT_LOG_LATE_NS,
                                                 .covered = !c->whole,
                                                 .begun = !c->whole,
                                                 .damaged = c->damaged};
    }
    return true;
}

// ---- keeping

static bool is_damaged(const struct object_log_shelf *s, uint64_t number)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct object_log_place *p = &s->v[i];
        if (p->damaged && p->first <= number && number <= p->last) return true;
    }
    return false;
}

static bool keep_one(struct store *store, struct req *r, id128 stream, uint64_t number,
                     struct buf *bytes, uint64_t *kept, err *e)
{
    bool existed = false;
    err why = {0};
    str from = name_log_object(&r->arena, stream, number);
    str to = name_damaged_object(&r->arena, stream, number);
    buf_clear(bytes);
    if (!arena_ok(&r->arena, e)) return false;
    if (!store_get(store, r, from, bytes, &why)) {
        if (why.code == ERR_NOT_FOUND) return true;
        *e = why;
        return false;
    }
    if (!store_put(store, r, to, buf_view(bytes), &existed, e)) return false;
    *kept += !existed;
    return true;
}

bool object_log_keep(struct object_log_shelf *s, struct store *store, struct req *r, id128 stream,
                     uint64_t *kept, err *e)
{
    struct numbers there;
    struct numbers copies;
    struct buf bytes;
    bool any = false;
    *kept = 0;
    for (size_t i = 0; i < s->n; i++)
        any |= s->v[i].damaged;
    if (!any) return true;
    // A cut may have more objects than one call has time for, so objects that an earlier call
    // copied are not read again.
    if (!object_log_numbers(store, r, name_log(&r->arena, stream), &there, e) ||
        !object_log_numbers(store, r, name_damaged(&r->arena, stream), &copies, e))
        return false;
    bool ok = true;
    size_t at = 0;
    buf_init(&bytes, r->arena.budget, OBJECT_BYTES_MAX);
    for (size_t i = 0; ok && i < there.n; i++) {
        while (at < copies.n && copies.v[at] < there.v[i])
            at++;
        bool is_copied = at < copies.n && copies.v[at] == there.v[i];
        if (!is_copied && is_damaged(s, there.v[i]))
            ok = keep_one(store, r, stream, there.v[i], &bytes, kept, e);
    }
    buf_release(&bytes);
    for (size_t i = 0; ok && i < s->n; i++)
        s->v[i].damaged = false;
    return ok;
}

// ---- deleting

void object_log_covered(struct object_log_shelf *s, uint64_t cut)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i].cut == cut) s->v[i].covered = true;
}

// Deletes the objects [first, last] of a cut whose first one is gone; only when all are gone is
// the cut taken out, so what fails is asked for again.
static bool remove_rest(struct store *store, struct req *r, id128 stream, uint64_t first,
                        uint64_t last, err *e)
{
    struct store_removal v[REMOVE_MANY];
    while (first <= last) {
        size_t n = (size_t)MIN(last - first + 1, (uint64_t)REMOVE_MANY);
        for (size_t i = 0; i < n; i++)
            v[i] = (struct store_removal){.name = name_log_object(&r->arena, stream, first + i)};
        if (!arena_ok(&r->arena, e)) return false;
        store_delete_many(store, r, v, n);
        for (size_t i = 0; i < n; i++) {
            if (v[i].ok) continue;
            *e = v[i].fault;
            return false;
        }
        first += n;
    }
    return true;
}

// Deletes what may go of the oldest cut. *gone: all of it.
static bool trim_one(struct object_log_place *p, struct store *store, struct req *r, id128 stream,
                     uint64_t open, bool *gone, err *e)
{
    bool keeps = open && open <= p->last;  // its last object is the newest of the stream
    uint64_t last = keeps ? p->last - 1 : p->last;
    *gone = false;
    assert(!open || open >= p->last);
    if (p->first > last) return true;
    if (!p->begun) {
        str name = name_log_object(&r->arena, stream, p->first);
        if (!arena_ok(&r->arena, e) || !store_delete(store, r, name, e)) return false;
        p->begun = true;
        p->first++;
    }
    if (!remove_rest(store, r, stream, p->first, last, e)) return false;
    p->first = last + 1;
    *gone = !keeps;
    return true;
}

bool object_log_trim(struct object_log_shelf *s, struct store *store, struct req *r, id128 stream,
                     uint64_t open, int64_t boot_ns, err *e)
{
    bool ok = true;
    size_t gone = 0;
    for (bool more = true; ok && more && gone < s->n; gone += more) {
        struct object_log_place *p = &s->v[gone];
        more = false;
        if (!p->covered || boot_ns < p->until_boot_ns) break;
        ok = trim_one(p, store, r, stream, open, &more, e);
    }
    if (gone) memmove(s->v, s->v + gone, (s->n - gone) * sizeof *s->v);
    s->n -= gone;
    return ok;
}
