// SPDX-License-Identifier: Apache-2.0
//
// s3.c - what services of S3 want to be told and what their answers mean, Amazon's way and
// Google's; opens a store at one.
#include "s3/s3.h"

#include "s3/engine.h"

#include <stdio.h>
#include <stdlib.h>

#define PAGE_MAX    ((size_t)4 << 20)
#define DELETE_MOST 1000  // objects of one request, as the protocol says
#define GOOGLE_HOST "storage.googleapis.com"

// Speech and signature of Amazon's way or of Google's.
struct dialect {
    struct s3_speech speech;  // the first
    const struct s3_signer *signer;
    const char *region;  // if the settings have none
};

static const struct dialect *dialect_of(const struct s3 *s)
{
    return (const struct dialect *)s->speech;
}

// ---- requests

static bool prepare(struct s3 *s, struct req *r, struct s3_op *o, err *e)
{
    struct s3_signing signing = {.signer = dialect_of(s)->signer,
                                 .region = str_of(s->region),
                                 .method = o->call.method,
                                 .query = o->query};
    struct http_call *c = &o->call;
    char hash[S3_HASH_TEXT];
    if (!s3_creds_get(s->keys, r, &o->arena, &signing.keys, e)) return false;
    signing.wall_ns = s3_wall_ns(s);
    signing.path = s3_path(s, o);
    if (!s3_hash(o->body, hash)) return arena_fail(&o->arena, e);
    signing.body_hash = arena_str(&o->arena, str_make(hash, sizeof hash));
    http_headers_add(&c->headers, &o->arena, S("host"), str_of(s->host));
    for (size_t i = 0; i < o->extra_n; i++)
        http_headers_add(&c->headers, &o->arena, o->extra[i].name, o->extra[i].value);
    s3_sign(&signing, &c->headers, &o->arena);
    c->path = s3_target(o, signing.path, o->query);
    return arena_ok(&o->arena, e);
}

static void list(struct buf *q, str prefix, str after, str token, unsigned most)
{
    char number[24];
    snprintf(number, sizeof number, "%u", most);
    if (token.n) s3_query_add(q, "continuation-token", token);
    s3_query_add(q, "list-type", S("2"));
    s3_query_add(q, "max-keys", str_of(number));
    s3_query_add(q, "prefix", prefix);
    if (after.n && !token.n) s3_query_add(q, "start-after", after);
}

// ---- uploads in parts

static void parts_query(struct buf *q, str id, size_t part)
{
    char number[24];
    snprintf(number, sizeof number, "%zu", part);
    if (part) s3_query_add(q, "partNumber", str_of(number));
    s3_query_add(q, "uploadId", id);
}

