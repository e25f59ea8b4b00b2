// SPDX-License-Identifier: Apache-2.0
//
// object_log_fetch.c - reads a window of objects of a log at once, and finds out what became of
// those that are not there.
//
// All that wait are read. What the store then says of each:
//
//     the bytes                   read
//     not there, or shorter       A LIST is asked, one for all of these:
//         the LIST lacks it           gone: two answers agree
//         the LIST shows it           something on the way has answered one of the two. Both are
//                                     asked again, for a while; then it is refused
//     anything else               the call fails, and its caller comes again
//
// An object that no LIST has shown so far has no size. It is asked for that, which is how the store
// itself says that it is not there.
#include "ingester/log/object_log_int.h"

#define SCRATCH ((size_t)64 << 10)  // of the names of a window

bool object_log_window_init(struct object_log_window *w, struct mem_budget *memory, size_t cap,
                            size_t head, err *e)
{
    *w = (struct object_log_window){.memory = memory, .head = head};
    assert(cap > 0 && cap <= OBJECT_LOG_WINDOW);
    // Not zeroed: an error is more than a kilobyte, and most windows have none.
    w->v = mem_resize_bare(memory, NULL, 0, cap * sizeof *w->v, e);
    if (w->v) w->cap = cap;
    return w->v;
}

void object_log_window_clear(struct object_log_window *w)
{
    for (; w->n > 0; w->n--)
        buf_release(&w->v[w->n - 1].bytes);
}

void object_log_window_release(struct object_log_window *w)
{
    object_log_window_clear(w);
    mem_free(w->memory, w->v, w->cap * sizeof *w->v);
    w->v = NULL;
    w->cap = 0;
}

void object_log_window_add(struct object_log_window *w, uint64_t number,
                           const struct object_log_listed *listed)
{
    assert(w->n < w->cap && (w->n == 0 || w->v[w->n - 1].number < number));
    struct object_log_piece *x = &w->v[w->n++];
    x->number = number;
    x->size = listed ? listed->size : 0;
    x->listed = listed;
    x->state = OBJECT_LOG_WAITS;
    x->denied = false;
    x->why.code = ERR_OK;
    buf_init(&x->bytes, w->memory, SIZE_MAX);
}

// ---- what the store says

struct fetch {
    struct object_log_window *w;
    struct store *store;
    struct req *r;
    id128 stream;
    struct arena names;
    struct object_log_piece *of[OBJECT_LOG_WINDOW];
    size_t n;
};

static bool is_denial(const err *e)
{
    return e->code == ERR_NOT_FOUND || e->code == ERR_OUT_OF_RANGE;
}

static bool denies(struct object_log_piece *x, const err *why, bool denied, err *e)
{
    x->denied = denied || is_denial(why);
    if (x->denied) x->why = *why;
    if (!x->denied) *e = *why;
    return x->denied;
}

// Those that wait and that a LIST has shown, or has not.
static void pick(struct fetch *f, bool listed)
{
    f->n = 0;
    for (size_t i = 0; i < f->w->n; i++) {
        struct object_log_piece *x = &f->w->v[i];
        if (x->state == OBJECT_LOG_WAITS && x->listed == listed && !x->denied) f->of[f->n++] = x;
    }
}

static bool read_listed(struct fetch *f, err *e)
{
    pick(f, true);
    if (f->n == 0) return true;
    struct store_read *v = ARENA_ARRAY(&f->names, struct store_read, f->n);
    if (!v) return arena_fail(&f->names, e);
    for (size_t i = 0; i < f->n; i++) {
        struct object_log_piece *x = f->of[i];
        size_t want = (size_t)MIN(x->size, (uint64_t)f->w->head);
        buf_clear(&x->bytes);
        v[i].name = name_log_object(&f->names, f->stream, x->number);
        v[i].n = want;
        v[i].to = want ? buf_reserve(&x->bytes, want) : NULL;
        if (want && !v[i].to) return buf_ok(&x->bytes, e);  // sets *e
    }
    if (!arena_ok(&f->names, e)) return false;
    store_read_many(f->store, f->r, v, f->n);
    for (size_t i = 0; i < f->n; i++) {
        struct object_log_piece *x = f->of[i];
        if (v[i].ok) {
            x->state = OBJECT_LOG_READ;
            x->bytes.n = v[i].n;
        } else if (!denies(x, &v[i].fault, v[i].denied, e)) {
            return false;
        }
    }
    return true;
}

