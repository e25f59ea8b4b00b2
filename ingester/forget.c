// SPDX-License-Identifier: Apache-2.0
//
// forget.c - see forget.h.
#include "ingester/forget.h"

#include "ingester/presence.h"
#include "manifest/forgotten.h"
#include "sys/clock.h"

#define AT_ONCE   32  // processes that are asked together; each has a second
#define ASK_BYTES ((size_t)4 << 20)

static bool is_meant(const struct forget *what, const struct registered_stream *o)
{
    if (what->stream) return id128_eq(o->stream, *what->stream);
    return str_eq(o->node, what->node) &&
           (!what->directory || id128_eq(o->directory, *what->directory));
}

// The address of the newest registration of the same directory: there its process would be.
static str address_of(const struct registered *list, const struct registered_stream *o)
{
    str address = o->address;
    for (size_t i = 0; i < list->n; i++) {
        const struct registered_stream *other = &list->v[i];
        if (str_eq(other->node, o->node) && id128_eq(other->directory, o->directory))
            address = other->address;
    }
    return address;
}

// The registrations that are meant, and the data directories that these name.
struct giving_up {
    const struct registered_stream **v;
    size_t n;
    struct presence *of;  // one of each directory
    size_t count;
};

static const struct presence *find_directory(const struct giving_up *g, id128 directory)
{
    for (size_t i = 0; i < g->count; i++)
        if (id128_eq(g->of[i].directory, directory)) return &g->of[i];
    return NULL;
}

static bool find_meant(const struct registered *list, const struct forget *what, struct arena *a,
                       struct giving_up *g, err *e)
{
    *g = (struct giving_up){.v = ARENA_ARRAY(a, const struct registered_stream *, list->n + 1),
                            .of = ARENA_ARRAY(a, struct presence, list->n + 1)};
    if (!g->v || !g->of) return arena_fail(a, e);
    for (size_t i = 0; i < list->n; i++) {
        const struct registered_stream *o = &list->v[i];
        if (!is_meant(what, o)) continue;
        if (o->fault && o->fault != ERR_DATA_LOSS) {
            return err_set(e, ERR_UNAVAILABLE,
                           "its registration cannot be read, so nobody knows whether a process "
                           "answers for it: %.*s",
                           STR(o->why));
        }
        g->v[g->n++] = o;
        if (o->node.n && !find_directory(g, o->directory))
            g->of[g->count++] =
                (struct presence){.address = address_of(list, o), .directory = o->directory};
    }
    return true;
}

// Asks all of them, many at once. Who could not be asked is not taken for gone.
static bool ask_all(const struct process *p, struct req *r, struct giving_up *g, err *e)
{
    bool ok = true;
    for (size_t at = 0; ok && at < g->count; at += AT_ONCE) {
        struct arena a;
        arena_init(&a, r->arena.budget, ASK_BYTES);
        presence_ask(p, &a, g->of + at, MIN(g->count - at, (size_t)AT_ONCE));
        ok = arena_ok(&a, e) && req_alive(r, e);
        arena_release(&a);
    }
    return ok;
}

// Whether a running process answers for that stream. One that was not asked may.
static bool is_used(const struct process *p, const struct giving_up *g,
                    const struct registered_stream *o)
{
    if (o->node.n == 0) return false;
    const struct presence *asked = find_directory(g, o->directory);
    return id128_eq(o->directory, p->identity->directory) || !asked || asked->there;
}

static bool forget_one(const struct process *p, struct req *r, const struct registered_stream *o,
                       err *e)
{
    char ulid[ULID_TEXT];
    char directory[ULID_TEXT];
    char text[LOG_QUOTE_MAX];
    if (!stream_forget(p->store, r, o, clock_wall_ns(), e)) return false;
    ulid_print(o->stream, ulid);
    ulid_print(o->directory, directory);
    log_warn(NULL, "stream.forgotten", "stream=%s node=%s directory=%s", ulid,
             log_quote(text, o->node), directory);
    return true;
}

static bool forget_all(const struct process *p, struct req *r, const struct registered *list,
                       const struct forget *what, size_t *n, err *e)
{
    struct giving_up g;
    if (!find_meant(list, what, &r->arena, &g, e) || !ask_all(p, r, &g, e)) return false;
    for (size_t i = 0; i < g.n; i++) {
        const struct registered_stream *o = g.v[i];
        bool used = is_used(p, &g, o);
        // Without a directory all of the node's are meant that no process has.
        if (used && !what->directory && !what->stream) continue;
        if (used) {
            return err_set(e, ERR_FAILED_PRECONDITION,
                           "a process runs with that %s of %.*s, at %.*s, and answers for it",
                           what->stream ? "stream" : "data directory", STR(o->node),
                           STR(o->address));
        }
        if (!forget_one(p, r, o, e)) return false;
        ++*n;
    }
    if (*n) return true;
    if (what->stream) return err_set(e, ERR_NOT_FOUND, "the store knows no such stream");
    return err_set(e, ERR_NOT_FOUND, "the store knows no %s of %.*s without a running process",
                   what->directory ? "such data directory" : "stream", STR(what->node));
}

bool forget_streams(const struct process *p, struct registry *registry, struct req *r,
                    const struct forget *what, size_t *n, err *e)
{
    struct registered list;
    *n = 0;
    bool ok = registry_read(registry, r, r->arena.budget, &list, e) &&
              forget_all(p, r, &list, what, n, e);
    registered_release(&list);
    return ok;
}