static void put_list(struct buf *b, str id, const struct s3_part *v, size_t n)
{
    (void)id;
    buf_z(b, "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (size_t i = 0; i < n; i++)
        buf_printf(b, "<Part><PartNumber>%zu</PartNumber><ETag>%s</ETag></Part>", i + 1, v[i].etag);
    buf_z(b, "</CompleteMultipartUpload>");
}

// ---- refusals

static void read_refusal(struct arena *a, const struct http_call *c, struct s3_refusal *out)
{
    s3_read_refusal(a, buf_view(&c->answer), out);
}

// A body that came cut or changed is refused as bad; the next one may come as it was sent.
static enum s3_cause cause(const struct s3 *s, const struct http_call *c,
                           const struct s3_refusal *why)
{
    static const struct {
        const char *code;
        enum s3_cause cause;
    } known[] = {
        {"NoSuchKey", S3_ABSENT},
        {"NoSuchUpload", S3_NO_UPLOAD},
        {"EntityTooLarge", S3_TOO_LARGE},
        {"MaxMessageLengthExceeded", S3_TOO_LARGE},
        {"SlowDown", S3_BUSY},
        {"RequestTimeout", S3_BUSY},
        {"InternalError", S3_BUSY},
        {"BadDigest", S3_BUSY},
        {"IncompleteBody", S3_BUSY},
        {"XAmzContentSHA256Mismatch", S3_BUSY},
        {"RequestTimeTooSkewed", S3_CLOCK_OFF},
        {"ExpiredToken", S3_KEYS_OVER},
    };
    (void)s;
    for (size_t i = 0; i < COUNT(known); i++) {
        if (str_is(why->code, known[i].code)) return known[i].cause;
    }
    return s3_cause_of(c, why->code.n > 0);
}

// The ETag of an object that is encrypted by keys of the service's key store, or of the client's,
// is no MD5 of what was sent.
static bool is_sealed(const struct http_headers *h)
{
    str by = http_headers_get(h, "x-amz-server-side-encryption");
    return str_starts(by, S("aws:kms")) ||
           http_headers_has(h, "x-amz-server-side-encryption-customer-algorithm") ||
           http_headers_has(h, "x-goog-encryption-kms-key-name");
}

// Some services have ETags that are no MD5 either: those do not prove anything, but deny nothing.
static bool has_request_id(const struct http_headers *h)
{
    return http_headers_get(h, "x-amz-request-id").n ||
           http_headers_get(h, "x-guploader-uploadid").n;
}

static bool is_page(const struct http_headers *h)
{
    str type = http_headers_get(h, "content-type");
    return str_starts(type, S("text/html")) || str_starts(type, S("application/xhtml"));
}

static bool is_strange_page(const struct s3_op *o)
{
    const struct http_headers *h = &o->call.answer_headers;
    return is_page(h) && !has_request_id(h);
}

static enum s3_cause vouch_put(const struct s3_op *o)
{
    str etag = s3_etag_of(o);
    if (!etag.n) return S3_STRANGE;
    bool proven =
        s3_is_etag_of(etag, o->body) || (s3_is_etag(etag) && is_sealed(&o->call.answer_headers));
    if (proven) return S3_NO_CAUSE;
    return is_strange_page(o) ? S3_STRANGE : S3_UNPROVEN;
}

// Pages of proxies may have ETags, too, but they are texts. An object is none, unless a service
// calls everything so; then its answer has our nonce, or its own id of the request.
static bool is_of_object(const struct s3_op *o, const char *nonce)
{
    const struct http_headers *h = &o->call.answer_headers;
    str type = http_headers_get(h, "content-type");
    bool text = str_starts(type, S("text/")) || str_starts(type, S("application/json")) ||
                str_starts(type, S("application/xml")) || is_page(h);
    return s3_etag_of(o).n > 0 && (!text || http_headers_get(h, nonce).n || has_request_id(h));
}

static enum s3_cause vouch(const struct s3 *s, const struct s3_op *o)
{
    str body = buf_view(&o->call.answer);
    bool own = true;
    switch (o->action) {
    case S3_PUT:
        return vouch_put(o);
    case S3_GET:
    case S3_HEAD:
        own = is_of_object(o, s->speech->nonce);
        break;
    case S3_PART:  // the end tells the ETags back, and the service compares
        own = s3_etag_of(o).n > 0 && !is_strange_page(o);
        break;
    case S3_LIST:
        own = s3_is_whole_xml(body, "ListBucketResult");
        break;
    case S3_DELETE:
    case S3_DROP:
        own = o->call.status == 204;
        break;
    case S3_DELETE_MANY:
        own = s3_is_whole_xml(body, "DeleteResult");
        break;
    case S3_BEGIN:
        own = s3_is_whole_xml(body, "InitiateMultipartUploadResult");
        break;
    case S3_END:
        own = s3_is_whole_xml(body, "CompleteMultipartUploadResult") ||
              s3_is_whole_xml(body, "Error");
        break;
    case S3_PENDING:
        own = s3_is_whole_xml(body, "ListMultipartUploadsResult");
        break;
    case S3_ACTIONS:
        break;
    }
    return own ? S3_NO_CAUSE : S3_STRANGE;
}

static str advice(const struct s3 *s, struct arena *a, const struct s3_refusal *why,
                  unsigned status)
{
    static const struct {
        const char *code;
        const char *advice;
    } known[] = {
        {"NoSuchBucket", "; make the bucket, or look at s3.bucket"},
        {"AccessDenied", "; the keys are known, but may not do this"},
        {"RequestTimeTooSkewed", "; set the clock of this machine"},
        {"ExpiredToken", "; the session token is over and could not be renewed"},
        {"InvalidToken", "; the session token is none of this service"},
        {"NotImplemented", "; this service lacks what Flametree needs"},
    };
    for (size_t i = 0; i < COUNT(known); i++) {
        if (str_is(why->code, known[i].code)) return str_of(known[i].advice);
    }
    if (str_is(why->code, "InvalidAccessKeyId"))
        return arena_printf(a, "; look at %s, which the service does not know",
                            s3_creds_id_name(s->keys));
    if (str_is(why->code, "SignatureDoesNotMatch"))
        return arena_printf(a, "; %s is wrong, or a proxy changes the request",
                            s3_creds_secret_name(s->keys));
    if (status == 301 || status == 307 || str_is(why->code, "AuthorizationHeaderMalformed"))
        return S("; look at s3.region and s3.endpoint");
    return (str){0};
}

// ---- deletions of many

static void put_names(struct buf *b, const struct s3 *s, const struct store_removal *v, size_t n)
{
    // Not quiet: a name that the answer does not have was not deleted.
    buf_z(b, "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>false</Quiet>");
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

static void all_failed(struct store_removal *v, size_t n, const err *e)
{
    for (size_t i = 0; i < n; i++) {
        v[i].ok = false;
        v[i].fault = *e;
    }
}

// What a batch says of one key, told back to its removals. Answers come in the order of the request
// as a rule: the search begins where the last one ended.
static void note_removal(const struct s3 *s, const struct s3_removed *what, size_t *at,
                         struct store_removal *v, size_t n)
{
    str name = str_slice(what->key, strlen(s->prefix), what->key.n);
    bool gone = !what->why.code.n || str_is(what->why.code, "NoSuchKey");
    for (size_t i = 0; i < n; i++) {
        struct store_removal *one = &v[(*at + i) % n];
        if (!str_eq(one->name, name)) continue;
        *at = (*at + i + 1) % n;
        one->ok = gone ||
                  err_set(&one->fault, ERR_UNAVAILABLE, "delete object %.*s: %.*s: %.*s", STR(name),
                          STR(what->why.code), STR(str_slice(what->why.message, 0, 200)));
        return;
    }
}

static void note_removals(const struct s3 *s, const struct s3_removals *done,
                          struct store_removal *v, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        v[i].ok = err_set(&v[i].fault, ERR_UNAVAILABLE,
                          "delete object %.*s: the answer does not say that it was deleted",
                          STR(v[i].name));
    }
    for (size_t i = 0; i < done->n; i++)
        note_removal(s, &done->v[i], &at, v, n);
}

static void remove_some(struct s3 *s, struct req *r, struct store_removal *v, size_t n)
{
    struct arena a;
    struct buf body;
    struct s3_removals done = {0};
    err e = {0};
    arena_init(&a, s->memory, PAGE_MAX);
    buf_init(&body, s->memory, PAGE_MAX);
    put_names(&body, s, v, n);
    struct s3_op o = {.action = S3_DELETE_MANY,
                      .query = S("delete="),
                      .extra = {{S("content-md5"), s3_md5(&a, buf_view(&body))}},
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
    ok = ok && s3_read_deleted(&a, buf_view(&o.call.answer), &done, &e);
    if (!ok && e.code == ERR_DATA_LOSS) e.code = ERR_UNAVAILABLE;
    if (ok) note_removals(s, &done, v, n);
    if (!ok) all_failed(v, n, &e);
    s3_op_release(&o);
    buf_release(&body);
    arena_release(&a);
}

static void remove_batch(struct s3 *s, struct req *r, struct store_removal *v, size_t n)
{
    for (size_t i = 0; i < n; i += DELETE_MOST)
        remove_some(s, r, v + i, MIN(n - i, (size_t)DELETE_MOST));
}

// ---- the two ways

static void keys_over(struct s3 *s)
{
    s3_creds_over(s->keys);
}

static void close_keys(struct s3 *s)
{
    s3_creds_close(s->keys);
}

#define ALIKE                                                                                   \
    .container = "bucket", .range = "range", .prepare = prepare, .keys_over = keys_over,        \
    .close = close_keys, .list = list, .read_page = s3_read_page, .read_refusal = read_refusal, \
    .cause = cause, .vouch = vouch, .advice = advice, .tidy = s3_tidy,                          \
    .multipart = {.begins = true,                                                               \
                  .etags = true,                                                                \
                  .query = parts_query,                                                         \
                  .put_list = put_list,                                                         \
                  .read_completed = s3_read_completed}

static const struct dialect amazon = {
    .speech = {ALIKE, .nonce = "x-amz-meta-flametree-nonce", .crc = "x-amz-meta-flametree-crc32c",
               .if_free = "if-none-match", .if_free_value = "*", .parts = true,
               .remove_batch = remove_batch},
    .signer = &s3_signer_amazon,
    .region = "us-east-1",
};

static const struct dialect google = {
    .speech = {ALIKE, .nonce = "x-goog-meta-flametree-nonce", .crc = "x-goog-meta-flametree-crc32c",
               .if_free = "x-goog-if-generation-match", .if_free_value = "0"},
    .signer = &s3_signer_google,
    .region = "auto",
};

// ---- opening

static bool set_endpoint(struct s3 *s, const struct s3_options *o, err *e)
{
    char amazons[128];
    struct s3_place place;
    snprintf(amazons, sizeof amazons, "https://s3.%s.amazonaws.com", s->region);
    str url = str_of(o->endpoint && o->endpoint[0] ? o->endpoint : amazons);
    if (!s3_read_place_url(url, "s3.endpoint", false, &place, e)) return false;
    s->tls = place.tls;
    snprintf(s->host, sizeof s->host, "%s%s%.*s", o->path_style ? "" : s->bucket,
             o->path_style ? "" : ".", STR(place.host));
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
    bool googles = str_is(host, GOOGLE_HOST) || str_ends(host, S("." GOOGLE_HOST));
    return googles ? S3_DIALECT_GOOGLE : S3_DIALECT_AMAZON;
}

static bool set_names(struct s3 *s, const struct s3_options *o, err *e)
{
    size_t n = o->bucket ? strlen(o->bucket) : 0;
    if (n < 3 || n >= sizeof s->bucket)
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "s3.bucket: the name has %zu characters; it has 3 to 63", n);
    for (size_t i = 0; i < n; i++) {
        char c = o->bucket[i];
        // Services other than Amazon's have names with '_'. Capitals are of buckets that Amazon
        // made before 2018; no service takes them for new ones, so they are a slip of the pen.
        bool fine = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
                    (o->path_style && c == '_');
        if (!fine) {
            return err_set(e, ERR_INVALID_ARGUMENT,
                           "s3.bucket: '%s' has a '%c' at %zu, which no bucket's name has",
                           o->bucket, c, i);
        }
    }
    memcpy(s->bucket, o->bucket, n + 1);
    snprintf(s->region, sizeof s->region, "%s",
             o->region && o->region[0] ? o->region : dialect_of(s)->region);
    return s3_set_prefix(s, "s3.prefix", o->prefix, e);
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
    enum s3_dialect spoken = o->dialect != S3_DIALECT_AUTO
                                 ? o->dialect
                                 : s3_dialect_of(str_of(o->endpoint ? o->endpoint : ""));
    const struct dialect *d = spoken == S3_DIALECT_GOOGLE ? &google : &amazon;
    struct s3 *s = s3_new(&d->speech, o->memory, o->width, e);
    if (!s) return NULL;
    bool ok = set_names(s, o, e) && set_endpoint(s, o, e) &&
              s3_connect(s, "s3.ca_file", o->ca_file, e) &&
              (s->keys = s3_creds_open(&o->keys, s->client, s->region, e));
    if (ok) return &s->store;
    s3_free(s);
    return NULL;
}
