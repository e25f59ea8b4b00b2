// SPDX-License-Identifier: Apache-2.0
//
// takeover.c - one stream is taken over (step 4 of adopt.h), within the memory that the head has
// left.
//
//     1. It is sealed, and its cuts are found.                                        wal_adopt
//     2. Cut by cut, the oldest first: room is made, the cut is read. Its rows are hidden. If they
//        have no room all the same, it is read bit by bit: what was read goes to the store as a
//        part, and leaves the head.                                        flush_adopted_part
//     3. When all cuts have been read, the rows that are still there are revealed.    head_reveal
//
// Until 3 no answer has a row of the stream, or says that none is missing. Then each of its rows is
// in the head, or in a part that was written before.
//
// A cut takes about as many bytes in the head as in the log, with its symbols and series, but
// several times as many if its profiles are small. So room is promised to it for twice its bytes,
// and for twice as much again when that was too little. If there is less room for the next cut, it
// is made:
//
//     cuts of the stream that were     go to the store, the oldest first, and leave head and log
//     read
//     the rows of this ingester        then its open cut closes, and its flush is waited for
//     other adoptions                  What is promised to them is not taken. One at a time gets
//                                      all that is left, if that is less than it should have.
//
// So a stream needs REST_LEAST, however many cuts it has, and however large these are; but for the
// symbols and series of one cut, which stay while it is read.
//
// Of a cut that was read bit by bit the last bit goes to the store as well. An answer could not
// name what the head has of it: a cut stands for all parts from some number on.
//
// What may go wrong:
//
//     no room, though all was          It is let go. The next ingester has its turn.
//     flushed
//     a bit has no room, though all    The rows of the cut leave again, the own rows are flushed,
//     before it is in the store        and it is read once more.
//     the store fails                  It is let go, and tried again soon.
//     this process drains              That cancels all requests (ingester.adopting): it is let go
//                                      at once.
//
// Let go: rows that are in the head leave it, and are forgotten (head_let_go); the stream stays
// registered. Parts that were written stay, and whoever adopts it next finds them.
#include "base/fault.h"
#include "ingester/adopt.h"
#include "ingester/flush/flush.h"
#include "ingester/ingester_int.h"
#include "sys/clock.h"

// Of the bytes of a cut in the log, so many in the head, and so many at most.
#define TIMES_FIRST 2
#define TIMES_MAX   16

// So long the own flush has time to make room: that of a turn (ownerless.h); and so long its cuts,
// once they are in the store, to leave the head.
#define FLUSH_NS ((uint64_t)(30 * NS_PER_S))
#define DROP_NS  ((uint64_t)(3 * NS_PER_S))
#define TICK_NS  ((uint64_t)(100 * NS_PER_MS))

// With so much room, or a quarter of the head's, a cut of any size is read, bit by bit. The objects
// that are read at once, and the rows of a large push, have room in it.
#define REST_LEAST ((size_t)32 << 20)

// So long other adoptions are waited for.
#define OTHERS_NS ((uint64_t)(60 * NS_PER_S))

// A cut is read so often, if the head fills up meanwhile.
#define READS_MAX 4

struct takeover {
    struct ingester *in;
    struct cut **cuts;  // the oldest first
    size_t n;
    size_t gone;   // the first so many are in the store, and freed
    size_t read;   // and so many were read
    size_t times;  // room that a cut is promised, in bytes of its log
};

static bool is_over(struct takeover *t, err *e)
{
    if (duty_is_over(t->in)) {
        (void)err_set(e, ERR_CANCELED, "the ingester is shutting down");
        return true;
    }
    return !req_alive(&t->in->adopting, e);
}

// ---- room

// What budget b and its parents have left, without what they keep for others.
static size_t room_of(const struct mem_budget *b)
{
    size_t room = SIZE_MAX;
    size_t leaves = 0;
    for (; b; b = b->parent) {
        size_t limit = atomic_load_explicit(&b->limit, memory_order_relaxed);
        size_t used = atomic_load_explicit(&b->used, memory_order_relaxed) + leaves;
        leaves += b->leaves;
        if (limit) room = MIN(room, limit > used ? limit - used : 0);
    }
    return room;
}

