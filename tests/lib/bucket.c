// SPDX-License-Identifier: Apache-2.0
#include "lib/bucket.h"

#include "codec/url.h"
#include "sys/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <openssl/evp.h>

#define ACTIONS 11

// The clock of the service is days behind ours.
#define BEHIND_NS (72 * INT64_C(3600) * NS_PER_S)

static const char *const action_names[ACTIONS] = {"get",         "head",  "list",   "put",
                                                  "delete",      "begin", "part",   "end",
                                                  "delete_many", "drop",  "pending"};

struct object {
    char *key;
    char *bytes;
    size_t n;
    int64_t made_ns;
    char nonce[64];
    char crc[16];
    char etag[48];
};

struct part {
    char *bytes;
    size_t n;
};

struct pending {
    char id[32];
    char *key;
    char nonce[64];
    char initiated[40];
    struct part parts[64];
    bool over;
};

struct ordered {
    enum bucket_trouble what;
    unsigned nth;
    unsigned count;
    enum bucket_trouble then;  // meets the one after them
};

struct bucket {
    struct mem_budget memory;
    struct loop *loop;
    struct lane *lane;
    struct server *server;
    char url[64];
    pthread_mutex_t mutex;
    pthread_cond_t change;
    bool whole_ignored;
    bool parts_ignored;
    bool looks_first;
    bool start_ignored;
    bool go_on;
    bool other_etags;
    bool sealed;
    enum bucket_trouble meets;  // the request that is carried out
    size_t page;
    char initiated[40];
    struct object *v;  // in order of keys
    size_t n;
    struct pending *uploads;
    size_t upload_n;
    struct ordered ordered[ACTIONS];
    unsigned requests[ACTIONS];
};

static unsigned action_of(const char *name)
{
    for (unsigned i = 0; i < ACTIONS; i++)
        if (strcmp(action_names[i], name) == 0) return i;
    fail_msg("no action %s", name);
    return 0;
}

// ---- queries

static bool query_get(struct http_exchange *x, const char *name, str *value)
{
    *value = (str){0};
    return url_query(&x->req.arena, x->query, name, value);
}

static const char *name_of_action(struct http_exchange *x, bool object)
{
    str ignored;
    bool id = query_get(x, "uploadId", &ignored);
    if (str_is(x->method, "HEAD")) return "head";
    if (str_is(x->method, "GET"))
        return object ? "get" : query_get(x, "uploads", &ignored) ? "pending" : "list";
    if (str_is(x->method, "PUT")) return id ? "part" : "put";
    if (str_is(x->method, "DELETE")) return id ? "drop" : "delete";
    return !object ? "delete_many" : id ? "end" : "begin";
}

// ---- answers

static void header(struct http_exchange *x, const char *name, str value)
{
    http_headers_add(&x->answer_headers, &x->req.arena, str_of(name), value);
}

static int64_t own_clock_ns(void)
{
    return clock_wall_ns() - BEHIND_NS;
}

static void put_time(struct http_exchange *x, const char *name, int64_t wall_ns)
{
    char text[64];
    struct tm t;
    time_t at = (time_t)(wall_ns / NS_PER_S);
    gmtime_r(&at, &t);
    strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &t);
    header(x, name, arena_str(&x->req.arena, str_of(text)));
}

static void say(struct http_exchange *x, unsigned status, const char *code)
{
    x->status = status;
    header(x, "content-type", S("application/xml"));
    x->fixed = arena_printf(&x->req.arena,
                            "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>the bucket of "
                            "the test</Message></Error>",
                            code);
}

// ---- objects, under the mutex

static size_t place_of(const struct bucket *b, str key)
{
    size_t i = 0;
    while (i < b->n && str_cmp(str_of(b->v[i].key), key) < 0)
        i++;
    return i;
}

static struct object *find(struct bucket *b, str key)
{
    size_t i = place_of(b, key);
    return i < b->n && str_eq(str_of(b->v[i].key), key) ? &b->v[i] : NULL;
}

