// SPDX-License-Identifier: Apache-2.0
//
// creds.c - finds keys, and renews those that end.
//
//     1. s3_creds_open chooses the source from settings and environment
//     2. the first s3_creds_get reads it; later ones take what is kept
//     3. RENEW_NS before the end, one caller reads the source again while the others go on
//
// What may fail: the source does not answer. While the keys that are kept are good, that is no
// fault, and RETRY_NS later another caller tries again. After their end each caller is told why.
#include "s3/creds.h"

#include "codec/url.h"
#include "s3/key_text.h"
#include "sys/clock.h"
#include "sys/file.h"
#include "sys/lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define RENEW_NS   (600 * NS_PER_S)
#define RETRY_NS   (10 * NS_PER_S)
#define TEXT_MAX   4096
#define FILE_MAX   ((size_t)1 << 20)
#define ANSWER_MAX ((size_t)256 << 10)
#define ASK_S      5
#define MACHINE    "169.254.169.254"
#define CONTAINER  "169.254.170.2"

#define MACHINE_ROLES "/latest/meta-data/iam/security-credentials/"

enum source {
    SOURCE_SETTINGS,
    SOURCE_ENVIRONMENT,
    SOURCE_WEB_IDENTITY,
    SOURCE_FILE,
    SOURCE_CONTAINER,
    SOURCE_MACHINE,
};

static const char *const source_names[] = {
    [SOURCE_SETTINGS] = "settings",         [SOURCE_ENVIRONMENT] = "environment",
    [SOURCE_WEB_IDENTITY] = "web identity", [SOURCE_FILE] = "file",
    [SOURCE_CONTAINER] = "container",       [SOURCE_MACHINE] = "machine",
};

struct kept {
    char id[256];
    char secret[256];
    char token[TEXT_MAX];
    int64_t ends_wall_ns;  // INT64_MAX: never
};

struct s3_creds {
    struct client *client;
    const char *region;
    enum source source;
    char path[1024];  // of the file
    char profile[128];
    struct lock lock;  // of what follows
    struct cond renewed;
    bool renewing;
    bool known;  // `kept` has keys
    struct kept kept;
    int64_t next_try_ns;  // mono; a renewal before the end failed
};

// ---- small things

static const char *env(const char *name)
{
    const char *v = getenv(name);
    return v ? v : "";
}

static bool set_text(char *to, size_t room, str text, const char *what, err *e)
{
    if (text.n >= room)
        return err_set(e, ERR_DATA_LOSS, "%s has %zu bytes, limit %zu", what, text.n, room - 1);
    if (text.n) memcpy(to, text.p, text.n);
    to[text.n] = '\0';
    return true;
}

static bool set_keys(struct kept *k, const struct s3_keys *from, err *e)
{
    if (!from->id.n || !from->secret.n)
        return err_set(e, ERR_UNAVAILABLE, "the keys are not there");
    return set_text(k->id, sizeof k->id, from->id, "the access key", e) &&
           set_text(k->secret, sizeof k->secret, from->secret, "the secret key", e) &&
           set_text(k->token, sizeof k->token, from->token, "the session token", e);
}

// ---- asking services

struct question {
    const char *method;
    str address;
    str path;
    const char *header[2];  // name and value; name NULL: none
    str body;
    bool tls;
};

// The answer's text lives in `a`.
static bool ask(struct s3_creds *c, struct req *r, struct arena *a, const struct question *q,
                str *answer, err *e)
{
    struct http_call call = {.method = q->method,
                             .address = q->address,
                             .path = q->path,
                             .body = q->body,
                             .answer_max = ANSWER_MAX,
                             .stall_s = ASK_S,
                             .tls = q->tls};
    if (q->header[0])
        http_headers_add(&call.headers, a, str_of(q->header[0]), str_of(q->header[1]));
    if (q->body.n)
        http_headers_add(&call.headers, a, S("content-type"),
                         S("application/x-www-form-urlencoded"));
    if (!arena_ok(a, e)) return false;
    http_start(c->client, r, &call, RANK_DISK);
    bool ok = call_wait(r, &call.call, e);
    *answer = ok ? arena_str(a, buf_view(&call.answer)) : (str){0};
    if (ok && call.status != 200) {
        ok = err_set(e, ERR_UNAVAILABLE, "%.*s answers %u: %.*s", STR(q->address), call.status,
                     STR(str_slice(*answer, 0, 200)));
    }
    http_call_release(&call);
    return ok && arena_ok(a, e);
}

