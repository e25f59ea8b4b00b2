// SPDX-License-Identifier: Apache-2.0
//
// confirm.c - see confirm.h.
#include "compactor/confirm.h"

#include "codec/pb.h"
#include "compactor/work_int.h"
#include "manifest/registry.h"
#include "rpc/peer.h"
#include "service/process.h"
#include "sys/clock.h"

#include <stdlib.h>

#define CLOSED_PATH "/flametree.v1.IngesterService/Closed"
#define ANSWER_MAX  ((size_t)64 << 10)
#define ASK_NS      ((uint64_t)20 * NS_PER_S)

// ---- asking

static int by_address(const void *a, const void *b)
{
    const struct confirm_answer *x = a;
    const struct confirm_answer *y = b;
    return str_cmp(x->address, y->address);
}

// A row for each address, of registrations and of members.
static struct confirm_answer *addresses(const struct work *w, struct arena *a,
                                        const struct registered *list, size_t *n)
{
    size_t members = 0;
    size_t all = 0;
    const struct member *m = members_of(w->process->members, a, MEMBER_INGESTER, &members);
    struct confirm_answer *v = ARENA_ARRAY(a, struct confirm_answer, list->n + members + 1);
    *n = 0;
    for (size_t i = 0; v && i < list->n; i++)
        if (list->v[i].address.n) v[all++].address = arena_str(a, list->v[i].address);
    for (size_t i = 0; v && i < members; i++)
        v[all++].address = m[i].address;
    if (all) qsort(v, all, sizeof *v, by_address);
    for (size_t i = 0; i < all; i++)
        if (i == 0 || !str_eq(v[i].address, v[*n - 1].address)) v[(*n)++] = v[i];
    return v;
}

static void read_answer(str message, struct confirm_answer *out)
{
    bool closed = false;
    struct pb_reader r = pb_reader(message);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_VARINT) closed = r.number != 0;
        if (r.field == 2 && r.type == PB_BYTES && r.bytes.n == sizeof out->boot.b)
            memcpy(out->boot.b, r.bytes.p, r.bytes.n);
    }
    out->confirmed = closed && node_knows(out->boot);
    if (!closed)
        out->why = S("it does not know that the tenant is closed");
    else if (!out->confirmed)
        out->why = S("it is of an earlier version, which does not tell what process it is");
}

static void take_answer(struct arena *a, struct peer_call *c, struct confirm_answer *out)
{
    str message = {0};
    err why = {0};
    if (peer_answer(c, &message, &why))
        read_answer(message, out);
    else
        out->why = arena_str(a, str_of(why.msg));
}

static bool ask(struct work *w, struct req *r, str tenant, struct confirm_answer *v, size_t n,
                err *e)
{
    struct arena *a = &r->arena;
    struct peer_call *calls = ARENA_ARRAY(a, struct peer_call, n + 1);
    struct call **waits = ARENA_ARRAY(a, struct call *, n + 1);
    assert(v || n == 0);
    if (!arena_ok(a, e)) return false;
    str all = r->tenant;
    uint64_t deadline = r->deadline_mono_ns;
    uint64_t until = clock_mono_ns() + ASK_NS;
    err ignored = {0};
    r->tenant = tenant;
    // Half of the time is for what comes after.
    r->deadline_mono_ns = deadline ? MIN(deadline - req_left_ns(r) / 2, until) : until;
    for (size_t i = 0; i < n; i++) {
        peer_start(w->process->client, r, &calls[i], v[i].address, CLOSED_PATH, (str){0},
                   RANK_INGESTER, ANSWER_MAX);
        waits[i] = &calls[i].http.call;
    }
    // Of all, answers are looked at one by one.
    if (n) (void)!call_gather(r, waits, n, 0, false, &ignored);
    r->tenant = all;
    r->deadline_mono_ns = deadline;
    for (size_t i = 0; i < n; i++) {
        take_answer(a, &calls[i], &v[i]);
        peer_release(&calls[i]);
    }
    return arena_ok(a, e);
}

// ---- what is left

static bool has_confirmed(const struct confirm_answer *v, size_t n, id128 boot)
{
    for (size_t i = 0; i < n; i++)
        if (v[i].confirmed && id128_eq(v[i].boot, boot)) return true;
    return false;
}

static str why_not(struct arena *a, const struct registered_stream *o,
                   const struct confirm_answer *v, size_t n)
{
    if (o->node.n == 0)
        return arena_printf(a, "its registration cannot be read: %.*s", STR(o->why));
    for (size_t i = 0; i < n; i++) {
        if (!str_eq(v[i].address, o->address)) continue;
        if (!v[i].confirmed) return v[i].why;
        return arena_printf(a, "another process answers at %.*s", STR(o->address));
    }
    return S("it was not asked");
}

size_t confirm_left(struct arena *a, const struct registered *list, const struct confirm_answer *v,
                    size_t n, struct unconfirmed *out)
{
    size_t left = 0;
    for (size_t i = 0; i < list->n; i++) {
        const struct registered_stream *o = &list->v[i];
        if (o->node.n && has_confirmed(v, n, o->boot)) continue;
        out[left++] = (struct unconfirmed){.stream = o->stream,
                                           .node = arena_str(a, o->node),
                                           .why = why_not(a, o, v, n)};
    }
    return left;
}

static int by_id(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(id128));
}

// Takes out those that have ended meanwhile.
static bool drop_ended(struct work *w, struct req *r, struct unconfirmed *v, size_t *n, err *e)
{
    id128 *now = NULL;
    size_t count = 0;
    size_t kept = 0;
    if (*n == 0) return true;
    if (!stream_names(w->process->store, r, &r->arena, &now, &count, e)) return false;
    for (size_t i = 0; i < *n; i++) {
        bool ended = !count || !bsearch(&v[i].stream, now, count, sizeof *now, by_id);
        if (ended && !stream_has_ended(w->process->store, r, v[i].stream, &ended, e)) return false;
        if (!ended) v[kept++] = v[i];
    }
    *n = kept;
    return true;
}

bool confirm_closed(struct work *w, struct req *r, str tenant, struct unconfirmed **v, size_t *n,
                    err *e)
{
    struct registered list;
    size_t asked = 0;
    *v = NULL;
    *n = 0;
    bool ok = registry_read(w->registry, r, &w->memory, &list, e);
    struct confirm_answer *answers = ok ? addresses(w, &r->arena, &list, &asked) : NULL;
    ok = ok && (answers || arena_fail(&r->arena, e)) && ask(w, r, tenant, answers, asked, e);
    if (ok) *v = ARENA_ARRAY(&r->arena, struct unconfirmed, list.n + 1);
    if (*v) *n = confirm_left(&r->arena, &list, answers, asked, *v);
    registered_release(&list);
    return ok && arena_ok(&r->arena, e) && drop_ended(w, r, *v, n, e);
}
