// SPDX-License-Identifier: Apache-2.0
//
// object_log.c - writing and sealing. object_log_look.c and object_log_read.c read,
// object_log_trim.c and object_log_sweep.c delete, object_log_list.c and object_log_fetch.c serve
// these.
#include "ingester/log/object_log.h"

#include "ingester/log/object_log_int.h"

#include <inttypes.h>

// A message between nodes has 1 GiB at most (internal.body_max), and a group of the log is one
// message or a few small ones.
#define OBJECT_MAX ((size_t)2 << 30)

// A seal has a head and two checks.
#define SEAL_MAX ((size_t)1024)

// The writer creates an object in half a second or more, and meets the seal with his next one. So
// two rounds are many.
#define SEAL_ROUNDS 32

// ---- one head

bool object_log_head(struct store *s, struct req *r, id128 stream, uint64_t number,
                     char to[LOG_OBJECT_HEAD_MAX], struct log_object_head *h, err *e)
{
    str name = name_log_object(&r->arena, stream, number);
    uint64_t size = 0;
    if (!arena_ok(&r->arena, e) || !store_size(s, r, name, &size, e)) return false;
    size_t n = (size_t)MIN(size, (uint64_t)LOG_OBJECT_HEAD_MAX);
    if (n && !store_read(s, r, name, 0, n, to, e)) return false;
    return log_object_decode_head(str_make(to, n), stream, number, h, e) ||
           err_wrap(e, "object %.*s", STR(name));
}

// ---- writing

void object_log_init(struct object_log_writer *w, struct store *s, id128 stream,
                     struct mem_budget *memory)
{
    *w = (struct object_log_writer){.store = s, .stream = stream, .number = 1};
    buf_init(&w->bytes, memory, OBJECT_MAX);
}

void object_log_release(struct object_log_writer *w)
{
    buf_release(&w->bytes);
}

void object_log_fill(struct object_log_writer *w, struct log_object_packer *p,
                     const struct log_object_head *h)
{
    struct log_object_head full = *h;
    assert(!w->over && w->bytes.n == 0 && !h->seal);
    full.stream = w->stream;
    full.number = w->number;
    w->nonce = h->nonce;
    w->covered = h->covered;
    w->tries = 0;
    log_object_begin(p, &w->bytes, &full);
}

// Memory of an object goes back when that is over: one of a gigabyte would keep it for good.
static void empty(struct object_log_writer *w)
{
    struct mem_budget *memory = w->bytes.budget;
    buf_release(&w->bytes);
    buf_init(&w->bytes, memory, OBJECT_MAX);
}

bool object_log_filled(struct object_log_writer *w, struct log_object_packer *p, err *e)
{
    assert(p->out == &w->bytes);
    bool ok = log_object_end(p, e);
    if (!ok) empty(w);
    return ok;
}

void object_log_unfill(struct object_log_writer *w)
{
    empty(w);
}

static enum object_log_put landed(struct object_log_writer *w)
{
    empty(w);
    w->told = (struct object_log_told){w->number, w->covered};
    w->number++;
    return OBJECT_LOG_LANDED;
}

// Finds out who created the object that has the name, by its nonce. It may be this writer: the
// answer to an earlier try may have been lost on the way.
static enum object_log_put whose(struct object_log_writer *w, struct req *r, err *e)
{
    char bytes[LOG_OBJECT_HEAD_MAX];
    struct log_object_head h;
    if (!object_log_head(w->store, r, w->stream, w->number, bytes, &h, e))
        return e->code == ERR_DATA_LOSS ? OBJECT_LOG_TWICE : OBJECT_LOG_UNKNOWN;
    if (!h.seal && id128_eq(h.nonce, w->nonce)) return landed(w);
    if (h.seal) {
        w->over = true;
        return OBJECT_LOG_OVER;
    }
    char stream[ULID_TEXT];
    ulid_print(w->stream, stream);
    err_set(e, ERR_DATA_LOSS,
            "object %" PRIu64 " of log %s has a nonce of somebody else: the name was used twice",
            w->number, stream);
    return OBJECT_LOG_TWICE;
}

enum object_log_put object_log_put(struct object_log_writer *w, struct req *r, err *e)
{
    bool existed = false;
    str name = name_log_object(&r->arena, w->stream, w->number);
    assert(w->bytes.n > 0 && !w->over);
    if (!arena_ok(&r->arena, e)) return OBJECT_LOG_UNKNOWN;
    w->tries++;
    // Whatever the fault is, the request may have left.
    if (!store_put(w->store, r, name, buf_view(&w->bytes), &existed, e))
        return e->code == ERR_OUT_OF_RANGE ? OBJECT_LOG_REFUSED : OBJECT_LOG_UNKNOWN;
    return existed ? whose(w, r, e) : landed(w);
}

// ---- sealing

