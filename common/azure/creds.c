// SPDX-License-Identifier: Apache-2.0
//
// creds.c - the sources of keys and tokens.
#include "azure/creds.h"

#include "codec/base64.h"
#include "codec/url.h"
#include "s3/renew.h"
#include "sys/clock.h"

#include <stdio.h>

#define MACHINE   "http://169.254.169.254"
#define AUTHORITY "https://login.microsoftonline.com"
#define RESOURCE  "https://storage.azure.com/"
#define ASSERTION "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
#define FORM_MAX  (2 * S3_SOURCE_MAX)

// The kept `id` tells the kind of the kept secret or token.
#define KEY    "key"
#define SAS    "sas"
#define BEARER "bearer"

enum source {
    SOURCE_SETTINGS,
    SOURCE_FILE,
    SOURCE_ENVIRONMENT,
    SOURCE_WORKLOAD,
    SOURCE_MACHINE,
};

static const struct {
    const char *name;
    const char *origin;
} sources[] = {
    [SOURCE_SETTINGS] = {"settings", "azure.account_key or azure.sas_token"},
    [SOURCE_FILE] = {"azure.key_file", "azure.key_file"},
    [SOURCE_ENVIRONMENT] = {"environment", "AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY or "
                                           "AZURE_STORAGE_SAS_TOKEN"},
    [SOURCE_WORKLOAD] = {"workload identity", "the workload identity of AZURE_CLIENT_ID"},
    [SOURCE_MACHINE] = {"managed identity", "the machine's managed identity"},
};

struct azure_creds {
    struct client *client;
    enum source source;
    char path[1024];  // of the file
    struct s3_renewal renewal;
};

// ---- keys and SAS tokens

static bool decode(str text, struct arena *a, str *key, err *e)
{
    size_t n = 0;
    err why = {0};
    char *bytes = arena_new(a, base64_room(text.n));
    if (!bytes) return arena_fail(a, e);
    // Its own error would tell a part of the key.
    if (!base64_decode(text, bytes, &n, &why) || n == 0)
        return err_set(e, ERR_FAILED_PRECONDITION,
                       "the account key is no base64; copy it as the portal shows it");
    *key = str_make(bytes, n);
    return true;
}

static bool keep_secret(struct s3_kept *k, const struct azure_connection *from, err *e)
{
    struct arena a;
    str bytes = {0};
    bool key = from->key.n > 0;
    if (!key && !from->sas.n)
        return err_set(e, ERR_UNAVAILABLE, "there is neither an account key nor a SAS token");
    snprintf(k->id, sizeof k->id, "%s", key ? KEY : SAS);
    if (!key) return s3_set_text(k->token, sizeof k->token, from->sas, "the SAS token", e);
    arena_init(&a, NULL, (size_t)64 << 10);
    bool ok = s3_set_text(k->secret, sizeof k->secret, from->key, "the account key", e) &&
              decode(from->key, &a, &bytes, e);
    arena_release(&a);
    return ok;
}

static bool from_settings(const struct azure_key_options *o, struct s3_kept *k, err *e)
{
    struct azure_connection given = {0};
    if (o->account_key && o->account_key[0]) given.key = str_of(o->account_key);
    if (o->sas_token && o->sas_token[0]) azure_read_secret(str_of(o->sas_token), &given);
    return keep_secret(k, &given, e) || err_wrap(e, "azure");
}

static bool from_environment(struct s3_kept *k, err *e)
{
    struct azure_connection c;
    azure_read_connection(str_of(s3_env("AZURE_STORAGE_CONNECTION_STRING")), &c);
    if (!c.key.n && !c.sas.n) c.key = str_of(s3_env("AZURE_STORAGE_KEY"));
    if (!c.key.n && !c.sas.n) azure_read_secret(str_of(s3_env("AZURE_STORAGE_SAS_TOKEN")), &c);
    k->ends_wall_ns = INT64_MAX;
    return keep_secret(k, &c, e);
}

static bool from_file(struct azure_creds *c, struct s3_kept *k, err *e)
{
    struct buf text;
    struct azure_connection found;
    if (!s3_read_file(c->path, &text, e)) return false;
    azure_read_secret(buf_view(&text), &found);
    bool ok = keep_secret(k, &found, e) || err_wrap(e, "%s", c->path);
    buf_release(&text);
    return ok;
}

// ---- tokens of identities

static bool keep_token(struct arena *a, str answer, struct s3_kept *k, err *e)
{
    struct azure_token found;
    if (!azure_read_token(a, answer, &found, e)) return false;
    snprintf(k->id, sizeof k->id, BEARER);
    if (found.seconds) k->ends_wall_ns = clock_wall_ns() + found.seconds * NS_PER_S;
    return s3_set_text(k->token, sizeof k->token, found.token, "the token", e);
}

// "https://host/path/" to where and what to ask; the path has no '/' at its end.
static void set_place(struct s3_question *q, const char *url)
{
    str rest = str_of(url);
    q->tls = str_starts(rest, S("https://"));
    rest = str_slice(rest, q->tls ? S("https://").n : S("http://").n, rest.n);
    if (str_ends(rest, S("/"))) rest.n--;
    size_t slash = str_find(rest, '/');
    q->address = str_slice(rest, 0, slash);
    q->path = str_slice(rest, slash, rest.n);
}

static const char *env_or(const char *name, const char *otherwise)
{
    const char *v = s3_env(name);
    return v[0] ? v : otherwise;
}

