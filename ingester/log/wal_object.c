// SPDX-License-Identifier: Apache-2.0
//
// wal_object.c - the home of a log in the object store: a group becomes one object of the open
// stream (object_log.h). wal_object_streams.c looks after streams that have ended.
//
// A group, with the lead, when all goes well:
//
//     1. News are gathered, and the object is filled with the       fill
//        entries. What has no place is left to the next one.
//     2. It is put once.                                            object_log_put
//     3. The cut learns which objects it has.                       note_landed
//
// When it does not:
//
//     no memory (1)          the group is refused, and nothing was put
//     a seal is there (2)    The stream is over and the group is not in it. The next stream begins
//                            at once, and the group goes first into that, with its news gathered
//                            anew.
//     too large (2)          The store, or something before it, refuses the object for good. Its
//                            name is in doubt all the same, as a try may have gone before, so the
//                            bytes of the name do not change: the stream is sealed at once. If the
//                            object is in it after all, that is settled like a write that failed.
//                            Otherwise the limit is learnt (wal_object_size.c), and the group goes
//                            first into the next stream, in smaller objects. A cut whose first
//                            object was this one has nothing in the store and is forgotten. News
//                            are gathered anew, in a new run. A push that was alone is refused.
//     a seal is refused, too The group is refused, the log is BROKEN. Nothing can be stored now.
//     no answer (2)          or none of use: nobody knows whether it landed. Often the store works,
//                            and something on the way has failed this one object. So the stream is
//                            sealed at once, if the store takes a seal: that decides it, as above.
//                            The group goes first into the next stream, fewer of it at a time; a
//                            push that has failed alone is put off (wal_object_size.c).
//     the store fails (2)    so that no seal is taken either: the group is refused, the log is
//                            BROKEN, and every second wal_recover puts the same bytes again
//                            (settle). Once it is known whether they landed, the stream is sealed;
//                            an object that did land is read then. If they fail still, and the
//                            store takes a seal, that decides it as well.
//     the name is taken (2)  by an object of somebody else: the same, but the stream is left to be
//                            sealed later.
//     an hour passes         without a write: the next stream begins. Its process may have been
//                            asleep, and what it had may be cleared away.
//
// The next stream is the one that is planned (wal_stream.c), whose owner has registered it. Where
// none is planned, or it is not registered yet, pushes are not acknowledged until it is (roll.h).
#include "base/fault.h"
#include "ingester/log/wal_object_int.h"
#include "ingester/metrics.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "sys/rand.h"

#include <inttypes.h>
#include <stdio.h>

// A put that takes longer is given up; the log then tries again by itself.
#define PUT_NS ((uint64_t)(10 * NS_PER_S))

#define IDLE_NS (3600 * NS_PER_S)

// A seal after a put that failed. A store that is away is not waited for twice as long.
#define SEAL_NS ((uint64_t)(3 * NS_PER_S))

// Callers of a group that goes on being failed are put off after so long.
#define GROUP_NS ((uint64_t)(25 * NS_PER_S))

void objects_req(struct wal *w, struct req *r, uint64_t limit_ns)
{
    req_init(r, RANK_INGESTER, w->options.memory, OBJECTS_WORK, limit_ns);
}

id128 objects_nonce(void)
{
    id128 id;
    rand_bytes(id.b, sizeof id.b);
    return id;
}

// ---- streams, with the lead

static bool is_idle(const struct wal *w)
{
    const struct wal_objects *o = w->objects;
    int64_t boot = w->options.boot_ns() - o->used_boot_ns;
    int64_t wall = w->options.wall_ns() - o->used_wall_ns;
    return MAX(boot, wall) >= IDLE_NS;
}

static void note_use(struct wal *w)
{
    w->objects->used_boot_ns = w->options.boot_ns();
    w->objects->used_wall_ns = w->options.wall_ns();
}

