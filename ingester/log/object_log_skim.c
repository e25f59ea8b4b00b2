// SPDX-License-Identifier: Apache-2.0
//
// object_log_skim.c - finds out what cuts a stretch of objects is in, and reads the heads of a few
// of them for that.
//
// A stretch is objects whose numbers follow each other. The cut of an object is never lower than
// that of the one before it. So where two objects are of one cut, all between them are, and nobody
// needs to look at these. Where two are not, the border lies between:
//
//     1. Some heads are read, evenly spread, with the first and the last; and each object that no
//        LIST shows, as it may be lost.
//     2. Between two that are not of one cut, or of which one tells nothing, more are read.
//     3. Again, until no two of these have others between them.
//
// Each step is a window of reads at once, and the places of 2 become smaller by as much each time.
// So how many requests come one after the other does not grow with the number of objects, but for
// that of the stretches. A stretch that fits into a window is read as a whole.
//
// What is passed over is listed, and is looked at when the cut is read (object_log_read.c): damage
// is found there, or whatever else should not be there.
#include "ingester/log/object_log_int.h"

// Bounds the memory: of one in which each object is a cut of its own all heads are kept, which are
// some hundreds of kilobytes.
size_t object_log_stretch = 4096;

static struct object_log_skimmed *known_at(const struct object_log_skim *x, size_t i)
{
    assert(i < x->n && x->spots[i].known > 0 && x->spots[i].known <= x->known_n);
    return &x->known[x->spots[i].known - 1];
}

bool object_log_skim_init(struct object_log_skim *x, uint64_t most, err *e)
{
    size_t room = x->all ? OBJECT_LOG_WINDOW : object_log_stretch;
    assert(most > 0);
    x->memory = x->r->arena.budget;
    x->cap = (size_t)MIN(most, (uint64_t)room);
    x->spots = mem_resize_bare(x->memory, NULL, 0, x->cap * sizeof *x->spots, e);
    return x->spots && object_log_window_init(&x->w, x->memory, MIN(x->cap, OBJECT_LOG_WINDOW),
                                              LOG_OBJECT_HEAD_MAX, e);
}

static void clear(struct object_log_skim *x)
{
    for (size_t i = 0; i < x->known_n; i++)
        mem_free(x->memory, x->known[i].why, sizeof *x->known[i].why);
    x->known_n = 0;
    x->n = 0;
}

void object_log_skim_release(struct object_log_skim *x)
{
    clear(x);
    object_log_window_release(&x->w);
    mem_free(x->memory, x->known, x->known_cap * sizeof *x->known);
    mem_free(x->memory, x->spots, x->spots ? x->cap * sizeof *x->spots : 0);
    x->known = NULL;
    x->known_cap = 0;
    x->spots = NULL;
}

// ---- reading heads

static bool keep_fault(struct object_log_skim *x, struct object_log_skimmed *o, const err *why,
                       err *e)
{
    o->why = mem_alloc(x->memory, sizeof *o->why, e);
    if (o->why) *o->why = *why;
    return o->why;
}

static bool note_head(struct object_log_skim *x, const struct object_log_piece *p, err *e)
{
    err why = {0};
    struct object_log_skimmed o = {.number = p->number, .size = p->size, .state = p->state};
    o.readable =
        p->state == OBJECT_LOG_READ && object_log_decode_piece(p, x->stream, &o.head, &why);
    o.head.node = (str){0};  // it borrows from bytes that go
    if (p->state == OBJECT_LOG_READ && !o.readable && log_object_is_foreign(buf_view(&p->bytes))) {
        *e = why;  // a later program can read it
        return false;
    }
    if (p->state == OBJECT_LOG_GONE) object_log_tell_lost(x->stream, p->number, &why);
    if (p->state == OBJECT_LOG_UNREADABLE) why = p->why;
    if (!mem_grow_bare(x->memory, &x->known, &x->known_cap, x->known_n + 1, sizeof o, e) ||
        (!o.readable && !keep_fault(x, &o, &why, e)))
        return false;
    x->known[x->known_n++] = o;
    x->spots[p->number - x->first].known = (uint32_t)x->known_n;
    return true;
}

