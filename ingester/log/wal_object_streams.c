// SPDX-License-Identifier: Apache-2.0
//
// wal_object_streams.c - the streams of a log in the object store: which there are, what earlier
// processes left in them, and when they are gone.
//
// A process knows its streams by the file STREAMS in the log's directory: a line for each, its
// ULID, and behind that "covered" once nothing in it is needed. A stream is noted there before
// anything in it is acknowledged, and taken out when only its seal is left.
//
// The file is only there for speed, so that a disk that is full or fails stops nothing. Streams are
// registered in the store as well (roll.h), which is what counts:
//
//     a stream is not in the file     the next process of this node adopts it, as it does if its
//                                     disk was wiped (adopt.h)
//     one is, and is gone             it is found without cuts, and taken out
//     one is, without "covered"       its cuts are read, and are found in the store by the flush
//     the file cannot be read         as if it were not there
//
// At the start, for each stream in the file:
//
//     1. It is sealed, whoever wrote it: that process has ended, but something that it sent may
//        still be on its way.
//     2. Its objects are looked at. Whole cuts become cuts of this log, which are read into the
//        head and flushed; what is left of others is deleted.
//
// A damaged object is told, and the rest of its stream is read. A stream whose objects do not
// follow each other, or are of a later format, stays as it is, in the store and in the file; a line
// of the process log says so.
//
// Once a second (objects_tidy), on the duty thread:
//
//     1. Streams that have ended and are not sealed are sealed.
//     2. Cuts that lack entries, and that the head has dropped, are copied (object_log_keep).
//     3. Of the open stream, objects of covered cuts are deleted as far as its newest object tells.
//     4. One that has ended is covered when the head has dropped all its cuts. Then its
//        registration goes (objects_unfinished), and after that its objects are cleared away.
//     5. Streams of which only the seal is left are forgotten.
//     6. If the file could not be written, it is tried again.
//     7. If objects are smaller than they were, it is tried from time to time whether that is still
//        needed (wal_object_size.c).
//
// What fails there is tried again a second later.
#include "base/fault.h"
#include "ingester/log/wal_object_int.h"
#include "ingester/metrics.h"
#include "sys/clock.h"
#include "sys/file.h"
#include "sys/log.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#define FILE_MAX ((size_t)1 << 20)
#define TIDY_NS  ((uint64_t)(10 * NS_PER_S))
#define END_NS   ((uint64_t)(3 * NS_PER_S))  // of one step at the end of the process

// ---- the file

static void streams_path(const struct wal *w, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/STREAMS", w->options.dir);
}

static void tell_noted(bool ok, const err *e)
{
    char text[LOG_QUOTE_MAX];
    if (ok) log_info(NULL, "log.streams_noted", "after=\"it had failed\"");
    if (ok) return;
    log_warn(NULL, "log.streams_unnoted", "fault=%s then=\"%s\"", log_quote(text, str_of(e->msg)),
             "pushes go on; after a restart these streams are adopted out of the store");
}

void objects_note_streams(struct wal *w)
{
    struct wal_objects *o = w->objects;
    struct buf text;
    err e = {0};
    char path[PATH_MAX];
    buf_init(&text, NULL, FILE_MAX);
    lock_take(&w->lock);
    for (size_t i = 0; i < o->stream_count; i++) {
        char id[ULID_TEXT];
        if (o->streams[i].adopted) continue;
        ulid_print(o->streams[i].id, id);
        buf_printf(&text, "%s%s\n", id, o->streams[i].covered ? " covered" : "");
    }
    lock_give(&w->lock);
    streams_path(w, path);
    bool ok = buf_ok(&text, &e) && file_write(path, buf_view(&text), &e);
    FAULT("wal.object.noted");
    buf_release(&text);
    lock_take(&w->lock);
    bool changed = o->unnoted == ok;
    o->unnoted = !ok;
    lock_give(&w->lock);
    if (changed) tell_noted(ok, &e);
}