// Promises room to a cut. Several adoptions may ask at once.
static bool promise_room(struct ingester *in, size_t bytes)
{
    size_t promised =
        atomic_fetch_add_explicit(&in->adoption_bytes, bytes, memory_order_relaxed) + bytes;
    if (promised <= room_of(head_budget(in->head))) return true;
    atomic_fetch_sub_explicit(&in->adoption_bytes, bytes, memory_order_relaxed);
    return false;
}

// Promises all the room that there is, if it is enough for a bit of the cut, and unless something
// is promised already.
static bool promise_rest(struct ingester *in, size_t cut_bytes, size_t *promised)
{
    size_t none = 0;
    size_t limit = atomic_load_explicit(&head_budget(in->head)->limit, memory_order_relaxed);
    size_t least = MIN(cut_bytes, limit ? MIN(limit / 4, REST_LEAST) : REST_LEAST);
    *promised = room_of(head_budget(in->head));
    return *promised >= MAX(least, 1u) &&
           atomic_compare_exchange_strong(&in->adoption_bytes, &none, *promised);
}

static void end_promise(struct ingester *in, size_t bytes)
{
    assert(atomic_load_explicit(&in->adoption_bytes, memory_order_relaxed) >= bytes);
    atomic_fetch_sub_explicit(&in->adoption_bytes, bytes, memory_order_relaxed);
}

// Takes the oldest cut that was read to the store.
static bool flush_oldest(struct takeover *t, err *e)
{
    assert(t->gone < t->read && t->read <= t->n);
    if (!flush_adopted(t->in->flush, &t->in->adopting, t->cuts[t->gone], e)) return false;
    t->cuts[t->gone++] = NULL;
    FAULT("adopt.flushed");
    return true;
}

// The rows of this ingester itself go to the store.
static void flush_own(struct ingester *in)
{
    struct req r;
    struct flush_totals done;
    err ignored = {0};  // there may be room all the same
    req_init(&r, RANK_DUTY, NULL, SIZE_MAX, FLUSH_NS);
    r.asker = &in->adopting;
    (void)!flush_now(in->flush, &r, true, &done, &ignored);
    req_release(&r);
}

static void tick(struct ingester *in)
{
    lock_take(&in->lock);
    if (!in->stopping) (void)cond_wait_until(&in->wake, &in->lock, clock_mono_ns() + TICK_NS);
    lock_give(&in->lock);
}

static bool no_room(const struct takeover *t, const struct cut *c, err *e)
{
    return err_set(e, ERR_RESOURCE_EXHAUSTED,
                   "cut %llu of it has %llu bytes, and there is memory for %zu: "
                   "ingester.head_memory is too small, or its rows cannot be flushed",
                   (unsigned long long)c->number, (unsigned long long)c->bytes,
                   room_of(head_budget(t->in->head)));
}

// Makes room for a cut; *promised is what end_promise takes back.
static bool make_room(struct takeover *t, const struct cut *c, size_t *promised, err *e)
{
    uint64_t until = 0;
    for (;;) {
        *promised = (size_t)c->bytes * t->times;
        if (is_over(t, e)) return false;
        if (promise_room(t->in, *promised)) return true;
        uint64_t now = clock_mono_ns();
        if (t->gone < t->read) {
            if (!flush_oldest(t, e)) return false;
        } else if (until == 0) {
            flush_own(t->in);
            until = clock_mono_ns() + DROP_NS;
        } else if (now >= until && promise_rest(t->in, (size_t)c->bytes, promised)) {
            return true;
        } else if (now < until ||
                   (now < until + OTHERS_NS && atomic_load(&t->in->adoption_bytes) > 0)) {
            tick(t->in);
        } else {
            return no_room(t, c, e);
        }
    }
}

// ---- reading

// A cut on its way into the head.
struct filling {
    struct takeover *t;
    struct cut *cut;
    size_t keep;       // room that is left to others, and the least that a bit has
    size_t base;       // of the head, when the bit began
    uint64_t entries;  // of the bit, with the one that is being read
    unsigned parts;    // bits that are in the store
};

