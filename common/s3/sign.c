// SPDX-License-Identifier: Apache-2.0
//
// A signature is made in four steps:
//
//     1. the canonical request: method, path, query, headers, their names, the body's hash, a line
//        each
//     2. the text to sign: algorithm, time, scope (date/region/service/suffix), hash of 1
//     3. the key: HMACs of date, region, service and suffix, each keyed with the one before
//     4. the HMAC of 2 with that key, in hex
#include "s3/sign.h"

#include "codec/base64.h"
#include "codec/url.h"
#include "sys/clock.h"

#include <stdlib.h>
#include <time.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#define HASH_BYTES 32
#define SIGNED_MAX 32  // headers of one request

const struct s3_signer s3_signer_amazon = {
    .algorithm = "AWS4-HMAC-SHA256",
    .key = "AWS4",
    .suffix = "aws4_request",
    .service = "s3",
    .date = "x-amz-date",
    .hash = "x-amz-content-sha256",
    .token = "x-amz-security-token",
};

const struct s3_signer s3_signer_google = {
    .algorithm = "GOOG4-HMAC-SHA256",
    .key = "GOOG4",
    .suffix = "goog4_request",
    .service = "storage",
    .date = "x-goog-date",
    .hash = "x-goog-content-sha256",
};

struct digest {
    unsigned char b[HASH_BYTES];
};

static void print_hex(const unsigned char *bytes, size_t n, char *hex)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        hex[2 * i] = digits[bytes[i] >> 4];
        hex[2 * i + 1] = digits[bytes[i] & 15];
    }
}

bool s3_hash(str bytes, char hex[S3_HASH_TEXT])
{
    struct digest d = {{0}};
    unsigned n = 0;
    bool ok = EVP_Digest(bytes.p, bytes.n, d.b, &n, EVP_sha256(), NULL) == 1;
    assert(!ok || n == HASH_BYTES);
    print_hex(d.b, HASH_BYTES, hex);
    return ok;
}

bool s3_md5_hex(str bytes, char hex[S3_MD5_TEXT])
{
    unsigned char digest[EVP_MAX_MD_SIZE] = {0};
    unsigned n = 0;
    bool ok = EVP_Digest(bytes.p, bytes.n, digest, &n, EVP_md5(), NULL) == 1;
    assert(!ok || n == S3_MD5_TEXT / 2);
    print_hex(digest, S3_MD5_TEXT / 2, hex);
    return ok;
}

str s3_md5(struct arena *a, str bytes)
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
    if (text.failed) a->exhausted = true;
    buf_release(&text);
    return copy;
}

static struct digest hmac(struct arena *a, str key, str text)
{
    struct digest d = {{0}};
    unsigned n = 0;
    if (!HMAC(EVP_sha256(), key.p, (int)key.n, (const unsigned char *)text.p, text.n, d.b, &n))
        a->exhausted = true;
    return d;
}

static str digest_view(const struct digest *d)
{
    return str_make(d->b, HASH_BYTES);
}

// ---- encoding

void s3_encode_path(struct buf *b, str path)
{
    while (path.p) {
        url_encode(b, str_split(path, '/', &path));
        if (path.p) buf_byte(b, '/');
    }
}

void s3_query_add(struct buf *b, const char *name, str value)
{
    if (b->n) buf_byte(b, '&');
    buf_z(b, name);
    buf_byte(b, '=');
    url_encode(b, value);
}

// ---- the four steps

struct named {
    str name;
    str value;
};

static int by_name(const void *a, const void *b)
{
    return str_cmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

// The signed headers in order of their names.
static size_t sorted(const struct http_headers *h, struct named v[SIGNED_MAX])
{
    assert(h->n <= SIGNED_MAX);
    for (size_t i = 0; i < h->n; i++)
        v[i] = (struct named){h->v[i].name, h->v[i].value};
    qsort(v, h->n, sizeof v[0], by_name);
    return h->n;
}

static str names_of(struct arena *a, const struct named *v, size_t n)
{
    str names = {0};
    for (size_t i = 0; i < n; i++)
        names = arena_printf(a, "%.*s%s%.*s", STR(names), i ? ";" : "", STR(v[i].name));
    return names;
}

static void put_request(struct buf *b, const struct s3_signing *s, const struct named *v, size_t n,
                        str names)
{
    buf_printf(b, "%s\n%.*s\n%.*s\n", s->method, STR(s->path), STR(s->query));
    for (size_t i = 0; i < n; i++)
        buf_printf(b, "%.*s:%.*s\n", STR(v[i].name), STR(v[i].value));
    buf_printf(b, "\n%.*s\n%.*s", STR(names), STR(s->body_hash));
}

static struct digest signing_key(const struct s3_signing *s, str date, struct arena *a)
{
    str start = arena_printf(a, "%s%.*s", s->signer->key, STR(s->keys.secret));
    struct digest d = hmac(a, start, date);
    struct digest r = hmac(a, digest_view(&d), s->region);
    struct digest v = hmac(a, digest_view(&r), str_of(s->signer->service));
    return hmac(a, digest_view(&v), str_of(s->signer->suffix));
}

void s3_sign(const struct s3_signing *s, struct http_headers *h, struct arena *a)
{
    char stamp[sizeof "20060102T150405Z"];
    char hash[S3_HASH_TEXT];
    struct named v[SIGNED_MAX];
    struct buf request;
    struct tm tm;
    time_t seconds = (time_t)(s->wall_ns / NS_PER_S);
    if (a->exhausted) return;  // headers may be missing
    assert(http_headers_has(h, "host") && !http_headers_has(h, "authorization"));
    gmtime_r(&seconds, &tm);
    strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &tm);
    str date = str_make(stamp, 8);
    http_headers_add(h, a, str_of(s->signer->date), arena_str(a, str_of(stamp)));
    http_headers_add(h, a, str_of(s->signer->hash), s->body_hash);
    if (s->keys.token.n && s->signer->token)
        http_headers_add(h, a, str_of(s->signer->token), s->keys.token);
    size_t n = sorted(h, v);
    str names = names_of(a, v, n);
    str scope = arena_printf(a, "%.*s/%.*s/%s/%s", STR(date), STR(s->region), s->signer->service,
                             s->signer->suffix);
    buf_init(&request, NULL, (size_t)1 << 20);
    put_request(&request, s, v, n, names);
    bool whole = s3_hash(buf_view(&request), hash) && !request.failed;
    buf_release(&request);
    str text = arena_printf(a, "%s\n%s\n%.*s\n%.*s", s->signer->algorithm, stamp, STR(scope),
                            S3_HASH_TEXT, hash);
    struct digest key = signing_key(s, date, a);
    struct digest signature = hmac(a, digest_view(&key), text);
    print_hex(signature.b, HASH_BYTES, hash);
    str line = arena_printf(a, "%s Credential=%.*s/%.*s, SignedHeaders=%.*s, Signature=%.*s",
                            s->signer->algorithm, STR(s->keys.id), STR(scope), STR(names),
                            S3_HASH_TEXT, hash);
    if (whole) http_headers_add(h, a, S("authorization"), line);
    if (!whole) a->exhausted = true;
}