bool objects_begin(struct wal *w, const struct wal_stream *own, err *e)
{
    struct wal_objects *o = w->objects;
    struct owned fresh = {.id = own->id};
    if (FAULT_ERRNO("wal.begin")) return err_set(e, ERR_UNAVAILABLE, "log: begin: %m");
    lock_take(&w->lock);
    bool ok = mem_grow(NULL, &o->streams, &o->stream_cap, o->stream_count + 1, sizeof fresh, e);
    if (ok) o->streams[o->stream_count++] = fresh;
    lock_give(&w->lock);
    if (!ok) return false;
    objects_note_streams(w);
    object_log_release(&o->writer);
    object_log_init(&o->writer, w->options.store, own->id, w->options.memory);
    note_use(w);
    return true;
}

static struct owned *find_owned(struct wal *w, id128 id)
{
    struct wal_objects *o = w->objects;
    for (size_t i = 0; i < o->stream_count; i++)
        if (id128_eq(o->streams[i].id, id)) return &o->streams[i];
    return NULL;
}

// With w->lock. `sealed`: a seal holds.
void objects_note_end(struct wal *w, id128 id, bool sealed)
{
    struct owned *s = find_owned(w, id);
    if (!s) return;
    s->ended = true;
    s->sealed = s->sealed || sealed;
}

// A stream into which nothing was put needs no seal: this process was the only one to write it, and
// has gone on.
static bool objects_go_over(struct wal *w, const struct wal_stream *own, bool held, err *e)
{
    const struct object_log_writer *x = &w->objects->writer;
    id128 old = x->stream;
    bool over = x->over || (x->number == 1 && x->bytes.n == 0);
    assert(w->led && !(held && x->number == 1));
    if (FAULT_ERRNO("stream.begin")) return err_set(e, ERR_UNAVAILABLE, "log: begin: %m");
    if (!objects_begin(w, own, e)) return false;
    lock_take(&w->lock);
    objects_note_end(w, old, over);
    lock_give(&w->lock);
    return true;
}

// Ends the stream and begins the next one, while appends wait. That is the planned one: it is
// registered already, unless two streams end shortly after each other.
static bool next_stream(struct wal *w, err *e)
{
    id128 old = w->objects->writer.stream;
    bool over = w->objects->writer.over;
    assert(w->led);
    lock_take(&w->lock);
    const struct wal_stream own = {.id = wal_coming(w), .state = "open"};
    lock_give(&w->lock);
    if (!wal_make_room(w, e) || !wal_close_cut(w, e) || !objects_go_over(w, &own, false, e))
        return false;
    wal_go_over(w, &own);
    char text[ULID_TEXT];
    ulid_print(old, text);
    log_info(NULL, "log.stream_ended", "stream=%s sealed=%d", text, over);
    return true;
}

// ---- a group

static bool objects_room(struct wal *w, size_t bytes, bool *broken, err *e)
{
    const struct wal_options *o = &w->options;
    *broken = false;
    if (o->disk_max && w->bytes + bytes > o->disk_max) {
        return err_set(e, ERR_RESOURCE_EXHAUSTED,
                       "the log holds %llu bytes, ingester.log_disk is %llu",
                       (unsigned long long)w->bytes, (unsigned long long)o->disk_max);
    }
    return !is_idle(w) || next_stream(w, e);
}

// What goes into one object: callers from the front of a group, with their news.
struct filling {
    size_t callers_max;  // at most so many; 0: any number
    size_t callers;
    struct waiter *last;
    uint64_t items;
    uint64_t rows;    // of the cut, with these
    struct buf news;  // of all items
    size_t *ends;     // of the news of each
    size_t cap;
};

static uint64_t count_items(const struct waiter *group)
{
    uint64_t n = 0;
    for (; group; group = group->next)
        n += group->n;
    return n;
}

static void forget_news(struct waiter *x)
{
    x->bytes -= x->news_bytes;
    x->news_bytes = 0;
}

