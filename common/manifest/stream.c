// SPDX-License-Identifier: Apache-2.0
#include "manifest/stream.h"

#include "base/hash.h"
#include "codec/pb.h"
#include "flametree/v1/internal.pb-c.h"
#include "manifest/metrics.h"
#include "sys/clock.h"

#define STREAM_FORMAT 1
#define STREAM_MAX    ((size_t)4096)
#define SUM_FIELD     9  // the last one
#define SUM_TAG       (SUM_FIELD << 3 | PB_FIXED64)
#define SUM_BYTES     ((size_t)9)
#define LIST_BYTES    ((size_t)64 << 20)
#define AT_ONCE       32  // reads in one call, as many as a bucket has connections
#define READ_MOST_NS  ((uint64_t)3 * NS_PER_S)   // of objects that are read for the first time,
#define LATER_MOST_NS ((uint64_t)10 * NS_PER_S)  // and of those that did not come by then
#define AGAIN_NS      ((uint64_t)NS_PER_S)       // between two tries of one object, or so many
#define AGAIN_TIMES   10                         // times what the first one took

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
    // What is read once is kept for as long as the process lives, so a bit that was wrong on its
    // way must show.
    str before = buf_view(out);
    pb_put_fixed64_opt(out, SUM_FIELD, crc32c(0, before.p, before.n));
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
    bool lacks = false;
    str name = name_stream(&r->arena, stream);
    if (!arena_ok(&r->arena, e) || !store_delete(s, r, name, e) ||
        !store_lacks(s, r, name, &lacks, e)) {
        return false;
    }
    return lacks ||
           err_set(e, ERR_UNAVAILABLE,
                   "object %.*s was deleted, as the store says, and is still listed", STR(name));
}

