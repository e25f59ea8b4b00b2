// SPDX-License-Identifier: Apache-2.0
//
// object_log_read.c - reads the objects of a cut, many at once, and gives them in order.
//
// Who looked for the cut has passed over most of its objects (object_log_skim.c). So it turns up
// here if one of them is not what it should be: that is damage of this object. But one of a later
// format is a failure, as a later program can read it.
#include "ingester/log/object_log.h"
#include "ingester/log/object_log_int.h"

#include <inttypes.h>
#include <stdlib.h>

// Bytes of objects that are read at once. A store gives tens of megabytes in a second, and takes
// tens of milliseconds for each object; so a few more would save no time.
#define WINDOW_BYTES ((uint64_t)8 << 20)

#define LOG_BYTES_MAX ((size_t)2 << 30)

bool object_log_get(struct store *s, struct req *r, id128 stream, uint64_t number,
                    struct buf *bytes, struct log_object *o, err *e)
{
    str name = name_log_object(&r->arena, stream, number);
    buf_clear(bytes);
    if (!arena_ok(&r->arena, e) || !store_get(s, r, name, bytes, e)) return false;
    return log_object_decode(buf_view(bytes), stream, number, o, e) ||
           err_wrap(e, "object %.*s", STR(name));
}

struct reading {
    const struct object_log_cut *cut;
    const struct object_log_reader *to;
    struct object_log_window w;
    struct object_log_patience patience;
    struct store *store;
    struct req *r;
    id128 stream;
    uint64_t bytes;  // of those in the window
    uint64_t next;   // the number that comes next
    uint64_t seq;    // those below it came
    bool asked;      // whether those that are gone were covered: they are lost
    bool covered;
};

static bool decode_object(const struct reading *x, const struct object_log_piece *p,
                          struct log_object *o, err *why)
{
    char name[ULID_TEXT];
    bool ok = log_object_decode(buf_view(&p->bytes), x->stream, p->number, o, why);
    if (ok && (o->head.seal || o->head.cut != x->cut->cut))
        ok = err_set(why, ERR_DATA_LOSS, "it is of another cut");
    if (ok && o->head.first_seq < x->seq)
        ok = err_set(why, ERR_DATA_LOSS, "it does not follow the one before it");
    if (ok) return true;
    ulid_print(x->stream, name);
    return err_wrap(why, "object v1/log/%s/%016" PRIx64, name, p->number);
}

// An object is gone. If it is covered, so are all of its cut.
static bool ask_covered(struct reading *x, uint64_t number, err *e)
{
    if (x->asked) return true;
    x->asked = true;
    return object_log_was_covered(x->store, x->r, x->stream, number, &x->patience, &x->covered, e);
}

static bool give_object(struct reading *x, const struct log_object *o, err *e)
{
    x->seq = o->head.first_seq + o->head.count;
    return x->to->object(x->to->arg, o, e);
}

static bool give_piece(struct reading *x, const struct object_log_piece *p, err *e)
{
    struct log_object o;
    err why = {0};
    switch (p->state) {
    case OBJECT_LOG_READ:
        if (decode_object(x, p, &o, &why)) return give_object(x, &o, e);
        if (!log_object_is_foreign(buf_view(&p->bytes))) break;
        *e = why;
        return false;
    case OBJECT_LOG_GONE:
        if (!ask_covered(x, p->number, e)) return false;
        if (x->covered) return true;
        object_log_tell_lost(x->stream, p->number, &why);
        break;
    case OBJECT_LOG_UNREADABLE:
        why = p->why;
        break;
    case OBJECT_LOG_WAITS:
        abort();
    }
    x->to->damaged(x->to->arg, &why);
    return true;
}

static bool give_window(struct reading *x, err *e)
{
    bool ok = object_log_fetch(&x->w, x->store, x->r, x->stream, &x->patience, e);
    for (size_t i = 0; ok && i < x->w.n && !x->covered; i++)
        ok = give_piece(x, &x->w.v[i], e);
    object_log_window_clear(&x->w);
    x->bytes = 0;
    x->asked = false;
    return ok;
}

static bool add_to_window(struct reading *x, uint64_t number,
                          const struct object_log_listed *listed, err *e)
{
    uint64_t size = listed ? listed->size : 0;
    bool full = x->w.n == x->w.cap || (x->w.n && x->bytes + size > WINDOW_BYTES);
    if (full && !give_window(x, e)) return false;
    object_log_window_add(&x->w, number, listed);
    x->bytes += size;
    return true;
}

// What no LIST shows is asked for as well.
static bool add_unlisted(struct reading *x, uint64_t end, err *e)
{
    for (; x->next < end && !x->covered; x->next++)
        if (!add_to_window(x, x->next, NULL, e)) return false;
    return true;
}

static bool see_listed(void *arg, const struct object_log_listed *o, err *e)
{
    struct reading *x = arg;
    if (!add_unlisted(x, o->number, e) || x->covered) return false;
    x->next = o->number + 1;
    return add_to_window(x, o->number, o, e);
}

bool object_log_read(struct store *s, struct req *r, id128 stream, const struct object_log_cut *cut,
                     const struct object_log_reader *to, bool *covered, err *e)
{
    struct reading x = {
        .cut = cut, .to = to, .store = s, .r = r, .stream = stream, .next = cut->first};
    const struct object_log_span all = {stream, cut->first, cut->last};
    size_t room = (size_t)MIN(cut->last - cut->first + 1, (uint64_t)OBJECT_LOG_WINDOW);
    err why = {0};
    *covered = false;
    assert(cut->whole && cut->first > 0 && cut->first <= cut->last);
    bool ok = object_log_window_init(&x.w, r->arena.budget, room, LOG_BYTES_MAX, &why) &&
              object_log_each(s, r, &all, see_listed, &x, &why) &&
              add_unlisted(&x, cut->last + 1, &why) && (x.w.n == 0 || give_window(&x, &why));
    object_log_window_release(&x.w);
    *covered = x.covered;
    if (!ok && !x.covered) *e = why;
    return ok || x.covered;
}