static bool gather_from(struct wal *w, struct filling *f, struct waiter *from, err *e)
{
    size_t before = f->news.n;
    for (size_t i = 0; i < from->n; i++) {
        const struct wal_item *item = &from->items[i];
        if (item->news && !item->news(item->arg, w->run, &f->news, e)) return false;
        if (!buf_ok(&f->news, e)) return false;
        f->ends[f->items + i] = f->news.n;
    }
    from->news_bytes = f->news.n - before;
    from->bytes += from->news_bytes;
    return true;
}

// What the next object says is covered: all before the oldest cut that the log has of its stream.
static struct log_object_bound covered_so_far(struct wal *w, const struct cut *open)
{
    const struct object_log_writer *x = &w->objects->writer;
    struct log_object_bound b = {.below = x->number, .cut = open->number, .seq = w->next_seq};
    lock_take(&w->lock);
    for (size_t i = 0; i < w->cut_count; i++) {
        const struct cut *c = w->cuts[i];
        if (!id128_eq(c->stream, x->stream) || !c->first_object || c->first_object >= b.below)
            continue;
        b = (struct log_object_bound){c->first_object, c->number, c->first_seq};
    }
    lock_give(&w->lock);
    return b;
}

// The first of the group always, and others as long as there is place. If the news of one have
// none, the run is over, as the news that were gathered will not be written.
static bool gather(struct wal *w, struct filling *f, struct waiter *group, err *e)
{
    const struct object_size *z = &w->objects->size;
    size_t bytes = LOG_OBJECT_HEAD_MAX + ENTRY_OVERHEAD;
    for (struct waiter *x = group; x; x = x->next)
        forget_news(x);  // after a seal they are gathered anew
    f->callers = 0;
    for (struct waiter *x = group; x; x = x->next) {
        if (x != group && bytes + x->bytes > z->full) break;
        if (f->callers_max && f->callers == f->callers_max) break;
        if (!gather_from(w, f, x, e)) return false;
        if (x != group && bytes + x->bytes > z->most) {
            f->news.n -= x->news_bytes;
            forget_news(x);
            wal_next_run(w);
            break;
        }
        bytes += x->bytes;
        f->callers++;
        f->items += x->n;
        f->last = x;
    }
    return true;
}

static bool pack(struct wal *w, struct filling *f, struct waiter *group, err *e)
{
    struct wal_objects *o = w->objects;
    const struct cut *c = w->open;
    struct log_object_packer p;
    uint64_t first = w->next_seq;
    const struct log_object_head h = {.nonce = objects_nonce(),
                                      .made_ns = w->options.wall_ns(),
                                      .cut = c->number,
                                      .cut_opened_ns = c->opened_wall_ns,
                                      .cut_first_seq = c->first_seq ? c->first_seq : first,
                                      .first_seq = first,
                                      .count = f->items,
                                      .covered = covered_so_far(w, c)};
    size_t item = 0;
    size_t from = 0;
    object_log_fill(&o->writer, &p, &h);
    for (struct waiter *x = group; x != f->last->next; x = x->next) {
        for (size_t i = 0; i < x->n; i++) {
            size_t to = f->ends[item++];
            str news = str_slice(buf_view(&f->news), from, to);
            log_object_add(&p, x->tenant, f->rows, news, x->items[i].rows);
            f->rows += x->items[i].count;
            from = to;
        }
        x->place.last_seq = p.seq - 1;
    }
    return object_log_filled(&o->writer, &p, e);
}

// The object of a group, or of its first callers up to f->last. If anything is refused the run is
// over.
static bool fill(struct wal *w, struct waiter *group, struct filling *f, err *e)
{
    struct mem_budget *memory = w->options.memory;
    *f = (struct filling){.rows = w->open->rows, .callers_max = f->callers_max};
    buf_init(&f->news, memory, SIZE_MAX);
    bool ok = mem_grow(memory, &f->ends, &f->cap, count_items(group), sizeof *f->ends, e) &&
              gather(w, f, group, e) && pack(w, f, group, e);
    mem_free(memory, f->ends, f->cap * sizeof *f->ends);
    buf_release(&f->news);
    if (!ok) wal_next_run(w);
    return ok;
}

