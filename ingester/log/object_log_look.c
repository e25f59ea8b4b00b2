// SPDX-License-Identifier: Apache-2.0
//
// object_log_look.c - lists a stream, and finds out which of its cuts are whole.
//
//     1. How far the stream goes, and what its newest object that can be read says is covered.
//     2. From there on each number is looked at that no LIST shows, and so many of the others that
//        the borders of the cuts are known (object_log_skim.c).
//     3. If some are lost, both questions of object_log.h are asked: has an object told meanwhile
//        that they are covered (then all is looked at again), and is the stream registered?
//
// Objects of format 1 do not say what is covered. There a number that is missing means that all
// below it is covered; a seal that does not hold lies where a deleted object was, and counts as
// missing. A cut is whole if its first object is there and none is missing above that.
//
// An object whose head is damaged, or that is lost, does not tell its cut. Its readable neighbours
// do:
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
// their numbers; where these do not tell, each object had one at least. Of the lowest object that
// is not covered, the newest one tells the cut and the first seq.
#include "ingester/log/object_log.h"
#include "ingester/log/object_log_int.h"
#include "manifest/stream.h"

#include <inttypes.h>

// A stream that is deleted faster than it can be looked at has few objects each time.
#define LOOKS 8

// ---- 1. how far it goes

struct tail {
    struct object_log_listed v[OBJECT_LOG_WINDOW];  // the highest, in a ring
    uint64_t seen;
    uint64_t lowest;
};

static bool see_tail(void *arg, const struct object_log_listed *o, err *e)
{
    struct tail *x = arg;
    (void)e;
    if (x->seen == 0) x->lowest = o->number;
    x->v[x->seen++ % OBJECT_LOG_WINDOW] = *o;
    return true;
}

bool object_log_decode_piece(const struct object_log_piece *x, id128 stream,
                             struct log_object_head *h, err *e)
{
    char name[ULID_TEXT];
    ulid_print(stream, name);
    return log_object_decode_head(buf_view(&x->bytes), stream, x->number, h, e) ||
           err_wrap(e, "object v1/log/%s/%016" PRIx64, name, x->number);
}

// What the objects of a window tell of the extent; the later ones know more. *told: one did.
static void hear(const struct object_log_window *w, id128 stream, struct object_log_extent *out,
                 bool *told)
{
    for (size_t i = 0; i < w->n; i++) {
        struct log_object_head h;
        err why = {0};
        if (w->v[i].state != OBJECT_LOG_READ ||
            !object_log_decode_piece(&w->v[i], stream, &h, &why))
            continue;
        if (h.seal && !h.covered.below) continue;
        out->unbound = h.covered.below == 0;
        if (h.covered.below >= out->bound.below) out->bound = h.covered;
        *told = true;
    }
}

struct hearing {
    struct object_log_window w;
    struct store *store;
    struct req *r;
    id128 stream;
    struct object_log_patience *patience;
    struct object_log_extent *out;
    bool told;
};

static bool hear_window(struct hearing *x, err *e)
{
    if (!object_log_fetch(&x->w, x->store, x->r, x->stream, x->patience, e)) return false;
    hear(&x->w, x->stream, x->out, &x->told);
    object_log_window_clear(&x->w);
    return true;
}

static bool see_to_hear(void *arg, const struct object_log_listed *o, err *e)
{
    struct hearing *x = arg;
    object_log_window_add(&x->w, o->number, o);
    return x->w.n < x->w.cap || hear_window(x, e);
}

// None of the highest objects can be read, so all others are.
static bool hear_all(struct hearing *x, err *e)
{
    const struct object_log_span all = {.stream = x->stream};
    return object_log_each(x->store, x->r, &all, see_to_hear, x, e) &&
           (x->w.n == 0 || hear_window(x, e));
}

