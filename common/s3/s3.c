// SPDX-License-Identifier: Apache-2.0
//
// s3.c - opens and closes a store in a bucket; sizes, lists, deletions.
#include "codec/base64.h"
#include "net/http.h"
#include "s3/metrics.h"
#include "s3/s3_int.h"
#include "store/metrics.h"

#include <stdio.h>
#include <stdlib.h>

#include <openssl/evp.h>

#define WIDTH       32
#define ANSWER_MAX  ((size_t)64 << 10)  // of operations that answer nothing but refusals
#define PAGE_MAX    ((size_t)4 << 20)   // a page of 1,000 keys, each up to 1 KB
#define PAGE_TRIES  3
#define REMOVALS    32
#define DELETE_MOST 1000  // objects of one request, as the protocol says
#define LIST_MOST   "1000"
#define GOOGLE_HOST "storage.googleapis.com"

static const struct s3_speech speech_amazon = {
    .signer = &s3_signer_amazon,
    .region = "us-east-1",
    .nonce = "x-amz-meta-flametree-nonce",
    .crc = "x-amz-meta-flametree-crc32c",
    .if_free = "if-none-match",
    .if_free_value = "*",
    .batches = true,
    .parts = true,
};

static const struct s3_speech speech_google = {
    .signer = &s3_signer_google,
    .region = "auto",
    .nonce = "x-goog-meta-flametree-nonce",
    .crc = "x-goog-meta-flametree-crc32c",
    .if_free = "x-goog-if-generation-match",
    .if_free_value = "0",
};

// ---- sizes

static bool size_of(struct s3 *s, struct s3_op *o, str name, uint64_t *size, err *e)
{
    bool ok = o->answered && o->call.status == 200;
    if (!ok) s3_fault(s, o, "look at", name, e);
    if (ok && !str_u64(http_headers_get(&o->call.answer_headers, "content-length"), size)) {
        ok = err_set(e, ERR_DATA_LOSS, "look at object %.*s: the answer has no length", STR(name));
    }
    s3_op_release(o);
    return ok;
}

static void s3_size_many(struct store *st, struct req *r, struct store_sizing *v, size_t n)
{
    struct s3 *s = s3_of(st);
    err why = {0};
    const size_t most = MIN(n, (size_t)WIDTH);
    struct s3_op *ops = mem_alloc(r->arena.budget, most * sizeof *ops, &why);
    for (size_t from = 0, to = 0; from < n; from = to) {
        to = MIN(from + WIDTH, n);
        for (size_t i = from; ops && i < to; i++) {
            ops[i - from] = (struct s3_op){.action = S3_HEAD,
                                           .key = s3_key(s, &r->arena, v[i].name),
                                           .answer_max = ANSWER_MAX};
        }
        bool ready = ops && arena_ok(&r->arena, &why);
        if (ready) s3_run(s, r, ops, to - from);
        for (size_t i = from; i < to; i++) {
            if (!ready) v[i].fault = why;
            v[i].ok = ready && size_of(s, &ops[i - from], v[i].name, &v[i].size, &v[i].fault);
        }
    }
    mem_free(r->arena.budget, ops, most * sizeof *ops);
}

static bool s3_size(struct store *st, struct req *r, str name, uint64_t *size, err *e)
{
    struct s3_op o = {.action = S3_HEAD,
                      .key = s3_key(s3_of(st), &r->arena, name),
                      .answer_max = ANSWER_MAX};
    if (!arena_ok(&r->arena, e)) return false;
    s3_run(s3_of(st), r, &o, 1);
    return size_of(s3_of(st), &o, name, size, e);
}

// ---- lists

static bool visit_page(const struct s3 *s, const struct s3_page *page, str after, store_visit *fn,
                       void *arg, err *e)
{
    size_t own = strlen(s->prefix);
    for (size_t i = 0; i < page->n; i++) {
        err strange = {0};
        str name = str_slice(page->v[i].key, own, page->v[i].key.n);
        // Consoles make objects whose names end in '/', to show folders: they are none of ours.
        if (!store_name_check(name, &strange)) continue;
        // A service that does not know start-after begins at the prefix.
        if (after.n && str_cmp(name, after) <= 0) continue;
        if (!fn(arg, name, page->v[i].size, e)) return false;
    }
    return true;
}

static str list_query(const struct s3 *s, struct arena *a, str prefix, str after, str token)
{
    struct buf q;
    buf_init(&q, NULL, 16 << 10);
    if (token.n) s3_query_add(&q, "continuation-token", token);
    s3_query_add(&q, "list-type", S("2"));
    s3_query_add(&q, "max-keys", S(LIST_MOST));
    s3_query_add(&q, "prefix", s3_key(s, a, prefix));
    if (after.n && !token.n) s3_query_add(&q, "start-after", s3_key(s, a, after));
    str copy = arena_str(a, buf_view(&q));
    if (q.failed) a->exhausted = true;
    buf_release(&q);
    return copy;
}

