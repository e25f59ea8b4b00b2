// SPDX-License-Identifier: Apache-2.0
#include "manifest/holding.h"

#include "codec/pb.h"
#include "flametree/v1/internal.pb-c.h"
#include "manifest/metrics.h"
#include "sys/clock.h"

#include <stdio.h>

#define HOLDING_FORMAT 1
#define HOLDING_MAX    ((size_t)4096)
#define ULID_CHARS     26

static void encode(const struct holding *h, struct buf *out)
{
    pb_put_u64(out, 1, HOLDING_FORMAT);
    pb_put_bytes(out, 2, h->node);
    pb_put_bytes(out, 3, str_make(h->directory.b, sizeof h->directory.b));
    pb_put_bytes(out, 4, str_make(h->boot.b, sizeof h->boot.b));
    pb_put_bytes_opt(out, 5, h->address);
    pb_put_fixed64_opt(out, 6, (uint64_t)h->made_ns);
    pb_put_fixed64_opt(out, 7, (uint64_t)h->rows_from_ns);
}

bool holding_create(struct store *s, struct req *r, const struct holding *h, bool *existed, err *e)
{
    struct buf bytes;
    str name = name_holding(&r->arena, h->node, h->directory);
    buf_init(&bytes, NULL, HOLDING_MAX);
    encode(h, &bytes);
    bool ok = arena_ok(&r->arena, e) && buf_ok(&bytes, e) &&
              store_put(s, r, name, buf_view(&bytes), existed, e);
    buf_release(&bytes);
    return ok;
}

bool holding_delete(struct store *s, struct req *r, str node, id128 directory, err *e)
{
    str name = name_holding(&r->arena, node, directory);
    return arena_ok(&r->arena, e) && store_delete(s, r, name, e);
}

// ---- listing

struct found {
    struct arena *arena;
    str *names;
    size_t n;
    size_t cap;
};

static bool see(void *arg, str name, uint64_t size, err *e)
{
    struct found *f = arg;
    (void)size;
    if (!arena_grow(f->arena, &f->names, &f->cap, f->n + 1, sizeof *f->names))
        return arena_ok(f->arena, e);
    f->names[f->n++] = arena_str(f->arena, name);
    return arena_ok(f->arena, e);
}

static bool decode(struct arena *a, str bytes, struct holding *h)
{
    err ignored = {0};
    const Flametree__V1__Holding *m =
        (const Flametree__V1__Holding *)pb_unpack(a, &flametree__v1__holding__descriptor, bytes,
                                                  &ignored);
    if (!m || m->format != HOLDING_FORMAT || m->boot.len != sizeof h->boot.b) return false;
    h->node = arena_str(a, pb_text(m->node));
    memcpy(h->boot.b, m->boot.data, sizeof h->boot.b);
    h->address = arena_str(a, pb_text(m->address));
    h->made_ns = m->made_ns;
    h->rows_from_ns = m->rows_from_ns;
    return !a->exhausted;
}

// False: it is no holding, or went meanwhile (*e clear), or the store failed.
static bool read_one(struct store *s, struct req *r, struct arena *a, str name, struct holding *h,
                     err *e)
{
    struct buf bytes;
    err why = {0};
    str last = str_slice(name, str_rfind(name, '/') + 1, name.n);
    str rest = last;
    *h = (struct holding){0};
    if (last.n != ULID_CHARS || !name_ulid(&rest, &h->directory)) {
        metric_add(&manifest_foreign, 1);
        return false;
    }
    buf_init(&bytes, NULL, HOLDING_MAX);
    bool ok = store_get(s, r, name, &bytes, &why);
    bool damaged = ok ? !decode(a, buf_view(&bytes), h) : why.code == ERR_RESOURCE_EXHAUSTED;
    buf_release(&bytes);
    if (damaged) {
        h->made_ns = (int64_t)uuid_ms(h->directory) * NS_PER_MS;
        ok = true;
    }
    if (!ok && why.code != ERR_NOT_FOUND) *e = why;
    return ok;
}

bool holdings_list(struct store *s, struct req *r, struct arena *a, str node, struct holding **v,
                   size_t *n, err *e)
{
    struct found f = {.arena = a};
    str prefix = node.n ? name_holdings(a, node) : name_nodes();
    *v = NULL;
    *n = 0;
    if (!arena_ok(a, e) || !store_list(s, r, prefix, (str){0}, see, &f, e))
        return err_wrap(e, "list of data directories");
    struct holding *all = ARENA_ARRAY(a, struct holding, f.n + 1);
    if (!all) return arena_ok(a, e);
    for (size_t i = 0; i < f.n; i++) {
        err why = {0};
        if (read_one(s, r, a, f.names[i], &all[*n], &why)) {
            if (node.n && all[*n].node.n == 0) all[*n].node = arena_str(a, node);
            *n += node.n == 0 || str_eq(all[*n].node, node);
        } else if (why.code) {
            *e = why;
            return err_wrap(e, "list of data directories");
        }
    }
    *v = all;
    return arena_ok(a, e);
}