static bool put_seal(struct store *s, struct req *r, const struct log_object_head *h, bool *existed,
                     err *e)
{
    struct buf bytes;
    struct log_object_packer p;
    str name = name_log_object(&r->arena, h->stream, h->number);
    assert(h->seal);
    buf_init(&bytes, NULL, SEAL_MAX);
    log_object_begin(&p, &bytes, h);
    bool ok = log_object_end(&p, e) && arena_ok(&r->arena, e) &&
              store_put(s, r, name, buf_view(&bytes), existed, e);
    buf_release(&bytes);
    if (ok || e->code != ERR_OUT_OF_RANGE) return ok;
    e->code = ERR_UNAVAILABLE;  // no object is smaller: it is not about this one
    return err_wrap(e, "the object store, or a proxy before it, refuses even the smallest object, "
                       "so nothing can be stored");
}

static bool see_top(void *arg, const struct object_log_listed *o, err *e)
{
    (void)e;
    *(uint64_t *)arg = o->number;  // they come in order
    return true;
}

// What the highest object is.
enum top {
    TOP_ENTRIES,
    TOP_SEAL,
    TOP_DAMAGED,  // no seal, for all that anybody will ever know: above it one can be put
    TOP_ABSENT,   // its writer has deleted it, so there is a newer one; or that is not true
};

static bool look_at_top(struct store *s, struct req *r, id128 stream, uint64_t number,
                        struct log_object_bound *covered, enum top *what, err *e)
{
    err why = {0};
    char bytes[LOG_OBJECT_HEAD_MAX];
    struct log_object_head h = {0};
    bool ok = object_log_head(s, r, stream, number, bytes, &h, &why);
    *covered = h.covered;
    *what = ok ? (h.seal ? TOP_SEAL : TOP_ENTRIES)
               : (why.code == ERR_DATA_LOSS ? TOP_DAMAGED : TOP_ABSENT);
    if (ok || why.code == ERR_NOT_FOUND || why.code == ERR_DATA_LOSS) return true;
    *e = why;
    return false;
}

// The highest number. Of what was seen before, `from` has been the highest: a LIST may begin there.
static bool find_top(struct store *s, struct req *r, id128 stream, uint64_t from, uint64_t *top,
                     err *e)
{
    const struct object_log_span all = {.stream = stream};
    const struct object_log_span upper = {.stream = stream, .first = from};
    *top = 0;
    if (from > 0 && !object_log_each(s, r, &upper, see_top, top, e)) return false;
    return *top > 0 || object_log_each(s, r, &all, see_top, top, e);
}

bool object_log_seal(struct store *s, struct req *r, id128 stream,
                     const struct object_log_sealer *by, uint64_t *number, err *e)
{
    static const struct object_log_told nothing;
    const struct object_log_told *told = by->told ? by->told : &nothing;
    uint64_t sealed = 0;  // a seal that was there before the next LIST began
    uint64_t top = 0;
    struct object_log_patience patience = {0};
    for (unsigned round = 0; round < SEAL_ROUNDS; round++) {
        bool existed = false;
        err over = {0};
        enum top what = TOP_ENTRIES;
        struct log_object_head seal = {.stream = stream,
                                       .nonce = by->nonce,
                                       .made_ns = by->wall_ns,
                                       .seal = true,
                                       .node = by->node};
        if (!find_top(s, r, stream, top, &top, e)) return false;
        if (top > 0 && top == sealed) {
            *number = top;
            return true;
        }
        // Whatever the highest is now, a seal below it does not hold.
        if (top > 0 && !look_at_top(s, r, stream, top, &seal.covered, &what, e)) return false;
        sealed = what == TOP_SEAL ? top : 0;
        if (what == TOP_SEAL) continue;
        if (what == TOP_ABSENT && object_log_ask_again(&patience, r, &over)) continue;
        if (over.code != ERR_OK) {
            *e = over;
            return false;
        }
        seal.number = MAX(top, told->number) + 1;
        if (told->covered.below > seal.covered.below) seal.covered = told->covered;
        if (!put_seal(s, r, &seal, &existed, e)) return false;
        if (!existed) sealed = seal.number;
    }
    return err_set(e, ERR_UNAVAILABLE, "the log goes on being written while it is sealed");
}

bool object_log_close(struct object_log_writer *w, struct req *r,
                      const struct object_log_sealer *by, bool *is_there, err *e)
{
    uint64_t number = 0;
    bool doubt = w->bytes.n > 0 && !w->over;
    struct object_log_sealer writer = *by;
    writer.told = &w->told;
    *is_there = false;
    // A seal that this writer has met holds: nothing was created above it.
    if (w->over || !object_log_seal(w->store, r, w->stream, &writer, &number, e)) return w->over;
    // Objects are created one after the other, so the seal is in the place of the one in doubt, or
    // right above it.
    if (doubt && number > w->number) {
        enum object_log_put what = whose(w, r, e);
        if (what == OBJECT_LOG_TWICE || what == OBJECT_LOG_UNKNOWN) return false;
        *is_there = what == OBJECT_LOG_LANDED;
    }
    w->over = true;
    return true;
}