bool object_log_extent(struct store *s, struct req *r, id128 stream, struct object_log_patience *p,
                       struct object_log_extent *out, err *e)
{
    struct tail tail;
    struct hearing x = {.store = s, .r = r, .stream = stream, .patience = p, .out = out};
    const struct object_log_span all = {.stream = stream};
    *out = (struct object_log_extent){0};
    tail.seen = tail.lowest = 0;
    if (!object_log_each(s, r, &all, see_tail, &tail, e)) return false;
    if (tail.seen == 0) return true;
    size_t n = (size_t)MIN(tail.seen, (uint64_t)OBJECT_LOG_WINDOW);
    out->lowest = tail.lowest;
    out->top = tail.v[(tail.seen - 1) % OBJECT_LOG_WINDOW].number;
    bool ok = object_log_window_init(&x.w, r->arena.budget, n, LOG_OBJECT_HEAD_MAX, e);
    // From the top down, in pieces that grow: nearly always the highest ones tell.
    for (size_t from = n, step = 2; ok && !x.told && from > 0; step *= 4) {
        size_t to = from;
        from -= MIN(from, step);
        for (size_t i = from; i < to; i++) {
            const struct object_log_listed *o = &tail.v[(tail.seen - n + i) % OBJECT_LOG_WINDOW];
            object_log_window_add(&x.w, o->number, o);
        }
        ok = hear_window(&x, e);
    }
    if (ok && !x.told && tail.seen > n) ok = hear_all(&x, e);
    object_log_window_release(&x.w);
    return ok;
}

// ---- what is lost

void object_log_tell_lost(id128 stream, uint64_t number, err *why)
{
    char name[ULID_TEXT];
    ulid_print(stream, name);
    (void)err_set(why, ERR_DATA_LOSS,
                  "object v1/log/%s/%016" PRIx64 " is not there, and nothing says it is covered",
                  name, number);
}

bool object_log_was_covered(struct store *s, struct req *r, id128 stream, uint64_t number,
                            struct object_log_patience *p, bool *covered, err *e)
{
    struct object_log_extent x;
    *covered = false;
    if (!object_log_extent(s, r, stream, p, &x, e)) return false;
    *covered = x.unbound || x.bound.below > number;
    return *covered || stream_has_ended(s, r, stream, covered, e);
}

// ---- 2. the cuts

// Objects that follow each other and tell nothing, above one that can be read, if there is one.
struct run {
    uint64_t first;
    uint64_t n;  // 0: there is none
    uint64_t bytes;
    uint64_t lost;
    bool has_below;
    err why;  // of the first
};

struct survey {
    struct object_log_survey *out;
    id128 stream;
    const struct object_log_extent *extent;
    struct object_log_skimmed
        below;  // the last one that could be read, if nothing but a run has come since
    bool has_below;
    struct run run;
    uint64_t seals;  // so many, above all of that
    uint64_t first_seal;
};

static bool is_unbound(const struct survey *x)
{
    return x->extent->unbound;
}

static bool follows(const struct log_object_head *a, const struct log_object_head *b)
{
    if (a->first_seq + a->count != b->first_seq) return false;
    if (a->cut == b->cut) return a->cut_first_seq == b->cut_first_seq;
    return a->cut + 1 == b->cut && b->cut_first_seq == b->first_seq;
}

static bool misplaced(uint64_t number, err *e)
{
    return err_set(e, ERR_DATA_LOSS,
                   "object %" PRIu64 " of the log does not follow the one before it", number);
}

static struct object_log_cut *last_cut(struct object_log_survey *out)
{
    return out->n ? &out->cuts[out->n - 1] : NULL;
}

static struct object_log_cut *begin_cut(struct object_log_survey *out,
                                        const struct log_object_head *h, uint64_t first, err *e)
{
    if (!mem_grow(out->memory, &out->cuts, &out->cap, out->n + 1, sizeof *out->cuts, e))
        return NULL;
    struct object_log_cut *c = &out->cuts[out->n++];
    *c = (struct object_log_cut){.cut = h->cut,
                                 .first = first,
                                 .first_seq = h->first_seq,
                                 .opened_ns = h->cut_opened_ns};
    return c;
}

