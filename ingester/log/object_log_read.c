// SPDX-License-Identifier: Apache-2.0
//
// object_log_read.c - lists a stream, finds out which of its cuts are whole, and reads these.
//
// What is missing tells as much as what is there. Deletion goes from the oldest object to the
// newest (object_log.h), so below a number that is missing everything is covered; and a seal that
// does not hold lies where a deleted object was, so it counts as missing. A cut is whole if its
// first object is there and none is missing above that.
#include "ingester/log/object_log.h"
#include "ingester/log/object_log_int.h"

#include <inttypes.h>

#define HEADS_AT_ONCE ((size_t)64)
#define LOG_BYTES_MAX ((size_t)2 << 30)

// ---- listing

struct listing {
    str prefix;
    object_log_see *see;
    void *arg;
};

static bool see_name(void *arg, str name, uint64_t size, err *e)
{
    const struct listing *l = arg;
    uint64_t number = 0;
    if (!name_log_number(str_slice(name, l->prefix.n, name.n), &number)) return true;
    return l->see(l->arg, number, size, e);
}

bool object_log_list(struct store *s, struct req *r, id128 stream, object_log_see *see, void *arg,
                     err *e)
{
    struct listing l = {.prefix = name_log(&r->arena, stream), .see = see, .arg = arg};
    return arena_ok(&r->arena, e) && store_list(s, r, l.prefix, (str){0}, see_name, &l, e);
}

struct streams {
    struct arena *arena;
    id128 *v;
    size_t n;
    size_t cap;
};

static bool see_stream(void *arg, str name, uint64_t size, err *e)
{
    struct streams *x = arg;
    id128 id;
    uint64_t number = 0;
    (void)size;
    str rest = str_slice(name, name_logs().n, name.n);
    if (!name_ulid(&rest, &id) || !name_char(&rest, '/') || !name_log_number(rest, &number))
        return true;
    if (x->n && id128_eq(x->v[x->n - 1], id)) return true;
    if (!arena_grow(x->arena, &x->v, &x->cap, x->n + 1, sizeof *x->v))
        return arena_fail(x->arena, e);
    x->v[x->n++] = id;
    return true;
}

bool object_log_streams(struct store *s, struct req *r, struct arena *a, id128 **streams, size_t *n,
                        err *e)
{
    struct streams x = {.arena = a};
    if (!store_list(s, r, name_logs(), (str){0}, see_stream, &x, e)) return false;
    *streams = x.v;
    *n = x.n;
    return true;
}

// ---- looking

struct seen {
    struct arena *arena;
    struct object {
        uint64_t number;
        uint64_t size;
        bool gone;  // it was listed, and is not there any more
        struct log_object_head head;
    } * v;
    size_t n;
    size_t cap;
};

static bool see_object(void *arg, uint64_t number, uint64_t size, err *e)
{
    struct seen *x = arg;
    if (!arena_grow(x->arena, &x->v, &x->cap, x->n + 1, sizeof *x->v))
        return arena_fail(x->arena, e);
    x->v[x->n++] = (struct object){.number = number, .size = size};
    return true;
}

static bool take_head(struct object *o, const struct store_read *read, id128 stream, err *e)
{
    o->gone = !read->ok && read->fault.code == ERR_NOT_FOUND;
    if (o->gone) return true;
    if (!read->ok) {
        *e = read->fault;
        return false;
    }
    str bytes = str_make(read->to, read->n);
    if (!log_object_decode_head(bytes, stream, o->number, &o->head, e))
        return err_wrap(e, "object %.*s", STR(read->name));
    o->head.node = (str){0};  // it borrows from bytes that go
    return true;
}

static bool read_heads(struct store *s, struct req *r, struct seen *x, id128 stream, err *e)
{
    struct store_read v[HEADS_AT_ONCE];
    char *room = arena_array(&r->arena, LOG_OBJECT_HEAD_MAX, MIN(x->n, HEADS_AT_ONCE) + 1);
    if (!room) return arena_fail(&r->arena, e);
    for (size_t from = 0; from < x->n; from += HEADS_AT_ONCE) {
        size_t n = MIN(x->n - from, HEADS_AT_ONCE);
        for (size_t i = 0; i < n; i++) {
            struct object *o = &x->v[from + i];
            v[i] = (struct store_read){
                .name = name_log_object(&r->arena, stream, o->number),
                .n = (size_t)MIN(o->size, (uint64_t)LOG_OBJECT_HEAD_MAX),
                .to = room + i * LOG_OBJECT_HEAD_MAX,
            };
        }
        if (!arena_ok(&r->arena, e)) return false;
        store_read_many(s, r, v, n);
        for (size_t i = 0; i < n; i++) {
            if (!take_head(&x->v[from + i], &v[i], stream, e)) return false;
        }
    }
    return true;
}