static bool read_line(struct wal_objects *o, str line, err *e)
{
    str rest = {0};
    struct owned s = {.ended = true, .old = true};
    str id = str_split(line, ' ', &rest);
    if (!ulid_parse(id, &s.id, e)) return false;
    s.covered = str_is(rest, "covered");
    if (!mem_grow(NULL, &o->streams, &o->stream_cap, o->stream_count + 1, sizeof s, e))
        return false;
    o->streams[o->stream_count++] = s;
    return true;
}

static bool read_streams(struct wal *w, err *e)
{
    struct buf text;
    err why = {0};
    char path[PATH_MAX];
    streams_path(w, path);
    if (!file_exists(path)) return true;
    buf_init(&text, NULL, FILE_MAX);
    bool ok = file_read(path, &text, &why);
    str rest = buf_view(&text);
    while (ok && rest.p && rest.n) {
        str line = str_split(rest, '\n', &rest);
        if (line.n) ok = read_line(w->objects, line, &why);
    }
    buf_release(&text);
    if (ok) return true;
    if (why.code == ERR_RESOURCE_EXHAUSTED) {
        *e = why;
        return err_wrap(e, "log: %s", path);
    }
    char quoted[LOG_QUOTE_MAX];
    log_warn(NULL, "log.streams_unread", "file=STREAMS fault=%s then=\"%s\"",
             log_quote(quoted, str_of(why.msg)),
             "the streams of the process before are adopted out of the store");
    w->objects->stream_count = 0;
    return true;
}

// ---- what earlier processes left

static bool add_gone(struct wal *w, id128 stream, const struct object_log_place *p, err *e)
{
    struct wal_objects *o = w->objects;
    size_t at = o->gone_count;
    assert(lock_is_mine(&w->lock));
    if (!mem_grow(NULL, &o->gone, &o->gone_cap, o->gone_count + 1, sizeof *o->gone, e))
        return false;
    while (at > 0) {
        const struct gone *g = &o->gone[at - 1];
        int order = memcmp(g->stream.b, stream.b, sizeof stream.b);
        if (order < 0 || (order == 0 && g->place.cut < p->cut)) break;
        o->gone[at] = o->gone[at - 1];
        at--;
    }
    o->gone[at] = (struct gone){.stream = stream, .place = *p};
    o->gone_count++;
    return true;
}

static void describe(struct wal *w, struct cut *c, const struct object_log_cut *found)
{
    int64_t now = w->options.wall_ns();
    int64_t boot = w->options.boot_ns();
    c->first_seq = found->first_seq;
    c->last_seq = found->last_seq;
    c->bytes = found->bytes;
    c->rows = ROWS_UNKNOWN;
    c->opened_wall_ns = found->opened_ns;
    c->newest_wall_ns = MIN(found->newest_ns, now);
    c->found_wall_ns = now;
    c->found_boot_ns = boot;
    c->newest_boot_ns = boot - MAX(now - c->newest_wall_ns, 0);
    c->closed = true;
    c->first_object = found->first;
    c->last_object = found->last;
    c->until_boot_ns = boot + OBJECT_LOG_LATE_NS;  // how often they were put, nobody knows
}

static bool take_cut(struct wal *w, const struct owned *s, const struct object_log_cut *found,
                     err *e)
{
    struct object_log_place place = {.cut = found->cut,
                                     .first = found->first,
                                     .last = found->last,
                                     .damaged = found->damaged && !s->covered,
                                     .until_boot_ns = w->options.boot_ns() + OBJECT_LOG_LATE_NS};
    if (!found->whole || s->covered) {
        lock_take(&w->lock);
        bool ok = add_gone(w, s->id, &place, e);
        lock_give(&w->lock);
        return ok;
    }
    if (!s->adopted && !wal_make_room(w, e)) return false;  // of a row for the stream
    struct cut *c = cut_new(s->id, found->cut, e);
    if (!c) return false;
    describe(w, c, found);
    c->adopted = s->adopted;
    atomic_store(&c->hidden, s->adopted != 0);
    lock_take(&w->lock);
    // While the log is read anew nobody adds cuts. An adopted stream is in no table of streams: the
    // last one there is the open one. The room for one cut more is that of a leader, who has made
    // sure of it and is about to take it (wal_need_cut).
    bool ok =
        (!s->adopted || wal_admits(w, e)) &&
        mem_grow(NULL, (void *)&w->cuts, &w->cut_cap, w->cut_count + 2, sizeof(struct cut *), e);
    if (ok) {
        wal_add_cut(w, c);
        w->bytes += c->bytes;
        if (!s->adopted) wal_note_seq(w, c->stream, c->last_seq);
    }
    lock_give(&w->lock);
    if (!ok) cut_free(c);
    return ok;
}