// The object after which nothing is missing, if all before it was covered.
static bool is_at_bound(const struct survey *x, uint64_t number)
{
    return !is_unbound(x) && x->extent->bound.below == number;
}

static bool fits_bound(const struct survey *x, const struct object_log_skimmed *o)
{
    const struct log_object_bound *b = &x->extent->bound;
    return !is_at_bound(x, o->number) || (o->head.cut == b->cut && o->head.first_seq == b->seq);
}

static bool add_object(struct survey *x, const struct object_log_skimmed *o, err *e)
{
    struct object_log_survey *out = x->out;
    const struct log_object_head *h = &o->head;
    struct object_log_cut *c = last_cut(out);
    bool adjacent = x->has_below && x->below.number + 1 == o->number;
    if ((adjacent && !follows(&x->below.head, h)) || !fits_bound(x, o))
        return misplaced(o->number, e);
    if (!c || c->cut != h->cut) {
        c = begin_cut(out, h, o->number, e);
        if (!c) return false;
        c->whole = h->first_seq == h->cut_first_seq;
    }
    if (c->opened_ns == 0) c->opened_ns = h->cut_opened_ns;
    assert(o->passed == 0 || c->last + o->passed + 1 == o->number);
    c->last = o->number;
    c->last_seq = h->first_seq + h->count - 1;
    c->newest_ns = MAX(c->newest_ns, h->made_ns);
    c->bytes += o->size + o->passed_bytes;
    return true;
}

static bool run_fits(const struct run *r, const struct log_object_head *a,
                     const struct object_log_skimmed *above, err *e)
{
    if (!a || !above) return true;
    const struct log_object_head *b = &above->head;
    uint64_t end = a->first_seq + a->count;
    bool later = b->cut > a->cut && b->cut - a->cut <= r->n + 1 && b->cut_first_seq >= end;
    bool fits = b->first_seq >= end && b->first_seq - end >= r->n &&
                (later || (a->cut == b->cut && a->cut_first_seq == b->cut_first_seq));
    return fits || misplaced(above->number, e);
}

// The cut below the run ended before this seq. If fewer entries of it were read, the others are
// lost.
static void ends_at(struct object_log_cut *c, uint64_t seq)
{
    if (!c->whole || seq <= c->last_seq + 1) return;
    c->last_seq = seq - 1;
    c->damaged = true;
}

static void count_run(struct object_log_survey *out, const struct run *r, bool in_cut)
{
    if (!out->damaged) {
        out->bad = r->first;
        out->why = r->why;
    }
    out->damaged += r->n;
    out->lost += r->lost;
    if (!in_cut) out->cutless += r->n;
}

// The lowest object that is not covered is in the run: its cut and seq are known.
static const struct log_object_head *begin_at_bound(struct survey *x, struct log_object_head *h,
                                                    err *e)
{
    const struct log_object_bound *b = &x->extent->bound;
    *h = (struct log_object_head){.cut = b->cut, .cut_first_seq = b->seq, .first_seq = b->seq};
    struct object_log_cut *c = begin_cut(x->out, h, x->run.first, e);
    if (!c) return NULL;
    c->last_seq = b->seq - 1;
    c->whole = true;
    return h;
}

