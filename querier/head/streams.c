// SPDX-License-Identifier: Apache-2.0
//
// streams.c - a list is immutable once it is there, and counts its users. The newest one is kept.
// Its streams that nobody answers for are in a table beside it (missed.h).
#include "querier/head/streams.h"

#include "base/ulid.h"
#include "manifest/registry.h"
#include "querier/head/missed.h"
#include "querier/metrics.h"
#include "sys/clock.h"
#include "sys/file.h"
#include "sys/lock.h"
#include "sys/log.h"

#include <limits.h>
#include <stdio.h>

#define FILE_MAX ((size_t)1 << 20)      // of MISSED_MAX streams
#define SLICE_NS ((uint64_t)100000000)  // a waiting request looks whether its asker is gone
#define NAP_NS   (50 * NS_PER_MS)       // a suspension that is shorter makes no list too old

struct listed {
    struct registered list;
    struct streams *of;
    unsigned users;  // with the newest list's own
    uint64_t began_mono_ns;
    int64_t asleep_ns;  // until then
};

struct streams {
    struct registry *registry;
    struct mem_budget *memory;
    struct lock lock;  // of the rest
    struct cond ended;
    struct listed *newest;  // NULL: none yet
    bool listing;
    struct missed_table missed;
    int64_t lost_after_ns;
    bool writing;  // the file is being written
    char *path;    // NULL: there is no file
    size_t path_bytes;
};

struct streams *streams_new(struct store *s, struct mem_budget *memory)
{
    struct streams *h = mem_must(sizeof *h);
    h->registry = registry_new(s, memory, "querier");
    h->memory = memory;
    missed_init(&h->missed);
    h->lost_after_ns = INT64_MAX;
    lock_init(&h->lock, LOCK_LISTED);
    cond_init(&h->ended);
    return h;
}

// Grows by the time for which the machine is suspended: the clock of time limits stands still then,
// and a list of before would seem new.
static int64_t asleep_ns(void)
{
    return clock_boot_ns() - (int64_t)clock_mono_ns();
}

static void give(struct listed *l)
{
    struct streams *s = l->of;
    lock_take(&s->lock);
    assert(l->users > 0);
    bool last = --l->users == 0;
    lock_give(&s->lock);
    if (!last) return;
    registered_release(&l->list);
    mem_free(s->memory, l, sizeof *l);
}

static void give_hook(void *arg)
{
    give(arg);
}

void streams_free(struct streams *s)
{
    if (!s) return;
    assert(!s->listing && !s->writing);
    streams_keep(s);
    if (s->newest) give(s->newest);
    cond_release(&s->ended);
    lock_release(&s->lock);
    registry_free(s->registry);
    missed_release(&s->missed);
    mem_must_free(s->path);
    mem_must_free(s);
}

// A list for which the asker had too little time is of no use to others: they would miss streams of
// which nothing is wrong. What was read of it is there for the next one.
static bool read_list(struct streams *s, struct req *r, struct registered *out, err *e)
{
    if (!registry_read(s->registry, r, s->memory, out, e)) return false;
    if (out->untried == 0) return true;
    if (!req_alive(r, e)) return false;
    return err_set(e, ERR_DEADLINE_EXCEEDED,
                   "list of registered streams: there was no time to read %zu of %zu registrations",
                   out->untried, out->n);
}

// Lists; the caller has set `listing`.
static bool list(struct streams *s, struct req *r, err *e)
{
    struct listed *l = mem_alloc(s->memory, sizeof *l, e);
    metric_add(&querier_stream_lists, 1);
    bool ok = l != NULL;
    if (ok) {
        *l = (struct listed){.of = s,
                             .users = 1,
                             .began_mono_ns = clock_mono_ns(),
                             .asleep_ns = asleep_ns()};
        ok = read_list(s, r, &l->list, e);
        if (!ok) registered_release(&l->list);
    }
    lock_take(&s->lock);
    struct listed *former = ok ? s->newest : NULL;
    if (ok) s->newest = l;
    if (ok) missed_prune(&s->missed, &l->list);
    if (ok) metric_set(&querier_lost_streams, (int64_t)missed_lost(&s->missed));
    s->listing = false;
    cond_wake_all(&s->ended);
    lock_give(&s->lock);
    if (former) give(former);
    if (!ok && l) mem_free(s->memory, l, sizeof *l);
    return ok;
}

// The newest list, held for the caller; NULL: there is none. With the lock.
static struct listed *hold(struct streams *s)
{
    if (s->newest) s->newest->users++;
    return s->newest;
}

static struct listed *hold_new(struct streams *s, uint64_t not_before)
{
    const struct listed *l = s->newest;
    if (!l || l->began_mono_ns < not_before || asleep_ns() - l->asleep_ns > NAP_NS) return NULL;
    return hold(s);
}

bool streams_take(struct streams *s, struct req *r, uint64_t not_before,
                  const struct registered **out, err *e)
{
    struct listed *l = NULL;
    bool ok = true;
    lock_take(&s->lock);
    while (ok && !(l = hold_new(s, not_before))) {
        if (s->listing) {
            (void)cond_wait_until(&s->ended, &s->lock, clock_mono_ns() + SLICE_NS);
            ok = req_alive(r, e);
            continue;
        }
        s->listing = true;
        lock_give(&s->lock);
        // A failure is the asker's own: another one's request may have had no time left.
        ok = list(s, r, e);
        lock_take(&s->lock);
    }
    lock_give(&s->lock);
    if (!l) return false;
    if (!arena_defer(&r->arena, give_hook, l)) {
        give(l);
        return arena_fail(&r->arena, e);
    }
    *out = &l->list;
    return true;
}