static void note_put(struct wal *w, uint64_t since_mono_ns)
{
    lock_take(&w->lock);
    w->put_mono_ns = since_mono_ns;
    lock_give(&w->lock);
}

// Puts the object in doubt once, and counts it in the metrics.
enum object_log_put objects_put(struct wal *w, err *e)
{
    struct req r;
    struct object_log_writer *x = &w->objects->writer;
    uint64_t began = clock_mono_ns();
    size_t bytes = x->bytes.n;
    // Faults that tests set here look like those of a store: before the put, and after it landed.
    if (FAULT_ERRNO("wal.write.before")) {
        err_set(e, ERR_UNAVAILABLE, "log: put: %m");
        return OBJECT_LOG_UNKNOWN;
    }
    note_put(w, began);
    objects_req(w, &r, PUT_NS);
    enum object_log_put what = object_log_put(x, &r, e);
    req_release(&r);
    note_put(w, 0);
    metric_add(&ingester_log_puts, 1);
    if (what != OBJECT_LOG_LANDED) return what;
    metric_observe_ns(&ingester_log_put, clock_mono_ns() - began);
    metric_add(&ingester_log_objects, 1);
    metric_add(&ingester_log_object_bytes, bytes);
    return what;
}

// The object that landed last is the newest of its cut. With w->lock.
void objects_note_landed(struct wal *w, struct cut *c)
{
    const struct object_log_writer *x = &w->objects->writer;
    struct owned *s = find_owned(w, x->stream);
    uint64_t number = x->number - 1;
    assert(s && number > 0);
    if (c->first_object == 0) c->first_object = number;
    c->last_object = number;
    if (object_log_may_return(x)) c->until_boot_ns = w->options.boot_ns() + OBJECT_LOG_LATE_NS;
    s->told = x->told;
}

// Takes the callers behind `last` out of the group.
static void cut_group(struct waiter *last, struct waiter **rest)
{
    *rest = last->next;
    last->next = NULL;
    for (struct waiter *x = *rest; x; x = x->next)
        forget_news(x);
}

// Ends the stream of the writer. *is_there: an object was in doubt, and is in the log after all.
static bool close_stream(struct wal *w, uint64_t limit_ns, bool *is_there, err *e)
{
    struct wal_objects *o = w->objects;
    struct req r;
    objects_req(w, &r, limit_ns);
    bool ok = object_log_close(&o->writer, &r, &o->sealer, is_there, e);
    req_release(&r);
    if (!ok) o->doubt.unsure = true;
    return ok;
}

static void note_refusal(struct wal_objects *o, const err *why)
{
    o->doubt.refused = true;
    snprintf(o->doubt.why, sizeof o->doubt.why, "%s", why->msg);
}

// The object in doubt is refused for good; *e says why. A seal in its place decides whether it is
// in the log. False, and the log is broken: it cannot be sealed, or the object is there.
static bool end_refused(struct wal *w, err *e)
{
    struct wal_objects *o = w->objects;
    bool is_there = false;
    size_t n = o->writer.bytes.n;
    note_refusal(o, e);
    if (!close_stream(w, PUT_NS, &is_there, e)) return false;
    if (is_there) {
        lock_take(&w->lock);
        objects_note_landed(w, w->open);
        lock_give(&w->lock);
        o->doubt.landed = true;
        return err_wrap(e, "log: the object was refused, and is there all the same");
    }
    objects_note_refused(w, n, o->doubt.why);
    return true;
}

// The first of the group cannot be stored even alone. The others have nothing to do with it.
static bool refuse_first(struct wal *w, struct waiter *group, size_t n, struct waiter **rest,
                         err *e)
{
    cut_group(group, rest);
    wal_next_run(w);
    return objects_refuse(w, n, e);
}

static void note_doubt(struct wal *w, const struct filling *f)
{
    w->objects->doubt = (struct doubt){.cut = w->open,
                                       .first_seq = w->next_seq,
                                       .last_seq = f->last->place.last_seq,
                                       .rows = f->rows};
}

