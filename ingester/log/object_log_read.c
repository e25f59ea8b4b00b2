// SPDX-License-Identifier: Apache-2.0
//
// object_log_read.c - lists a stream, finds out which of its cuts are whole, and reads these.
//
// What is missing tells as much as what is there. Deletion goes from the oldest object to the
// newest (object_log.h), so below a number that is missing everything is covered; and a seal that
// does not hold lies where a deleted object was, so it counts as missing. A cut is whole if its
// first object is there and none is missing above that.
//
// An object whose head is damaged is there, but does not tell its cut. Its readable neighbours do:
//
//     below        above                        it is
//     cut 3        cut 3                        in cut 3
//     cut 3        cut 4, which begins there    at the end of cut 3, or in cuts that are lost
//     cut 3, none  cut 4, which began before    at the beginning of cut 4, or the same
//     cut 3        none                         at the end of cut 3, or the same, or a seal
//     none         none, cut 4, begins there    in cuts that are lost
//
// Where it may be in two cuts it is counted for the upper one: that is deleted later, so a cut that
// is still needed never seems to lack its first object. How many entries are lost follows from
// their numbers; where these do not tell, each object had one at least.
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

static bool see_number(void *arg, uint64_t number, uint64_t size, err *e)
{
    struct numbers *x = arg;
    (void)size;
    if (!arena_grow(x->arena, &x->v, &x->cap, x->n + 1, sizeof *x->v))
        return arena_fail(x->arena, e);
    x->v[x->n++] = number;
    return true;
}

