// SPDX-License-Identifier: Apache-2.0
//
// forget.c - see forget.h.
#include "ingester/forget.h"

#include "ingester/presence.h"
#include "manifest/forgotten.h"
#include "sys/clock.h"

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

// Whether a running process answers for that stream.
static bool is_used(const struct process *p, struct req *r, const struct registered *list,
                    const struct registered_stream *o)
{
    struct presence at = {.address = address_of(list, o), .directory = o->directory};
    if (o->node.n == 0) return false;
    if (id128_eq(o->directory, p->identity->directory)) return true;
    presence_ask(p, &r->arena, &at, 1);
    return at.there;
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
    for (size_t i = 0; i < list->n; i++) {
        const struct registered_stream *o = &list->v[i];
        if (!is_meant(what, o)) continue;
        if (o->fault && o->fault != ERR_DATA_LOSS) {
            return err_set(e, ERR_UNAVAILABLE,
                           "its registration cannot be read, so nobody knows whether a process "
                           "answers for it: %.*s",
                           STR(o->why));
        }
        bool used = is_used(p, r, list, o);
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
