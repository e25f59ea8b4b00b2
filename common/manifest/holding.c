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
#define NUMBER_CHARS   16

static void encode(const struct holding *h, struct buf *out)
{
    pb_put_u64(out, 1, HOLDING_FORMAT);
    pb_put_bytes(out, 2, h->node);
    pb_put_bytes(out, 3, str_make(h->directory.b, sizeof h->directory.b));
    pb_put_bytes(out, 4, str_make(h->boot.b, sizeof h->boot.b));
    pb_put_bytes_opt(out, 5, h->address);
    pb_put_fixed64_opt(out, 6, (uint64_t)h->made_ns);
    pb_put_fixed64_opt(out, 7, (uint64_t)h->rows_from_ns);
    pb_put_fixed64_opt(out, 8, (uint64_t)h->seen_ns);
}

bool holding_create(struct store *s, struct req *r, const struct holding *h, bool *existed, err *e)
{
    struct buf bytes;
    str name = name_holding(&r->arena, h->node, h->directory, h->number);
    buf_init(&bytes, NULL, HOLDING_MAX);
    encode(h, &bytes);
    bool ok = arena_ok(&r->arena, e) && buf_ok(&bytes, e) &&
              store_put(s, r, name, buf_view(&bytes), existed, e);
    buf_release(&bytes);
    return ok;
}

// An end between the two leaves the numbers, which say less and nothing wrong. That the object
// existed may only be this creation's own earlier try.
bool holding_renew(struct store *s, struct req *r, const struct holding *h, err *e)
{
    struct holding first = *h;
    bool existed = false;
    first.number = 0;
    str name = name_holding(&r->arena, h->node, h->directory, 0);
    return arena_ok(&r->arena, e) && store_delete(s, r, name, e) &&
           holding_create(s, r, &first, &existed, e);
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
        return arena_fail(f->arena, e);
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
    h->seen_ns = m->seen_ns;
    return !a->exhausted;
}

// The number of an object and, in *directory, the name of its directory.
static bool parse(str name, str *directory, id128 *id, uint64_t *number)
{
    str rest = str_slice(name, str_rfind(name, '/') + 1, name.n);
    if (rest.n == ULID_CHARS + 1 + NUMBER_CHARS && name_ulid(&rest, id) && name_char(&rest, '.') &&
        name_hex(&rest, NUMBER_CHARS, number)) {
        *directory = str_slice(name, 0, name.n - NUMBER_CHARS - 1);
        return true;
    }
    metric_add(&manifest_foreign, 1);
    return false;
}

// False with *e clear: the name is no holding's, or the object was deleted meanwhile. False with *e
// set: the store failed.
static bool read_one(struct store *s, struct req *r, struct arena *a, str name, struct holding *h,
                     err *e)
{
    struct buf bytes;
    err why = {0};
    str directory;
    *h = (struct holding){0};
    if (!parse(name, &directory, &h->directory, &h->number)) return false;
    buf_init(&bytes, NULL, HOLDING_MAX);
    bool ok = store_get(s, r, name, &bytes, &why);
    // An object larger than any of ours is damaged too; the buffer refuses it.
    bool damaged = ok ? !decode(a, buf_view(&bytes), h) : why.code == ERR_RESOURCE_EXHAUSTED;
    buf_release(&bytes);
    if (damaged) {
        h->made_ns = (int64_t)uuid_ms(h->directory) * NS_PER_MS;
        if (h->number == 0) h->seen_ns = INT64_MAX;  // the directory may be in use still
        ok = true;
    }
    if (h->number == 0) h->renewed_ns = h->seen_ns;
    if (!ok && why.code != ERR_NOT_FOUND) *e = why;
    return ok;
}

// Adds what is known by a further object of the same directory, which has the higher number. The
// earlier times of rows count: the rows of which the lower number tells may be there still. The
// newest object says when the directory was in use last, and where: number 0 if there is one.
static void join(struct holding *to, const struct holding *h)
{
    struct holding both = to->seen_ns > h->seen_ns ? *to : *h;
    both.number = h->number;
    both.renewed_ns = to->renewed_ns;
    both.seen_ns = MAX(h->seen_ns, to->renewed_ns);
    both.made_ns = MIN(to->made_ns, h->made_ns);
    both.rows_from_ns = MIN(to->rows_from_ns, h->rows_from_ns);
    if (both.node.n == 0) both.node = to->node.n ? to->node : h->node;
    if (both.address.n == 0) both.address = to->address.n ? to->address : h->address;
    *to = both;
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
    if (!all) return arena_fail(a, e);
    for (size_t i = 0; i < f.n; i++) {
        err why = {0};
        struct holding *h = &all[*n];
        if (read_one(s, r, a, f.names[i], h, &why)) {
            if (node.n && h->node.n == 0) h->node = arena_str(a, node);
            bool wanted = node.n == 0 || str_eq(h->node, node);
            bool same = wanted && *n && id128_eq(h[-1].directory, h->directory) &&
                        (h->node.n == 0 || h[-1].node.n == 0 || str_eq(h[-1].node, h->node));
            if (same) join(h - 1, h);
            *n += wanted && !same;
        } else if (why.code) {
            *e = why;
            return err_wrap(e, "list of data directories");
        }
    }
    *v = all;
    return arena_ok(a, e);
}

bool holdings_inspect(struct store *s, struct req *r, struct arena *a, struct holding_at **v,
                      size_t *n, err *e)
{
    struct found f = {.arena = a};
    *n = 0;
    *v = NULL;
    if (!store_list(s, r, name_nodes(), (str){0}, see, &f, e))
        return err_wrap(e, "list of data directories");
    struct holding_at *all = ARENA_ARRAY(a, struct holding_at, f.n + 1);
    if (!all) return arena_fail(a, e);
    for (size_t i = 0; i < f.n; i++) {
        id128 id;
        struct holding_at at;
        if (!parse(f.names[i], &at.directory, &id, &at.number)) continue;
        at.directory = str_slice(at.directory, name_nodes().n, at.directory.n);
        if (*n && str_eq(all[*n - 1].directory, at.directory))
            all[*n - 1].number = MAX(all[*n - 1].number, at.number);
        else
            all[(*n)++] = at;
    }
    *v = all;
    return arena_ok(a, e);
}

bool holding_delete(struct store *s, struct req *r, str node, id128 directory, uint64_t below,
                    err *e)
{
    struct found f = {.arena = &r->arena};
    str first = name_holding(&r->arena, node, directory, 0);
    if (!arena_ok(&r->arena, e)) return false;
    str prefix = str_slice(first, 0, first.n - NUMBER_CHARS);
    if (!store_list(s, r, prefix, (str){0}, see, &f, e)) return false;
    for (size_t i = 0; i < f.n; i++) {
        id128 id;
        str ignored;
        uint64_t number = 0;
        if (!parse(f.names[i], &ignored, &id, &number) || number >= below) continue;
        if (!store_delete(s, r, f.names[i], e)) return false;
    }
    return true;
}
