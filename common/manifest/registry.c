// SPDX-License-Identifier: Apache-2.0
//
// registry.c - what was read is an immutable list, which counts its users. The next one has it, and
// what was read since.
#include "manifest/registry.h"

#include "manifest/metrics.h"
#include "sys/clock.h"
#include "sys/lock.h"

#define KEPT_BYTES ((size_t)64 << 20)

struct kept {
    struct registered list;  // only those that were read or tried
    unsigned users;          // with the registry's own
};

struct registry {
    struct store *store;
    struct mem_budget *memory;
    const char *reader;
    struct lock lock;  // of the rest
    struct kept *kept;
    struct registry_about about;
    uint64_t listed_mono_ns;
};

static struct kept *kept_new(struct registry *g)
{
    err ignored = {0};
    struct kept *k = mem_alloc(g->memory, sizeof *k, &ignored);
    if (!k) return NULL;
    *k = (struct kept){.users = 1};
    arena_init(&k->list.arena, g->memory, KEPT_BYTES);
    return k;
}

static void kept_free(struct registry *g, struct kept *k)
{
    if (!k) return;
    registered_release(&k->list);
    mem_free(g->memory, k, sizeof *k);
}

struct registry *registry_new(struct store *s, struct mem_budget *memory, const char *reader)
{
    struct registry *g = mem_must(sizeof *g);
    g->store = s;
    g->memory = memory;
    g->reader = reader;
    lock_init(&g->lock, LOCK_REGISTRY);
    return g;
}

void registry_free(struct registry *g)
{
    if (!g) return;
    assert(!g->kept || g->kept->users == 1);
    kept_free(g, g->kept);
    lock_release(&g->lock);
    mem_must_free(g);
}

static struct kept *kept_hold(struct registry *g)
{
    lock_take(&g->lock);
    struct kept *k = g->kept;
    if (k) k->users++;
    lock_give(&g->lock);
    return k;
}

// With the lock; returns what nobody uses any more.
static struct kept *kept_give(struct kept *k)
{
    if (!k) return NULL;
    assert(k->users > 0);
    return --k->users == 0 ? k : NULL;
}

// Another thread may have read what this one could not.
static void take_over(struct registered *list, const struct registered *other)
{
    for (size_t i = 0; i < list->n; i++) {
        struct registered_stream *o = &list->v[i];
        const struct registered_stream *known =
            o->node.n ? NULL : registered_find(other, o->stream);
        if (!known || known->node.n == 0) continue;
        list->untried -= o->again_mono_ns == 0;
        list->unread--;
        *o = registered_copy(&list->arena, known);
    }
}

static void copy_tried(struct kept *to, const struct registered *from)
{
    struct registered *list = &to->list;
    list->v = ARENA_ARRAY(&list->arena, struct registered_stream, from->n + 1);
    for (size_t i = 0; list->v && i < from->n; i++) {
        const struct registered_stream *o = &from->v[i];
        if (o->node.n || o->again_mono_ns) list->v[list->n++] = registered_copy(&list->arena, o);
    }
}

static void tell(struct registry *g, const struct registry_about *a)
{
    str reader = str_of(g->reader);
    metric_set_to(&manifest_registered, reader, (int64_t)a->streams);
    metric_set_to(&manifest_unread, reader, (int64_t)a->unread);
    metric_set_to(&manifest_listed, reader, a->listed_wall_ns / NS_PER_S);
}

// Without memory what was known before is kept.
static void keep(struct registry *g, struct kept *before, struct registered *list, int64_t wall_ns,
                 uint64_t mono_ns)
{
    struct kept *next = kept_new(g);
    lock_take(&g->lock);
    if (g->kept && g->kept != before) take_over(list, &g->kept->list);
    if (next) copy_tried(next, list);
    bool whole = next && !next->list.arena.exhausted;
    struct kept *former = whole ? kept_give(g->kept) : next;
    if (whole) g->kept = next;
    bool newest = mono_ns >= g->listed_mono_ns;
    if (newest) {
        g->listed_mono_ns = mono_ns;
        g->about = (struct registry_about){list->n, list->unread, wall_ns};
        tell(g, &g->about);
    }
    lock_give(&g->lock);
    kept_free(g, former);
}

bool registry_read(struct registry *g, struct req *r, struct mem_budget *memory,
                   struct registered *out, err *e)
{
    int64_t wall_ns = clock_wall_ns();
    uint64_t mono_ns = clock_mono_ns();
    struct kept *before = kept_hold(g);
    bool ok = registered_read(g->store, r, memory, before ? &before->list : NULL, out, e);
    if (ok) keep(g, before, out, wall_ns, mono_ns);
    lock_take(&g->lock);
    struct kept *unused = kept_give(before);
    lock_give(&g->lock);
    kept_free(g, unused);
    return ok && arena_ok(&out->arena, e);
}

struct registry_about registry_tell(struct registry *g)
{
    lock_take(&g->lock);
    struct registry_about about = g->about;
    lock_give(&g->lock);
    return about;
}

void registry_print(struct registry *g, struct buf *out)
{
    char text[CLOCK_TEXT] = "";
    struct registry_about a = registry_tell(g);
    if (a.listed_wall_ns) clock_text(text, a.listed_wall_ns);
    buf_printf(out, "{\"streams\":%zu,\"unread\":%zu,\"listed\":\"%s\"}", a.streams, a.unread,
               text);
}