// Entries of cuts that can be read are counted when these are read (wal_read.c).
static void tell_damaged_objects(struct wal *w, id128 id, const struct object_log_survey *survey)
{
    char stream[ULID_TEXT];
    char text[LOG_QUOTE_MAX];
    ulid_print(id, stream);
    log_error(NULL, "log.object_damaged",
              "stream=%s objects=%zu lost=%zu first=%" PRIu64 " fault=%s then=\"%s\"", stream,
              survey->damaged, survey->lost, survey->bad, log_quote(text, str_of(survey->why.msg)),
              "the rest of the stream is served and flushed, and answers name it for an hour; its "
              "cut is copied to v1/damaged/ before it goes");
    metric_add(&ingester_log_damaged_objects, survey->damaged);
    metric_add(&ingester_log_lost_entries, survey->cutless);
    metric_add(&ingester_log_lost_profiles, survey->cutless);
    lock_take(&w->lock);
    w->lost_entries += survey->cutless;
    w->lost_rows += survey->cutless;
    if (survey->cutless) wal_note_loss(w, id, w->options.boot_ns());
    lock_give(&w->lock);
}

// Whether this node has put the seal, in this process or in an earlier one. One that is gone or
// damaged may be anybody's.
static bool is_own_seal(struct wal *w, id128 stream, uint64_t number, struct req *r)
{
    struct buf bytes;
    struct log_object o;
    err why = {0};
    buf_init(&bytes, w->options.memory, SIZE_MAX);
    bool own = object_log_get(w->options.store, r, stream, number, &bytes, &o, &why) &&
               o.head.seal && str_eq(o.head.node, w->objects->sealer.node);
    buf_release(&bytes);
    return own;
}

bool wal_was_taken_over(struct wal *w)
{
    return w->objects && w->objects->taken_over;
}

static bool take_survey(struct wal *w, struct owned *s, bool damaged,
                        const struct object_log_survey *survey, err *e)
{
    if (survey->damaged && !damaged) {
        *e = survey->why;
        return false;
    }
    for (size_t i = 0; i < survey->n; i++)
        if (!take_cut(w, s, &survey->cuts[i], e)) return false;
    s->found = true;
    if (survey->damaged && !s->covered) tell_damaged_objects(w, s->id, survey);
    return true;
}

bool objects_find_stream(struct wal *w, struct owned *s, bool damaged, struct req *r, err *e)
{
    struct store *store = w->options.store;
    struct object_log_survey survey;
    uint64_t number = 0;
    if (!object_log_seal(store, r, s->id, &w->objects->sealer, &number, e)) return false;
    FAULT("wal.object.sealed");
    s->sealed = true;
    if (!s->adopted && !s->covered && !is_own_seal(w, s->id, number, r))
        w->objects->taken_over = true;
    bool ok = object_log_look(store, r, s->id, number, &survey, e) &&
              take_survey(w, s, damaged, &survey, e);
    object_log_survey_release(&survey);
    return ok;
}

static void tell_unread(struct wal *w, const struct owned *s, const err *why)
{
    char stream[ULID_TEXT];
    char text[LOG_QUOTE_MAX];
    ulid_print(s->id, stream);
    log_error(NULL, "log.stream_unread", "stream=%s fault=%s then=\"%s\"", stream,
              log_quote(text, str_of(why->msg)), "it stays as it is, and answers miss it");
    lock_take(&w->lock);
    wal_note_loss(w, s->id, w->options.boot_ns());
    lock_give(&w->lock);
}

bool objects_open(struct wal *w, err *e)
{
    w->objects = mem_alloc(NULL, sizeof *w->objects, e);
    if (!w->objects) return false;
    objects_init_size(w);
    w->objects->sealer = (struct object_log_sealer){.node = str_of(w->options.owner),
                                                    .nonce = objects_nonce(),
                                                    .wall_ns = w->options.wall_ns()};
    return read_streams(w, e);
}