static bool follows(const struct log_object_head *a, const struct log_object_head *b)
{
    if (a->first_seq + a->count != b->first_seq) return false;
    if (a->cut == b->cut) return a->cut_first_seq == b->cut_first_seq;
    return a->cut + 1 == b->cut && b->cut_first_seq == b->first_seq;
}

// Adds an object to the cuts. `holds`: all objects from this one to the newest are there, so that
// its cut is whole if it began with its first object.
static bool add_object(struct object_log_survey *out, const struct object *o,
                       const struct object *before, bool holds, err *e)
{
    const struct log_object_head *h = &o->head;
    struct object_log_cut *c = out->n ? &out->cuts[out->n - 1] : NULL;
    bool adjacent = before && !before->gone && before->number + 1 == o->number;
    if (adjacent && !before->head.seal && !follows(&before->head, h)) {
        return err_set(e, ERR_DATA_LOSS,
                       "object %" PRIu64 " of the log does not follow the one before it",
                       o->number);
    }
    if (!c || c->cut != h->cut) {
        c = &out->cuts[out->n++];
        *c = (struct object_log_cut){
            .cut = h->cut,
            .first = o->number,
            .first_seq = h->first_seq,
            .opened_ns = h->cut_opened_ns,
            .whole = h->first_seq == h->cut_first_seq,
        };
    }
    c->whole = c->whole && holds;
    c->last = o->number;
    c->last_seq = h->first_seq + h->count - 1;
    c->newest_ns = MAX(c->newest_ns, h->made_ns);
    c->bytes += o->size;
    return true;
}

bool object_log_look(struct store *s, struct req *r, struct arena *a, id128 stream,
                     struct object_log_survey *out, err *e)
{
    struct seen x = {.arena = a};
    *out = (struct object_log_survey){0};
    if (!object_log_list(s, r, stream, see_object, &x, e) || !read_heads(s, r, &x, stream, e))
        return false;
    out->cuts = ARENA_ARRAY(a, struct object_log_cut, x.n + 1);
    if (!out->cuts) return arena_fail(a, e);
    // The lowest object above which none is missing.
    size_t holds = x.n;
    while (holds > 0) {
        const struct object *o = &x.v[holds - 1];
        bool last = holds == x.n;
        if (o->gone || (!last && (o[1].number != o->number + 1 || o->head.seal))) break;
        holds--;
    }
    for (size_t i = 0; i < x.n; i++) {
        const struct object *o = &x.v[i];
        if (o->gone || o->head.seal) continue;
        if (!add_object(out, o, i ? o - 1 : NULL, i >= holds, e)) return false;
    }
    if (x.n == 0) return true;
    out->top = x.v[x.n - 1].number;
    out->sealed = !x.v[x.n - 1].gone && x.v[x.n - 1].head.seal;
    return true;
}

// ---- reading

bool object_log_get(struct store *s, struct req *r, id128 stream, uint64_t number,
                    struct buf *bytes, struct log_object *o, err *e)
{
    str name = name_log_object(&r->arena, stream, number);
    buf_clear(bytes);
    if (!arena_ok(&r->arena, e) || !store_get(s, r, name, bytes, e)) return false;
    return log_object_decode(buf_view(bytes), stream, number, o, e) ||
           err_wrap(e, "object %.*s", STR(name));
}

bool object_log_read(struct store *s, struct req *r, id128 stream, const struct object_log_cut *cut,
                     object_log_fn *fn, void *arg, err *e)
{
    struct buf bytes;
    uint64_t seq = cut->first_seq;
    bool ok = true;
    assert(cut->whole && cut->first > 0 && cut->first <= cut->last);
    buf_init(&bytes, r->arena.budget, LOG_BYTES_MAX);
    for (uint64_t number = cut->first; ok && number <= cut->last; number++) {
        struct log_object o;
        ok = object_log_get(s, r, stream, number, &bytes, &o, e);
        // Only what was looked at is read, so only another store in this one's place does that.
        if (ok && (o.head.cut != cut->cut || o.head.first_seq != seq))
            ok = err_set(e, ERR_DATA_LOSS, "object %" PRIu64 " of the log has changed", number);
        if (ok) seq += o.head.count;
        ok = ok && fn(arg, &o, e);
    }
    buf_release(&bytes);
    return ok;
}