// Counts the run for the cut that it is in, or may be in (see the head of this file).
static bool add_run(struct survey *x, const struct object_log_skimmed *above, err *e)
{
    struct object_log_survey *out = x->out;
    struct run *r = &x->run;
    struct log_object_head bound;
    const struct log_object_head *a = r->has_below ? &x->below.head : NULL;
    const struct log_object_head *b = above ? &above->head : NULL;
    if (!a && is_at_bound(x, r->first)) {
        a = begin_at_bound(x, &bound, e);
        if (!a) return false;
    }
    struct object_log_cut *c = last_cut(out);
    bool within = a && b && a->cut == b->cut;
    bool begins = b && !within && b->first_seq > b->cut_first_seq;
    if (!run_fits(r, a, above, e)) return false;
    assert(!a || c);
    if (a && begins) ends_at(c, b->cut_first_seq);
    if (begins) {
        c = begin_cut(out, b, r->first, e);
        if (!c) return false;
        c->first_seq = b->cut_first_seq;
        c->whole = true;
    }
    if (!c) c = begin_cut(out, &(struct log_object_head){0}, r->first, e);
    if (!c) return false;
    c->last = r->first + r->n - 1;
    c->bytes += r->bytes;
    // In format 1 the last objects of a cut that is being deleted are covered.
    if (a && !c->whole && b && b->cut - a->cut <= 1) return true;
    bool in_cut = within || begins || (a && c->whole);
    if (in_cut && !within && !begins)
        ends_at(c,
                b ? b->cut_first_seq : c->last_seq + MIN(r->n, UINT64_MAX - c->last_seq - 1) + 1);
    c->damaged = true;
    count_run(out, r, in_cut);
    return true;
}

static bool end_run(struct survey *x, const struct object_log_skimmed *above, err *e)
{
    bool ok = x->run.n == 0 || add_run(x, above, e);
    x->run.n = 0;
    return ok;
}

static void add_to_run(struct survey *x, uint64_t number, uint64_t bytes, bool lost, const err *why)
{
    struct run *r = &x->run;
    if (r->n == 0) {
        r->first = number;
        r->bytes = r->lost = 0;
        r->has_below = x->has_below && x->below.number + 1 == number;
        r->why = *why;
    }
    assert(r->first + r->n == number);
    r->n++;
    r->bytes += bytes;
    r->lost += lost;
}

// In format 1: a number is missing, so all before it was covered.
static bool forget_below(struct survey *x, err *e)
{
    struct object_log_survey *out = x->out;
    if (!end_run(x, NULL, e)) return false;
    for (size_t i = 0; i < out->n; i++)
        out->cuts[i].whole = out->cuts[i].damaged = false;
    out->damaged = out->lost = out->cutless = 0;
    out->bad = 0;
    x->has_below = false;
    return true;
}

// A seal with something above it does not hold: it lies where another object was.
static bool drop_seals(struct survey *x, err *e)
{
    uint64_t n = x->seals;
    x->seals = 0;
    if (n == 0) return true;
    if (is_unbound(x)) return forget_below(x, e);
    for (uint64_t i = 0; i < n; i++) {
        err why = {0};
        object_log_tell_lost(x->stream, x->first_seal + i, &why);
        add_to_run(x, x->first_seal + i, 0, true, &why);
    }
    return true;
}

static bool add_readable(struct survey *x, const struct object_log_skimmed *o, err *e)
{
    if (o->head.seal) {
        if (x->seals++ == 0) x->first_seal = o->number;
        return true;
    }
    if (!drop_seals(x, e) || !end_run(x, o, e) || !add_object(x, o, e)) return false;
    x->below = *o;
    x->has_below = true;
    return true;
}

static bool add_skimmed(void *arg, const struct object_log_skimmed *o, err *e)
{
    struct survey *x = arg;
    if (o->readable) return add_readable(x, o, e);
    if (!drop_seals(x, e)) return false;
    if (o->state == OBJECT_LOG_GONE && is_unbound(x)) return forget_below(x, e);
    add_to_run(x, o->number, o->size, o->state == OBJECT_LOG_GONE, o->why);
    return true;
}

// ---- all of it

struct look {
    struct survey survey;
    struct object_log_skim skim;
    uint64_t next;  // the number that comes next
};

// Numbers up to `last` that no LIST shows.
static bool look_on(struct look *x, uint64_t last, err *e)
{
    while (!is_unbound(&x->survey) && x->next > 0 && x->next <= last)
        if (!object_log_skim_add(&x->skim, x->next++, NULL, e)) return false;
    return true;
}