void wal_give_up(struct wal *w, id128 stream)
{
    struct wal_objects *o = w->objects;
    lock_take(&w->lock);
    for (size_t i = 0; o && i < o->stream_count; i++)
        if (id128_eq(o->streams[i].id, stream) && !o->streams[i].found)
            o->streams[i].covered = true;
    lock_give(&w->lock);
}

void objects_forget_half(struct wal *w, id128 stream)
{
    struct wal_objects *o = w->objects;
    size_t kept = 0;
    lock_take(&w->lock);
    for (size_t i = 0; i < w->cut_count; i++) {
        struct cut *c = w->cuts[i];
        if (!id128_eq(c->stream, stream)) {
            w->cuts[kept++] = c;
            continue;
        }
        w->bytes -= c->bytes;
        cut_free(c);
    }
    w->cut_count = kept;
    kept = 0;
    for (size_t i = 0; i < o->gone_count; i++)
        if (!id128_eq(o->gone[i].stream, stream)) o->gone[kept++] = o->gone[i];
    o->gone_count = kept;
    lock_give(&w->lock);
}

// A copy of a stream that is to be found; false: there is none.
static bool next_unfound(struct wal *w, struct owned *s)
{
    const struct wal_objects *o = w->objects;
    bool is = false;
    lock_take(&w->lock);
    for (size_t i = 0; i < o->stream_count && !is; i++) {
        *s = o->streams[i];
        is = s->old && !s->found && !s->unread && !s->adopted;
    }
    lock_give(&w->lock);
    return is;
}

static void note_found(struct wal *w, const struct owned *s)
{
    struct wal_objects *o = w->objects;
    lock_take(&w->lock);
    for (size_t i = 0; i < o->stream_count; i++)
        if (id128_eq(o->streams[i].id, s->id)) o->streams[i] = *s;
    lock_give(&w->lock);
}

bool objects_find(struct wal *w, err *e)
{
    struct owned s;
    while (next_unfound(w, &s)) {
        struct req r;
        err why = {0};
        objects_req(w, &r, OBJECTS_READ_NS);
        bool ok = objects_find_stream(w, &s, true, &r, &why);
        req_release(&r);
        // If it was found by half, because memory was short, it is found again.
        if (!ok) objects_forget_half(w, s.id);
        if (!ok && why.code != ERR_DATA_LOSS) {
            *e = why;
            return err_wrap(e, "log of an earlier process");
        }
        s.unread = !ok;
        if (!ok) tell_unread(w, &s, &why);
        note_found(w, &s);
    }
    return true;
}

void objects_free(struct wal *w)
{
    struct wal_objects *o = w->objects;
    if (!o) return;
    object_log_release(&o->writer);
    mem_free(NULL, o->streams, o->stream_cap * sizeof *o->streams);
    mem_free(NULL, o->gone, o->gone_cap * sizeof *o->gone);
    mem_free(NULL, o, sizeof *o);
    w->objects = NULL;
}

// ---- dropping

bool objects_drop_cut(struct wal *w, struct cut *c, err *e)
{
    struct object_log_place p = {.cut = c->number,
                                 .first = c->first_object,
                                 .last = c->last_object,
                                 .damaged = c->lost_entries > 0,
                                 .until_boot_ns = c->until_boot_ns};
    assert(c->first_object > 0 && c->first_object <= c->last_object);
    lock_take(&w->lock);
    bool ok = add_gone(w, c->stream, &p, e);
    lock_give(&w->lock);
    return ok;
}

void objects_dropped(struct wal *w, id128 stream, uint64_t number, bool stream_too)
{
    assert(w->objects && number > 0);  // the next tidying deletes its objects
    (void)stream;
    (void)stream_too;
}

// One that is covered has nothing but objects to be deleted. One that cannot be read is told as
// damage, and has no end.
bool objects_unfinished(const struct wal *w, size_t i, struct wal_served *out)
{
    const struct wal_objects *o = w->objects;
    size_t at = 0;
    assert(lock_is_mine(&w->lock));
    for (size_t k = 0; k < o->stream_count; k++) {
        const struct owned *s = &o->streams[k];
        if (s->covered || s->unread || s->reading) continue;
        if (at++ < i) continue;
        *out = (struct wal_served){.stream = s->id,
                                   .adopted = s->adopted,
                                   .former = s->old || s->adopted};
        return true;
    }
    return false;
}

