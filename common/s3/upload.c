// SPDX-License-Identifier: Apache-2.0
//
// upload.c - creations. An object of up to PARTS parts, which is nearly every one:
//
//     1. bytes are kept in memory                                   store_write
//     2. one PUT with a nonce, for an exclusive name with `If-None-Match: *`
//        or what stands for that at Google's                           store_commit
//
// A larger one:
//
//     1. bytes are kept until PARTS parts are full                  store_write
//     2. the upload is begun, once, with the nonce; the parts that are full go up together
//     3. the last parts go up, and the upload is ended, for an exclusive name with that condition
//        (store_commit)
//
// Not every service heeds the condition at the end of an upload. Where it does not, an object of an
// exclusive name is kept in memory as a whole.
//
// A creation has succeeded if the service proves that it has these bytes: by their MD5 as the ETag,
// by one that says how many parts there were, or as the speech knows (engine.h). When it fails:
//
//     the name is taken (412)          by this creation, if the object has its nonce: a try went
//                                      before, of ours or of libcurl's; otherwise by another one.
//                                      The parts are dropped.
//     done, but not proven             the same, by nonce, size and, of a small one, the bytes.
//                                      Where nothing is there the caller is told `unavailable`
//     too large (413)                  unless a try before it has landed: what is larger than a
//                                      part goes up in parts. A part, or less, that is too large:
//                                      the caller is told `out_of_range`
//     no answer after all tries        the same, if the object is there; otherwise it may come yet:
//                                      the caller is told `unavailable`
//     abandoned, or the process ends   an upload that was begun stays in the bucket, invisible,
//                                      until store_tidy or a rule of the bucket drops it
#include "base/hash.h"
#include "s3/engine.h"
#include "s3/metrics.h"
#include "store/check.h"
#include "store/metrics.h"
#include "sys/rand.h"

#include <stdio.h>

// A part has 5 MB at least, and an upload 10,000 parts at most: objects of up to 80 GB.
#define PART_BYTES ((size_t)8 << 20)
#define PARTS      4
#define PARTS_MOST 10000
#define WHOLE_MAX  ((size_t)4 << 30)  // what a service takes in one request is 5 GB
#define FIRST      ((size_t)64 << 10)
#define ANSWER_MAX ((size_t)64 << 10)
#define NONCE_TEXT 32
#define SMALL      ((size_t)64 << 10)  // is read back where its creation is not proven

struct upload {
    struct store_upload upload;
    struct s3 *s3;
    struct req *req;
    enum store_naming naming;
    bool decided;  // whether it may go up in parts
    bool whole;    // it may not
    char *bytes;   // not sent yet
    size_t n;
    size_t cap;
    uint64_t total;  // bytes that were written, those that are sent included
    char id[512];    // of the upload in parts; empty: not begun
    size_t id_n;
    struct s3_part *sent;
    size_t parts;
    size_t sent_cap;
    char nonce[NONCE_TEXT + 1];
    size_t name_n;
    char name[STORE_NAME_MAX + 1];
};

static str name_of(const struct upload *u)
{
    return str_make(u->name, u->name_n);
}

static void upload_free(struct upload *u)
{
    mem_free(u->s3->memory, u->bytes, u->cap);
    mem_free(u->s3->memory, u->sent, u->sent_cap * sizeof *u->sent);
    mem_free(u->s3->memory, u, sizeof *u);
}