// ---- sources

static bool from_environment(struct kept *k, err *e)
{
    const struct s3_keys keys = {str_of(env("AWS_ACCESS_KEY_ID")),
                                 str_of(env("AWS_SECRET_ACCESS_KEY")),
                                 str_of(env("AWS_SESSION_TOKEN"))};
    k->ends_wall_ns = INT64_MAX;
    return set_keys(k, &keys, e);
}

static bool read_text(const char *path, struct buf *b, err *e)
{
    buf_init(b, NULL, FILE_MAX);
    if (file_read(path, b, e)) return true;
    buf_release(b);
    return false;
}

static bool from_file(struct s3_creds *c, struct kept *k, err *e)
{
    struct buf text;
    struct s3_key_text found;
    if (!read_text(c->path, &text, e)) return false;
    s3_keys_of_file(buf_view(&text), str_of(c->profile), &found);
    // The file may be written anew by whoever has the keys renewed, so it is read again in a while.
    k->ends_wall_ns = found.keys.token.n ? clock_wall_ns() + 2 * RENEW_NS : INT64_MAX;
    bool ok = set_keys(k, &found.keys, e) || err_wrap(e, "profile [%s] of %s", c->profile, c->path);
    buf_release(&text);
    return ok;
}

// "https://sts.example.org" -> address, without a path. AWS_ENDPOINT_URL_STS is for other services.
static str sts_address(const struct s3_creds *c, struct arena *a, bool *tls)
{
    str url = str_of(env("AWS_ENDPOINT_URL_STS"));
    *tls = !str_starts(url, S("http://"));
    if (!url.n) return arena_printf(a, "sts.%s.amazonaws.com", c->region);
    str rest = str_slice(url, *tls ? S("https://").n : S("http://").n, url.n);
    return str_split(rest, '/', &rest);
}