static void copy_text(char *to, size_t room, str text)
{
    size_t n = MIN(text.n, room - 1);
    if (n) memcpy(to, text.p, n);
    to[n] = '\0';
}

// Not strndup: the sanitizer looks for its end beyond the bytes of s.
static char *text_of(str s)
{
    char *text = malloc(s.n + 1);
    if (s.n) memcpy(text, s.p, s.n);
    text[s.n] = 0;
    return text;
}

static void put_etag(char etag[48], str bytes)
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    // A test that lets such calls fail gets a service that gives no ETag for once.
    if (EVP_Digest(bytes.p, bytes.n, sum, &n, EVP_md5(), NULL) != 1) n = 0;
    snprintf(etag, 2, n ? "\"" : "");
    for (unsigned i = 0; i < n; i++)
        snprintf(etag + 1 + (size_t)2 * i, 4, "%02x\"", sum[i]);
}

static struct object *set(struct bucket *b, str key, const char *bytes, size_t n)
{
    struct object *o = find(b, key);
    if (o) {
        free(o->bytes);
    } else {
        size_t i = place_of(b, key);
        b->v = realloc(b->v, (b->n + 1) * sizeof *b->v);
        memmove(b->v + i + 1, b->v + i, (b->n - i) * sizeof *b->v);
        b->n++;
        o = &b->v[i];
        *o = (struct object){.key = text_of(key)};
    }
    o->bytes = malloc(n + 1);
    if (n) memcpy(o->bytes, bytes, n);
    o->n = n;
    o->made_ns = own_clock_ns();
    o->nonce[0] = o->crc[0] = '\0';
    put_etag(o->etag, str_make(o->bytes, n));
    return o;
}

static void remove_key(struct bucket *b, str key)
{
    struct object *o = find(b, key);
    if (!o) return;
    free(o->key);
    free(o->bytes);
    memmove(o, o + 1, (size_t)(b->v + b->n - (o + 1)) * sizeof *o);
    b->n--;
}

static void put(struct bucket *b, struct http_exchange *x, str key)
{
    bool only_if_free = http_headers_has(&x->headers, "if-none-match") && !b->whole_ignored;
    if (only_if_free && find(b, key)) {
        say(x, 412, "PreconditionFailed");
        return;
    }
    if (b->looks_first) {
        pthread_mutex_unlock(&b->mutex);
        nanosleep(&(struct timespec){.tv_nsec = 50 * NS_PER_MS}, NULL);
        pthread_mutex_lock(&b->mutex);
    }
    str body = buf_view(&x->body);
    struct object *o = set(b, key, body.p, body.n);
    copy_text(o->nonce, sizeof o->nonce,
              http_headers_get(&x->headers, "x-amz-meta-flametree-nonce"));
    copy_text(o->crc, sizeof o->crc, http_headers_get(&x->headers, "x-amz-meta-flametree-crc32c"));
    if (b->other_etags) o->etag[1] = 'x';
    if (b->sealed) header(x, "x-amz-server-side-encryption", S("aws:kms"));
    header(x, "etag", arena_str(&x->req.arena, str_of(o->etag)));
    x->status = 200;
}

