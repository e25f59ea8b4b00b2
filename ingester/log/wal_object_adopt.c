// SPDX-License-Identifier: Apache-2.0
//
// wal_object_adopt.c - takes over the stream of another process, whose log is in the object store.
//
//     1. The stream is sealed and looked at.                                 wal_adopt
//     2. Its whole cuts come into the tables, hidden: they are in no list.
//     3. The caller reads them (wal_scan), one after the other. Where memory is short he flushes
//        those that are read, and drops them (wal_drop); their objects stay.
//     4. He reveals the rows of the others (head.h). From now on the stream is one that has ended.
//                                                                            wal_adopted
//
// If the caller cannot read it, he takes the rows out of the head again, and the stream is let go
// (wal_let_go): it stays sealed, and another ingester reads it.
//
// An adopted stream is not in the file of streams: the next process of this directory leaves it to
// be adopted anew, as its registration is still that of the process that wrote it. It goes as the
// own streams do (objects_tidy).
#include "base/fault.h"
#include "ingester/log/wal_object_int.h"
#include "sys/clock.h"

static struct owned *find(struct wal *w, id128 stream)
{
    struct wal_objects *o = w->objects;
    assert(lock_is_mine(&w->lock));
    for (size_t i = 0; i < o->stream_count; i++)
        if (id128_eq(o->streams[i].id, stream)) return &o->streams[i];
    return NULL;
}

// The cuts that were found.
static bool collect(struct wal *w, struct arena *a, id128 stream, struct cut ***cuts, size_t *n,
                    err *e)
{
    *n = 0;
    lock_take(&w->lock);
    *cuts = ARENA_ARRAY(a, struct cut *, w->cut_count + 1);
    for (size_t i = 0; *cuts && i < w->cut_count; i++)
        if (id128_eq(w->cuts[i]->stream, stream)) (*cuts)[(*n)++] = w->cuts[i];
    lock_give(&w->lock);
    return *cuts || arena_fail(a, e);
}

// Nobody else knows the cuts yet.
static void be_picky(struct cut **cuts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        cuts[i]->picky = true;
}

// Notes that the stream is being adopted, unless this log has it already.
static bool begin(struct wal *w, id128 stream, const struct req *asker, struct owned *s, err *e)
{
    struct wal_objects *o = w->objects;
    lock_take(&w->lock);
    bool ok = wal_admits(w, e);
    if (ok && find(w, stream)) ok = err_set(e, ERR_ALREADY_EXISTS, "the log has this stream");
    ok = ok && mem_grow(NULL, &o->streams, &o->stream_cap, o->stream_count + 1, sizeof *s, e);
    if (ok) {
        *s = (struct owned){
            .id = stream, .ended = true, .old = true, .reading = true, .adopted = ++o->adoptions};
        o->streams[o->stream_count++] = *s;
        o->asker = asker;
    }
    lock_give(&w->lock);
    return ok;
}

bool wal_adopt(struct wal *w, id128 stream, const struct wal_terms *terms, struct arena *a,
               struct cut ***cuts, size_t *n, err *e)
{
    struct owned s;
    struct req r;
    if (!w->objects)
        return err_set(e, ERR_FAILED_PRECONDITION, "the log of this ingester is on its disk");
    if (!begin(w, stream, terms->asker, &s, e)) return false;
    FAULT("wal.adopt");
    // A stream may have any number of objects, so this has no limit of time; each request of the
    // store has one.
    objects_req(w, &r, 0);
    r.asker = terms->asker;
    bool ok = objects_find_stream(w, &s, terms->damaged, &r, e);
    req_release(&r);
    lock_take(&w->lock);
    struct owned *own = find(w, stream);
    assert(own && own->reading);
    s.reading = true;
    *own = s;
    lock_give(&w->lock);
    ok = ok && collect(w, a, stream, cuts, n, e);
    if (ok && !terms->damaged) be_picky(*cuts, *n);
    if (!ok) wal_let_go(w, stream);
    return ok;
}

void wal_adopted(struct wal *w, id128 stream)
{
    lock_take(&w->lock);
    struct owned *s = find(w, stream);
    assert(s && s->reading);
    s->reading = false;
    lock_give(&w->lock);
}

void wal_let_go(struct wal *w, id128 stream)
{
    struct wal_objects *o = w->objects;
    objects_forget_half(w, stream);
    lock_take(&w->lock);
    struct owned *s = find(w, stream);
    assert(s && s->reading);
    size_t i = (size_t)(s - o->streams);
    memmove(s, s + 1, (o->stream_count - i - 1) * sizeof *s);
    o->stream_count--;
    lock_give(&w->lock);
}

bool wal_has_stream(struct wal *w, id128 stream)
{
    bool has = false;
    lock_take(&w->lock);
    for (size_t i = 0; i < w->stream_count && !has; i++)
        has = id128_eq(w->streams[i].id, stream);
    has = has || (w->objects && find(w, stream)) || id128_eq(w->planned, stream);
    lock_give(&w->lock);
    return has;
}

bool wal_is_covered(struct wal *w, id128 stream)
{
    lock_take(&w->lock);
    const struct owned *s = w->objects ? find(w, stream) : NULL;
    bool covered = s && s->covered;
    lock_give(&w->lock);
    return covered;
}

bool wal_is_adopted(struct wal *w, id128 stream)
{
    lock_take(&w->lock);
    const struct owned *s = w->objects ? find(w, stream) : NULL;
    bool adopted = s && s->adopted;
    lock_give(&w->lock);
    return adopted;
}

bool wal_all_streams(struct wal *w, struct arena *a, id128 **v, size_t *n, err *e)
{
    const struct wal_objects *o = w->objects;
    *n = 0;
    lock_take(&w->lock);
    *v = ARENA_ARRAY(a, id128, w->stream_count + (o ? o->stream_count : 0) + 1);
    for (size_t i = 0; *v && i < w->stream_count; i++)
        (*v)[(*n)++] = w->streams[i].id;
    for (size_t i = 0; *v && o && i < o->stream_count; i++)
        if (!o->streams[i].unread) (*v)[(*n)++] = o->streams[i].id;
    lock_give(&w->lock);
    return *v || arena_fail(a, e);
}