bool object_log_numbers(struct store *s, struct req *r, str prefix, struct numbers *out, err *e)
{
    struct listing l = {.prefix = prefix, .see = see_number, .arg = out};
    *out = (struct numbers){.arena = &r->arena};
    return arena_ok(&r->arena, e) && store_list(s, r, prefix, (str){0}, see_name, &l, e);
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
        bool bad;   // its head is damaged,
        str why;    // and what is wrong with it
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

static bool take_head(struct arena *a, struct object *o, const struct store_read *read,
                      id128 stream, err *e)
{
    o->gone = !read->ok && read->fault.code == ERR_NOT_FOUND;
    if (o->gone) return true;
    if (!read->ok) {
        *e = read->fault;
        return false;
    }
    str bytes = str_make(read->to, read->n);
    err fault = {0};
    if (!log_object_decode_head(bytes, stream, o->number, &o->head, &fault)) {
        (void)err_wrap(&fault, "object %.*s", STR(read->name));
        // A later program can read it.
        if (log_object_is_foreign(bytes)) {
            *e = fault;
            return false;
        }
        o->bad = true;
        o->why = arena_str(a, str_of(fault.msg));
        o->head = (struct log_object_head){0};
        return arena_ok(a, e);
    }
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
            if (!take_head(x->arena, &x->v[from + i], &v[i], stream, e)) return false;
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

// Whether an object is there and can be read, a seal left aside.
static bool is_readable(const struct object *o)
{
    return !o->gone && !o->bad && !o->head.seal;
}

static bool misplaced(const struct object *o, err *e)
{
    return err_set(e, ERR_DATA_LOSS,
                   "object %" PRIu64 " of the log does not follow the one before it", o->number);
}

static struct object_log_cut *last_cut(struct object_log_survey *out)
{
    return out->n ? &out->cuts[out->n - 1] : NULL;
}

static struct object_log_cut *begin_cut(struct object_log_survey *out,
                                        const struct log_object_head *h, uint64_t first)
{
    assert(out->cuts);  // there is one for each object
    struct object_log_cut *c = &out->cuts[out->n++];
    *c = (struct object_log_cut){.cut = h->cut,
                                 .first = first,
                                 .first_seq = h->first_seq,
                                 .opened_ns = h->cut_opened_ns};
    return c;
}

// Adds an object to the cuts. `holds`: all objects from this one to the newest are there, so that
// its cut is whole if it began with its first object.
static bool add_object(struct object_log_survey *out, const struct object *o,
                       const struct object *before, bool holds, err *e)
{
    const struct log_object_head *h = &o->head;
    struct object_log_cut *c = last_cut(out);
    bool adjacent = before && is_readable(before) && before->number + 1 == o->number;
    if (adjacent && !follows(&before->head, h)) return misplaced(o, e);
    if (!c || c->cut != h->cut) {
        c = begin_cut(out, h, o->number);
        c->whole = h->first_seq == h->cut_first_seq;
    }
    c->whole = c->whole && holds;
    c->last = o->number;
    c->last_seq = h->first_seq + h->count - 1;
    c->newest_ns = MAX(c->newest_ns, h->made_ns);
    c->bytes += o->size;
    return true;
}

// Damaged objects that follow each other, between two that can be read, if there are these.
struct run {
    const struct object *v;
    size_t n;
    const struct object *below;
    const struct object *above;
    bool holds;  // all from the first of them to the newest are there
};

static struct run run_at(const struct seen *x, size_t at, size_t holds)
{
    struct run r = {.v = &x->v[at], .n = 1, .holds = at >= holds};
    while (at + r.n < x->n && r.v[r.n].bad && r.v[r.n].number == r.v[0].number + r.n)
        r.n++;
    if (at > 0 && is_readable(r.v - 1) && r.v[-1].number + 1 == r.v[0].number) r.below = r.v - 1;
    if (at + r.n < x->n && is_readable(&r.v[r.n]) && r.v[r.n].number == r.v[0].number + r.n)
        r.above = &r.v[r.n];
    return r;
}

static bool run_fits(const struct run *r, err *e)
{
    if (!r->below || !r->above) return true;
    const struct log_object_head *a = &r->below->head;
    const struct log_object_head *b = &r->above->head;
    uint64_t end = a->first_seq + a->count;
    bool later = b->cut > a->cut && b->cut - a->cut <= r->n + 1 && b->cut_first_seq >= end;
    bool fits = b->first_seq >= end && b->first_seq - end >= r->n &&
                (later || (a->cut == b->cut && a->cut_first_seq == b->cut_first_seq));
    return fits || misplaced(r->above, e);
}

// The cut below the run ended before this seq. If fewer entries of it were read, the others are
// lost.
static void ends_at(struct object_log_cut *c, uint64_t seq)
{
    if (!c->whole || seq <= c->last_seq + 1) return;
    c->last_seq = seq - 1;
    c->damaged = true;
}

// Counts a run for the cut that it is in, or may be in (see the head of this file).
static bool add_run(struct object_log_survey *out, const struct run *r, err *e)
{
    const struct log_object_head *a = r->below ? &r->below->head : NULL;
    const struct log_object_head *b = r->above ? &r->above->head : NULL;
    struct object_log_cut *c = last_cut(out);
    bool within = a && b && a->cut == b->cut;
    bool begins = b && !within && b->first_seq > b->cut_first_seq;
    if (!run_fits(r, e)) return false;
    assert(!a || c);
    if (a && begins) ends_at(c, b->cut_first_seq);
    if (begins) {
        c = begin_cut(out, b, r->v[0].number);
        c->first_seq = b->cut_first_seq;
        c->whole = r->holds;
    }
    if (!c) c = begin_cut(out, &(struct log_object_head){0}, r->v[0].number);
    c->last = r->v[r->n - 1].number;
    for (size_t i = 0; i < r->n; i++)
        c->bytes += r->v[i].size;
    // Objects below a missing number are covered, and so are the last ones of a cut that is being
    // deleted.
    bool covered = a && !c->whole && b && b->cut - a->cut <= 1;
    if (!r->holds || covered) return true;
    bool in_cut = within || begins || (a && c->whole);
    if (in_cut && !within && !begins)
        ends_at(c,
                b ? b->cut_first_seq : c->last_seq + MIN(r->n, UINT64_MAX - c->last_seq - 1) + 1);
    c->damaged = true;
    if (!out->damaged) {
        out->bad = r->v[0].number;
        (void)err_set(&out->why, ERR_DATA_LOSS, "%.*s", STR(r->v[0].why));
    }
    out->damaged += r->n;
    if (!in_cut) out->cutless += r->n;
    return true;
}

// The place of the lowest object above which none is missing.
static size_t find_holds(const struct seen *x)
{
    size_t holds = x->n;
    while (holds > 0) {
        const struct object *o = &x->v[holds - 1];
        bool last = holds == x->n;
        if (o->gone || (!last && (o[1].number != o->number + 1 || o->head.seal))) break;
        holds--;
    }
    return holds;
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
    size_t holds = find_holds(&x);
    for (size_t i = 0; i < x.n;) {
        const struct object *o = &x.v[i];
        struct run run = run_at(&x, i, holds);
        i += o->bad ? run.n : 1;
        if (o->bad && !add_run(out, &run, e)) return false;
        if (is_readable(o) && !add_object(out, o, o > x.v ? o - 1 : NULL, o >= x.v + holds, e))
            return false;
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