static void get(struct bucket *b, struct http_exchange *x, str key)
{
    const struct object *o = find(b, key);
    unsigned long long from = 0;
    unsigned long long to = 0;
    char range[64];
    snprintf(range, sizeof range, "%.*s", STR(http_headers_get(&x->headers, "range")));
    if (!o) {
        say(x, 404, "NoSuchKey");
        return;
    }
    str bytes = str_make(o->bytes, o->n);
    x->status = 200;
    if (sscanf(range, "bytes=%llu-%llu", &from, &to) == 2) {
        if (from >= o->n) {
            say(x, 416, "InvalidRange");
            return;
        }
        bytes = str_slice(bytes, (size_t)from, (size_t)MIN(to + 1, (unsigned long long)o->n));
        x->status = 206;
        header(x, "content-range",
               arena_printf(&x->req.arena, "bytes %llu-%llu/%zu", from, from + bytes.n - 1, o->n));
    }
    put_time(x, "date", own_clock_ns());
    put_time(x, "last-modified", o->made_ns);
    header(x, "etag", arena_str(&x->req.arena, str_of(o->etag)));
    if (o->nonce[0])
        header(x, "x-amz-meta-flametree-nonce", arena_str(&x->req.arena, str_of(o->nonce)));
    if (o->crc[0])
        header(x, "x-amz-meta-flametree-crc32c", arena_str(&x->req.arena, str_of(o->crc)));
    x->fixed = arena_str(&x->req.arena, bytes);
}

static void put_escaped(struct buf *out, str text)
{
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '&')
            buf_z(out, "&amp;");
        else if (text.p[i] == '<')
            buf_z(out, "&lt;");
        else
            buf_byte(out, (unsigned char)text.p[i]);
    }
}

static void list(struct bucket *b, struct http_exchange *x)
{
    str prefix;
    str after;
    str token;
    size_t named = 0;
    bool more = false;
    const char *last = "";
    (void)query_get(x, "prefix", &prefix);
    if (b->meets == BUCKET_STRAYS) prefix = (str){0};
    if (!query_get(x, "start-after", &after) || b->start_ignored) after = (str){0};
    if (query_get(x, "continuation-token", &token)) after = token;
    buf_z(&x->out, "<ListBucketResult><Prefix>");
    put_escaped(&x->out, prefix);
    buf_z(&x->out, "</Prefix>");
    for (size_t i = 0; i < b->n && !more; i++) {
        str key = str_of(b->v[i].key);
        if (!str_starts(key, prefix) || (after.n && str_cmp(key, after) <= 0)) continue;
        more = named == b->page;
        if (more) break;
        buf_z(&x->out, "<Contents><Key>");
        put_escaped(&x->out, str_of(b->v[i].key));
        buf_printf(&x->out, "</Key><Size>%zu</Size></Contents>", b->v[i].n);
        last = b->v[i].key;
        named++;
    }
    buf_printf(&x->out, "<IsTruncated>%s</IsTruncated>", more ? "true" : "false");
    if (more) {
        buf_z(&x->out, "<NextContinuationToken>");
        put_escaped(&x->out, str_of(last));
        buf_z(&x->out, "</NextContinuationToken>");
    }
    buf_z(&x->out, "</ListBucketResult>");
    x->status = 200;
}

static void delete_many(struct bucket *b, struct http_exchange *x)
{
    str rest = buf_view(&x->body);
    buf_z(&x->out, "<DeleteResult>");
    for (;;) {
        const char *from = rest.n ? memmem(rest.p, rest.n, "<Key>", 5) : NULL;
        if (!from) break;
        rest = str_slice(rest, (size_t)(from - rest.p) + 5, rest.n);
        struct buf key;
        buf_init(&key, NULL, 4096);
        while (rest.n && rest.p[0] != '<') {
            static const struct {
                const char *name;
                char c;
            } known[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}};
            size_t skip = 1;
            char c = rest.p[0];
            for (size_t i = 0; i < COUNT(known); i++) {
                if (!str_starts(rest, str_of(known[i].name))) continue;
                c = known[i].c;
                skip = strlen(known[i].name);
            }
            buf_byte(&key, (unsigned char)c);
            rest = str_slice(rest, skip, rest.n);
        }
        bool skips = b->meets == BUCKET_SKIPS && !memmem(rest.p, rest.n, "<Key>", 5);
        if (!skips) {
            remove_key(b, buf_view(&key));
            buf_z(&x->out, "<Deleted><Key>");
            put_escaped(&x->out, buf_view(&key));
            buf_z(&x->out, "</Key></Deleted>");
        }
        buf_release(&key);
    }
    buf_z(&x->out, "</DeleteResult>");
    x->status = 200;
}