static bool from_workload(struct azure_creds *c, struct req *r, struct arena *a, struct s3_kept *k,
                          err *e)
{
    struct s3_question q = {.method = "POST", .header = {"accept", "application/json"}};
    struct buf token;
    struct buf body;
    str answer = {0};
    if (!s3_read_file(s3_env("AZURE_FEDERATED_TOKEN_FILE"), &token, e)) return false;
    buf_init(&body, NULL, FORM_MAX);
    buf_z(&body, "grant_type=client_credentials&client_id=");
    url_encode(&body, str_of(s3_env("AZURE_CLIENT_ID")));
    buf_z(&body, "&scope=");
    url_encode(&body, S(RESOURCE ".default"));
    buf_z(&body, "&client_assertion_type=");
    url_encode(&body, S(ASSERTION));
    buf_z(&body, "&client_assertion=");
    url_encode(&body, str_trim(buf_view(&token)));
    set_place(&q, env_or("AZURE_AUTHORITY_HOST", AUTHORITY));
    q.path = arena_printf(a, "%.*s/%s/oauth2/v2.0/token", STR(q.path), s3_env("AZURE_TENANT_ID"));
    q.body = buf_view(&body);
    bool ok = buf_ok(&body, e) && arena_ok(a, e) && s3_ask(c->client, r, a, &q, &answer, e) &&
              keep_token(a, answer, k, e);
    buf_release(&body);
    buf_release(&token);
    return ok;
}

static bool from_machine(struct azure_creds *c, struct req *r, struct arena *a, struct s3_kept *k,
                         err *e)
{
    struct s3_question q = {.method = "GET", .header = {"metadata", "true"}};
    struct buf query;
    str answer = {0};
    const char *client = s3_env("AZURE_CLIENT_ID");
    set_place(&q, env_or("AZURE_POD_IDENTITY_AUTHORITY_HOST", MACHINE));
    buf_init(&query, NULL, 4096);
    buf_z(&query, "api-version=2018-02-01&resource=");
    url_encode(&query, S(RESOURCE));
    if (client[0]) buf_z(&query, "&client_id=");
    url_encode(&query, str_of(client));
    q.path = arena_printf(a, "%.*s/metadata/identity/oauth2/token?%.*s", STR(q.path),
                          STR(buf_view(&query)));
    bool ok = buf_ok(&query, e) && arena_ok(a, e) && s3_ask(c->client, r, a, &q, &answer, e) &&
              keep_token(a, answer, k, e);
    buf_release(&query);
    return ok;
}

static bool read_source(void *owner, struct req *r, struct arena *a, struct s3_kept *k, err *e)
{
    struct azure_creds *c = owner;
    switch (c->source) {
    case SOURCE_SETTINGS:  // never read
        break;
    case SOURCE_FILE:
        return from_file(c, k, e);
    case SOURCE_ENVIRONMENT:
        return from_environment(k, e);
    case SOURCE_WORKLOAD:
        return from_workload(c, r, a, k, e);
    case SOURCE_MACHINE:
        return from_machine(c, r, a, k, e);
    }
    return false;
}

// ---- life

static enum source choose(const struct azure_key_options *o)
{
    struct azure_connection c;
    if ((o->account_key && o->account_key[0]) || (o->sas_token && o->sas_token[0]))
        return SOURCE_SETTINGS;
    if (o->key_file && o->key_file[0]) return SOURCE_FILE;
    azure_read_connection(str_of(s3_env("AZURE_STORAGE_CONNECTION_STRING")), &c);
    if (c.key.n || c.sas.n || s3_env("AZURE_STORAGE_KEY")[0] ||
        s3_env("AZURE_STORAGE_SAS_TOKEN")[0])
        return SOURCE_ENVIRONMENT;
    if (s3_env("AZURE_FEDERATED_TOKEN_FILE")[0] && s3_env("AZURE_CLIENT_ID")[0] &&
        s3_env("AZURE_TENANT_ID")[0])
        return SOURCE_WORKLOAD;
    return SOURCE_MACHINE;
}

// A file that is wrong at the start is told at once.
static bool try_file(struct azure_creds *c, err *e)
{
    struct s3_kept ignored = {0};
    return from_file(c, &ignored, e) || err_wrap(e, "azure.key_file");
}

struct azure_creds *azure_creds_open(const struct azure_key_options *o, struct client *client,
                                     err *e)
{
    struct azure_creds *c = mem_alloc(NULL, sizeof *c, e);
    if (!c) return NULL;
    c->client = client;
    c->source = choose(o);
    s3_renewal_init(&c->renewal, read_source, c, sources[c->source].name);
    snprintf(c->path, sizeof c->path, "%s", o->key_file ? o->key_file : "");
    bool ok = true;
    if (c->source == SOURCE_FILE) ok = try_file(c, e);
    if (c->source == SOURCE_SETTINGS) {
        s3_renewal_fix(&c->renewal);
        ok = from_settings(o, &c->renewal.kept, e);
    }
    if (ok) return c;
    azure_creds_close(c);
    return NULL;
}

void azure_creds_close(struct azure_creds *c)
{
    if (!c) return;
    s3_renewal_release(&c->renewal);
    mem_free(NULL, c, sizeof *c);
}

const char *azure_creds_origin(const struct azure_creds *c)
{
    return sources[c->source].origin;
}

void azure_creds_over(struct azure_creds *c)
{
    s3_renewal_over(&c->renewal);
}

bool azure_creds_get(struct azure_creds *c, struct req *r, struct arena *a, struct azure_keys *out,
                     err *e)
{
    struct s3_keys kept;
    *out = (struct azure_keys){0};
    if (!s3_renewal_get(&c->renewal, r, a, &kept, e)) return false;
    if (str_is(kept.id, KEY)) return decode(kept.secret, a, &out->key, e);
    if (str_is(kept.id, SAS))
        out->sas = kept.token;
    else
        out->bearer = kept.token;
    return true;
}
