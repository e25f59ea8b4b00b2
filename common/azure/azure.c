// SPDX-License-Identifier: Apache-2.0
//
// azure.c - what Azure Blob Storage wants to be told and what its answers mean; opens a store
// there.
#include "azure/azure.h"

#include "azure/sign.h"
#include "codec/base64.h"
#include "s3/engine.h"
#include "s3/renew.h"
#include "sys/clock.h"
#include "sys/rand.h"

#include <stdio.h>
#include <time.h>

// The first with blocks and blobs of the sizes that we send, and with tokens of identities: whoever
// offers Blob Storage outside of Azure has it, too.
#define VERSION      "2019-12-12"
#define SUFFIX       "core.windows.net"
#define ACCOUNT_MAX  24                // characters
#define CLOCK_GAP_NS (300 * NS_PER_S)  // the service allows 900
#define PAGE_MAX     5000

struct azure {
    struct azure_creds *creds;
    char account[ACCOUNT_MAX + 1];
};

static struct azure *azure_of(const struct s3 *s)
{
    return s->keys;
}

// ---- requests

// Not by strftime: the names of days and months must not follow the locale.
static str date_of(struct arena *a, int64_t wall_ns)
{
    static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    struct tm tm;
    time_t at = (time_t)(wall_ns / NS_PER_S);
    gmtime_r(&at, &tm);
    return arena_printf(a, "%s, %02d %s %04d %02d:%02d:%02d GMT", days[tm.tm_wday], tm.tm_mday,
                        months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

static void add(struct s3_op *o, const char *name, str value)
{
    http_headers_add(&o->call.headers, &o->arena, str_of(name), value);
}

static void add_headers(const struct s3 *s, struct s3_op *o)
{
    add(o, "host", str_of(s->host));
    for (size_t i = 0; i < o->extra_n; i++)
        http_headers_add(&o->call.headers, &o->arena, o->extra[i].name, o->extra[i].value);
    add(o, "x-ms-date", date_of(&o->arena, s3_wall_ns(s)));
    add(o, "x-ms-version", S(VERSION));
    add(o, "x-ms-client-request-id",
        arena_printf(&o->arena, "%016llx%016llx", (unsigned long long)rand_u64(),
                     (unsigned long long)rand_u64()));
    if (o->action == S3_PUT) add(o, "x-ms-blob-type", S("BlockBlob"));
    if (o->action == S3_DELETE) add(o, "x-ms-delete-snapshots", S("include"));
    if (o->action == S3_PUT || o->action == S3_PART || o->action == S3_END) {
        add(o, "content-type", S("application/octet-stream"));
        add(o, "content-md5", s3_md5(&o->arena, o->body));
    }
}

static bool prepare(struct s3 *s, struct req *r, struct s3_op *o, err *e)
{
    struct azure_keys keys;
    struct http_call *c = &o->call;
    str query = o->query;
    if (!azure_creds_get(azure_of(s)->creds, r, &o->arena, &keys, e)) return false;
    if (keys.bearer.n && !s->tls)
        return err_set(e, ERR_FAILED_PRECONDITION,
                       "azure.endpoint: the token of an identity goes over https:// only");
    if (o->action == S3_END) c->method = "PUT";
    add_headers(s, o);
    str path = s3_path(s, o);
    if (!o->key.n) path.n--;  // the container itself has no '/' at its end
    const struct azure_signing signing = {.account = str_of(azure_of(s)->account),
                                          .key = keys.key,
                                          .method = c->method,
                                          .path = path,
                                          .query = query,
                                          .body_n = o->body.n};
    if (keys.key.n) azure_sign(&signing, &c->headers, &o->arena);
    if (keys.bearer.n)
        add(o, "authorization", arena_printf(&o->arena, "Bearer %.*s", STR(keys.bearer)));
    if (keys.sas.n)
        query =
            arena_printf(&o->arena, "%.*s%s%.*s", STR(query), query.n ? "&" : "", STR(keys.sas));
    c->path = s3_target(o, path, query);
    return arena_ok(&o->arena, e);
}

static void list(struct buf *q, str prefix, str after, str token, unsigned most)
{
    char number[24];
    (void)after;  // lists begin at the prefix; the engine leaves out what it knows
    snprintf(number, sizeof number, "%u", MIN(most, (unsigned)PAGE_MAX));
    s3_query_add(q, "comp", S("list"));
    if (token.n) s3_query_add(q, "marker", token);
    s3_query_add(q, "maxresults", str_of(number));
    s3_query_add(q, "prefix", prefix);
    s3_query_add(q, "restype", S("container"));
}

// ---- large objects in blocks

// Of all blocks of one blob they must have the same length. The upload's own id is in them, so that
// two uploads of one name do not mix.
static void put_block_id(struct buf *b, str id, size_t part)
{
    char text[64];
    snprintf(text, sizeof text, "%.*s%08zu", STR(id), part);
    base64_put(b, str_of(text), true);
}

static void block_query(struct buf *q, str id, size_t part)
{
    struct buf block;
    buf_init(&block, NULL, 256);
    put_block_id(&block, id, part);
    if (block.failed) buf_starve(q);
    if (part) s3_query_add(q, "blockid", buf_view(&block));
    s3_query_add(q, "comp", part ? S("block") : S("blocklist"));
    buf_release(&block);
}

static void put_blocks(struct buf *b, str id, const struct s3_part *v, size_t n)
{
    (void)v;
    buf_z(b, "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>");
    for (size_t i = 0; i < n; i++) {
        buf_z(b, "<Latest>");
        put_block_id(b, id, i + 1);
        buf_z(b, "</Latest>");
    }
    buf_z(b, "</BlockList>");
}

// ---- refusals

// The answer to HEAD has no body: the code is in a header, too.
static void read_refusal(struct arena *a, const struct http_call *c, struct s3_refusal *out)
{
    azure_read_refusal(a, buf_view(&c->answer), out);
    if (!out->code.n)
        out->code = arena_str(a, http_headers_get(&c->answer_headers, "x-ms-error-code"));
}

// A wrong time and a wrong key are refused by the same code.
static enum s3_cause cause_of_keys(const struct s3 *s, const struct http_call *c)
{
    int64_t at_ns = s3_answered_wall_ns(c);
    int64_t gap_ns = at_ns ? s3_wall_ns(s) - at_ns : 0;
    return gap_ns > CLOCK_GAP_NS || gap_ns < -CLOCK_GAP_NS ? S3_CLOCK_OFF : S3_KEYS_OVER;
}

static enum s3_cause cause(const struct s3 *s, const struct http_call *c,
                           const struct s3_refusal *why)
{
    str code = why->code;
    switch (c->status) {
    case 400:
        if (str_is(code, "Md5Mismatch")) return S3_BUSY;  // it came otherwise than it was sent
        return str_is(code, "InvalidBlockList") || str_is(code, "InvalidBlobOrBlock")
                   ? S3_GONE
                   : s3_cause_of(c, code.n > 0);
    case 401:
    case 403:
        // AuthorizationFailure: azurite's word for a signature that is wrong.
        return c->status == 401 || str_is(code, "AuthenticationFailed") ||
                       str_is(code, "AuthorizationFailure")
                   ? cause_of_keys(s, c)
                   : s3_cause_of(c, code.n > 0);
    case 404:
        return str_is(code, "BlobNotFound") ? S3_ABSENT : s3_cause_of(c, code.n > 0);
    case 409:
        return str_is(code, "BlobAlreadyExists") ? S3_TAKEN : S3_BUSY;
    case 412:
        return !code.n || str_is(code, "ConditionNotMet") ? S3_TAKEN : S3_REFUSED;
    default:
        return s3_cause_of(c, code.n > 0);
    }
}

// Each answer has the request's id. Of a creation the service has compared the MD5 that went with
// the body, and tells it again.
static enum s3_cause vouch(const struct s3 *s, const struct s3_op *o)
{
    (void)s;
    const struct http_headers *h = &o->call.answer_headers;
    bool own = http_headers_get(h, "x-ms-request-id").n > 0;
    bool made = own && o->call.status == 201;
    switch (o->action) {
    case S3_PUT:
    case S3_END:
        return made && s3_is_etag(s3_etag_of(o)) ? S3_NO_CAUSE : S3_STRANGE;
    case S3_PART:
        return made ? S3_NO_CAUSE : S3_STRANGE;
    case S3_GET:
    case S3_HEAD:
        own = own && s3_etag_of(o).n > 0;
        break;
    case S3_LIST:
        own = own && s3_is_whole_xml(buf_view(&o->call.answer), "EnumerationResults");
        break;
    case S3_DELETE:
        own = own && o->call.status == 202;
        break;
    case S3_DELETE_MANY:
    case S3_BEGIN:
    case S3_DROP:
    case S3_PENDING:
    case S3_ACTIONS:
        break;
    }
    return own ? S3_NO_CAUSE : S3_STRANGE;
}

static bool is_about_proof(str code)
{
    return str_is(code, "AuthenticationFailed") || str_is(code, "AuthorizationFailure") ||
           str_is(code, "KeyBasedAuthenticationNotPermitted") ||
           str_is(code, "InvalidAuthenticationInfo");
}

static str advice(const struct s3 *s, struct arena *a, const struct s3_refusal *why,
                  unsigned status)
{
    static const struct {
        const char *code;
        const char *advice;
    } known[] = {
        {"ContainerNotFound", "; make the container, or look at azure.container"},
        {"ResourceNotFound", "; look at azure.account and azure.endpoint"},
        {"AuthenticationFailed",
         "; the key or the SAS token is wrong or over, or the clock of this machine is"},
        {"AuthorizationFailure",
         "; the account's firewall keeps this machine out; or the key or the SAS token is wrong, "
         "where the service says no more"},
        {"AuthorizationPermissionMismatch",
         "; the identity is known, but may not do this: give it the role Storage Blob Data "
         "Contributor"},
        {"AuthorizationServiceMismatch", "; the SAS token is for another service than blobs"},
        {"AuthorizationResourceTypeMismatch", "; the SAS token must be for containers and objects"},
        {"KeyBasedAuthenticationNotPermitted",
         "; the account takes no keys: use a workload identity or a managed identity"},
        {"AccountIsDisabled", "; look at the account in the portal"},
        {"InvalidAuthenticationInfo", "; the token of the identity is none of this service"},
    };
    for (size_t i = 0; i < COUNT(known); i++) {
        if (!str_is(why->code, known[i].code)) continue;
        if (!is_about_proof(why->code)) return str_of(known[i].advice);
        return arena_printf(a, "%s; it comes from %s", known[i].advice,
                            azure_creds_origin(azure_of(s)->creds));
    }
    return status == 403 ? S("; it is known who asks, but they may not do this") : (str){0};
}

// ---- opening

static void keys_over(struct s3 *s)
{
    azure_creds_over(azure_of(s)->creds);
}

static void close_keys(struct s3 *s)
{
    struct azure *z = azure_of(s);
    if (!z) return;
    azure_creds_close(z->creds);
    mem_free(NULL, z, sizeof *z);
    s->keys = NULL;
}

// Names of metadata must be those of a C# identifier: they have no '-'.
static const struct s3_speech speech = {
    .container = "container",
    .nonce = "x-ms-meta-flametree_nonce",
    .crc = "x-ms-meta-flametree_crc32c",
    .range = "x-ms-range",
    .if_free = "if-none-match",
    .if_free_value = "*",
    .parts = true,
    .multipart = {.query = block_query, .put_list = put_blocks},
    .prepare = prepare,
    .keys_over = keys_over,
    .close = close_keys,
    .list = list,
    .read_page = azure_read_page,
    .read_refusal = read_refusal,
    .cause = cause,
    .vouch = vouch,
    .advice = advice,
};

// Names have 3 to `most` letters, digits and, those of containers, '-'.
static bool check_name(const char *setting, str name, size_t most, bool dashes, err *e)
{
    if (name.n < 3 || name.n > most) {
        return err_set(e, ERR_INVALID_ARGUMENT, "%s: the name has %zu characters; it has 3 to %zu",
                       setting, name.n, most);
    }
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (dashes && c == '-')) continue;
        return err_set(e, ERR_INVALID_ARGUMENT, "%s: '%.*s' has a '%c' at %zu, which no name has",
                       setting, STR(name), c, i);
    }
    return true;
}