static bool size_unlisted(struct fetch *f, err *e)
{
    pick(f, false);
    if (f->n == 0) return true;
    struct store_sizing *v = ARENA_ARRAY(&f->names, struct store_sizing, f->n);
    if (!v) return arena_fail(&f->names, e);
    for (size_t i = 0; i < f->n; i++)
        v[i].name = name_log_object(&f->names, f->stream, f->of[i]->number);
    if (!arena_ok(&f->names, e)) return false;
    store_size_many(f->store, f->r, v, f->n);
    for (size_t i = 0; i < f->n; i++) {
        struct object_log_piece *x = f->of[i];
        if (v[i].ok) {
            x->listed = true;
            x->size = v[i].size;
        } else if (!denies(x, &v[i].fault, v[i].denied, e)) {
            return false;
        }
    }
    return true;
}

// A LIST decides about those that were denied. *left: some are there all the same.
static bool list_denied(struct fetch *f, bool *left, err *e)
{
    struct object_log_sought v[OBJECT_LOG_WINDOW];
    f->n = 0;
    for (size_t i = 0; i < f->w->n; i++) {
        struct object_log_piece *x = &f->w->v[i];
        if (x->state != OBJECT_LOG_WAITS || !x->denied) continue;
        v[f->n].number = x->number;
        f->of[f->n++] = x;
    }
    *left = false;
    if (f->n == 0) return true;
    if (!object_log_seek(f->store, f->r, f->stream, v, f->n, e)) return false;
    for (size_t i = 0; i < f->n; i++) {
        struct object_log_piece *x = f->of[i];
        x->listed = v[i].there;
        x->size = v[i].size;
        if (!v[i].there) x->state = OBJECT_LOG_GONE;
        *left |= v[i].there;
    }
    return true;
}

static bool waits(const struct object_log_window *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->v[i].state == OBJECT_LOG_WAITS) return true;
    return false;
}

// The next round asks again. False: there is none, and *e tells if that is a failure.
static bool ask_again(struct fetch *f, struct object_log_patience *p, err *e)
{
    bool again = object_log_ask_again(p, f->r, e);
    for (size_t i = 0; i < f->w->n; i++) {
        struct object_log_piece *x = &f->w->v[i];
        if (x->state != OBJECT_LOG_WAITS || !x->denied) continue;
        x->denied = false;
        if (again || e->code != ERR_OK) continue;
        x->state = OBJECT_LOG_UNREADABLE;
        x->why.code = ERR_DATA_LOSS;
        (void)err_wrap(&x->why, "a list shows it");
    }
    return again;
}

static bool fetch_round(struct fetch *f, bool *left, err *e)
{
    arena_init(&f->names, f->r->arena.budget, SCRATCH + f->w->n * sizeof(struct store_read) * 2);
    bool ok = read_listed(f, e) && size_unlisted(f, e) && list_denied(f, left, e);
    arena_release(&f->names);
    return ok;
}

bool object_log_fetch(struct object_log_window *w, struct store *s, struct req *r, id128 stream,
                      struct object_log_patience *p, err *e)
{
    struct fetch f = {.w = w, .store = s, .r = r, .stream = stream};
    err why = {0};
    bool ok = true;
    while (ok && waits(w)) {
        bool left = false;
        ok = fetch_round(&f, &left, e);
        if (ok && left && !ask_again(&f, p, &why)) ok = why.code == ERR_OK;
    }
    if (why.code != ERR_OK) *e = why;
    return ok;
}