static bool read_window(struct object_log_skim *x, err *e)
{
    bool ok = object_log_fetch(&x->w, x->store, x->r, x->stream, x->patience, e);
    for (size_t i = 0; ok && i < x->w.n; i++)
        ok = note_head(x, &x->w.v[i], e);
    object_log_window_clear(&x->w);
    return ok;
}

static bool read_wanted(struct object_log_skim *x, err *e)
{
    bool ok = true;
    for (size_t i = 0; ok && i < x->n; i++) {
        struct object_log_spot *spot = &x->spots[i];
        const struct object_log_listed listed = {x->first + i, spot->size};
        if (!spot->wanted) continue;
        spot->wanted = false;
        object_log_window_add(&x->w, listed.number, spot->listed ? &listed : NULL);
        if (x->w.n == x->w.cap) ok = read_window(x, e);
    }
    return ok && (x->w.n == 0 || read_window(x, e));
}

// ---- which ones

// Wants so many of those between two, evenly spread.
static void want_between(struct object_log_skim *x, size_t from, size_t to, size_t n)
{
    size_t between = to - from - 1;
    n = MIN(n, between);
    for (size_t i = 1; i <= n; i++)
        x->spots[from + i * (between + 1) / (n + 1)].wanted = true;
}

static void want_first(struct object_log_skim *x)
{
    size_t last = x->n - 1;
    x->spots[0].wanted = x->spots[last].wanted = true;
    if (last > 1) want_between(x, 0, last, x->n <= x->w.cap ? last - 1 : x->w.cap - 2);
    for (size_t i = 0; i < x->n; i++)
        x->spots[i].wanted |= !x->spots[i].listed;
}

// Whether all between the two have to be of their cut: each has one entry at least.
static bool encloses(const struct object_log_skimmed *a, const struct object_log_skimmed *b)
{
    const struct log_object_head *x = &a->head;
    const struct log_object_head *y = &b->head;
    uint64_t end = x->first_seq + x->count;
    if (!a->readable || !b->readable || x->seal || y->seal) return false;
    return x->cut == y->cut && x->cut_first_seq == y->cut_first_seq && y->first_seq >= end &&
           y->first_seq - end >= b->number - a->number - 1;
}

// How many places there are in which a border may be. Wants `each` of the objects in each of them.
static size_t want_borders(struct object_log_skim *x, size_t each)
{
    size_t n = 0;
    for (size_t from = 0, to = 1; to < x->n; to++) {
        if (!x->spots[to].known) continue;
        if (to - from > 1 && !encloses(known_at(x, from), known_at(x, to))) {
            want_between(x, from, to, each);
            n++;
        }
        from = to;
    }
    return n;
}

// ---- a stretch

static bool give_known(struct object_log_skim *x, err *e)
{
    uint64_t passed = 0;
    uint64_t passed_bytes = 0;
    for (size_t i = 0; i < x->n; i++) {
        if (!x->spots[i].known) {
            passed++;
            passed_bytes += x->spots[i].size;
            continue;
        }
        struct object_log_skimmed *o = known_at(x, i);
        o->passed = passed;
        o->passed_bytes = passed_bytes;
        passed = passed_bytes = 0;
        if (!x->see(x->arg, o, e)) return false;
    }
    assert(passed == 0);
    return true;
}

bool object_log_skim_end(struct object_log_skim *x, err *e)
{
    bool ok = true;
    if (x->n == 0) return true;
    want_first(x);
    for (bool more = true; ok && more;) {
        ok = read_wanted(x, e);
        size_t places = ok ? want_borders(x, 0) : 0;
        more = places > 0;
        if (more) (void)want_borders(x, MAX(x->w.cap / places, 1u));
    }
    ok = ok && give_known(x, e);
    clear(x);
    return ok;
}

bool object_log_skim_add(struct object_log_skim *x, uint64_t number,
                         const struct object_log_listed *listed, err *e)
{
    if (x->n == x->cap && !object_log_skim_end(x, e)) return false;
    if (x->n == 0) x->first = number;
    assert(number == x->first + x->n);
    x->spots[x->n++] =
        (struct object_log_spot){.size = listed ? listed->size : 0, .listed = listed};
    return true;
}