static bool get_page_once(struct s3 *s, struct req *r, struct arena *a, str query, str prefix,
                          struct s3_page *page, err *e)
{
    struct s3_op o = {.action = S3_LIST, .query = query, .answer_max = PAGE_MAX};
    s3_run(s, r, &o, 1);
    bool ok = o.answered && o.call.status == 200;
    if (!ok) s3_fault(s, &o, "list", prefix, e);
    ok = ok && s3_read_page(a, buf_view(&o.call.answer), page, e);
    s3_op_release(&o);
    return ok;
}

// One page; its text lives in `a`. One that is not whole was damaged on its way, and is asked for
// again.
static bool get_page(struct s3 *s, struct req *r, struct arena *a, str query, str prefix,
                     struct s3_page *page, err *e)
{
    for (unsigned tries = 1;; tries++) {
        if (get_page_once(s, r, a, query, prefix, page, e)) return true;
        if (e->code != ERR_DATA_LOSS || tries == PAGE_TRIES) return false;
        *e = (err){0};
    }
}

static bool s3_list(struct store *st, struct req *r, str prefix, str after, store_visit *fn,
                    void *arg, err *e)
{
    struct s3 *s = s3_of(st);
    char kept[2048];
    str token = {0};
    bool ok = true;
    for (bool more = true; ok && more;) {
        struct arena a;
        struct s3_page page = {0};
        arena_init(&a, s->memory, PAGE_MAX);
        str query = list_query(s, &a, prefix, after, token);
        ok = arena_ok(&a, e) && get_page(s, r, &a, query, prefix, &page, e) &&
             visit_page(s, &page, after, fn, arg, e);
        more = page.truncated;
        if (ok && more && page.next.n > sizeof kept)
            ok = err_set(e, ERR_DATA_LOSS, "list %.*s: the token of the next page is too long",
                         STR(prefix));
        if (ok && more) {
            memcpy(kept, page.next.p, page.next.n);
            token = str_make(kept, page.next.n);
        }
        arena_release(&a);
    }
    return ok;
}

// ---- deletions

static bool is_removed(struct s3 *s, struct s3_op *o, str name, err *e)
{
    err why = {0};
    bool ok = o->answered && (o->call.status == 204 || o->call.status == 200);
    if (!ok) s3_fault(s, o, "delete", name, &why);
    ok = ok || why.code == ERR_NOT_FOUND;
    if (!ok) *e = why;
    s3_op_release(o);
    return ok;
}

static bool s3_remove(struct store *st, struct req *r, str name, err *e)
{
    struct s3 *s = s3_of(st);
    struct s3_op o = {.action = S3_DELETE,
                      .key = s3_key(s, &r->arena, name),
                      .answer_max = ANSWER_MAX};
    if (!arena_ok(&r->arena, e)) return false;
    s3_run(s, r, &o, 1);
    return is_removed(s, &o, name, e);
}

// A request for each, up to REMOVALS of them together.
static void remove_each(struct s3 *s, struct req *r, struct store_removal *v, size_t n)
{
    struct s3_op ops[REMOVALS];
    for (size_t from = 0, to = 0; from < n; from = to) {
        struct arena a;
        err why = {0};
        to = MIN(from + REMOVALS, n);
        memset(ops, 0, sizeof ops);
        arena_init(&a, s->memory, PAGE_MAX);
        for (size_t i = from; i < to; i++) {
            ops[i - from] = (struct s3_op){.action = S3_DELETE,
                                           .key = s3_key(s, &a, v[i].name),
                                           .answer_max = ANSWER_MAX};
        }
        bool ready = arena_ok(&a, &why);
        if (ready) s3_run(s, r, ops, to - from);
        for (size_t i = from; i < to; i++) {
            if (!ready) v[i].fault = why;
            v[i].ok = ready && is_removed(s, &ops[i - from], v[i].name, &v[i].fault);
        }
        arena_release(&a);
    }
}

static void put_names(struct buf *b, const struct s3 *s, const struct store_removal *v, size_t n)
{
    buf_z(b, "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>");
    for (size_t i = 0; i < n; i++) {
        buf_printf(b, "<Object><Key>%s", s->prefix);
        for (size_t k = 0; k < v[i].name.n; k++) {
            char c = v[i].name.p[k];
            if (c == '&')
                buf_z(b, "&amp;");
            else if (c == '<')
                buf_z(b, "&lt;");
            else if (c == '>')
                buf_z(b, "&gt;");
            else
                buf_byte(b, (unsigned char)c);
        }
        buf_z(b, "</Key></Object>");
    }
    buf_z(b, "</Delete>");
}