bool stream_has_ended(struct store *s, struct req *r, id128 stream, bool *ended, err *e)
{
    err why = {0};
    uint64_t size = 0;
    str name = name_stream(&r->arena, stream);
    bool there = arena_ok(&r->arena, &why) && store_size(s, r, name, &size, &why);
    *ended = !there && why.code == ERR_NOT_FOUND;
    if (there || *ended) return true;
    *e = why;
    return false;
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

struct found_stream {
    id128 id;
    uint64_t size;
};

struct found {
    struct arena *arena;
    struct found_stream *v;
    size_t n;
    size_t cap;
};

static bool see(void *arg, str name, uint64_t size, err *e)
{
    struct found *f = arg;
    id128 id;
    str rest = str_slice(name, name_streams().n, name.n);
    if (!name_ulid(&rest, &id) || rest.n) {
        metric_add(&manifest_foreign, 1);
        return true;
    }
    if (!arena_grow(f->arena, &f->v, &f->cap, f->n + 1, sizeof *f->v))
        return arena_fail(f->arena, e);
    f->v[f->n++] = (struct found_stream){id, size};
    return true;
}

// LISTs are in order of names, and ULIDs sort as their bytes do.
static bool list_streams(struct store *s, struct req *r, struct found *f, err *e)
{
    return store_list(s, r, name_streams(), (str){0}, see, f, e) ||
           err_wrap(e, "list of registered streams");
}

bool stream_names(struct store *s, struct req *r, struct arena *a, id128 **v, size_t *n, err *e)
{
    struct found f = {.arena = a};
    *v = NULL;
    *n = 0;
    if (!list_streams(s, r, &f, e)) return false;
    *v = ARENA_ARRAY(a, id128, f.n + 1);
    if (!*v) return arena_fail(a, e);
    for (size_t i = 0; i < f.n; i++)
        (*v)[i] = f.v[i].id;
    *n = f.n;
    return true;
}

// ---- decoding

// False if the bytes are not those that were written. The sum is found from the end, so that a
// wrong length before it does not hide it. Objects of earlier programs end with another field and
// have none.
static bool agrees(str bytes)
{
    uint64_t sum = 0;
    size_t n = bytes.n < SUM_BYTES ? 0 : bytes.n - SUM_BYTES;
    if (n == 0 || (uint8_t)bytes.p[n] != SUM_TAG) return true;
    for (size_t i = SUM_BYTES - 1; i > 0; i--)
        sum = sum << 8 | (uint8_t)bytes.p[n + i];
    return sum == crc32c(0, bytes.p, n);
}

static void take_id(id128 *id, ProtobufCBinaryData bytes)
{
    if (bytes.len == sizeof id->b) memcpy(id->b, bytes.data, sizeof id->b);
}

static bool decode(struct arena *a, str bytes, struct registered_stream *out)
{
    err ignored = {0};
    if (!agrees(bytes)) return false;
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

struct registered_stream registered_copy(struct arena *a, const struct registered_stream *v)
{
    struct registered_stream copy = *v;
    copy.node = arena_str(a, v->node);
    copy.address = arena_str(a, v->address);
    copy.why = arena_str(a, v->why);
    return copy;
}

// ---- reading

// Objects that are to be read, as rows of a list.
struct reading {
    struct store *store;
    struct req *req;
    struct registered *list;
    const struct found *found;  // a row for each of the list's
    uint64_t began_mono_ns;
    bool *gone;  // it is not there; for each row of the list
    size_t gone_count;
    char *room;
    uint64_t limit_ns;  // of the last reads
    uint64_t took_ns;   // and how long they took
};

static struct registered_stream unread(id128 stream)
{
    // Names may be anything, so the time in them may be as well.
    int64_t made_ms = (int64_t)MIN(uuid_ms(stream), (uint64_t)(INT64_MAX / NS_PER_MS));
    return (struct registered_stream){.stream = stream,
                                      .made_ns = made_ms * NS_PER_MS,
                                      .fault = ERR_DEADLINE_EXCEEDED,
                                      .why = S("there was no time to read it")};
}

// The store was not given enough time to answer, or nobody wants to know any more.
static bool is_cut_short(const struct reading *x, const err *fault)
{
    return fault->code == ERR_CANCELED ||
           (fault->code == ERR_DEADLINE_EXCEEDED && x->limit_ns < AGAIN_NS);
}

static void take_read(struct reading *x, size_t row, const struct store_read *read)
{
    struct registered *list = x->list;
    struct registered_stream *to = &list->v[row];
    uint64_t size = x->found->v[row].size;
    if (read && read->ok && decode(&list->arena, str_make(read->to, read->n), to)) {
        to->fault = ERR_OK;
        to->why = (str){0};
        to->again_mono_ns = 0;
        return;
    }
    // (What was decoded of it counts for nothing.)
    *to = unread(to->stream);
    to->fault = ERR_DATA_LOSS;
    to->again_mono_ns = clock_mono_ns() + MAX(AGAIN_NS, AGAIN_TIMES * x->took_ns);
    if (!read) {
        to->why = arena_printf(&list->arena, "it has %llu bytes", (unsigned long long)size);
    } else if (read->ok) {
        to->why = S("it is damaged, or of a later version");
    } else {
        to->fault = read->fault.code;
        to->why = arena_str(&list->arena, str_of(read->fault.msg));
        if (is_cut_short(x, &read->fault)) to->again_mono_ns = 0;
        bool gone = read->fault.code == ERR_NOT_FOUND;
        x->gone[row] = gone;
        x->gone_count += gone;
    }
}

// One that hangs takes half of the time that is left at most, so that there is some for the others.
static void read_chunk(struct reading *x, const size_t *rows, size_t n, uint64_t most_ns)
{
    struct store_read v[AT_ONCE];
    size_t of[AT_ONCE];
    size_t count = 0;
    struct req *r = x->req;
    uint64_t deadline = r->deadline_mono_ns;
    uint64_t now = clock_mono_ns();
    assert(n <= AT_ONCE);
    for (size_t i = 0; i < n; i++) {
        uint64_t size = x->found->v[rows[i]].size;
        if (size == 0 || size > STREAM_MAX) {  // larger than any of ours
            x->took_ns = 0;
            take_read(x, rows[i], NULL);
            continue;
        }
        of[count] = rows[i];
        v[count] = (struct store_read){.name = name_stream(&r->arena, x->list->v[rows[i]].stream),
                                       .n = (size_t)size,
                                       .to = x->room + count * STREAM_MAX};
        count++;
    }
    if (r->arena.exhausted) return;
    x->limit_ns = MIN(req_left_ns(r) / 2, most_ns);
    r->deadline_mono_ns = now + x->limit_ns;
    store_read_many(x->store, r, v, count);
    r->deadline_mono_ns = deadline;
    x->took_ns = clock_mono_ns() - now;
    for (size_t i = 0; i < count; i++)
        take_read(x, of[i], &v[i]);
}

// Takes out what is not there, as the store said after it had listed once more (store.h).
static void drop_gone(struct reading *x)
{
    struct registered *list = x->list;
    size_t kept = 0;
    if (x->gone_count == 0) return;
    for (size_t i = 0; i < list->n; i++)
        if (!x->gone[i]) list->v[kept++] = list->v[i];
    list->n = kept;
}

// Reads the rows that were tried in vain before, or those that were not.
static void read_rows(struct reading *x, bool tried)
{
    const struct registered *list = x->list;
    size_t rows[AT_ONCE];
    size_t n = 0;
    err over = {0};
    for (size_t i = 0; i <= list->n && req_alive(x->req, &over); i++) {
        bool end = i == list->n;
        const struct registered_stream *o = &list->v[i];
        bool due = !end && o->node.n == 0 && (o->again_mono_ns != 0) == tried &&
                   o->again_mono_ns <= x->began_mono_ns;
        if (due) rows[n++] = i;
        if (n == 0 || (n < AT_ONCE && !end)) continue;
        read_chunk(x, rows, n, tried ? LATER_MOST_NS : READ_MOST_NS);
        n = 0;
    }
}

static bool read_due(struct reading *x, err *e)
{
    struct registered *list = x->list;
    struct arena *a = &x->req->arena;
    size_t due = 0;
    for (size_t i = 0; i < list->n; i++)
        due += list->v[i].node.n == 0 && list->v[i].again_mono_ns <= x->began_mono_ns;
    if (due == 0) return true;
    x->gone = ARENA_ARRAY(a, bool, list->n + 1);
    x->room = arena_array(a, STREAM_MAX, MIN(due, (size_t)AT_ONCE));
    if (!x->gone || !x->room) return arena_fail(a, e);
    read_rows(x, false);
    read_rows(x, true);
    drop_gone(x);
    return arena_ok(a, e);
}

bool registered_read(struct store *s, struct req *r, struct mem_budget *memory,
                     const struct registered *before, struct registered *out, err *e)
{
    struct found f = {.arena = &r->arena};
    struct reading x = {
        .store = s, .req = r, .list = out, .found = &f, .began_mono_ns = clock_mono_ns()};
    struct arena *a = &out->arena;
    *out = (struct registered){0};
    arena_init(a, memory, LIST_BYTES);
    if (!list_streams(s, r, &f, e)) return false;
    out->v = ARENA_ARRAY(a, struct registered_stream, f.n + 1);
    if (!out->v) return arena_fail(a, e);
    for (; out->n < f.n; out->n++) {
        struct registered_stream *to = &out->v[out->n];
        const struct registered_stream *known = registered_find(before, f.v[out->n].id);
        *to = known ? registered_copy(a, known) : unread(f.v[out->n].id);
    }
    if (!read_due(&x, e)) return false;
    for (size_t i = 0; i < out->n; i++) {
        out->unread += out->v[i].node.n == 0;
        out->untried += out->v[i].node.n == 0 && out->v[i].again_mono_ns == 0;
    }
    return arena_ok(a, e);
}

void registered_release(struct registered *v)
{
    arena_release(&v->arena);
    v->v = NULL;
    v->n = v->unread = v->untried = 0;
}
