// SPDX-License-Identifier: Apache-2.0
#include "manifest/stream.h"

#include "codec/pb.h"
#include "flametree/v1/internal.pb-c.h"
#include "manifest/metrics.h"
#include "sys/clock.h"

#define STREAM_FORMAT 1
#define STREAM_MAX    ((size_t)4096)
#define LIST_BYTES    ((size_t)64 << 20)

static void encode(const struct registered_stream *s, struct buf *out)
{
    pb_put_u64(out, 1, STREAM_FORMAT);
    pb_put_bytes(out, 2, s->node);
    pb_put_bytes(out, 3, str_make(s->boot.b, sizeof s->boot.b));
    pb_put_bytes_opt(out, 4, s->address);
    pb_put_bytes(out, 5, str_make(s->directory.b, sizeof s->directory.b));
    pb_put_u64_opt(out, 6, s->log);
    pb_put_fixed64_opt(out, 7, (uint64_t)s->made_ns);
    pb_put_fixed64_opt(out, 8, (uint64_t)s->rows_from_ns);
}

bool stream_register(struct store *s, struct req *r, const struct registered_stream *v,
                     bool *existed, err *e)
{
    struct buf bytes;
    str name = name_stream(&r->arena, v->stream);
    assert(v->node.n);
    buf_init(&bytes, NULL, STREAM_MAX);
    encode(v, &bytes);
    bool ok = arena_ok(&r->arena, e) && buf_ok(&bytes, e) &&
              store_put(s, r, name, buf_view(&bytes), existed, e);
    buf_release(&bytes);
    return ok;
}

bool stream_unregister(struct store *s, struct req *r, id128 stream, err *e)
{
    str name = name_stream(&r->arena, stream);
    return arena_ok(&r->arena, e) && store_delete(s, r, name, e);
}

const char *stream_log_name(uint32_t log)
{
    if (log == STREAM_LOG_LOCAL) return "local";
    return log == STREAM_LOG_OBJECT ? "object" : "other";
}

// ---- objects of former programs

bool streams_clear_former(struct store *s, struct req *r, str node, err *e)
{
    struct store_names former;
    str prefix = name_former(&r->arena, node);
    if (!arena_ok(&r->arena, e) || !store_names(s, r, prefix, &r->arena, &former, e))
        return err_wrap(e, "list of former data directories");
    for (size_t i = 0; i < former.n; i++) {
        if (!store_delete(s, r, former.v[i].name, e)) return false;
    }
    return true;
}

// ---- listing

struct found {
    struct arena *arena;
    id128 *v;
    size_t n;
    size_t cap;
};

static bool see(void *arg, str name, uint64_t size, err *e)
{
    struct found *f = arg;
    id128 id;
    str rest = str_slice(name, name_streams().n, name.n);
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

bool stream_names(struct store *s, struct req *r, struct arena *a, id128 **v, size_t *n, err *e)
{
    struct found f = {.arena = a};
    *v = NULL;
    *n = 0;
    // LISTs are in order of names, and ULIDs sort as their bytes do.
    if (!store_list(s, r, name_streams(), (str){0}, see, &f, e))
        return err_wrap(e, "list of registered streams");
    *v = f.v;
    *n = f.n;
    return true;
}

static void take_id(id128 *id, ProtobufCBinaryData bytes)
{
    if (bytes.len == sizeof id->b) memcpy(id->b, bytes.data, sizeof id->b);
}

static bool decode(struct arena *a, str bytes, struct registered_stream *out)
{
    err ignored = {0};
    const Flametree__V1__RegisteredStream *m = (const Flametree__V1__RegisteredStream *)
        pb_unpack(a, &flametree__v1__registered_stream__descriptor, bytes, &ignored);
    // A newer format may have changed the meaning of a field.
    if (!m || m->format != STREAM_FORMAT || pb_text(m->node).n == 0) return false;
    out->node = arena_str(a, pb_text(m->node));
    take_id(&out->boot, m->boot);
    take_id(&out->directory, m->directory);
    out->address = arena_str(a, pb_text(m->address));
    out->log = m->log;
    out->made_ns = m->made_ns;
    out->rows_from_ns = m->rows_from_ns;
    return !a->exhausted;
}

// False with *e clear: it was unregistered meanwhile.
static bool read_one(struct store *s, struct req *r, struct arena *a, struct registered_stream *out,
                     err *e)
{
    struct buf bytes;
    err why = {0};
    str name = name_stream(&r->arena, out->stream);
    if (!arena_ok(&r->arena, e)) return false;
    buf_init(&bytes, NULL, STREAM_MAX);
    bool ok = store_get(s, r, name, &bytes, &why);
    // An object larger than any of ours is damaged too; the buffer refuses it.
    bool damaged = ok ? !decode(a, buf_view(&bytes), out) : why.code == ERR_RESOURCE_EXHAUSTED;
    buf_release(&bytes);
    if (damaged) {
        *out = (struct registered_stream){.stream = out->stream,
                                          .made_ns = (int64_t)uuid_ms(out->stream) * NS_PER_MS};
        return true;
    }
    if (!ok && why.code != ERR_NOT_FOUND) *e = why;
    return ok;
}

const struct registered_stream *registered_find(const struct registered *v, id128 stream)
{
    size_t low = 0;
    size_t high = v ? v->n : 0;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = memcmp(v->v[mid].stream.b, stream.b, sizeof stream.b);
        if (order == 0) return &v->v[mid];
        if (order < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return NULL;
}

bool registered_read(struct store *s, struct req *r, struct mem_budget *memory,
                     const struct registered *before, struct registered *out, err *e)
{
    id128 *ids = NULL;
    size_t n = 0;
    struct arena *a = &out->arena;
    *out = (struct registered){0};
    arena_init(a, memory, LIST_BYTES);
    if (!stream_names(s, r, &r->arena, &ids, &n, e)) return false;
    out->v = ARENA_ARRAY(a, struct registered_stream, n + 1);
    for (size_t i = 0; out->v && i < n; i++) {
        const struct registered_stream *known = registered_find(before, ids[i]);
        struct registered_stream *to = &out->v[out->n];
        err why = {0};
        if (known && known->node.n) {
            *to = *known;
            to->node = arena_str(a, known->node);
            to->address = arena_str(a, known->address);
            out->n++;
            continue;
        }
        *to = (struct registered_stream){.stream = ids[i]};
        out->n += read_one(s, r, a, to, &why);
        if (why.code) {
            *e = why;
            return err_wrap(e, "list of registered streams");
        }
    }
    return arena_ok(a, e);
}

void registered_release(struct registered *v)
{
    arena_release(&v->arena);
    v->v = NULL;
    v->n = 0;
}