// Nobody knows whether the object in doubt landed. A seal decides it, if the store takes one.
// False: it does not, or the object is in the log; *e stays as it is.
static bool end_unknown(struct wal *w)
{
    struct wal_objects *o = w->objects;
    err why = {0};
    bool is_there = false;
    size_t n = o->writer.bytes.n;
    bool closed = close_stream(w, SEAL_NS, &is_there, &why);
    o->doubt.unsure = false;  // the store may be away: whatever it refuses later is another matter
    if (!closed) return false;
    if (is_there) {
        lock_take(&w->lock);
        objects_note_landed(w, w->open);
        lock_give(&w->lock);
        o->doubt.landed = true;
        return false;
    }
    objects_note_slow(w, n);
    return true;
}

// The object was put, and it is not in the log now. True: the next stream is begun, where the group
// comes first. Otherwise the log is broken.
static bool go_on_after(struct wal *w, enum object_log_put what, size_t bytes, err *e)
{
    err why = *e;
    if (what == OBJECT_LOG_TWICE) w->objects->lost = true;
    bool over = what == OBJECT_LOG_OVER || (what == OBJECT_LOG_REFUSED && end_refused(w, e)) ||
                (what == OBJECT_LOG_UNKNOWN && end_unknown(w));
    if (over && next_stream(w, e) && wal_need_cut(w, bytes, e)) {
        *e = why;
        return true;
    }
    e->code = ERR_UNAVAILABLE;  // whatever the store said is not about the push
    return false;
}

// The first of the group, up to `last`, were in an object that failed. They are put off, and the
// others go on.
static bool put_off(struct wal *w, struct waiter *last, struct waiter **rest, err *e)
{
    bool of_store = e->code == ERR_UNAVAILABLE || e->code == ERR_DEADLINE_EXCEEDED;
    cut_group(last, rest);
    wal_next_run(w);
    if (of_store) e->code = ERR_ABORTED;  // another ingester has the same store
    return false;
}

// An object that nobody tries now. True: with fewer callers it may be another matter.
static bool try_fewer(struct wal *w, struct filling *f)
{
    object_log_unfill(&w->objects->writer);
    wal_next_run(w);
    bool fewer = f->callers > 1;
    f->callers_max = (f->callers + 3) / 4;
    return fewer;
}

// An object of n bytes has landed.
static bool note_written(struct wal *w, size_t n, err *e)
{
    objects_note_taken(w, n);
    note_use(w);
    lock_take(&w->lock);
    objects_note_landed(w, w->open);
    lock_give(&w->lock);
    if (!FAULT_ERRNO("wal.sync.after")) return true;
    w->objects->doubt.landed = true;
    return err_set(e, ERR_UNAVAILABLE, "log: put: %m");
}

// After a creation of n bytes of which nobody knows whether it landed. `alone`: the object was that
// of one caller, so with fewer it cannot be tried.
static bool is_put_off(struct wal *w, size_t n, bool alone, uint64_t until, const err *e)
{
    if (alone && e->code != ERR_RESOURCE_EXHAUSTED) objects_note_failed(w, n);
    return alone || clock_mono_ns() > until;
}

static bool objects_write(struct wal *w, struct waiter *group, size_t bytes, struct waiter **rest,
                          bool *broken, err *e)
{
    struct wal_objects *o = w->objects;
    struct filling f = {0};
    uint64_t until = clock_mono_ns() + GROUP_NS;
    size_t n = 0;
    for (;;) {
        if (!fill(w, group, &f, e)) return false;
        n = o->writer.bytes.n;
        if (n > o->size.most) {
            object_log_unfill(&o->writer);
            return refuse_first(w, group, n, rest, e);
        }
        if (!objects_try(w, n, e)) {
            if (try_fewer(w, &f)) continue;
            return put_off(w, group, rest, e);
        }
        note_doubt(w, &f);
        enum object_log_put what = objects_put(w, e);
        if (what == OBJECT_LOG_LANDED) break;
        bool alone = f.last == group;
        *broken = !go_on_after(w, what, bytes, e);
        if (*broken) return false;
        if (what == OBJECT_LOG_REFUSED && alone) return refuse_first(w, group, n, rest, e);
        if (what != OBJECT_LOG_UNKNOWN) continue;
        if (is_put_off(w, n, alone, until, e)) return put_off(w, f.last, rest, e);
        f.callers_max = (f.callers + 3) / 4;
    }
    *broken = !note_written(w, n, e);
    if (*broken) return false;
    cut_group(f.last, rest);
    return true;
}