static bool set_account(struct azure *z, str name, err *e)
{
    if (!name.n) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "azure.account: it is not set, and neither AZURE_STORAGE_ACCOUNT nor a "
                       "connection string has it");
    }
    if (!check_name("azure.account", name, ACCOUNT_MAX, false, e)) return false;
    memcpy(z->account, name.p, name.n);
    z->account[name.n] = '\0';
    return true;
}

static bool set_container(struct s3 *s, const char *name, err *e)
{
    str given = str_of(name ? name : "");
    if (!check_name("azure.container", given, sizeof s->bucket - 1, true, e)) return false;
    memcpy(s->bucket, given.p, given.n);
    s->bucket[given.n] = '\0';
    return true;
}

static bool set_endpoint(struct s3 *s, const char *account, str url, str suffix, err *e)
{
    char own[160];
    struct s3_place place;
    snprintf(own, sizeof own, "https://%s.blob.%.*s", account, STR(suffix.n ? suffix : S(SUFFIX)));
    if (!s3_read_place_url(url.n ? url : str_of(own), "azure.endpoint", true, &place, e))
        return false;
    if (place.path.n + 1 + strlen(s->bucket) >= sizeof s->base)
        return err_set(e, ERR_INVALID_ARGUMENT, "azure.endpoint: its path has %zu bytes, limit %zu",
                       place.path.n, sizeof s->base - sizeof s->bucket);
    s->tls = place.tls;
    snprintf(s->host, sizeof s->host, "%.*s", STR(place.host));
    snprintf(s->address, sizeof s->address, "%s", s->host);
    snprintf(s->base, sizeof s->base, "%.*s/%s", STR(place.path), s->bucket);
    return true;
}

