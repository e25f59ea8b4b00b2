// SPDX-License-Identifier: Apache-2.0
//
// closings.c - see closings.h; and the request IngesterService/Closed.
#include "ingester/closings.h"

#include "codec/pb.h"
#include "ingester/flush/flush.h"
#include "ingester/ingester_int.h"
#include "manifest/manifest.h"
#include "sys/clock.h"

#include <stdlib.h>

#define NAMES_BYTES ((size_t)16 << 20)

struct closings {
    struct manifests *manifests;
    struct lock lock;  // of what follows
    uint64_t begun;    // LISTs
    uint64_t shown;    // the number of the LIST that the names are of: no older one replaces them
    int64_t shown_boot_ns;  // when that one began
    struct arena arena;     // of the names
    str *names;             // in order
    size_t count;
};

struct closings *closings_new(struct manifests *ms)
{
    struct closings *c = mem_must(sizeof *c);
    c->manifests = ms;
    lock_init(&c->lock, LOCK_CLOSED);
    arena_init(&c->arena, NULL, NAMES_BYTES);
    return c;
}

void closings_free(struct closings *c)
{
    if (!c) return;
    arena_release(&c->arena);
    lock_release(&c->lock);
    mem_must_free(c);
}

// Whether v1/tenants/<tenant> is there is forgotten while a tenant is being deleted, and once more
// afterwards: whoever has data of it then creates that object anew.
static void renote(struct closings *c, const str *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tenants_renote(c->manifests, v[i]);
}

bool closings_refresh(struct closings *c, struct req *r, err *e)
{
    struct arena a;
    str *v = NULL;
    size_t n = 0;
    if (!c) return true;
    lock_take(&c->lock);
    uint64_t number = ++c->begun;
    int64_t began_boot_ns = clock_boot_ns();
    lock_give(&c->lock);
    arena_init(&a, NULL, NAMES_BYTES);
    if (!tenants_closed(c->manifests, r, &a, &v, &n, e)) {
        arena_release(&a);
        return false;
    }
    lock_take(&c->lock);
    struct arena old = a;
    str *names = v;
    size_t count = n;
    if (number > c->shown) {
        old = c->arena;
        names = c->names;
        count = c->count;
        c->arena = a;
        c->names = v;
        c->count = n;
        c->shown = number;
        c->shown_boot_ns = began_boot_ns;
        // Under the lock: names that another thread replaces now are still read.
        renote(c, v, n);
    }
    lock_give(&c->lock);
    renote(c, names, count);
    arena_release(&old);
    return true;
}

int64_t closings_asked_ns(struct closings *c)
{
    if (!c) return INT64_MAX;
    lock_take(&c->lock);
    int64_t ns = c->shown_boot_ns;
    lock_give(&c->lock);
    return ns;
}

static int by_name(const void *a, const void *b)
{
    const str *x = a;
    const str *y = b;
    int order = memcmp(x->p, y->p, MIN(x->n, y->n));
    return order ? order : x->n < y->n ? -1 : x->n > y->n;
}

bool closings_refuses(struct closings *c, str tenant)
{
    if (!c) return false;
    lock_take(&c->lock);
    bool has = c->count && bsearch(&tenant, c->names, c->count, sizeof tenant, by_name);
    lock_give(&c->lock);
    return has;
}

bool closings_admits(struct closings *c, str tenant, err *e)
{
    return !closings_refuses(c, tenant) ||
           err_set(e, ERR_PERMISSION_DENIED,
                   "tenant '%.*s' is being deleted, and takes no profiles until that is done",
                   STR(tenant));
}

bool ingester_closed(void *service, struct http_exchange *x, str in, struct buf *out, err *e)
{
    struct ingester *self = service;
    (void)in;
    if (!closings_refresh(self->closings, &x->req, e)) return false;
    bool closed = closings_refuses(self->closings, x->req.tenant);
    struct flush_totals ignored;
    // The tenant's rows leave the head and the log now, without waiting for cut_age.
    if (closed && !flush_now(self->flush, &x->req, false, &ignored, e)) return false;
    pb_put_u64_opt(out, 1, closed);
    const struct node_identity *me = self->process->identity;
    if (me) pb_put_bytes(out, 2, str_make(me->boot.b, sizeof me->boot.b));
    return buf_ok(out, e);
}
