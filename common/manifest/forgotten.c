// SPDX-License-Identifier: Apache-2.0
#include "manifest/forgotten.h"

#include "base/fault.h"
#include "manifest/manifest_wire_int.h"

#define FORGOTTEN_FORMAT 1
#define ENDED_FORMAT     1
#define FORGOTTEN_BYTES  ((size_t)4096)
#define ENDED_BYTES      ((size_t)16 << 20)

// ---- lists of names that are ULIDs

struct ulid_names {
    struct arena *arena;
    size_t prefix;
    id128 *v;
    size_t n;
    size_t cap;
};

static bool see_ulid(void *arg, str name, uint64_t size, err *e)
{
    struct ulid_names *f = arg;
    id128 id;
    str rest = str_slice(name, f->prefix, name.n);
    (void)size;
    if (!name_ulid(&rest, &id) || rest.n) {
        metric_add(&manifest_foreign, 1);
        return true;
    }
    if (!arena_grow(f->arena, &f->v, &f->cap, f->n + 1, sizeof *f->v))
        return arena_fail(f->arena, e);
    f->v[f->n++] = id;
    return true;
}

// LISTs are in order of names, and ULIDs sort as their bytes do.
static bool list_ulids(struct store *s, struct req *r, struct arena *a, str prefix, id128 **v,
                       size_t *n, err *e)
{
    struct ulid_names f = {.arena = a, .prefix = prefix.n};
    *v = NULL;
    *n = 0;
    if (!store_list(s, r, prefix, (str){0}, see_ulid, &f, e))
        return err_wrap(e, "list of %.*s", STR(prefix));
    *v = f.v;
    *n = f.n;
    return true;
}

// ---- streams

static void encode_forgotten(const struct registered_stream *s, int64_t now_ns, struct buf *out)
{
    pb_put_u64(out, 1, FORGOTTEN_FORMAT);
    pb_put_bytes_opt(out, 2, s->node);
    pb_put_bytes(out, 3, id_bytes(&s->boot));
    pb_put_bytes(out, 4, id_bytes(&s->directory));
    pb_put_u64_opt(out, 5, s->log);
    pb_put_fixed64_opt(out, 6, (uint64_t)s->made_ns);
    pb_put_fixed64_opt(out, 7, (uint64_t)now_ns);
}

bool stream_forget(struct store *s, struct req *r, const struct registered_stream *v,
                   int64_t now_ns, err *e)
{
    struct buf bytes;
    bool existed = false;
    str name = name_forgotten(&r->arena, v->stream);
    buf_init(&bytes, NULL, FORGOTTEN_BYTES);
    encode_forgotten(v, now_ns, &bytes);
    bool ok = arena_ok(&r->arena, e) && buf_ok(&bytes, e) &&
              store_put(s, r, name, buf_view(&bytes), &existed, e);
    buf_release(&bytes);
    FAULT("stream.forgotten");
    return ok && stream_unregister(s, r, v->stream, e);
}

bool forgotten_names(struct store *s, struct req *r, struct arena *a, id128 **v, size_t *n, err *e)
{
    return list_ulids(s, r, a, name_all_forgotten(), v, n, e);
}

static void copy_id(id128 *id, ProtobufCBinaryData bytes)
{
    if (bytes.len == sizeof id->b) memcpy(id->b, bytes.data, sizeof id->b);
}

// An object that cannot be decoded counts all the same: that it is there says what matters.
static void decode_forgotten(struct arena *a, str bytes, struct forgotten_stream *out)
{
    err ignored = {0};
    const Flametree__V1__ForgottenStream *m = (const Flametree__V1__ForgottenStream *)
        pb_unpack(a, &flametree__v1__forgotten_stream__descriptor, bytes, &ignored);
    if (!m || m->format != FORGOTTEN_FORMAT) return;
    out->node = arena_str(a, pb_text(m->node));
    copy_id(&out->boot, m->boot);
    copy_id(&out->directory, m->directory);
    out->log = m->log;
    out->made_ns = m->made_ns;
    out->forgotten_ns = m->forgotten_ns;
}

bool forgotten_read(struct store *s, struct req *r, struct arena *a, struct forgotten_stream **v,
                    size_t *n, err *e)
{
    id128 *ids = NULL;
    size_t count = 0;
    *n = 0;
    if (!forgotten_names(s, r, a, &ids, &count, e)) return false;
    *v = ARENA_ARRAY(a, struct forgotten_stream, count + 1);
    for (size_t i = 0; *v && i < count; i++) {
        struct buf bytes;
        err why = {0};
        str name = name_forgotten(a, ids[i]);
        if (!arena_ok(a, e)) return false;
        (*v)[*n] = (struct forgotten_stream){.stream = ids[i]};
        buf_init(&bytes, NULL, FORGOTTEN_BYTES);
        bool ok = store_get(s, r, name, &bytes, &why);
        if (ok) decode_forgotten(a, buf_view(&bytes), &(*v)[*n]);
        buf_release(&bytes);
        // Not found: it was cleared since it was listed.
        *n += why.code != ERR_NOT_FOUND;
        if (ok || why.code == ERR_NOT_FOUND || why.code == ERR_RESOURCE_EXHAUSTED) continue;
        *e = why;
        return err_wrap(e, "forgotten stream");
    }
    return arena_ok(a, e);
}

// ---- deletions