static str md5_of(struct arena *a, str bytes)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    struct buf text;
    buf_init(&text, NULL, 64);
    if (EVP_Digest(bytes.p, bytes.n, digest, &n, EVP_md5(), NULL) == 1)
        base64_put(&text, str_make(digest, n), true);
    else
        a->exhausted = true;
    str copy = arena_str(a, buf_view(&text));
    buf_release(&text);
    return copy;
}

static void all_failed(struct store_removal *v, size_t n, const err *e)
{
    for (size_t i = 0; i < n; i++) {
        v[i].ok = false;
        v[i].fault = *e;
    }
}

// The keys that a batch did not delete, told back to their removals.
static void note_failures(const struct s3 *s, const struct s3_failures *f, struct store_removal *v,
                          size_t n)
{
    size_t own = strlen(s->prefix);
    for (size_t i = 0; i < f->n; i++) {
        str name = str_slice(f->v[i].key, own, f->v[i].key.n);
        for (size_t k = 0; k < n; k++) {
            if (!str_eq(v[k].name, name) || str_is(f->v[i].why.code, "NoSuchKey")) continue;
            v[k].ok =
                err_set(&v[k].fault, ERR_UNAVAILABLE, "delete object %.*s: %.*s: %.*s", STR(name),
                        STR(f->v[i].why.code), STR(str_slice(f->v[i].why.message, 0, 200)));
        }
    }
}

static void remove_batch(struct s3 *s, struct req *r, struct store_removal *v, size_t n)
{
    struct arena a;
    struct buf body;
    struct s3_failures failures = {0};
    err e = {0};
    arena_init(&a, s->memory, PAGE_MAX);
    buf_init(&body, s->memory, PAGE_MAX);
    put_names(&body, s, v, n);
    struct s3_op o = {.action = S3_DELETE_MANY,
                      .query = S("delete="),
                      .extra = {{S("content-md5"), md5_of(&a, buf_view(&body))}},
                      .extra_n = 1,
                      .body = buf_view(&body),
                      .answer_max = PAGE_MAX};
    bool ok = buf_ok(&body, &e) && arena_ok(&a, &e);
    if (ok) s3_run(s, r, &o, 1);
    if (ok && !(o.answered && o.call.status == 200)) {
        s3_fault(s, &o, "delete, with others,", v[0].name, &e);
        if (e.code == ERR_NOT_FOUND) e.code = ERR_UNAVAILABLE;
        ok = false;
    }
    ok = ok && s3_read_deleted(&a, buf_view(&o.call.answer), &failures, &e);
    for (size_t i = 0; ok && i < n; i++)
        v[i].ok = true;
    if (ok) note_failures(s, &failures, v, n);
    if (!ok) all_failed(v, n, &e);
    s3_op_release(&o);
    buf_release(&body);
    arena_release(&a);
}

static void s3_remove_many(struct store *st, struct req *r, struct store_removal *v, size_t n)
{
    struct s3 *s = s3_of(st);
    if (n == 1) {
        v[0].ok = s3_remove(st, r, v[0].name, &v[0].fault);
        return;
    }
    if (!s->speech->batches) {
        remove_each(s, r, v, n);
        return;
    }
    for (size_t i = 0; i < n; i += DELETE_MOST)
        remove_batch(s, r, v + i, MIN(n - i, (size_t)DELETE_MOST));
}

// ---- open and close

static void s3_close(struct store *st)
{
    struct s3 *s = s3_of(st);
    s3_creds_close(s->creds);
    client_free(s->client);
    if (s->loop) loop_free(s->loop);
    mem_free(NULL, s, sizeof *s);
}

static const struct store_kind kind = {
    .name = "s3",
    .remote = true,
    .read_many = s3_read_many,
    .list = s3_list,
    .begin = s3_begin,
    .write = s3_write,
    .commit = s3_commit,
    .abandon = s3_abandon,
    .remove = s3_remove,
    .remove_many = s3_remove_many,
    .size = s3_size,
    .size_many = s3_size_many,
    .get = s3_get,
    .tidy = s3_tidy,
    .close = s3_close,
};

static bool set_endpoint(struct s3 *s, const struct s3_options *o, err *e)
{
    char amazon[128];
    snprintf(amazon, sizeof amazon, "https://s3.%s.amazonaws.com", s->region);
    str url = str_of(o->endpoint && o->endpoint[0] ? o->endpoint : amazon);
    s->tls = str_starts(url, S("https://"));
    if (!s->tls && !str_starts(url, S("http://")))
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "s3.endpoint: '%.*s' begins with neither https:// nor http://", STR(url));
    str host = str_slice(url, s->tls ? 8 : 7, url.n);
    if (str_ends(host, S("/"))) host.n--;
    if (!host.n || !http_is_authority(host)) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "s3.endpoint: '%.*s' is no address; it is written "
                       "https://host:port, without a path",
                       STR(url));
    }
    snprintf(s->host, sizeof s->host, "%s%s%.*s", o->path_style ? "" : s->bucket,
             o->path_style ? "" : ".", STR(host));
    snprintf(s->base, sizeof s->base, "%s%s", o->path_style ? "/" : "",
             o->path_style ? s->bucket : "");
    snprintf(s->address, sizeof s->address, "%s", s->host);
    return true;
}