// ---- tidying. Only the duty thread does it, and one thread at a time ends a log.

static void tell(const char *what, id128 id, const err *e)
{
    char stream[ULID_TEXT];
    char text[LOG_QUOTE_MAX];
    ulid_print(id, stream);
    log_warn(NULL, "log.tidy_failed", "what=\"%s\" stream=%s fault=%s", what, stream,
             log_quote(text, str_of(e->msg)));
}

// A copy of the i-th stream; false: there are not so many.
static bool stream_at(struct wal *w, size_t i, struct owned *s)
{
    lock_take(&w->lock);
    bool is = i < w->objects->stream_count;
    if (is) *s = w->objects->streams[i];
    lock_give(&w->lock);
    return is;
}

static bool seal_ended(struct wal *w, struct owned *s, uint64_t limit_ns)
{
    struct req r;
    err e = {0};
    uint64_t number = 0;
    struct object_log_sealer by = w->objects->sealer;
    by.told = &s->told;
    objects_req(w, &r, limit_ns);
    bool ok = object_log_seal(w->options.store, &r, s->id, &by, &number, &e);
    req_release(&r);
    if (!ok) tell("seal", s->id, &e);
    lock_take(&w->lock);
    objects_note_end(w, s->id, ok);
    lock_give(&w->lock);
    s->sealed = ok;
    return ok;
}

// The cuts of a stream that the head has dropped; those that may go are marked as covered: up to
// the first that the head still has. `held`: there is such a one. s->told becomes that of this
// moment.
static bool collect(struct wal *w, struct owned *s, struct object_log_shelf *shelf, bool *held,
                    err *e)
{
    const struct wal_objects *o = w->objects;
    uint64_t first_held = UINT64_MAX;
    bool ok = true;
    lock_take(&w->lock);
    for (size_t i = 0; i < o->stream_count; i++)
        if (id128_eq(o->streams[i].id, s->id)) s->told = o->streams[i].told;
    for (size_t i = 0; i < w->cut_count; i++)
        if (id128_eq(w->cuts[i]->stream, s->id)) first_held = MIN(first_held, w->cuts[i]->number);
    for (size_t i = 0; ok && i < o->gone_count; i++) {
        const struct gone *g = &o->gone[i];
        if (!id128_eq(g->stream, s->id)) continue;
        ok = object_log_shelf_room(shelf, e);
        if (ok) shelf->v[shelf->n++] = g->place;
        if (ok) shelf->v[shelf->n - 1].covered = g->place.cut < first_held;
    }
    lock_give(&w->lock);
    *held = first_held != UINT64_MAX;
    return ok;
}

// Puts back what is left of the cuts that were collected. Others may have come meanwhile.
static void put_back(struct wal *w, id128 stream, const struct object_log_shelf *shelf,
                     uint64_t last)
{
    struct wal_objects *o = w->objects;
    size_t kept = 0;
    size_t at = 0;
    lock_take(&w->lock);
    for (size_t i = 0; i < o->gone_count; i++) {
        struct gone g = o->gone[i];
        if (id128_eq(g.stream, stream) && g.place.cut <= last) {
            while (at < shelf->n && shelf->v[at].cut < g.place.cut)
                at++;
            if (at == shelf->n || shelf->v[at].cut != g.place.cut) continue;
            g.place = shelf->v[at];
        }
        o->gone[kept++] = g;
    }
    o->gone_count = kept;
    lock_give(&w->lock);
}

static bool keep_damaged(struct wal *w, id128 id, struct object_log_shelf *shelf, struct req *r,
                         err *e)
{
    uint64_t kept = 0;
    bool ok = object_log_keep(shelf, w->options.store, r, id, &kept, e);
    char stream[ULID_TEXT];
    ulid_print(id, stream);
    if (kept)
        log_warn(NULL, "log.damaged_kept", "objects=%" PRIu64 " below=v1/damaged/%s/", kept,
                 stream);
    return ok;
}