// ---- uploads in parts, under the mutex

static struct pending *find_upload(struct bucket *b, struct http_exchange *x)
{
    str id;
    (void)query_get(x, "uploadId", &id);
    for (size_t i = 0; i < b->upload_n; i++)
        if (!b->uploads[i].over && str_is(id, b->uploads[i].id)) return &b->uploads[i];
    say(x, 404, "NoSuchUpload");
    return NULL;
}

static void end_upload(struct pending *u)
{
    for (size_t i = 0; i < COUNT(u->parts); i++)
        free(u->parts[i].bytes);
    free(u->key);
    memset(u->parts, 0, sizeof u->parts);
    u->key = NULL;
    u->over = true;
}

static void begin(struct bucket *b, struct http_exchange *x, str key)
{
    b->uploads = realloc(b->uploads, (b->upload_n + 1) * sizeof *b->uploads);
    struct pending *u = &b->uploads[b->upload_n++];
    *u = (struct pending){.key = text_of(key)};
    snprintf(u->id, sizeof u->id, "2~id+%zu/=", b->upload_n);
    memcpy(u->initiated, b->initiated, sizeof u->initiated);
    time_t now = time(NULL);
    struct tm tm;
    if (!b->initiated[0] && gmtime_r(&now, &tm))
        (void)strftime(u->initiated, sizeof u->initiated, "%Y-%m-%dT%H:%M:%S.000Z", &tm);
    copy_text(u->nonce, sizeof u->nonce,
              http_headers_get(&x->headers, "x-amz-meta-flametree-nonce"));
    x->status = 200;
    x->fixed = arena_printf(&x->req.arena,
                            "<InitiateMultipartUploadResult><UploadId>%s</UploadId></"
                            "InitiateMultipartUploadResult>",
                            u->id);
}

static void put_part(struct bucket *b, struct http_exchange *x)
{
    struct pending *u = find_upload(b, x);
    str number;
    uint64_t at = 0;
    str body = buf_view(&x->body);
    if (!u) return;
    if (!query_get(x, "partNumber", &number) || !str_u64(number, &at) || at < 1 ||
        at > COUNT(u->parts)) {
        say(x, 400, "InvalidArgument");
        return;
    }
    struct part *p = &u->parts[at - 1];
    free(p->bytes);
    p->bytes = malloc(body.n + 1);
    memcpy(p->bytes, body.p, body.n);
    p->n = body.n;
    char etag[48];
    put_etag(etag, body);
    header(x, "etag", arena_str(&x->req.arena, str_of(etag)));
    x->status = 200;
}

static void end(struct bucket *b, struct http_exchange *x, str key)
{
    struct pending *u = find_upload(b, x);
    size_t n = 0;
    unsigned parts = 0;
    if (!u) return;
    if (http_headers_has(&x->headers, "if-none-match") && !b->parts_ignored && find(b, key)) {
        say(x, 412, "PreconditionFailed");
        return;
    }
    for (size_t i = 0; i < COUNT(u->parts); i++)
        n += u->parts[i].n;
    char *all = malloc(n + 1);
    n = 0;
    for (size_t i = 0; i < COUNT(u->parts); i++) {
        if (!u->parts[i].bytes) continue;
        memcpy(all + n, u->parts[i].bytes, u->parts[i].n);
        n += u->parts[i].n;
        parts++;
    }
    struct object *o = set(b, key, all, n);
    memcpy(o->nonce, u->nonce, sizeof o->nonce);
    snprintf(o->etag, sizeof o->etag, "\"0123456789abcdef0123456789abcdef-%u\"", parts);
    free(all);
    end_upload(u);
    x->status = 200;
    x->fixed = arena_printf(&x->req.arena,
                            "<CompleteMultipartUploadResult><ETag>%s</ETag>"
                            "</CompleteMultipartUploadResult>",
                            o->etag);
}