// ---- after a failed write

// The object in doubt is in the log: its entries are read from there.
static void take_in(struct wal *w)
{
    struct wal_objects *o = w->objects;
    struct cut *c = o->doubt.cut;
    lock_take(&w->lock);
    if (!o->doubt.landed) objects_note_landed(w, c);
    if (c->first_seq == 0) c->first_seq = o->doubt.first_seq;
    c->last_seq = MAX(c->last_seq, o->doubt.last_seq);
    c->rows = o->doubt.rows;
    wal_note_seq(w, c->stream, c->last_seq);
    lock_give(&w->lock);
    o->doubt = (struct doubt){0};
}

// Puts the object in doubt once more, unless it was refused. False: its name is somebody else's. If
// nobody knows still what became of it, the seal decides that.
static bool put_again(struct wal *w, bool *is_there, bool *unknown, err *e)
{
    struct wal_objects *o = w->objects;
    *unknown = false;
    if (o->doubt.refused) return true;
    enum object_log_put what = objects_put(w, e);
    *is_there = what == OBJECT_LOG_LANDED;
    *unknown = what == OBJECT_LOG_UNKNOWN;
    o->lost = what == OBJECT_LOG_TWICE;
    if (what == OBJECT_LOG_REFUSED) note_refusal(o, e);
    return !o->lost;
}

// Finds out what became of the object in doubt, and ends the stream.
static bool settle(struct wal *w, err *e)
{
    struct wal_objects *o = w->objects;
    bool is_there = false;
    if (o->lost) {
        char text[LOG_QUOTE_MAX];
        log_error(NULL, "log.name_used_twice", "fault=%s then=\"%s\"",
                  log_quote(text, str_of(w->fault.msg)), "the stream is given up");
        o->lost = false;
        o->doubt = (struct doubt){0};
        object_log_unfill(&o->writer);
        return true;
    }
    size_t n = o->writer.bytes.n;
    bool unknown = false;
    err fault = {0};
    if (n > 0 && !o->writer.over && !put_again(w, &is_there, &unknown, &fault)) {
        *e = fault;
        return false;
    }
    if ((is_there || o->doubt.landed) && o->doubt.cut) take_in(w);
    if (o->writer.over) return true;
    if (!close_stream(w, unknown ? SEAL_NS : PUT_NS, &is_there, e)) {
        if (!unknown) return false;
        o->doubt.unsure = false;
        *e = fault;
        return false;
    }
    if (is_there && o->doubt.cut) take_in(w);
    // Otherwise it is not in the log, and never will be.
    bool lost = n > 0 && o->writer.bytes.n > 0;
    if (lost && o->doubt.refused && !o->doubt.unsure) objects_note_refused(w, n, o->doubt.why);
    if (lost && !o->doubt.refused) objects_note_slow(w, n);
    return true;
}

static void forget_streams(struct wal *w)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->stream_count; i++) {
        struct wal_stream s = w->streams[i];
        bool held = false;
        for (size_t k = 0; k < w->cut_count; k++)
            held = held || id128_eq(w->cuts[k]->stream, s.id);
        s.state = "unchecked";
        if (held) w->streams[kept++] = s;
    }
    w->stream_count = kept;
}

static bool objects_load(struct wal *w, bool first, err *e)
{
    if (first) return objects_open(w, e);
    struct wal_objects *o = w->objects;
    if (o->writer.number > 0 && !settle(w, e)) return false;
    lock_take(&w->lock);
    objects_note_end(w, o->writer.stream, o->writer.over);
    wal_forget_empty(w);
    forget_streams(w);
    lock_give(&w->lock);
    return true;
}