static str first(const char *set, const char *variable, str otherwise)
{
    const char *v = set && set[0] ? set : s3_env(variable);
    return v[0] ? str_of(v) : otherwise;
}

static bool set_all(struct s3 *s, struct azure *z, const struct azure_options *o, err *e)
{
    struct azure_connection c;
    azure_read_connection(str_of(s3_env("AZURE_STORAGE_CONNECTION_STRING")), &c);
    str account = first(o->account, "AZURE_STORAGE_ACCOUNT", c.account);
    str endpoint = first(o->endpoint, "AZURE_STORAGE_SERVICE_ENDPOINT", c.endpoint);
    return set_account(z, account, e) && set_container(s, o->container, e) &&
           set_endpoint(s, z->account, endpoint, c.suffix, e) &&
           s3_set_prefix(s, "azure.prefix", o->prefix, e) &&
           s3_connect(s, "azure.ca_file", o->ca_file, e) &&
           (z->creds = azure_creds_open(&o->keys, s->client, e));
}

struct store *store_open_azure(const struct azure_options *o, err *e)
{
    struct s3 *s = s3_new(&speech, o->memory, o->width, e);
    if (!s) return NULL;
    struct azure *z = s->keys = mem_alloc(NULL, sizeof *z, e);
    if (z && set_all(s, z, o, e)) return &s->store;
    s3_free(s);
    return NULL;
}

bool azure_options_of_url(str url, struct arena *a, struct azure_options *out, err *e)
{
    str prefix = {0};
    if (!str_starts(url, S("azure://")))
        return err_set(e, ERR_INVALID_ARGUMENT, "'%.*s' does not begin with azure://", STR(url));
    str container = str_split(str_slice(url, S("azure://").n, url.n), '/', &prefix);
    *out = (struct azure_options){.container = arena_str(a, container).p,
                                  .prefix = arena_str(a, prefix).p};
    return arena_ok(a, e);
}