static void pending(struct bucket *b, struct http_exchange *x)
{
    str prefix;
    (void)query_get(x, "prefix", &prefix);
    buf_z(&x->out, "<ListMultipartUploadsResult>");
    for (size_t i = 0; i < b->upload_n; i++) {
        const struct pending *u = &b->uploads[i];
        if (u->over || !str_starts(str_of(u->key), prefix)) continue;
        buf_printf(&x->out,
                   "<Upload><Key>%s</Key><UploadId>%s</UploadId><Initiated>%s</Initiated></Upload>",
                   u->key, u->id, u->initiated);
    }
    buf_z(&x->out, "</ListMultipartUploadsResult>");
    x->status = 200;
}

// ---- the server

static void carry_out(struct bucket *b, struct http_exchange *x, const char *action, str key)
{
    if (strcmp(action, "get") == 0 || strcmp(action, "head") == 0) get(b, x, key);
    if (strcmp(action, "put") == 0) put(b, x, key);
    if (strcmp(action, "list") == 0) list(b, x);
    if (strcmp(action, "delete_many") == 0) delete_many(b, x);
    if (strcmp(action, "begin") == 0) begin(b, x, key);
    if (strcmp(action, "part") == 0) put_part(b, x);
    if (strcmp(action, "end") == 0) end(b, x, key);
    if (strcmp(action, "pending") == 0) pending(b, x);
    if (strcmp(action, "delete") == 0) {
        remove_key(b, key);
        x->status = 204;
    }
    if (strcmp(action, "drop") == 0) {
        struct pending *u = find_upload(b, x);
        if (u) end_upload(u);
        if (u) x->status = 204;
    }
}

static const struct {
    enum bucket_trouble what;
    unsigned status;
} pages[] = {
    {BUCKET_PAGE_200, 200}, {BUCKET_PAGE_ETAG, 200}, {BUCKET_PAGE_403, 403},
    {BUCKET_PAGE_404, 404}, {BUCKET_PAGE_413, 413},
};

static enum bucket_trouble trouble_of(struct bucket *b, unsigned action)
{
    struct ordered *o = &b->ordered[action];
    b->requests[action]++;
    if (o->nth > 1) {
        o->nth--;
        return BUCKET_FINE;
    }
    if (o->count == 0) {
        enum bucket_trouble then = o->then;
        o->then = BUCKET_FINE;
        return then;
    }
    o->count--;
    return o->what;
}

static void say_page(struct http_exchange *x, unsigned status)
{
    x->status = status;
    header(x, "content-type", S("text/html"));
    x->fixed = S("<html>\r\n<head><title>a proxy</title></head></html>\r\n");
}

static bool refuses(struct http_exchange *x, enum bucket_trouble what)
{
    if (what == BUCKET_BUSY) say(x, 503, "SlowDown");
    if (what == BUCKET_BREAKS) say(x, 500, "InternalError");
    if (what == BUCKET_CONFLICT) say(x, 409, "ConditionalRequestConflict");
    if (what == BUCKET_DENIES) say(x, 403, "AccessDenied");
    if (what == BUCKET_UPROOTED) say(x, 404, "NoSuchBucket");
    if (what == BUCKET_FORGETS) say(x, 404, "NoSuchKey");
    if (what == BUCKET_NOTHING || what == BUCKET_FORGES) x->status = 200;
    if (what == BUCKET_FORGES) header(x, "etag", S("\"00000000000000000000000000000000\""));
    for (size_t i = 0; i < COUNT(pages); i++)
        if (what == pages[i].what) say_page(x, pages[i].status);
    if (what == BUCKET_PAGE_ETAG) header(x, "etag", S("\"5f3a-62\""));
    return x->status != 0;
}