static bool see_object(void *arg, const struct object_log_listed *o, err *e)
{
    struct look *x = arg;
    bool jumps = o->number != x->next && x->next > 0;
    if (jumps && is_unbound(&x->survey)) {
        if (!object_log_skim_end(&x->skim, e)) return false;
        x->survey.seals = 0;
        if (!forget_below(&x->survey, e)) return false;
    }
    if (!look_on(x, o->number - 1, e)) return false;
    x->next = o->number + 1;
    x->survey.out->top = MAX(x->survey.out->top, o->number);
    return object_log_skim_add(&x->skim, o->number, o, e);
}

static bool look_once(struct store *s, struct req *r, id128 stream,
                      const struct object_log_extent *extent, struct object_log_patience *patience,
                      struct object_log_survey *out, err *e)
{
    struct look x = {.survey = {.out = out, .stream = stream, .extent = extent},
                     .skim = {.store = s,
                              .r = r,
                              .stream = stream,
                              .patience = patience,
                              .all = extent->unbound,  // there a gap says what is covered
                              .see = add_skimmed},
                     .next = extent->bound.below};
    const struct object_log_span rest = {.stream = stream,
                                         .first = extent->bound.below ? extent->bound.below
                                                                      : extent->lowest};
    x.skim.arg = &x.survey;
    bool ok = object_log_skim_init(&x.skim, extent->top - rest.first + 1, e) &&
              object_log_each(s, r, &rest, see_object, &x, e) && look_on(&x, extent->top, e) &&
              object_log_skim_end(&x.skim, e) && end_run(&x.survey, NULL, e);
    out->top = MAX(out->top, extent->top);
    out->sealed = x.survey.seals > 0;
    object_log_skim_release(&x.skim);
    return ok;
}

void object_log_survey_release(struct object_log_survey *survey)
{
    mem_free(survey->memory, survey->cuts, survey->cap * sizeof *survey->cuts);
    survey->cuts = NULL;
    survey->n = survey->cap = 0;
}

// ---- 3. whether what is lost is lost

static void forget_all(struct object_log_survey *out)
{
    out->n = 0;
    out->damaged = out->lost = out->cutless = 0;
    out->bad = 0;
}

// What is lost may have been told as covered meanwhile: *now is what is told by now.
static bool doubt(struct store *s, struct req *r, id128 stream,
                  struct object_log_patience *patience, struct object_log_survey *out,
                  struct object_log_extent *now, err *e)
{
    bool unregistered = false;
    *now = (struct object_log_extent){0};
    if (out->lost == 0) return true;
    if (!object_log_extent(s, r, stream, patience, now, e) ||
        !stream_has_ended(s, r, stream, &unregistered, e))
        return false;
    if (unregistered) forget_all(out);
    return true;
}

bool object_log_look(struct store *s, struct req *r, id128 stream, uint64_t least,
                     struct object_log_survey *out, err *e)
{
    struct object_log_patience patience = {0};
    *out = (struct object_log_survey){.memory = r->arena.budget};
    for (unsigned i = 0; i < LOOKS; i++) {
        struct object_log_extent extent;
        struct object_log_extent now;
        if (!object_log_extent(s, r, stream, &patience, &extent, e)) return false;
        if (extent.top < least)
            return err_set(e, ERR_UNAVAILABLE,
                           "a list lacks object %" PRIu64 " of the log, which was there", least);
        if (extent.top == 0) return true;
        if (!look_once(s, r, stream, &extent, &patience, out, e) ||
            !doubt(s, r, stream, &patience, out, &now, e))
            return false;
        if (now.bound.below <= extent.bound.below) return true;
        object_log_survey_release(out);
        *out = (struct object_log_survey){.memory = r->arena.budget};
    }
    return err_set(e, ERR_UNAVAILABLE, "the log is deleted faster than it can be looked at");
}