// Of a stream that is covered nothing stays but its seal, once its registration is gone. *empty:
// that is so.
static bool clear_stream(struct wal *w, const struct owned *s, struct object_log_shelf *shelf,
                         struct req *r, bool *empty, err *e)
{
    uint64_t removed = 0;
    for (size_t i = 0; i < shelf->n; i++)
        if (w->options.boot_ns() < shelf->v[i].until_boot_ns) return true;
    if (!object_log_clear(w->options.store, r, s->id, clock_mono_ns() + OBJECTS_CLEAR_NS, &removed,
                          empty, e))
        return false;
    if (*empty) shelf->n = 0;
    return true;
}

// *covered: nothing of the stream is needed. *empty: only its seal is left.
static bool trim_stream(struct wal *w, struct owned *s, uint64_t limit_ns, bool *covered,
                        bool *empty)
{
    struct object_log_shelf shelf = {0};
    struct req r;
    err e = {0};
    bool held = true;
    *covered = *empty = false;
    bool ok = collect(w, s, &shelf, &held, &e);
    bool over = s->ended && s->sealed;
    bool any = shelf.n > 0;
    uint64_t last = any ? shelf.v[shelf.n - 1].cut : 0;
    objects_req(w, &r, limit_ns);
    ok = ok && keep_damaged(w, s->id, &shelf, &r, &e);
    *covered = ok && !held && over;
    if (ok && !s->ended)
        ok = object_log_trim(&shelf, w->options.store, &r, s->id, &s->told, w->options.boot_ns(),
                             &e);
    // It is noted as covered before that, and its registration goes then.
    if (*covered && s->covered) ok = clear_stream(w, s, &shelf, &r, empty, &e);
    req_release(&r);
    if (any) FAULT("wal.object.deleted");
    if (any) put_back(w, s->id, &shelf, last);
    if (!ok) tell("delete", s->id, &e);
    object_log_shelf_release(&shelf);
    return ok;
}

// Takes a stream out of the file, or notes there that it is covered.
static void note_covered(struct wal *w, id128 id, bool is_gone)
{
    struct wal_objects *o = w->objects;
    bool known = false;
    bool leads = wal_state(w) == WAL_OPEN;
    if (leads) wal_take_lead(w);
    lock_take(&w->lock);
    for (size_t i = 0; i < o->stream_count; i++) {
        if (!id128_eq(o->streams[i].id, id)) continue;
        known = o->streams[i].covered && !is_gone;
        o->streams[i].covered = true;
        if (!is_gone) break;
        memmove(&o->streams[i], &o->streams[i + 1],
                (o->stream_count - i - 1) * sizeof o->streams[0]);
        o->stream_count--;
        break;
    }
    lock_give(&w->lock);
    if (!known) objects_note_streams(w);
    if (leads) wal_give_lead(w);
}

static void note_again(struct wal *w)
{
    bool leads = wal_state(w) == WAL_OPEN;
    lock_take(&w->lock);
    bool unnoted = w->objects->unnoted;
    lock_give(&w->lock);
    if (!unnoted) return;
    if (leads) wal_take_lead(w);
    objects_note_streams(w);
    if (leads) wal_give_lead(w);
}

// At the end of the process the open stream ends as well, and a store that fails is not waited for
// again and again.
void objects_tidy(struct wal *w)
{
    struct owned s;
    bool ok = true;
    bool ends = wal_state(w) == WAL_DRAINED;
    uint64_t limit_ns = ends ? END_NS : TIDY_NS;
    for (size_t i = 0; (ok || !ends) && stream_at(w, i, &s);) {
        bool covered = false;
        bool empty = false;
        // Else it may have cuts that nobody has seen.
        bool known = (!s.old || s.found) && !s.reading;
        s.ended = s.ended || ends;
        ok = !known || s.sealed || !s.ended || seal_ended(w, &s, limit_ns);
        ok = ok && (!known || trim_stream(w, &s, limit_ns, &covered, &empty));
        if (covered) note_covered(w, s.id, empty);
        i += !empty;
    }
    note_again(w);
    objects_try_larger(w);
}
