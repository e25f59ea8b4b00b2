// SPDX-License-Identifier: Apache-2.0
//
// streams.c - a list is immutable once it is there, and counts its users. The newest one is kept;
// the next one takes from it what is known of a stream.
#include "querier/head/streams.h"

#include "querier/metrics.h"
#include "sys/clock.h"
#include "sys/lock.h"

#define MISSED_MAX 4096
#define SLICE_NS   ((uint64_t)100000000)  // a waiting request looks whether its asker is gone

struct listed {
    struct registered list;
    struct streams *of;
    unsigned users;  // with the newest list's own
    uint64_t began_mono_ns;
};

// A stream that was waited for in vain.
struct missed {
    id128 stream;
    int64_t since_wall_ns;
};

struct streams {
    struct store *store;
    struct mem_budget *memory;
    struct lock lock;  // of the rest
    struct cond ended;
    struct listed *newest;  // NULL: none yet
    bool listing;
    struct missed *missed;  // MISSED_MAX
    size_t missed_count;
};

struct streams *streams_new(struct store *s, struct mem_budget *memory)
{
    struct streams *h = mem_must(sizeof *h);
    h->store = s;
    h->memory = memory;
    h->missed = mem_must(MISSED_MAX * sizeof *h->missed);
    lock_init(&h->lock, LOCK_LISTED);
    cond_init(&h->ended);
    return h;
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
    assert(!s->listing);
    if (s->newest) give(s->newest);
    cond_release(&s->ended);
    lock_release(&s->lock);
    mem_must_free(s->missed);
    mem_must_free(s);
}

// Streams that are not registered any more are not waited for. With the lock.
static void prune(struct streams *s, const struct registered *list)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->missed_count; i++) {
        if (registered_find(list, s->missed[i].stream)) s->missed[kept++] = s->missed[i];
    }
    s->missed_count = kept;
}

// With the lock.
static struct missed *find_missed(struct streams *s, id128 stream)
{
    for (size_t i = 0; i < s->missed_count; i++) {
        if (id128_eq(s->missed[i].stream, stream)) return &s->missed[i];
    }
    return NULL;
}

// Lists; the caller has set `listing`. `before` is the newest list, held for the caller, or NULL.
static bool list(struct streams *s, struct req *r, struct listed *before, err *e)
{
    struct listed *l = mem_alloc(s->memory, sizeof *l, e);
    metric_add(&querier_stream_lists, 1);
    bool ok = l != NULL;
    if (ok) {
        *l = (struct listed){.of = s, .users = 1, .began_mono_ns = clock_mono_ns()};
        ok = registered_read(s->store, r, s->memory, before ? &before->list : NULL, &l->list, e);
        if (!ok) registered_release(&l->list);
    }
    if (before) give(before);
    lock_take(&s->lock);
    struct listed *former = ok ? s->newest : NULL;
    if (ok) s->newest = l;
    if (ok) prune(s, &l->list);
    s->listing = false;
    cond_wake_all(&s->ended);
    lock_give(&s->lock);
    if (former) give(former);
    if (!ok && l) mem_free(s->memory, l, sizeof *l);
    return ok;
}

// The newest list if it is new enough; held for the caller. With the lock.
static struct listed *hold(struct streams *s, uint64_t not_before)
{
    if (!s->newest || s->newest->began_mono_ns < not_before) return NULL;
    s->newest->users++;
    return s->newest;
}

bool streams_take(struct streams *s, struct req *r, uint64_t not_before,
                  const struct registered **out, err *e)
{
    struct listed *l = NULL;
    bool ok = true;
    lock_take(&s->lock);
    while (ok && !(l = hold(s, not_before))) {
        if (s->listing) {
            (void)cond_wait_until(&s->ended, &s->lock, clock_mono_ns() + SLICE_NS);
            ok = req_alive(r, e);
            continue;
        }
        s->listing = true;
        struct listed *before = hold(s, 0);
        lock_give(&s->lock);
        // A failure is the asker's own: another one's request may have had no time left.
        ok = list(s, r, before, e);
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

bool streams_nodes(struct streams *s, struct arena *a, struct stream_node **v, size_t *n, err *e)
{
    *v = NULL;
    *n = 0;
    lock_take(&s->lock);
    struct listed *l = hold(s, 0);
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
                                            .waited = streams_is_missed(s, o->stream)};
    }
    give(l);
    return arena_ok(a, e);
}

int64_t streams_missed(struct streams *s, id128 stream, int64_t now_wall_ns)
{
    int64_t since = now_wall_ns;
    lock_take(&s->lock);
    const struct missed *known = find_missed(s, stream);
    if (known) {
        since = known->since_wall_ns;
    } else if (s->missed_count < MISSED_MAX) {
        s->missed[s->missed_count++] = (struct missed){stream, now_wall_ns};
    }
    lock_give(&s->lock);
    return since;
}

void streams_answered(struct streams *s, id128 stream)
{
    lock_take(&s->lock);
    struct missed *known = find_missed(s, stream);
    if (known) *known = s->missed[--s->missed_count];
    lock_give(&s->lock);
}

bool streams_is_missed(struct streams *s, id128 stream)
{
    lock_take(&s->lock);
    bool is = find_missed(s, stream) != NULL;
    lock_give(&s->lock);
    return is;
}