static bool is_given_up(struct streams *s, id128 stream)
{
    lock_take(&s->lock);
    const struct missed *m = missed_find(&s->missed, stream);
    bool is = m && (m->waited || m->lost);
    lock_give(&s->lock);
    return is;
}

bool streams_nodes(struct streams *s, struct arena *a, struct stream_node **v, size_t *n, err *e)
{
    *v = NULL;
    *n = 0;
    lock_take(&s->lock);
    struct listed *l = hold(s);
    lock_give(&s->lock);
    if (!l) return true;
    const struct registered *list = &l->list;
    *v = ARENA_ARRAY(a, struct stream_node, list->n + 1);
    for (size_t i = list->n; *v && i > 0; i--) {
        // From the newest stream on: the first of a data directory has its address.
        const struct registered_stream *o = &list->v[i - 1];
        bool known = o->node.n == 0 || o->address.n == 0;
        for (size_t k = i; k < list->n && !known; k++)
            known =
                str_eq(list->v[k].node, o->node) && id128_eq(list->v[k].directory, o->directory);
        if (known) continue;
        (*v)[(*n)++] = (struct stream_node){.node = arena_str(a, o->node),
                                            .address = arena_str(a, o->address),
                                            .boot = o->boot,
                                            .waited = is_given_up(s, o->stream)};
    }
    give(l);
    return arena_ok(a, e);
}

void streams_keep_in(struct streams *s, const char *path)
{
    struct buf text;
    err e = {0};
    assert(!s->path && !s->newest);
    s->path_bytes = strlen(path) + 1;
    s->path = mem_must(s->path_bytes);
    memcpy(s->path, path, s->path_bytes);
    buf_init(&text, NULL, FILE_MAX);
    if (file_read(path, &text, &e)) missed_parse(&s->missed, buf_view(&text));
    if (e.code && e.code != ERR_NOT_FOUND) {
        char quoted[LOG_QUOTE_MAX];
        log_warn(NULL, "querier.missed_unread", "fault=%s", log_quote(quoted, str_of(e.msg)));
    }
    buf_release(&text);
}

void streams_lose_after(struct streams *s, int64_t ns)
{
    int64_t now = clock_wall_ns();
    assert(ns >= 0 && !s->newest);
    s->lost_after_ns = ns;
    for (size_t i = 0; i < s->missed.n; i++)
        s->missed.v[i].lost = now - s->missed.v[i].since_wall_ns >= ns;
}

static void tell_lost(const struct registered_stream *o, int64_t since)
{
    char ulid[ULID_TEXT];
    char at[CLOCK_TEXT];
    ulid_print(o->stream, ulid);
    log_warn(NULL, "stream.lost", "stream=%s node=%.*s missing_since=%s", ulid, STR(o->node),
             clock_text(at, since));
}

int64_t streams_miss(struct streams *s, const struct registered *list,
                     const struct registered_stream *o, int64_t now_wall_ns, bool *wait)
{
    int64_t since = 0;
    bool told = true;
    lock_take(&s->lock);
    struct missed *m = missed_note(&s->missed, list, o, now_wall_ns, &since);
    bool lost = now_wall_ns - since >= s->lost_after_ns;
    *wait = !lost && !(m && m->waited);
    if (m) {
        told = m->lost || !lost;
        m->lost = lost;
    }
    metric_set(&querier_lost_streams, (int64_t)missed_lost(&s->missed));
    lock_give(&s->lock);
    if (!told) tell_lost(o, since);
    return since;
}

void streams_waited(struct streams *s, id128 stream)
{
    lock_take(&s->lock);
    struct missed *m = missed_find(&s->missed, stream);
    if (m) m->waited = true;
    lock_give(&s->lock);
}

void streams_answered(struct streams *s, const struct registered *list,
                      bool (*serves)(void *, id128), void *arg)
{
    lock_take(&s->lock);
    for (size_t i = s->missed.n; i > 0; i--) {
        id128 stream = s->missed.v[i - 1].stream;
        if (registered_find(list, stream) && serves(arg, stream)) missed_forget(&s->missed, stream);
    }
    lock_give(&s->lock);
}

// Makes the directory of the file.
static bool make_room(const char *path, err *e)
{
    char directory[PATH_MAX];
    const char *end = strrchr(path, '/');
    if (!end || (size_t)(end - path) >= sizeof directory) return true;
    snprintf(directory, sizeof directory, "%.*s", (int)(end - path), path);
    return dir_make(directory, e);
}

void streams_keep(struct streams *s)
{
    struct buf text;
    err e = {0};
    buf_init(&text, NULL, FILE_MAX);
    lock_take(&s->lock);
    bool due = s->path && s->missed.changed && !s->writing;
    if (due) missed_print(&s->missed, &text);
    s->writing |= due;
    lock_give(&s->lock);
    if (due) {
        if (buf_ok(&text, &e) && make_room(s->path, &e))
            (void)!file_write(s->path, buf_view(&text), &e);
        if (e.code) {
            char quoted[LOG_QUOTE_MAX];
            log_warn(NULL, "querier.missed_unkept", "fault=%s", log_quote(quoted, str_of(e.msg)));
        }
        lock_take(&s->lock);
        s->writing = false;
        lock_give(&s->lock);
    }
    buf_release(&text);
}
