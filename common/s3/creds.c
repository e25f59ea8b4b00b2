// SPDX-License-Identifier: Apache-2.0
//
// creds.c - the sources of keys.
//
// s3_creds_open chooses the source from settings and environment; renew.h reads it when keys are
// needed.
#include "s3/creds.h"

#include "codec/url.h"
#include "s3/key_text.h"
#include "s3/renew.h"
#include "sys/clock.h"

#include <stdio.h>

#define MACHINE   "169.254.169.254"
#define CONTAINER "169.254.170.2"

#define MACHINE_ROLES "/latest/meta-data/iam/security-credentials/"

enum source {
    SOURCE_SETTINGS,
    SOURCE_ENVIRONMENT,
    SOURCE_WEB_IDENTITY,
    SOURCE_FILE,
    SOURCE_CONTAINER,
    SOURCE_MACHINE,
};

static const struct {
    const char *name;
    const char *id;
    const char *secret;
} sources[] = {
    [SOURCE_SETTINGS] = {"settings", "s3.access_key (FLAMETREE_S3_ACCESS_KEY)",
                         "s3.secret_key (FLAMETREE_S3_SECRET_KEY)"},
    [SOURCE_ENVIRONMENT] = {"environment", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"},
    [SOURCE_WEB_IDENTITY] = {"web identity", "the access key of AWS_ROLE_ARN's identity",
                             "the secret key of AWS_ROLE_ARN's identity"},
    [SOURCE_FILE] = {"file", "aws_access_key_id of the credentials file",
                     "aws_secret_access_key of the credentials file"},
    [SOURCE_CONTAINER] = {"container", "the access key of the container's service",
                          "the secret key of the container's service"},
    [SOURCE_MACHINE] = {"machine", "the access key of the machine's metadata service",
                        "the secret key of the machine's metadata service"},
};

struct s3_creds {
    struct client *client;
    const char *region;
    enum source source;
    char path[1024];  // of the file
    char profile[128];
    struct s3_renewal renewal;
};

// ---- small things

static bool set_keys(struct s3_kept *k, const struct s3_keys *from, err *e)
{
    if (!from->id.n || !from->secret.n)
        return err_set(e, ERR_UNAVAILABLE, "the keys are not there");
    return s3_set_text(k->id, sizeof k->id, from->id, "the access key", e) &&
           s3_set_text(k->secret, sizeof k->secret, from->secret, "the secret key", e) &&
           s3_set_text(k->token, sizeof k->token, from->token, "the session token", e);
}

// ---- sources

static bool from_environment(struct s3_kept *k, err *e)
{
    const struct s3_keys keys = {str_of(s3_env("AWS_ACCESS_KEY_ID")),
                                 str_of(s3_env("AWS_SECRET_ACCESS_KEY")),
                                 str_of(s3_env("AWS_SESSION_TOKEN"))};
    k->ends_wall_ns = INT64_MAX;
    return set_keys(k, &keys, e);
}

static bool from_file(struct s3_creds *c, struct s3_kept *k, err *e)
{
    struct buf text;
    struct s3_key_text found;
    if (!s3_read_file(c->path, &text, e)) return false;
    s3_keys_of_file(buf_view(&text), str_of(c->profile), &found);
    // The file may be written anew by whoever has the keys renewed, so it is read again in a while.
    k->ends_wall_ns = found.keys.token.n ? clock_wall_ns() + 2 * S3_RENEW_NS : INT64_MAX;
    bool ok = set_keys(k, &found.keys, e) || err_wrap(e, "profile [%s] of %s", c->profile, c->path);
    buf_release(&text);
    return ok;
}

// "https://sts.example.org" -> address, without a path. AWS_ENDPOINT_URL_STS is for other services.
static str sts_address(const struct s3_creds *c, struct arena *a, bool *tls)
{
    str url = str_of(s3_env("AWS_ENDPOINT_URL_STS"));
    *tls = !str_starts(url, S("http://"));
    if (!url.n) return arena_printf(a, "sts.%s.amazonaws.com", c->region);
    str rest = str_slice(url, *tls ? S("https://").n : S("http://").n, url.n);
    return str_split(rest, '/', &rest);
}

static bool from_web_identity(struct s3_creds *c, struct req *r, struct arena *a, struct s3_kept *k,
                              err *e)
{
    struct buf token;
    struct buf body;
    struct s3_key_text found = {0};
    struct s3_question q = {.method = "POST", .path = S("/"), .header = {"accept", "text/xml"}};
    const char *session = s3_env("AWS_ROLE_SESSION_NAME");
    str answer = {0};
    if (!s3_read_file(s3_env("AWS_WEB_IDENTITY_TOKEN_FILE"), &token, e)) return false;
    buf_init(&body, NULL, 2 * S3_SOURCE_MAX);
    buf_z(&body, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=");
    url_encode(&body, str_of(s3_env("AWS_ROLE_ARN")));
    buf_z(&body, "&RoleSessionName=");
    url_encode(&body, session[0] ? str_of(session) : S("flametree"));
    buf_z(&body, "&WebIdentityToken=");
    url_encode(&body, str_trim(buf_view(&token)));
    q.body = buf_view(&body);
    q.address = sts_address(c, a, &q.tls);
    bool ok = buf_ok(&body, e) && s3_ask(c->client, r, a, &q, &answer, e) &&
              s3_keys_of_xml(a, answer, &found, e) && set_keys(k, &found.keys, e);
    buf_release(&body);
    buf_release(&token);
    k->ends_wall_ns = found.ends_wall_ns;
    return ok;
}

static bool take_json(struct arena *a, str answer, struct s3_kept *k, err *e)
{
    struct s3_key_text found;
    if (!s3_keys_of_json(a, answer, &found, e)) return false;
    k->ends_wall_ns = found.ends_wall_ns;
    return set_keys(k, &found.keys, e);
}

static bool from_container(struct s3_creds *c, struct req *r, struct arena *a, struct s3_kept *k,
                           err *e)
{
    const char *token_file = s3_env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const char *full = s3_env("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    struct s3_question q = {.method = "GET", .address = S(CONTAINER)};
    struct buf token = {0};
    str answer = {0};
    q.path = str_of(s3_env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"));
    if (full[0]) {
        str url = str_of(full);
        q.tls = str_starts(url, S("https://"));
        str rest = str_slice(url, q.tls ? S("https://").n : S("http://").n, url.n);
        size_t slash = str_find(rest, '/');
        q.address = str_slice(rest, 0, slash);
        q.path = slash < rest.n ? str_slice(rest, slash, rest.n) : S("/");
    }
    if (token_file[0] && !s3_read_file(token_file, &token, e)) return false;
    str secret =
        token.n ? str_trim(buf_view(&token)) : str_of(s3_env("AWS_CONTAINER_AUTHORIZATION_TOKEN"));
    if (secret.n) {
        q.header[0] = "authorization";
        q.header[1] = arena_str(a, secret).p;
    }
    buf_release(&token);
    return s3_ask(c->client, r, a, &q, &answer, e) && take_json(a, answer, k, e);
}

// IMDSv2: a token first, then the name of the role, then its keys.
static bool from_machine(struct s3_creds *c, struct req *r, struct arena *a, struct s3_kept *k,
                         err *e)
{
    const char *other = s3_env("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    str address = S(MACHINE);
    str token = {0};
    str role = {0};
    str answer = {0};
    if (str_starts(str_of(other), S("http://"))) {
        str rest = str_slice(str_of(other), S("http://").n, strlen(other));
        address = str_split(rest, '/', &rest);
    }
    struct s3_question q = {.method = "PUT",
                            .address = address,
                            .path = S("/latest/api/token"),
                            .header = {"x-aws-ec2-metadata-token-ttl-seconds", "21600"}};
    if (!s3_ask(c->client, r, a, &q, &token, e)) return false;
    q = (struct s3_question){.method = "GET",
                             .address = address,
                             .path = S(MACHINE_ROLES),
                             .header = {"x-aws-ec2-metadata-token", token.p}};
    if (!s3_ask(c->client, r, a, &q, &role, e)) return false;
    role = str_split(str_trim(role), '\n', &answer);
    q.path = arena_printf(a, MACHINE_ROLES "%.*s", STR(role));
    return s3_ask(c->client, r, a, &q, &answer, e) && take_json(a, answer, k, e);
}

static bool read_source(void *owner, struct req *r, struct arena *a, struct s3_kept *k, err *e)
{
    struct s3_creds *c = owner;
    switch (c->source) {
    case SOURCE_SETTINGS:  // never read
        break;
    case SOURCE_ENVIRONMENT:
        return from_environment(k, e);
    case SOURCE_WEB_IDENTITY:
        return from_web_identity(c, r, a, k, e);
    case SOURCE_FILE:
        return from_file(c, k, e);
    case SOURCE_CONTAINER:
        return from_container(c, r, a, k, e);
    case SOURCE_MACHINE:
        return from_machine(c, r, a, k, e);
    }
    return false;
}

// ---- life

static bool choose_file(struct s3_creds *c)
{
    const char *profile = s3_env("AWS_PROFILE");
    const char *given = s3_env("AWS_SHARED_CREDENTIALS_FILE");
    struct buf text;
    err none = {0};
    snprintf(c->profile, sizeof c->profile, "%s", profile[0] ? profile : "default");
    if (given[0])
        snprintf(c->path, sizeof c->path, "%s", given);
    else
        snprintf(c->path, sizeof c->path, "%s/.aws/credentials", s3_env("HOME"));
    if (given[0]) return true;  // if it is not there, that is told
    if (!s3_read_file(c->path, &text, &none)) return false;
    buf_release(&text);
    return true;
}

static enum source choose(struct s3_creds *c, const struct s3_key_options *o)
{
    if (o->access_key && o->access_key[0]) return SOURCE_SETTINGS;
    if (s3_env("AWS_ACCESS_KEY_ID")[0]) return SOURCE_ENVIRONMENT;
    if (s3_env("AWS_WEB_IDENTITY_TOKEN_FILE")[0] && s3_env("AWS_ROLE_ARN")[0])
        return SOURCE_WEB_IDENTITY;
    if (choose_file(c)) return SOURCE_FILE;
    if (s3_env("AWS_CONTAINER_CREDENTIALS_FULL_URI")[0] ||
        s3_env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")[0])
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
    s3_renewal_init(&c->renewal, read_source, c, sources[c->source].name);
    if (!id) return c;
    s3_renewal_fix(&c->renewal);
    const struct s3_keys keys = {str_of(o->access_key), str_of(o->secret_key),
                                 str_of(o->session_token)};
    if (set_keys(&c->renewal.kept, &keys, e)) return c;
    s3_creds_close(c);
    return NULL;
}

void s3_creds_close(struct s3_creds *c)
{
    if (!c) return;
    s3_renewal_release(&c->renewal);
    mem_free(NULL, c, sizeof *c);
}

const char *s3_creds_id_name(const struct s3_creds *c)
{
    return sources[c->source].id;
}

const char *s3_creds_secret_name(const struct s3_creds *c)
{
    return sources[c->source].secret;
}

void s3_creds_over(struct s3_creds *c)
{
    s3_renewal_over(&c->renewal);
}

bool s3_creds_get(struct s3_creds *c, struct req *r, struct arena *a, struct s3_keys *out, err *e)
{
    return s3_renewal_get(&c->renewal, r, a, out, e);
}