// Message EndedDeletion.
static void encode_end(str tenant, const struct manifest_tombstone *t, int64_t now_ns,
                       const id128 *streams, size_t n, struct buf *out)
{
    pb_put_u64(out, 1, ENDED_FORMAT);
    pb_put_bytes(out, 2, tenant);
    if (t) {
        size_t mark = pb_begin(out, 3);
        tombstone_print(t, t->made_ns, t->version, out);
        pb_end(out, mark);
    }
    for (size_t i = 0; i < n; i++)
        pb_put_bytes(out, 4, id_bytes(&streams[i]));
    pb_put_fixed64_opt(out, 5, (uint64_t)now_ns);
}

bool deletion_note_end(struct store *s, struct req *r, str tenant, id128 id,
                       const struct manifest_tombstone *t, int64_t now_ns, err *e)
{
    id128 *streams = NULL;
    struct buf bytes;
    size_t n = 0;
    bool existed = false;
    str name = name_deleted(&r->arena, id);
    if (!forgotten_names(s, r, &r->arena, &streams, &n, e)) return false;
    if (n == 0) return true;
    buf_init(&bytes, NULL, ENDED_BYTES);
    encode_end(tenant, t, now_ns, streams, n, &bytes);
    bool ok = arena_ok(&r->arena, e) && buf_ok(&bytes, e) &&
              store_put(s, r, name, buf_view(&bytes), &existed, e);
    buf_release(&bytes);
    return ok || err_wrap(e, "note of a deletion that ends");
}

static bool names_stream(const Flametree__V1__EndedDeletion *m, id128 stream)
{
    for (size_t i = 0; i < m->n_streams; i++) {
        id128 id = {0};
        copy_id(&id, m->streams[i]);
        if (id128_eq(id, stream)) return true;
    }
    return false;
}

// NULL and *e clear: it went meanwhile.
static const Flametree__V1__EndedDeletion *get_end(struct store *s, struct req *r, struct arena *a,
                                                   id128 id, err *e)
{
    struct buf bytes;
    err why = {0};
    const Flametree__V1__EndedDeletion *m = NULL;
    str name = name_deleted(a, id);
    if (!arena_ok(a, e)) return NULL;
    buf_init(&bytes, a->budget, ENDED_BYTES);
    if (store_get(s, r, name, &bytes, &why)) {
        str copy = arena_str(a, buf_view(&bytes));
        m = (const Flametree__V1__EndedDeletion *)
            pb_unpack(a, &flametree__v1__ended_deletion__descriptor, copy, &why);
        if (m && m->format != ENDED_FORMAT) {
            m = NULL;
            err_set(&why, ERR_DATA_LOSS, "its format is unknown");
        }
    }
    buf_release(&bytes);
    if (m || why.code == ERR_NOT_FOUND) return m;
    *e = why;
    if (e->code == ERR_INVALID_ARGUMENT) e->code = ERR_DATA_LOSS;
    err_wrap(e, "object %.*s", STR(name));
    return NULL;
}

static bool take_end(struct arena *a, id128 id, const Flametree__V1__EndedDeletion *m,
                     struct ended_deletion *out, err *e)
{
    struct manifest_tombstone t = {.hide = {.from_ns = INT64_MIN, .to_ns = INT64_MAX}};
    *out = (struct ended_deletion){.id = id, .tenant = arena_str(a, pb_text(m->tenant))};
    if (m->tombstone && !tombstone_read(a, 0, m->tombstone, &t, e)) return false;
    out->hide = t.hide;
    return arena_ok(a, e);
}

bool deletions_since(struct store *s, struct req *r, struct arena *a, id128 stream,
                     struct ended_deletion **v, size_t *n, err *e)
{
    id128 *ids = NULL;
    size_t count = 0;
    *n = 0;
    if (!list_ulids(s, r, a, name_all_deleted(), &ids, &count, e)) return false;
    *v = ARENA_ARRAY(a, struct ended_deletion, count + 1);
    if (!*v) return arena_fail(a, e);
    for (size_t i = 0; i < count; i++) {
        err why = {0};
        const Flametree__V1__EndedDeletion *m = get_end(s, r, a, ids[i], &why);
        if (why.code) *e = why;
        if (why.code) return false;
        if (!m || !names_stream(m, stream)) continue;
        if (!take_end(a, ids[i], m, &(*v)[*n], e)) return false;
        ++*n;
    }
    return true;
}

// ---- the end of a forgotten stream

static bool is_needed(const Flametree__V1__EndedDeletion *m, const id128 *streams, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (names_stream(m, streams[i])) return true;
    return false;
}

// Deletions that no forgotten stream has to know. One that ends meanwhile names streams that were
// listed before, so it may be left; the next one that is cleared takes it along.
static bool clear_deletions(struct store *s, struct req *r, err *e)
{
    id128 *streams = NULL;
    id128 *ids = NULL;
    size_t n = 0;
    size_t count = 0;
    // Deletions first: a stream that is forgotten later is not named by those that are listed.
    if (!list_ulids(s, r, &r->arena, name_all_deleted(), &ids, &count, e) ||
        !forgotten_names(s, r, &r->arena, &streams, &n, e))
        return false;
    for (size_t i = 0; i < count; i++) {
        err why = {0};
        const Flametree__V1__EndedDeletion *m = get_end(s, r, &r->arena, ids[i], &why);
        str name = name_deleted(&r->arena, ids[i]);
        if (!arena_ok(&r->arena, e)) return false;
        // One that cannot be read stays while anybody may need it.
        bool needed = m ? is_needed(m, streams, n) : why.code && n > 0;
        if (!needed && !store_delete(s, r, name, e)) return false;
    }
    return true;
}

bool forgotten_clear(struct store *s, struct req *r, id128 stream, err *e)
{
    str name = name_forgotten(&r->arena, stream);
    return arena_ok(&r->arena, e) && store_delete(s, r, name, e) && clear_deletions(s, r, e);
}