enum s3_dialect s3_dialect_of(str url)
{
    if (str_starts(url, S("https://"))) url = str_slice(url, S("https://").n, url.n);
    if (str_starts(url, S("http://"))) url = str_slice(url, S("http://").n, url.n);
    if (str_ends(url, S("/"))) url.n--;
    str host = str_split(url, ':', &url);
    bool google = str_is(host, GOOGLE_HOST) || str_ends(host, S("." GOOGLE_HOST));
    return google ? S3_DIALECT_GOOGLE : S3_DIALECT_AMAZON;
}

static bool set_names(struct s3 *s, const struct s3_options *o, err *e)
{
    size_t n = o->bucket ? strlen(o->bucket) : 0;
    if (n < 3 || n >= sizeof s->bucket)
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "s3.bucket: the name has %zu characters; it has 3 to 63", n);
    for (size_t i = 0; i < n; i++) {
        char c = o->bucket[i];
        bool fine = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
                    (o->path_style && (c == '_' || (c >= 'A' && c <= 'Z')));
        if (!fine) {
            return err_set(e, ERR_INVALID_ARGUMENT,
                           "s3.bucket: '%s' has a '%c' at %zu, which no bucket's name has",
                           o->bucket, c, i);
        }
    }
    memcpy(s->bucket, o->bucket, n + 1);
    const char *prefix = o->prefix ? o->prefix : "";
    if (prefix[0] && (!store_prefix_check(str_of(prefix), e) || strlen(prefix) > 512))
        return err_wrap(e, "s3.prefix");
    snprintf(s->prefix, sizeof s->prefix, "%s%s", prefix,
             prefix[0] && !str_ends(str_of(prefix), S("/")) ? "/" : "");
    snprintf(s->region, sizeof s->region, "%s",
             o->region && o->region[0] ? o->region : s->speech->region);
    return true;
}

const char *s3_region_of_environment(void)
{
    const char *region = getenv("AWS_REGION");
    if (!region || !region[0]) region = getenv("AWS_DEFAULT_REGION");
    return region ? region : "";
}

bool s3_options_of_url(str url, struct arena *a, struct s3_options *out, err *e)
{
    const char *endpoint = getenv("AWS_ENDPOINT_URL_S3");
    str prefix = {0};
    if (!str_starts(url, S("s3://")))
        return err_set(e, ERR_INVALID_ARGUMENT, "'%.*s' does not begin with s3://", STR(url));
    str bucket = str_split(str_slice(url, S("s3://").n, url.n), '/', &prefix);
    if (!endpoint || !endpoint[0]) endpoint = getenv("AWS_ENDPOINT_URL");
    if (endpoint && !endpoint[0]) endpoint = NULL;
    *out = (struct s3_options){.endpoint = endpoint,
                               .region = s3_region_of_environment(),
                               .bucket = arena_str(a, bucket).p,
                               .prefix = arena_str(a, prefix).p,
                               .path_style = endpoint != NULL};
    return arena_ok(a, e);
}

struct store *store_open_s3(const struct s3_options *o, err *e)
{
    struct s3 *s = mem_alloc(NULL, sizeof *s, e);
    if (!s) return NULL;
    metric_register(store_metrics, store_metric_count);
    metric_register(s3_metrics, s3_metric_count);
    s->store.kind = &kind;
    s->memory = o->memory;
    enum s3_dialect dialect = o->dialect != S3_DIALECT_AUTO
                                  ? o->dialect
                                  : s3_dialect_of(str_of(o->endpoint ? o->endpoint : ""));
    s->speech = dialect == S3_DIALECT_GOOGLE ? &speech_google : &speech_amazon;
    if (!s->speech->parts) atomic_store(&s->parts, S3_PARTS_REPLACE);
    s->width = o->width ? o->width : WIDTH;
    struct client_tls tls = {.ca_file = o->ca_file && o->ca_file[0] ? o->ca_file : NULL};
    bool ok = set_names(s, o, e) && set_endpoint(s, o, e) && (s->loop = loop_new("s3", e)) &&
              (s->client = client_new(s->loop, s->memory, s->width, e)) &&
              (!tls.ca_file || client_set_tls(s->client, &tls, e)) &&
              (s->creds = s3_creds_open(&o->keys, s->client, s->region, e));
    if (ok) return &s->store;
    s3_close(&s->store);
    return NULL;
}