static void spoil(struct bucket *b, struct http_exchange *x, enum bucket_trouble what)
{
    struct arena *a = &x->req.arena;
    str body = x->fixed.n ? x->fixed : arena_str(a, buf_view(&x->out));
    if (what == BUCKET_LANDS) {
        buf_clear(&x->out);
        x->answer_headers.n = 0;
        say(x, 500, "InternalError");
    }
    if (what == BUCKET_STALLS) {
        while (!b->go_on && !atomic_load(&x->req.canceled)) {
            struct timespec soon;
            clock_gettime(CLOCK_REALTIME, &soon);
            soon.tv_nsec = (soon.tv_nsec + 5000000) % 1000000000;
            soon.tv_sec += soon.tv_nsec < 5000000;
            pthread_cond_timedwait(&b->change, &b->mutex, &soon);
        }
    }
    if ((what != BUCKET_WRONG && what != BUCKET_HALF) || body.n == 0) return;
    char *bytes = arena_new(a, body.n);
    if (!bytes) return;
    memcpy(bytes, body.p, body.n);
    if (what == BUCKET_WRONG) bytes[body.n / 2] ^= 4;
    buf_clear(&x->out);
    x->fixed = str_make(bytes, what == BUCKET_HALF ? body.n / 2 : body.n);
}

static void run(void *self, struct http_exchange *x)
{
    struct bucket *b = self;
    str key = {0};
    str own = S("/" BUCKET);
    str path = str_slice(x->path, own.n, x->path.n);
    if (!str_starts(x->path, own) || !http_headers_get(&x->headers, "authorization").n) {
        say(x, 404, "NoSuchBucket");
        return;
    }
    if (path.n) path = str_slice(path, 1, path.n);
    key = url_decode(&x->req.arena, path, false);
    const char *action = name_of_action(x, key.n > 0);
    pthread_mutex_lock(&b->mutex);
    enum bucket_trouble what = trouble_of(b, action_of(action));
    b->meets = what;
    if (what == BUCKET_STEALS) set(b, key, "another", 7);
    if (!refuses(x, what)) {
        carry_out(b, x, action, key);
        spoil(b, x, what);
    }
    pthread_mutex_unlock(&b->mutex);
}

static enum head_verdict head(void *self, struct http_exchange *x)
{
    struct bucket *b = self;
    x->lane = b->lane;
    x->body_max = (size_t)64 << 20;
    return HEAD_READ_BODY;
}

static void refuse(void *self, struct http_exchange *x, const err *e)
{
    (void)self;
    (void)e;
    if (x->status == 0) x->status = 503;
}

struct bucket *bucket_new(void)
{
    struct bucket *b = calloc(1, sizeof *b);
    pthread_mutex_init(&b->mutex, NULL);
    pthread_cond_init(&b->change, NULL);
    mem_budget_init(&b->memory, "bucket", NULL, 0);
    b->page = 1000;
    assert_ok((b->loop = loop_new("bucket", e)));
    struct lane_options lane = {.name = "bucket", .rank = RANK_DISK, .width = 8, .queue_max = 1000};
    assert_ok((b->lane = lane_new(&lane, e)));
    struct server_app app = {.self = b, .head = head, .run = run, .refuse = refuse};
    const struct server_options o = {.name = "bucket",
                                     .listen = "127.0.0.1:0",
                                     .memory = &b->memory,
                                     .request_memory_max = (size_t)256 << 20,
                                     .head_max = 16384,
                                     .headers_max = 50,
                                     .streams_max = 100,
                                     .connections_max = 500,
                                     .head_timeout_ns = 60 * NS_PER_S,
                                     .body_timeout_ns = 60 * NS_PER_S,
                                     .idle_timeout_ns = 60 * NS_PER_S,
                                     .write_timeout_ns = 60 * NS_PER_S,
                                     .request_timeout_ns = 60 * NS_PER_S,
                                     .rank = RANK_DISK};
    assert_ok((b->server = server_open(&o, app, &b->loop, 1, e)));
    snprintf(b->url, sizeof b->url, "http://127.0.0.1:%u", server_port(b->server));
    return b;
}