struct store_upload *s3_begin(struct store *st, struct req *r, str name, enum store_naming naming,
                              uint64_t about, err *e)
{
    struct s3 *s = s3_of(st);
    uint64_t random[2] = {rand_u64(), rand_u64()};
    if (!req_alive(r, e)) return NULL;
    struct upload *u = mem_alloc(s->memory, sizeof *u, e);
    if (!u) return NULL;
    u->upload.store = st;
    u->s3 = s;
    u->req = r;
    u->naming = naming;
    u->name_n = name.n;
    memcpy(u->name, name.p, name.n);
    snprintf(u->nonce, sizeof u->nonce, "%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
    u->cap = (size_t)MIN(MAX(about, (uint64_t)FIRST), (uint64_t)PART_BYTES);
    u->bytes = mem_resize_bare(s->memory, NULL, 0, u->cap, e);
    if (u->bytes) return &u->upload;
    u->cap = 0;
    upload_free(u);
    return NULL;
}

// ---- parts

static str parts_query(struct upload *u, struct arena *a, size_t part)
{
    struct buf q;
    buf_init(&q, NULL, 4096);
    u->s3->speech->multipart.query(&q, str_make(u->id, u->id_n), part);
    return s3_text(a, &q);
}

static bool begin_parts(struct upload *u, err *e)
{
    struct arena a;
    str id = {0};
    if (!u->s3->speech->multipart.begins) {
        u->id_n = NONCE_TEXT;
        memcpy(u->id, u->nonce, u->id_n);
        return true;
    }
    arena_init(&a, u->s3->memory, ANSWER_MAX);
    struct s3_op o = {.action = S3_BEGIN,
                      .key = s3_key(u->s3, &a, name_of(u)),
                      .query = S("uploads="),
                      .extra = {{str_of(u->s3->speech->nonce), str_of(u->nonce)}},
                      .extra_n = 1,
                      .answer_max = ANSWER_MAX};
    bool ok = arena_ok(&a, e);
    if (ok) s3_run(u->s3, u->req, &o, 1);
    if (ok && !s3_is_done(&o)) {
        s3_fault(u->s3, &o, "begin to write", name_of(u), e);
        ok = false;
    }
    ok = ok && s3_read_upload(&a, buf_view(&o.call.answer), &id, e);
    if (ok && id.n > sizeof u->id)
        ok = err_set(e, ERR_DATA_LOSS, "begin to write object %.*s: the upload's id is too long",
                     STR(name_of(u)));
    if (ok) {
        memcpy(u->id, id.p, id.n);
        u->id_n = id.n;
    }
    s3_op_release(&o);
    arena_release(&a);
    return ok;
}

static bool keep_part(struct upload *u, struct s3_op *o, size_t part, err *e)
{
    str etag = http_headers_get(&o->call.answer_headers, "etag");
    if (!s3_is_done(o)) {
        s3_fault(u->s3, o, "write a part of", name_of(u), e);
        if (e->code == ERR_NOT_FOUND) e->code = ERR_UNAVAILABLE;  // the upload is, not the object
        return false;
    }
    if (!u->s3->speech->multipart.etags) return true;
    if (!etag.n || etag.n >= S3_ETAG_MAX)
        return err_set(e, ERR_DATA_LOSS, "write a part of object %.*s: it got no ETag",
                       STR(name_of(u)));
    memcpy(u->sent[part].etag, etag.p, etag.n);
    u->sent[part].etag[etag.n] = '\0';
    return true;
}

// Sends what is in memory, in parts of PART_BYTES; the last one may be shorter.
static bool send_parts(struct upload *u, err *e)
{
    struct s3_op ops[PARTS];
    struct arena a;
    size_t n = (u->n + PART_BYTES - 1) / PART_BYTES;
    assert(n > 0 && n <= PARTS);
    if (!u->id_n && !begin_parts(u, e)) return false;
    if (u->parts + n > PARTS_MOST)
        return err_set(e, ERR_OUT_OF_RANGE, "write object %.*s: it has more than %d parts",
                       STR(name_of(u)), PARTS_MOST);
    if (!mem_grow(u->s3->memory, &u->sent, &u->sent_cap, u->parts + n, sizeof *u->sent, e))
        return false;
    arena_init(&a, u->s3->memory, ANSWER_MAX);
    memset(ops, 0, sizeof ops);
    for (size_t i = 0; i < n; i++) {
        size_t from = i * PART_BYTES;
        ops[i] = (struct s3_op){.action = S3_PART,
                                .key = s3_key(u->s3, &a, name_of(u)),
                                .query = parts_query(u, &a, u->parts + i + 1),
                                .body = str_make(u->bytes + from, MIN(u->n - from, PART_BYTES)),
                                .answer_max = ANSWER_MAX};
    }
    bool ok = arena_ok(&a, e);
    if (ok) s3_run(u->s3, u->req, ops, n);
    for (size_t i = 0; ok && i < n; i++)
        ok = keep_part(u, &ops[i], u->parts + i, e);
    for (size_t i = 0; i < n; i++)
        s3_op_release(&ops[i]);
    arena_release(&a);
    if (!ok) return false;
    metric_add_to(&store_bytes, S("written"), u->n);
    u->parts += n;
    u->n = 0;
    return true;
}

static bool parts_are_exclusive(struct upload *u);

// How many bytes may be kept: whole parts, since all but the last part of an upload have one size.
static size_t room_of(const struct upload *u)
{
    return u->whole || u->cap < PART_BYTES ? u->cap : u->cap / PART_BYTES * PART_BYTES;
}

static bool grow(struct upload *u, size_t more, err *e)
{
    if (u->n + more > PARTS * PART_BYTES && !u->decided) {
        u->whole = u->naming == STORE_EXCLUSIVE && !parts_are_exclusive(u);
        u->decided = true;
    }
    size_t most = u->whole ? WHOLE_MAX : PARTS * PART_BYTES;
    size_t need = MIN(u->n + more, most);
    size_t cap = MIN(MAX(need, u->cap * 2), most);
    err starved = {0};
    if (need <= u->cap) return true;
    char *longer = mem_resize_bare(u->s3->memory, u->bytes, u->cap, cap, &starved);
    if (longer) {
        u->bytes = longer;
        u->cap = cap;
        return true;
    }
    // Without memory for several parts, one after the other goes up.
    bool one = u->cap >= PART_BYTES && !u->whole;
    if (!one) *e = starved;
    return one;
}

bool s3_write(struct store_upload *up, str bytes, err *e)
{
    struct upload *u = CONTAINER_OF(up, struct upload, upload);
    while (bytes.n > 0) {
        if (u->n + bytes.n > room_of(u) && !grow(u, bytes.n, e)) return false;
        if (u->n == room_of(u) && u->whole)
            return err_set(e, ERR_OUT_OF_RANGE, "create object %.*s: it has more than %zu bytes",
                           STR(name_of(u)), WHOLE_MAX);
        if (u->n == room_of(u) && !send_parts(u, e)) return false;
        size_t n = MIN(bytes.n, room_of(u) - u->n);
        memcpy(u->bytes + u->n, bytes.p, n);
        u->n += n;
        u->total += n;
        bytes = str_slice(bytes, n, bytes.n);
    }
    return true;
}

// ---- the end

// Has the object that is ours all bytes, or, as far as is known, as many?
static bool has_all(const struct upload *u, const struct s3_op *o)
{
    uint64_t n = 0;
    if (o->action == S3_GET) return str_eq(buf_view(&o->call.answer), str_make(u->bytes, u->n));
    return str_u64(http_headers_get(&o->call.answer_headers, "content-length"), &n) &&
           n == u->total;
}

// Has the object of that name our nonce? Then a try whose answer was lost has created it.
// `expected`: the service has just said that it is there. `by_bytes`: a small one is read back.
static bool is_ours(struct upload *u, bool expected, bool by_bytes, bool *ours, err *e)
{
    struct arena a;
    bool reads = by_bytes && u->parts == 0 && u->n <= SMALL;
    arena_init(&a, u->s3->memory, ANSWER_MAX);
    struct s3_op o = {.action = reads ? S3_GET : S3_HEAD,
                      .key = s3_key(u->s3, &a, name_of(u)),
                      .expected = expected,
                      .answer_max = MAX(ANSWER_MAX, SMALL)};
    bool ok = arena_ok(&a, e);
    if (ok) s3_run(u->s3, u->req, &o, 1);
    if (ok && !s3_is_done(&o)) {
        s3_fault(u->s3, &o, "look whose is", name_of(u), e);
        // It was there a moment ago, or may come yet. Whether it is ours is not known.
        if (e->code == ERR_NOT_FOUND) e->code = ERR_UNAVAILABLE;
        ok = false;
    }
    str nonce = http_headers_get(&o.call.answer_headers, u->s3->speech->nonce);
    *ours = ok && str_is(nonce, u->nonce);
    if (*ours && !has_all(u, &o)) {
        *ours = false;
        ok = err_set(e, ERR_DATA_LOSS,
                     "create object %.*s: the store has other bytes than the %llu that were sent",
                     STR(name_of(u)), (unsigned long long)u->total);
    }
    s3_op_release(&o);
    arena_release(&a);
    return ok;
}

// What a creation has come to that the service did not call successful. `taken`: it says that the
// name is.
static bool conclude(struct upload *u, struct s3_op *o, bool taken, bool *existed, err *e)
{
    bool ours = false;
    bool unproven = o->cause == S3_UNPROVEN;
    err unseen = {0};
    // Also after the first try: libcurl sends a request again by itself if a connection that was
    // kept open ends before the answer. And without any answer: some services refuse a large object
    // and hang up before all of it was sent.
    bool doubt = taken || unproven || !o->answered || o->tries > 1;
    bool seen = doubt && is_ours(u, taken, unproven, &ours, &unseen);
    if ((taken || unseen.code == ERR_DATA_LOSS) && !seen) {
        *e = unseen;
    } else if (!seen) {
        s3_fault(u->s3, o, "create", name_of(u), e);
        if (e->code == ERR_NOT_FOUND) e->code = ERR_UNAVAILABLE;
    }
    if (!seen) return false;
    if (ours) metric_add(&s3_landed, 1);
    *existed = !ours;
    return true;
}

static bool put_whole(struct upload *u, bool *existed, err *e)
{
    struct arena a;
    char crc[S3_CRC_TEXT + 1];
    snprintf(crc, sizeof crc, "%08x", crc32c(0, u->bytes, u->n));
    arena_init(&a, u->s3->memory, ANSWER_MAX);
    struct s3_op o = {.action = S3_PUT,
                      .key = s3_key(u->s3, &a, name_of(u)),
                      .extra = {{str_of(u->s3->speech->nonce), str_of(u->nonce)},
                                {str_of(u->s3->speech->crc), str_of(crc)},
                                s3_if_free(u->s3)},
                      .extra_n = u->naming == STORE_EXCLUSIVE ? 3 : 2,
                      .body = str_make(u->bytes, u->n),
                      .answer_max = ANSWER_MAX};
    bool ok = arena_ok(&a, e);
    if (ok) s3_run(u->s3, u->req, &o, 1);
    bool made = ok && s3_is_done(&o) && o.cause == S3_NO_CAUSE;
    if (made) metric_add_to(&store_bytes, S("written"), u->n);
    if (ok && !made) ok = conclude(u, &o, o.answered && o.cause == S3_TAKEN, existed, e);
    s3_op_release(&o);
    arena_release(&a);
    return ok;
}

// What the end of an upload in parts was answered with. *made: the object is there and ours.
static bool read_end(struct upload *u, struct s3_op *o, struct arena *a, bool *made, bool *taken,
                     err *e)
{
    const struct s3_multipart *m = &u->s3->speech->multipart;
    struct s3_refusal why = {0};
    str etag = {0};
    // Where parts are gone, a creation has ended that took the name: an earlier try of this one, or
    // another's. Where an upload is, a try whose answer was lost may have ended it.
    *taken = o->answered && (o->cause == S3_TAKEN || o->cause == S3_GONE);
    if (!s3_is_done(o)) {
        return !(o->answered && o->cause == S3_NO_UPLOAD) || is_ours(u, false, false, made, e);
    }
    if (m->read_completed && !m->read_completed(a, buf_view(&o->call.answer), &why, &etag, e)) {
        if (e->code == ERR_DATA_LOSS) e->code = ERR_UNAVAILABLE;
        return false;
    }
    if (m->etags && !why.code.n && !s3_is_etag_of_parts(etag, u->parts)) o->cause = S3_UNPROVEN;
    *made = !why.code.n && o->cause == S3_NO_CAUSE;
    *taken = str_is(why.code, "PreconditionFailed");
    if (*made || *taken || o->cause == S3_UNPROVEN) return true;
    return err_set(e, ERR_UNAVAILABLE, "create object %.*s: %.*s: %.*s", STR(name_of(u)),
                   STR(why.code), STR(str_slice(why.message, 0, 200)));
}

static bool end_parts(struct upload *u, bool *existed, err *e)
{
    struct s3 *s = u->s3;
    struct arena a;
    struct buf list;
    arena_init(&a, u->s3->memory, ANSWER_MAX);
    buf_init(&list, u->s3->memory, (size_t)PARTS_MOST * (S3_ETAG_MAX + 80));
    s->speech->multipart.put_list(&list, str_make(u->id, u->id_n), u->sent, u->parts);
    bool exclusive = u->naming == STORE_EXCLUSIVE;
    struct http_header nonce = {str_of(s->speech->nonce), str_of(u->nonce)};
    struct s3_op o = {.action = S3_END,
                      .key = s3_key(u->s3, &a, name_of(u)),
                      .query = parts_query(u, &a, 0),
                      .body = buf_view(&list),
                      .answer_max = ANSWER_MAX};
    if (!s->speech->multipart.begins) o.extra[o.extra_n++] = nonce;
    if (exclusive) o.extra[o.extra_n++] = s3_if_free(s);
    bool made = false;
    bool taken = false;
    bool ok = buf_ok(&list, e) && arena_ok(&a, e);
    if (ok) s3_run(u->s3, u->req, &o, 1);
    ok = ok && read_end(u, &o, &a, &made, &taken, e);
    if (made) u->id_n = 0;  // there is nothing to drop any more
    if (ok && !made) ok = conclude(u, &o, taken, existed, e);
    s3_op_release(&o);
    buf_release(&list);
    arena_release(&a);
    return ok;
}

// Drops an upload in parts that was begun. If it fails, its parts stay until store_tidy.
static void drop_parts(struct upload *u)
{
    struct arena a;
    if (!u->id_n || !u->s3->speech->multipart.begins) return;
    arena_init(&a, u->s3->memory, ANSWER_MAX);
    struct s3_op o = {.action = S3_DROP,
                      .key = s3_key(u->s3, &a, name_of(u)),
                      .query = parts_query(u, &a, 0),
                      .answer_max = ANSWER_MAX};
    err ignored = {0};
    if (arena_ok(&a, &ignored)) s3_run(u->s3, u->req, &o, 1);
    s3_op_release(&o);
    arena_release(&a);
}

static bool put_parts(struct upload *u, bool *existed, err *e)
{
    return (u->n == 0 || send_parts(u, e)) && end_parts(u, existed, e);
}

// May what was not sent yet go up in parts?
static bool is_divisible(struct upload *u)
{
    if (u->n <= PART_BYTES || u->whole) return false;
    return u->naming == STORE_UNIQUE || parts_are_exclusive(u);
}

// In one body, or in parts where a body of that size is too large for the service, or for something
// before it.
static bool put_all(struct upload *u, bool *existed, err *e)
{
    size_t refused = atomic_load(&u->s3->body_refused);
    if (refused && u->n >= refused && is_divisible(u)) return put_parts(u, existed, e);
    if (put_whole(u, existed, e)) return true;
    if (e->code != ERR_OUT_OF_RANGE || !is_divisible(u)) return false;
    atomic_store(&u->s3->body_refused, u->n);
    return put_parts(u, existed, e);
}

bool s3_commit(struct store_upload *up, bool *existed, err *e)
{
    struct upload *u = CONTAINER_OF(up, struct upload, upload);
    bool ok = u->id_n > 0 ? put_parts(u, existed, e) : put_all(u, existed, e);
    if (!ok) *existed = false;
    // After an unknown outcome the parts stay: a try that is still under way needs them.
    if (ok || e->code != ERR_UNAVAILABLE) drop_parts(u);
    upload_free(u);
    return ok;
}

void s3_abandon(struct store_upload *up)
{
    struct upload *u = CONTAINER_OF(up, struct upload, upload);
    drop_parts(u);
    upload_free(u);
}

// ---- the trial

// An object, and then an upload in parts of the same name, whose end must be refused.
static bool try_parts(struct upload *u, str name, bool *exclusive, err *e)
{
    struct store *st = &u->s3->store;
    bool existed = false;
    if (!store_put(st, u->req, name, S("1"), &existed, e)) return false;
    struct store_upload *up = s3_begin(st, u->req, name, STORE_EXCLUSIVE, 1, e);
    if (!up) return false;
    struct upload *second = CONTAINER_OF(up, struct upload, upload);
    second->decided = true;
    if (!s3_write(up, S("2"), e) || !send_parts(second, e)) {
        s3_abandon(up);
        return false;
    }
    return s3_commit(up, exclusive, e);
}

// Does the service heed the condition at the end of an upload in parts? Tried out once, when it
// matters for the first time. If it cannot be tried now, the answer is no for now.
static bool parts_are_exclusive(struct upload *u)
{
    struct s3 *s = u->s3;
    char name[sizeof STORE_CHECK_PREFIX + NONCE_TEXT + 16];
    bool exclusive = false;
    err why = {0};
    enum s3_parts known = atomic_load(&s->parts);
    if (known != S3_PARTS_UNTRIED) return known == S3_PARTS_EXCLUSIVE;
    snprintf(name, sizeof name, STORE_CHECK_PREFIX "parts.%s", u->nonce);
    bool ok = try_parts(u, str_of(name), &exclusive, &why);
    err ignored = {0};
    (void)!store_delete(&s->store, u->req, str_of(name), &ignored);
    if (ok) atomic_store(&s->parts, exclusive ? S3_PARTS_EXCLUSIVE : S3_PARTS_REPLACE);
    return ok && exclusive;
}