static void objects_unload(struct wal *w)
{
    assert(w->led || wal_state(w) != WAL_OPEN);  // there is nothing to be closed but memory
}

// ---- cuts

static void objects_mark(struct wal *w)
{
    assert(w->objects);  // a later process learns from the objects how far the log goes
}

static bool objects_make_cut(struct wal *w, struct cut *c, err *e)
{
    assert(w->objects && c->number > 0);
    return !FAULT_ERRNO("wal.cut.open") || err_set(e, ERR_UNAVAILABLE, "log: open cut: %m");
}

// Where a cut ends is known from the object that follows.
static bool objects_close_cut(struct wal *w, struct cut *c, err *e)
{
    assert(w->objects && c->closed);
    return !FAULT_ERRNO("wal.cut.close.after") || err_set(e, ERR_UNAVAILABLE, "log: close: %m");
}

static bool objects_note_times(struct wal *w, err *e)
{
    (void)e;
    assert(w->objects);  // the times of a cut are in its objects, and stay
    return true;
}

static void objects_note_loss(struct wal *w, id128 stream)
{
    (void)stream;
    assert(w->objects);  // damage stays in the store, where the next process meets it
}

// A stream that has entries and is idle ends here, so that the next push need not wait for that.
static bool objects_tick(struct wal *w, err *e)
{
    return !is_idle(w) || w->objects->writer.number == 1 || next_stream(w, e);
}

// ---- reading back

struct objects_scan {
    struct scan *scan;
    err why;  // an object could not be read, though it should be there
};

static bool read_object(void *arg, const struct log_object *o, err *e)
{
    struct scan *s = ((struct objects_scan *)arg)->scan;
    struct log_object_entry x;
    str rest = o->entries;
    while (log_object_next(&rest, &x)) {
        char key[8];
        key_print(x.seq, key);
        if (!scan_entry(s, str_make(key, sizeof key), x.bytes, e)) return false;
    }
    return true;
}

// The next object, or the end of the cut, shows the gap.
static void note_damaged_object(void *arg, const err *why)
{
    struct objects_scan *s = arg;
    scan_note_damage(s->scan, why);
    if (s->why.code == ERR_OK) s->why = *why;
}

static bool objects_scan(struct scan *s, err *e)
{
    struct wal *w = scan_wal(s);
    const struct cut *c = scan_cut(s);
    const struct object_log_cut cut = {.cut = c->number,
                                       .first = c->first_object,
                                       .last = c->last_object,
                                       .whole = true};
    struct objects_scan reading = {.scan = s};
    const struct object_log_reader to = {read_object, note_damaged_object, &reading};
    struct req r;
    bool covered = false;
    objects_req(w, &r, OBJECTS_READ_NS);
    lock_take(&w->lock);
    r.asker = c->adopted ? w->objects->asker : NULL;
    lock_give(&w->lock);
    bool ok = object_log_read(w->options.store, &r, c->stream, &cut, &to, &covered, e);
    req_release(&r);
    if (covered) scan_vanished(s);
    if (ok && !covered && c->picky && reading.why.code != ERR_OK) {
        *e = reading.why;
        ok = false;
    }
    return ok || err_wrap(e, "log");
}

const struct wal_home wal_in_store = {
    .group_bytes = OBJECT_BYTES,
    .load = objects_load,
    .find = objects_find,
    .unload = objects_unload,
    .has_room = objects_room,
    .begin = objects_begin,
    .go_over = objects_go_over,
    .unfinished = objects_unfinished,
    .write = objects_write,
    .mark = objects_mark,
    .make_cut = objects_make_cut,
    .close_cut = objects_close_cut,
    .note_times = objects_note_times,
    .note_loss = objects_note_loss,
    .tick = objects_tick,
    .tidy = objects_tidy,
    .end = objects_tidy,
    .drop_cut = objects_drop_cut,
    .dropped = objects_dropped,
    .scan = objects_scan,
};