static bool from_web_identity(struct s3_creds *c, struct req *r, struct arena *a, struct kept *k,
                              err *e)
{
    struct buf token;
    struct buf body;
    struct s3_key_text found = {0};
    struct question q = {.method = "POST", .path = S("/"), .header = {"accept", "text/xml"}};
    const char *session = env("AWS_ROLE_SESSION_NAME");
    str answer = {0};
    if (!read_text(env("AWS_WEB_IDENTITY_TOKEN_FILE"), &token, e)) return false;
    buf_init(&body, NULL, 2 * FILE_MAX);
    buf_z(&body, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=");
    url_encode(&body, str_of(env("AWS_ROLE_ARN")));
    buf_z(&body, "&RoleSessionName=");
    url_encode(&body, session[0] ? str_of(session) : S("flametree"));
    buf_z(&body, "&WebIdentityToken=");
    url_encode(&body, str_trim(buf_view(&token)));
    q.body = buf_view(&body);
    q.address = sts_address(c, a, &q.tls);
    bool ok = buf_ok(&body, e) && ask(c, r, a, &q, &answer, e) &&
              s3_keys_of_xml(a, answer, &found, e) && set_keys(k, &found.keys, e);
    buf_release(&body);
    buf_release(&token);
    k->ends_wall_ns = found.ends_wall_ns;
    return ok;
}

static bool take_json(struct arena *a, str answer, struct kept *k, err *e)
{
    struct s3_key_text found;
    if (!s3_keys_of_json(a, answer, &found, e)) return false;
    k->ends_wall_ns = found.ends_wall_ns;
    return set_keys(k, &found.keys, e);
}

static bool from_container(struct s3_creds *c, struct req *r, struct arena *a, struct kept *k,
                           err *e)
{
    const char *token_file = env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const char *full = env("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    struct question q = {.method = "GET", .address = S(CONTAINER)};
    struct buf token = {0};
    str answer = {0};
    q.path = str_of(env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"));
    if (full[0]) {
        str url = str_of(full);
        q.tls = str_starts(url, S("https://"));
        str rest = str_slice(url, q.tls ? S("https://").n : S("http://").n, url.n);
        size_t slash = str_find(rest, '/');
        q.address = str_slice(rest, 0, slash);
        q.path = slash < rest.n ? str_slice(rest, slash, rest.n) : S("/");
    }
    if (token_file[0] && !read_text(token_file, &token, e)) return false;
    str secret =
        token.n ? str_trim(buf_view(&token)) : str_of(env("AWS_CONTAINER_AUTHORIZATION_TOKEN"));
    if (secret.n) {
        q.header[0] = "authorization";
        q.header[1] = arena_str(a, secret).p;
    }
    buf_release(&token);
    return ask(c, r, a, &q, &answer, e) && take_json(a, answer, k, e);
}

// IMDSv2: a token first, then the name of the role, then its keys.
static bool from_machine(struct s3_creds *c, struct req *r, struct arena *a, struct kept *k, err *e)
{
    const char *other = env("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    str address = S(MACHINE);
    str token = {0};
    str role = {0};
    str answer = {0};
    if (str_starts(str_of(other), S("http://"))) {
        str rest = str_slice(str_of(other), S("http://").n, strlen(other));
        address = str_split(rest, '/', &rest);
    }
    struct question q = {.method = "PUT",
                         .address = address,
                         .path = S("/latest/api/token"),
                         .header = {"x-aws-ec2-metadata-token-ttl-seconds", "21600"}};
    if (!ask(c, r, a, &q, &token, e)) return false;
    q = (struct question){.method = "GET",
                          .address = address,
                          .path = S(MACHINE_ROLES),
                          .header = {"x-aws-ec2-metadata-token", token.p}};
    if (!ask(c, r, a, &q, &role, e)) return false;
    role = str_split(str_trim(role), '\n', &answer);
    q.path = arena_printf(a, MACHINE_ROLES "%.*s", STR(role));
    return ask(c, r, a, &q, &answer, e) && take_json(a, answer, k, e);
}

static bool read_source(struct s3_creds *c, struct req *r, struct kept *k, err *e)
{
    struct arena a;
    bool ok = false;
    arena_init(&a, NULL, 4 * FILE_MAX);
    *k = (struct kept){0};
    switch (c->source) {
    case SOURCE_SETTINGS:  // never renewed
        break;
    case SOURCE_ENVIRONMENT:
        ok = from_environment(k, e);
        break;
    case SOURCE_WEB_IDENTITY:
        ok = from_web_identity(c, r, &a, k, e);
        break;
    case SOURCE_FILE:
        ok = from_file(c, k, e);
        break;
    case SOURCE_CONTAINER:
        ok = from_container(c, r, &a, k, e);
        break;
    case SOURCE_MACHINE:
        ok = from_machine(c, r, &a, k, e);
        break;
    }
    arena_release(&a);
    if (ok && k->ends_wall_ns == 0) k->ends_wall_ns = clock_wall_ns() + 2 * RENEW_NS;
    return ok || err_wrap(e, "keys of the store (source: %s)", source_names[c->source]);
}

// ---- life

static bool choose_file(struct s3_creds *c)
{
    const char *profile = env("AWS_PROFILE");
    const char *given = env("AWS_SHARED_CREDENTIALS_FILE");
    struct buf text;
    err none = {0};
    snprintf(c->profile, sizeof c->profile, "%s", profile[0] ? profile : "default");
    if (given[0])
        snprintf(c->path, sizeof c->path, "%s", given);
    else
        snprintf(c->path, sizeof c->path, "%s/.aws/credentials", env("HOME"));
    if (given[0]) return true;  // if it is not there, that is told
    if (!read_text(c->path, &text, &none)) return false;
    buf_release(&text);
    return true;
}

static enum source choose(struct s3_creds *c, const struct s3_key_options *o)
{
    if (o->access_key && o->access_key[0]) return SOURCE_SETTINGS;
    if (env("AWS_ACCESS_KEY_ID")[0]) return SOURCE_ENVIRONMENT;
    if (env("AWS_WEB_IDENTITY_TOKEN_FILE")[0] && env("AWS_ROLE_ARN")[0]) return SOURCE_WEB_IDENTITY;
    if (choose_file(c)) return SOURCE_FILE;
    if (env("AWS_CONTAINER_CREDENTIALS_FULL_URI")[0] ||
        env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")[0])
        return SOURCE_CONTAINER;
    return SOURCE_MACHINE;
}

struct s3_creds *s3_creds_open(const struct s3_key_options *o, struct client *client,
                               const char *region, err *e)
{
    bool id = o->access_key && o->access_key[0];
    bool secret = o->secret_key && o->secret_key[0];
    if (id != secret) {
        err_set(e, ERR_FAILED_PRECONDITION, "s3: %s is set, and %s is not",
                id ? "access_key" : "secret_key", id ? "secret_key" : "access_key");
        return NULL;
    }
    struct s3_creds *c = mem_alloc(NULL, sizeof *c, e);
    if (!c) return NULL;
    c->client = client;
    c->region = region;
    c->source = choose(c, o);
    lock_init(&c->lock, LOCK_KEYS);
    cond_init(&c->renewed);
    if (!id) return c;
    c->known = true;
    c->kept.ends_wall_ns = INT64_MAX;
    const struct s3_keys keys = {str_of(o->access_key), str_of(o->secret_key),
                                 str_of(o->session_token)};
    if (set_keys(&c->kept, &keys, e)) return c;
    s3_creds_close(c);
    return NULL;
}

void s3_creds_close(struct s3_creds *c)
{
    if (!c) return;
    assert(!c->renewing);
    cond_release(&c->renewed);
    lock_release(&c->lock);
    mem_free(NULL, c, sizeof *c);
}

const char *s3_creds_source(const struct s3_creds *c)
{
    return source_names[c->source];
}

void s3_creds_over(struct s3_creds *c)
{
    lock_take(&c->lock);
    if (c->source != SOURCE_SETTINGS) c->known = false;
    lock_give(&c->lock);
}

static bool is_good(const struct s3_creds *c)
{
    return c->known && clock_wall_ns() < c->kept.ends_wall_ns;
}

// Is it this thread that renews? With the lock.
static bool takes_turn(const struct s3_creds *c)
{
    if (c->renewing) return false;
    if (!is_good(c)) return true;
    if (c->kept.ends_wall_ns == INT64_MAX) return false;
    return c->kept.ends_wall_ns - clock_wall_ns() < RENEW_NS &&
           (int64_t)clock_mono_ns() >= c->next_try_ns;
}

static bool renew(struct s3_creds *c, struct req *r, err *e)
{
    struct kept fresh;
    err why = {0};
    c->renewing = true;
    lock_give(&c->lock);
    bool ok = read_source(c, r, &fresh, &why);
    lock_take(&c->lock);
    c->renewing = false;
    if (ok) {
        c->kept = fresh;
        c->known = true;
    }
    c->next_try_ns = ok ? 0 : (int64_t)clock_mono_ns() + RETRY_NS;
    cond_wake_all(&c->renewed);
    if (!ok && !is_good(c)) *e = why;
    return ok || is_good(c);
}

bool s3_creds_get(struct s3_creds *c, struct req *r, struct arena *a, struct s3_keys *out, err *e)
{
    bool ok = true;
    lock_take(&c->lock);
    while (ok && !is_good(c) && c->renewing) {
        (void)cond_wait_until(&c->renewed, &c->lock, clock_mono_ns() + 100 * NS_PER_MS);
        ok = req_alive(r, e);
    }
    if (ok && takes_turn(c)) ok = renew(c, r, e);
    if (ok) {
        out->id = arena_str(a, str_of(c->kept.id));
        out->secret = arena_str(a, str_of(c->kept.secret));
        out->token = arena_str(a, str_of(c->kept.token));
    }
    lock_give(&c->lock);
    return ok && arena_ok(a, e);
}