static size_t held_by_head(const struct takeover *t)
{
    return atomic_load_explicit(&head_budget(t->in->head)->used, memory_order_relaxed);
}

static void begin_bit(struct filling *x)
{
    x->base = held_by_head(x->t);
    x->entries = 1;
}

// What was read goes to the store: cuts that were read before this one, or else this one's rows.
static bool empty_head(struct filling *x, err *e)
{
    struct takeover *t = x->t;
    if (t->gone < t->read) {
        while (t->gone < t->read)
            if (!flush_oldest(t, e)) return false;
        return true;
    }
    if (!flush_adopted_part(t->in->flush, &t->in->adopting, x->cut, e)) return false;
    FAULT("adopt.part");
    x->parts++;
    begin_bit(x);
    return true;
}

static bool before_entry(void *arg, err *e)
{
    struct filling *x = arg;
    size_t used = held_by_head(x->t);
    x->entries++;
    if (room_of(head_budget(x->t->in->head)) >= x->keep) return true;
    // Others may fill the head as well: bits that are too small would be without number.
    if (x->t->gone == x->t->read && (used < x->base || used - x->base < x->keep)) return true;
    return empty_head(x, e);
}

static bool more_room(void *arg, err *e)
{
    struct filling *x = arg;
    if (x->t->gone == x->t->read && x->entries < 2) return false;
    *e = (err){0};
    return empty_head(x, e);
}

// Reads a cut, all of it or bit by bit.
static bool fill_with(struct takeover *t, struct cut *c, size_t promised, err *e)
{
    struct filling x = {.t = t, .cut = c, .keep = promised / 4};
    const struct replay_room room = {before_entry, more_room, &x};
    begin_bit(&x);
    x.entries = 0;
    if (!replay_adopted(t->in, c, &room, e)) return false;
    if (x.parts && !flush_adopted_part(t->in->flush, &t->in->adopting, c, e)) return false;
    t->read++;
    while (x.parts && t->gone < t->read)
        if (!flush_oldest(t, e)) return false;
    return true;
}

static bool read_next(struct takeover *t, err *e)
{
    struct cut *c = t->cuts[t->read];
    for (unsigned reads = 1;; reads++) {
        size_t promised = 0;
        size_t before = t->read;
        if (!make_room(t, c, &promised, e)) return false;
        bool ok = fill_with(t, c, promised, e);
        end_promise(t->in, promised);
        if (ok) return true;
        // It may have been read, and not flushed.
        if (t->read > before) return false;
        head_let_go(t->in->head, c);
        if (e->code != ERR_RESOURCE_EXHAUSTED || reads == READS_MAX) return false;
        *e = (err){0};
        t->times = MIN(2 * t->times, (size_t)TIMES_MAX);
        while (t->gone < t->read)
            if (!flush_oldest(t, e)) return false;
        flush_own(t->in);
    }
}

static void let_go(struct takeover *t, id128 stream)
{
    for (size_t i = t->gone; i < t->read; i++)
        head_let_go(t->in->head, t->cuts[i]);
    wal_let_go(t->in->wal, stream);
}

bool adopt_take_over(struct ingester *in, id128 stream, bool damaged, size_t *n, err *e)
{
    const struct wal_terms terms = {.damaged = damaged, .asker = &in->adopting};
    struct takeover t = {.in = in, .times = TIMES_FIRST};
    struct arena arena;
    arena_init(&arena, NULL, SIZE_MAX);  // it gets a pointer for each cut
    head_adopts(in->head);
    bool ok = wal_adopt(in->wal, stream, &terms, &arena, &t.cuts, &t.n, e);
    bool found = ok;
    *n = t.n;
    FAULT("adopt.found");
    while (ok && t.read < t.n)
        ok = read_next(&t, e);
    if (ok) {
        FAULT("adopt.read");
        // In this order: whoever sees that the stream is served sees its rows as well.
        head_reveal(in->head, t.cuts + t.gone, t.n - t.gone);
        wal_adopted(in->wal, stream);
    } else if (found) {
        let_go(&t, stream);
    }
    arena_release(&arena);
    return ok;
}