void bucket_free(struct bucket *b)
{
    bucket_go_on(b);
    server_close(b->server);
    lane_drain(b->lane);
    lane_free(b->lane);
    loop_free(b->loop);
    while (b->n)
        remove_key(b, str_of(b->v[0].key));
    for (size_t i = 0; i < b->upload_n; i++)
        end_upload(&b->uploads[i]);
    free(b->v);
    free(b->uploads);
    pthread_mutex_destroy(&b->mutex);
    pthread_cond_destroy(&b->change);
    free(b);
}

const char *bucket_url(const struct bucket *b)
{
    return b->url;
}

void bucket_fail(struct bucket *b, const char *action, enum bucket_trouble what, unsigned nth,
                 unsigned count)
{
    pthread_mutex_lock(&b->mutex);
    b->ordered[action_of(action)] = (struct ordered){what, nth, count, BUCKET_FINE};
    pthread_mutex_unlock(&b->mutex);
}

void bucket_fail_then(struct bucket *b, const char *action, enum bucket_trouble what)
{
    pthread_mutex_lock(&b->mutex);
    b->ordered[action_of(action)].then = what;
    pthread_mutex_unlock(&b->mutex);
}

void bucket_heal(struct bucket *b)
{
    pthread_mutex_lock(&b->mutex);
    memset(b->ordered, 0, sizeof b->ordered);
    pthread_mutex_unlock(&b->mutex);
}

void bucket_go_on(struct bucket *b)
{
    pthread_mutex_lock(&b->mutex);
    b->go_on = true;
    pthread_cond_broadcast(&b->change);
    pthread_mutex_unlock(&b->mutex);
}

void bucket_ignore_conditions(struct bucket *b, bool whole, bool parts)
{
    pthread_mutex_lock(&b->mutex);
    b->whole_ignored = whole;
    b->parts_ignored = parts;
    pthread_mutex_unlock(&b->mutex);
}

void bucket_set_etags(struct bucket *b, bool sealed)
{
    pthread_mutex_lock(&b->mutex);
    b->other_etags = true;
    b->sealed = sealed;
    pthread_mutex_unlock(&b->mutex);
}

void bucket_look_and_write(struct bucket *b)
{
    pthread_mutex_lock(&b->mutex);
    b->looks_first = true;
    pthread_mutex_unlock(&b->mutex);
}

void bucket_ignore_start(struct bucket *b)
{
    pthread_mutex_lock(&b->mutex);
    b->start_ignored = true;
    pthread_mutex_unlock(&b->mutex);
}

void bucket_set_page(struct bucket *b, size_t names)
{
    pthread_mutex_lock(&b->mutex);
    b->page = names;
    pthread_mutex_unlock(&b->mutex);
}

void bucket_set_initiated(struct bucket *b, const char *when)
{
    pthread_mutex_lock(&b->mutex);
    snprintf(b->initiated, sizeof b->initiated, "%s", when);
    pthread_mutex_unlock(&b->mutex);
}

size_t bucket_objects(struct bucket *b)
{
    pthread_mutex_lock(&b->mutex);
    size_t n = b->n;
    pthread_mutex_unlock(&b->mutex);
    return n;
}

size_t bucket_uploads(struct bucket *b)
{
    size_t n = 0;
    pthread_mutex_lock(&b->mutex);
    for (size_t i = 0; i < b->upload_n; i++)
        n += !b->uploads[i].over;
    pthread_mutex_unlock(&b->mutex);
    return n;
}

unsigned bucket_requests(struct bucket *b, const char *action)
{
    pthread_mutex_lock(&b->mutex);
    unsigned n = b->requests[action_of(action)];
    pthread_mutex_unlock(&b->mutex);
    return n;
}
